"""The loss of the generalized IoU."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from ._utils import hull_of_each, iou_of_each, reduced, upcast_non_float

__all__ = ["generalized_box_iou_loss"]


def generalized_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the `generalized_box_iou` of each pair of boxes.

    Args:
        boxes1, boxes2: ``[N, 4]`` or ``[4]``, corners.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``. Default: ``"none"``.
        eps: added to denominators. Default: 1e-7.

    Returns:
        ``[N]``, or their mean or sum.

    Raises:
        ValueError: for another ``reduction``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.generalized_box_iou_loss.html
    """
    boxes1, boxes2 = upcast_non_float(boxes1), upcast_non_float(boxes2)
    common, union = iou_of_each(boxes1, boxes2)
    width, height = hull_of_each(boxes1, boxes2).unbind(-1)
    around = width * height
    return reduced(1 - (common / (union + eps) - (around - union) / (around + eps)), reduction)
