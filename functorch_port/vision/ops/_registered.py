"""``torch.ops.torchvision``, for the installed torchvision: these operators in place of its compiled ones."""

from __future__ import annotations

from typing import Any

from ..._base.refused import refused_function
from ...library import Library, OpNamespace
from .boxes import nms
from .roi_align import roi_align
from .roi_pool import roi_pool

__all__ = ["register"]


def _roi_align(
    input: Any, rois: Any, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> Any:
    return roi_align(input, rois, (height, width), scale, ratio, aligned)


def _roi_pool(input: Any, rois: Any, scale: float, height: int, width: int) -> Any:
    return roi_pool(input, rois, (height, width), scale), None


_OPERATORS = {"nms": nms, "roi_align": _roi_align, "roi_pool": _roi_pool, "_cuda_version": lambda: -1}
_REFUSED: dict[str, Any] = {
    name: refused_function(f"torch.ops.torchvision.{name}", "it is compiled for PyTorch")
    for name in (
        "_deform_conv2d_backward", "_ps_roi_align_backward", "_ps_roi_pool_backward", "_roi_align_backward",
        "_roi_pool_backward", "deform_conv2d", "ps_roi_align", "ps_roi_pool", "qnms", "qroi_align",
    )
}  # fmt: skip


def register() -> None:
    """Register the operators."""
    made = Library("torchvision", "DEF")
    for name, fn in {**_OPERATORS, **_REFUSED}.items():
        made.impl(name, fn)
        # torchvision sets the gradients of its compiled operators; these have their own
        getattr(OpNamespace("torchvision"), name).register_autograd = lambda *_, **__: None
