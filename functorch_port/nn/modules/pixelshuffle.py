"""Pixel shuffle, its inverse, and channel shuffle."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Move channels to pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r).

    Args:
        upscale_factor: r.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.PixelShuffle(2)(torch.arange(4.).view(4, 1, 1))
        tensor([[[0., 1.],
                 [2., 3.]]])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelShuffle.html
    """

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Move pixels to channels: (..., C, H * r, W * r) to (..., C * r * r, H, W).

    Args:
        downscale_factor: r.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelUnshuffle.html
    """

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
