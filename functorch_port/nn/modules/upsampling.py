"""Resizing of images, sequences and volumes."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resize sequences, images or volumes by interpolation.

    Args:
        size: the output size, a number or one per spatial dimension.
        scale_factor: factor of the input size, in place of `size`.
        mode: "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or "area".
        align_corners: for the linear and cubic modes: True aligns the centers of the corner elements, False (the
            default) their outer edges.
        recompute_scale_factor: use the ratio of the sizes where rounding makes it differ from `scale_factor`.

    Shape:
        (N, C, W), (N, C, H, W) or (N, C, D, H, W).

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Upsample(scale_factor=2)(torch.tensor([[[1., 2.]]]))
        tensor([[[1., 1., 2., 2.]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Upsample.html
    """

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]
    scale_factor: float | tuple[float, ...] | None

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"recompute_scale_factor": True, **state})  # of pickles without the option

    def extra_repr(self) -> str:
        what = "size" if self.scale_factor is None else "scale_factor"
        return f"{what}={getattr(self, what)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images with mode "nearest".

    Args:
        size: the output size, a number or (height, width).
        scale_factor: factor of the input size, in place of `size`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingNearest2d.html
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images with mode "bilinear" and aligned corners.

    Args:
        size: the output size, a number or (height, width).
        scale_factor: factor of the input size, in place of `size`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingBilinear2d.html
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
