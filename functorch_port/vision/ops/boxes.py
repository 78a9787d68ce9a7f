"""Boxes: their areas and overlaps, the best of those that overlap, and their formats.

A box is ``(x1, y1, x2, y2)`` with ``x1 < x2`` and ``y1 < y2``, unless a format says something else.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._array import executor
from ..._base import dtypes
from ..._run.bind import function
from ..._run.registry import TensorOnly
from ..._tensor.creation import empty, zeros, zeros_like
from ..._tensor.tensor import Tensor
from ._utils import apart_of_each, hull_of_each, upcast, upcast_non_float, vision_op

__all__ = [
    "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "distance_box_iou",
    "generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes",
]  # fmt: skip

_INSTEAD = "nms outside of the compiled function: how many boxes are left depends on their values"


@vision_op(eager=_INSTEAD, differentiable=False)
def _nms(boxes: TensorOnly, scores: TensorOnly, iou_threshold: float):
    """The rows of the boxes that are left, the one with the highest score first."""
    return executor.current.place(_left(np.asarray(boxes), np.asarray(scores), iou_threshold))


def _left(boxes: np.ndarray, scores: np.ndarray, iou_threshold: float) -> np.ndarray:
    order = np.lexsort((-scores, ~np.isnan(scores)))  # NaN counts as the largest; equal ones keep their order
    x1, y1, x2, y2 = boxes[order].T
    areas = (x2 - x1) * (y2 - y1)
    dropped = np.zeros(len(order), bool)
    for i in range(len(order)):
        if dropped[i]:
            continue
        rest = slice(i + 1, None)
        width = np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest])
        height = np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest])
        common = np.maximum(width, 0) * np.maximum(height, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            overlap = common / (areas[i] + areas[rest] - common)
        # the threshold is a double in C++, also beside floats
        dropped[rest] |= overlap.astype(np.float64) > iou_threshold
    return order[~dropped].astype(np.int64)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression: of boxes that overlap much, the one with the highest score.

    Args:
        boxes: ``[N, 4]``, float32 or float64.
        scores: ``[N]``. Of equal ones, the first counts as higher.
        iou_threshold: a box is left out if its `box_iou` with one that stays is greater.

    Returns:
        The rows of the boxes that stay, by descending score.

    Raises:
        RuntimeError: the shapes or dtypes do not fit; or it is called in `compile`, as the size depends on values.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import nms
        >>> boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [6, 6, 8, 8]])
        >>> nms(boxes, torch.tensor([0.5, 0.9, 0.7]), 0.5)
        tensor([1, 2])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.nms.html
    """
    if boxes.ndim != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {boxes.ndim}D")
    if boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {boxes.shape[1]}")
    if scores.ndim != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.ndim}D")
    if boxes.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{boxes.shape[0]} and {scores.shape[0]}"
        )
    if boxes.dtype.name not in ("float32", "float64"):
        raise NotImplementedError(f'"nms_kernel" not implemented for {boxes.dtype.scalar_name!r}')
    if boxes.dtype != scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    return _nms(boxes.detach(), scores.detach(), float(iou_threshold))


#: from so many numbers on, the classes are gone through one by one
_MANY = 4000


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` within each class.

    Args:
        boxes, scores, iou_threshold: as in `nms`.
        idxs: ``[N]``, the class of each box.

    Returns:
        The rows of the boxes that stay, by descending score.

    Raises:
        RuntimeError: as in `nms`.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import batched_nms
        >>> boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4]])
        >>> batched_nms(boxes, torch.tensor([0.5, 0.9]), torch.tensor([0, 1]), 0.5)
        tensor([1, 0])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.batched_nms.html
    """
    if boxes.numel() == 0:
        return empty((0,), dtype=dtypes.int64)
    if boxes.numel() <= _MANY:  # classes apart from each other by more than the boxes reach
        offsets = idxs.to(boxes.dtype) * (boxes.max() + 1)
        return nms(boxes + offsets[:, None], scores, iou_threshold)
    kept = zeros_like(scores, dtype=dtypes.bool)
    for value in idxs.unique():
        rows = function("where")(idxs == value)[0]
        kept[rows[nms(boxes[rows], scores[rows], iou_threshold)]] = True
    rows = function("where")(kept)[0]
    return rows[scores[rows].sort(descending=True)[1]]


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The rows of the boxes with both sides at least ``min_size`` long.

    Args:
        boxes: ``[N, 4]``.
        min_size: of a side.

    Returns:
        Their rows, in order.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.remove_small_boxes.html
    """
    sides = boxes[:, 2:] - boxes[:, :2]
    return function("where")((sides >= min_size).all(1))[0]


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """The boxes with what lies outside of an image cut off.

    Args:
        boxes: ``[..., 4]``.
        size: height and width of the image.

    Returns:
        Boxes of the same shape.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import clip_boxes_to_image
        >>> clip_boxes_to_image(torch.tensor([[-1.0, 2, 9, 9]]), (5, 6))
        tensor([[0., 2., 6., 5.]])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.clip_boxes_to_image.html
    """
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return function("stack")((x, y), dim=boxes.dim()).reshape(boxes.shape)


_ALIGNED, _ROTATED = ("xyxy", "xywh", "cxcywh"), ("cxcywhr", "xywhr", "xyxyxyxy")


def _check_format(fmt: str, error: str) -> None:
    if fmt in _ROTATED:
        raise NotImplementedError(
            f"{error}: rotated boxes are not supported; formats are {', '.join(_ALIGNED)}"
        )
    if fmt not in _ALIGNED:
        raise ValueError(error)


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another format.

    Args:
        boxes: ``[..., 4]``.
        in_fmt, out_fmt: ``"xyxy"`` (two corners), ``"xywh"`` (a corner and the sides) or ``"cxcywh"`` (the center and
            the sides).

    Returns:
        Boxes of the same shape; a copy if the formats are the same.

    Raises:
        ValueError: for another format.
        NotImplementedError: for that of rotated boxes.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import box_convert
        >>> box_convert(torch.tensor([[1.0, 2, 5, 8]]), "xyxy", "cxcywh")
        tensor([[3., 5., 4., 6.]])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.box_convert.html
    """
    for fmt in (in_fmt, out_fmt):
        _check_format(
            fmt, f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}"
        )
    if in_fmt == out_fmt:
        return boxes.clone()
    if in_fmt == "xywh":
        x, y, w, h = boxes.unbind(-1)
        boxes = function("stack")((x, y, x + w, y + h), dim=-1)
    elif in_fmt == "cxcywh":
        cx, cy, w, h = boxes.unbind(-1)
        half_w, half_h = 0.5 * w, 0.5 * h
        boxes = function("stack")((cx - half_w, cy - half_h, cx + half_w, cy + half_h), dim=-1)
    if out_fmt == "xyxy":
        return boxes
    x1, y1, x2, y2 = boxes.unbind(-1)
    if out_fmt == "xywh":
        return function("stack")((x1, y1, x2 - x1, y2 - y1), dim=-1)
    return function("stack")(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1), dim=-1)


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The areas of boxes.

    Args:
        boxes: ``[..., 4]``.
        fmt: their format, as in `box_convert`. Default: ``"xyxy"``.

    Returns:
        ``[...]``; integers give int32 or int64, half precision float32.

    Raises:
        ValueError: for another format.
        NotImplementedError: for that of rotated boxes.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.box_area.html
    """
    _check_format(fmt, f"Unsupported Bounding Box area for given format {fmt}")
    a, b, c, d = upcast(boxes)[..., :4].unbind(-1)
    return (c - a) * (d - b) if fmt == "xyxy" else c * d


def _common_and_union(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """The areas of the intersections and unions of all pairs."""
    areas1, areas2 = box_area(boxes1), box_area(boxes2)
    start = function("max")(boxes1[..., None, :2], boxes2[..., None, :, :2])
    end = function("min")(boxes1[..., None, 2:], boxes2[..., None, :, 2:])
    sides = upcast(end - start).clamp(min=0)
    common = sides[..., 0] * sides[..., 1]
    return common, areas1[..., None] + areas2[..., None, :] - common


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """How much boxes overlap: the area of the intersection over that of the union, for all pairs.

    Args:
        boxes1: ``[..., N, 4]``.
        boxes2: ``[..., M, 4]``.
        fmt: their format, as in `box_convert`. Default: ``"xyxy"``.

    Returns:
        ``[..., N, M]``.

    Raises:
        ValueError: for another format.
        NotImplementedError: for that of rotated boxes.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import box_iou
        >>> box_iou(torch.tensor([[0, 0, 2, 2]]), torch.tensor([[0, 0, 2, 2], [1, 1, 3, 3]]))
        tensor([[1.0000, 0.1429]])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.box_iou.html
    """
    _check_format(
        fmt,
        f"Unsupported format '{fmt}'. Supported axis-aligned formats: {_ALIGNED}. Supported rotated formats:"
        f" {_ROTATED}.",
    )
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    common, union = _common_and_union(boxes1, boxes2)
    return common / union


def _hull(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The sides ``[..., N, M, 2]`` of the smallest boxes around all pairs."""
    return upcast_non_float(hull_of_each(boxes1[..., None, :], boxes2[..., None, :, :])).clamp(min=0)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """`box_iou` less the part of the smallest box around both that neither covers.

    Args:
        boxes1: ``[..., N, 4]``.
        boxes2: ``[..., M, 4]``.

    Returns:
        ``[..., N, M]``, between -1 and 1.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.generalized_box_iou.html
    """
    common, union = _common_and_union(boxes1, boxes2)
    width, height = _hull(boxes1, boxes2).unbind(-1)
    around = width * height
    return common / union - (around - union) / around


def _distance_iou(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """That of all pairs, and their IoU."""
    iou = box_iou(boxes1, boxes2)
    width, height = _hull(boxes1, boxes2).unbind(-1)
    apart = apart_of_each(boxes1[..., None, :], boxes2[..., None, :, :])
    return iou - apart / (width**2 + height**2 + eps), iou


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`box_iou` less the squared distance of the centers, in squared diagonals of the smallest box around both.

    Args:
        boxes1: ``[..., N, 4]``.
        boxes2: ``[..., M, 4]``.
        eps: added to the squared diagonal. Default: 1e-7.

    Returns:
        ``[..., N, M]``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.distance_box_iou.html
    """
    boxes1, boxes2 = upcast_non_float(boxes1), upcast_non_float(boxes2)
    return _distance_iou(boxes1, boxes2, eps)[0]


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`distance_box_iou` less a term for different shapes.

    Args:
        boxes1: ``[..., N, 4]``.
        boxes2: ``[..., M, 4]``.
        eps: added to denominators. Default: 1e-7.

    Returns:
        ``[..., N, M]``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.complete_box_iou.html
    """
    boxes1, boxes2 = upcast_non_float(boxes1), upcast_non_float(boxes2)
    distance_iou, iou = _distance_iou(boxes1, boxes2, eps)
    return distance_iou - shape_term(angles(boxes1)[..., None] - angles(boxes2)[..., None, :], iou, eps)


def angles(boxes: Tensor) -> Tensor:
    """Of the diagonals."""
    return ((boxes[..., 2] - boxes[..., 0]) / (boxes[..., 3] - boxes[..., 1])).atan()


def shape_term(angle: Tensor, iou: Tensor, eps: float) -> Tensor:
    """What the complete IoU takes off for an angle between diagonals; its weight has no gradient."""
    v = (4 / math.pi**2) * angle**2
    weight = (v / (1 - iou + v + eps)).detach()
    return weight * v


@vision_op(differentiable=False)
def _masks_to_boxes(masks: TensorOnly):
    """The smallest and largest column and row of each mask's elements that are not zero; zeros if there are none."""
    some = masks != 0
    limits: list[Any] = []
    for axis in (1, 2):  # columns, then rows
        there = some.any(axis)
        size = there.shape[1]
        limits.append((there.argmax(1), size - 1 - there[:, ::-1].argmax(1)))
    (x1, x2), (y1, y2) = limits
    boxes = jnp.stack([x1, y1, x2, y2], axis=1)
    return jnp.where(some.any((1, 2))[:, None], boxes, 0).astype(np.float32)


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest box around each mask.

    Args:
        masks: ``[N, H, W]``.

    Returns:
        ``[N, 4]``, float32; zeros for a mask of zeros.

    Raises:
        ValueError: there are not three dimensions.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import masks_to_boxes
        >>> mask = torch.zeros(1, 5, 6)
        >>> mask[0, 1:3, 2:4] = 1
        >>> masks_to_boxes(mask)
        tensor([[2., 1., 3., 2.]])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.masks_to_boxes.html
    """
    if masks.numel() == 0:
        return zeros((0, 4))
    if masks.ndim != 3:
        raise ValueError(f"masks_to_boxes: masks must have three dimensions, got {masks.ndim}")
    return _masks_to_boxes(masks)
