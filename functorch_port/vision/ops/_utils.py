"""What the operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..._run.bind import function, function_of
from ..._tensor.creation import full_like
from ..._tensor.tensor import Tensor
from ...ops._common import check_index_range

__all__ = ["convert_boxes_to_roi_format", "reduced", "upcast", "upcast_non_float", "vision_op"]

#: `op` for a pure function that is no name of PyTorch: gives the function of Tensors
vision_op: Callable[..., Any] = partial(function_of, "functorch_port.vision.ops")


def upcast(t: Tensor) -> Tensor:
    """The values in a dtype wide enough for products of them."""
    if t.is_floating_point():
        return t if t.dtype.name in ("float32", "float64") else t.float()
    return t if t.dtype.name in ("int32", "int64") else t.int()


def upcast_non_float(t: Tensor) -> Tensor:
    """The values in float32 or float64."""
    return t if t.dtype.name in ("float32", "float64") else t.float()


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The loss itself, its mean or its sum.

    Raises:
        ValueError: ``reduction`` is neither ``"none"``, ``"mean"`` nor ``"sum"``.
    """
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0.0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', 'mean', 'sum'"
    )


def iou_of_each(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """The areas of the intersection and union of each pair of boxes."""
    x1, y1, x2, y2 = boxes1.unbind(-1)
    x3, y3, x4, y4 = boxes2.unbind(-1)
    width = function("min")(x2, x4) - function("max")(x1, x3)
    height = function("min")(y2, y4) - function("max")(y1, y3)
    zero = full_like(width, 0)
    common = function("where")((height > 0) & (width > 0), width * height, zero)
    return common, (x2 - x1) * (y2 - y1) + (x4 - x3) * (y4 - y3) - common


def hull_of_each(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The sides ``[..., 2]`` of the smallest box around each pair."""
    start = function("min")(boxes1[..., :2], boxes2[..., :2])
    return function("max")(boxes1[..., 2:], boxes2[..., 2:]) - start


def apart_of_each(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The squared distance of the centers of each pair."""
    x1, y1, x2, y2 = boxes1.unbind(-1)
    x3, y3, x4, y4 = boxes2.unbind(-1)
    return ((x1 + x2) / 2 - (x3 + x4) / 2) ** 2 + ((y1 + y2) / 2 - (y3 + y4) / 2) ** 2


def convert_boxes_to_roi_format(boxes: Sequence[Tensor]) -> Tensor:
    """Boxes of several images as one tensor, whose first column is the number of the image."""
    numbered = [function("cat")([full_like(b[:, :1], i), b], dim=1) for i, b in enumerate(boxes)]
    return function("cat")(numbered, dim=0)


def rois_of(boxes: Any) -> Tensor:
    """Boxes as one tensor ``[K, 5]``, from that or from one ``[L, 4]`` for each image.

    Raises:
        AssertionError: they have other shapes.
    """
    if isinstance(boxes, list | tuple):
        fine = all(b.shape[1:] == (4,) for b in boxes)
        assert fine, "The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]"
        return convert_boxes_to_roi_format(boxes).detach()
    assert isinstance(boxes, Tensor), "boxes is expected to be a Tensor[L, 5] or a List[Tensor[K, 4]]"
    assert boxes.shape[1:] == (5,), "The boxes tensor shape is not correct as Tensor[K, 5]"
    return boxes.detach()


def check_images(input: Any, rois: Any, name: str) -> None:
    """Raise IndexError for a box in an image that is not there."""
    count = input.shape[0]
    check_index_range(
        rois[:, 0],
        count,
        lambda bad: IndexError(f"{name}: a box is in image {bad}, but there are {count}"),
        lowest=0,
    )


def check_dtypes(input: Tensor, rois: Tensor) -> None:
    """Raise RuntimeError for dtypes that differ or have no fractions."""
    if input.dtype != rois.dtype:
        raise RuntimeError("input should have the same type as rois")
    if not input.is_floating_point():
        raise NotImplementedError(f'"roi_align" not implemented for {input.dtype.scalar_name!r}')
