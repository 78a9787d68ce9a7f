"""The loss of the distance IoU."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from ._utils import apart_of_each, hull_of_each, iou_of_each, reduced, upcast_non_float

__all__ = ["distance_box_iou_loss"]


def distance_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the `distance_box_iou` of each pair of boxes.

    Args:
        boxes1, boxes2: ``[N, 4]`` or ``[4]``, corners.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``. Default: ``"none"``.
        eps: added to denominators. Default: 1e-7.

    Returns:
        ``[N]``, or their mean or sum.

    Raises:
        ValueError: for another ``reduction``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.distance_box_iou_loss.html
    """
    boxes1, boxes2 = upcast_non_float(boxes1), upcast_non_float(boxes2)
    return reduced(distance_loss(boxes1, boxes2, eps)[0], reduction)


def distance_loss(boxes1: Tensor, boxes2: Tensor, eps: float) -> Any:
    """The loss of each pair, and its IoU."""
    common, union = iou_of_each(boxes1, boxes2)
    iou = common / (union + eps)
    width, height = hull_of_each(boxes1, boxes2).unbind(-1)
    return 1 - iou + apart_of_each(boxes1, boxes2) / (width**2 + height**2 + eps), iou
