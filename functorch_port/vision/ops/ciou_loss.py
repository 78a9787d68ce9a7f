"""The loss of the complete IoU."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from ._utils import reduced, upcast_non_float
from .boxes import angles, shape_term
from .diou_loss import distance_loss

__all__ = ["complete_box_iou_loss"]


def complete_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the `complete_box_iou` of each pair of boxes.

    Args:
        boxes1, boxes2: ``[N, 4]`` or ``[4]``, corners.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``. Default: ``"none"``.
        eps: added to denominators. Default: 1e-7.

    Returns:
        ``[N]``, or their mean or sum.

    Raises:
        ValueError: for another ``reduction``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.complete_box_iou_loss.html
    """
    boxes1, boxes2 = upcast_non_float(boxes1), upcast_non_float(boxes2)
    distance, iou = distance_loss(boxes1, boxes2, eps)
    return reduced(distance + shape_term(angles(boxes2) - angles(boxes1), iou, eps), reduction)
