"""Sliding blocks of images."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """Extract the sliding blocks of an image as columns: (N, C, H, W) to (N, C * kernel elements, blocks).

    Args:
        kernel_size: size of the blocks, a number or (height, width).
        dilation: distance between the elements of a block.
        padding: zero padding around the image.
        stride: stride of the blocks.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Unfold((2, 3))(torch.ones(2, 5, 3, 4)).size()
        torch.Size([2, 30, 4])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unfold.html
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Sum sliding blocks, given as columns, into an image: (N, C * kernel elements, blocks) to (N, C, H, W).

    Args:
        output_size: size of the image, a number or (height, width).
        kernel_size, dilation, padding, stride: as for `Unfold`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Fold.html
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
