"""Boxes after a change of their image: `BoundingBoxes` are computed as two corners, and converted back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.vision.ops.boxes import box_convert, clip_boxes_to_image
from functorch_port.vision.transforms import functional as F
from functorch_port.vision.tv_tensors import BoundingBoxes, BoundingBoxFormat, format_of, plain, wrap

__all__ = ["clamp_bounding_boxes", "convert_bounding_box_format"]

XYXY, CXCYWH = BoundingBoxFormat.XYXY, BoundingBoxFormat.CXCYWH


def _converted(boxes: Tensor, old: BoundingBoxFormat, new: BoundingBoxFormat) -> Tensor:
    if CXCYWH in (old, new) and not boxes.is_floating_point():
        raise NotImplementedError(
            f"boxes of {boxes.dtype} in the format CXCYWH: a middle may lie between two pixels. Convert them to "
            "floats, or give XYXY or XYWH"
        )
    return boxes if old is new else box_convert(boxes, old.value.lower(), new.value.lower())


def convert_bounding_box_format(
    inpt: Tensor, old_format: Any = None, new_format: Any = None, inplace: bool = False
) -> Tensor:
    """Boxes in another format.

    Args:
        inpt: `BoundingBoxes`, or a tensor (..., 4) with ``old_format``.
        old_format: that of a tensor.
        new_format: a `BoundingBoxFormat`, or its name.
        inplace: whether to write the result to the tensor.

    Raises:
        TypeError: there is no new format, or ``old_format`` does not go with the input.
    """
    if new_format is None:
        raise TypeError("convert_bounding_box_format() missing 1 required argument: 'new_format'")
    new = format_of(new_format)
    if isinstance(inpt, BoundingBoxes):
        if old_format is not None:
            raise ValueError("For bounding box tv_tensor inputs, `old_format` must not be passed.")
        old: BoundingBoxFormat = inpt.format
    elif old_format is None:
        raise ValueError("For pure tensor inputs, `old_format` has to be passed.")
    else:
        old = format_of(old_format)
    boxes = plain(inpt)
    out = _converted(boxes, old, new)
    if inplace:
        out = boxes.copy_(out)
    return wrap(out, like=inpt, format=new) if isinstance(inpt, BoundingBoxes) else out


def clamp_bounding_boxes(
    inpt: Tensor, format: Any = None, canvas_size: Any = None, clamping_mode: Any = "auto"
) -> Tensor:
    """Cut boxes at the border of their image.

    Args:
        inpt: `BoundingBoxes`, or a tensor (..., 4) with ``format`` and ``canvas_size``.
        format, canvas_size: those of a tensor.
        clamping_mode: "soft" and "hard" cut, None does not; "auto" does what the boxes say.
    """
    if isinstance(inpt, BoundingBoxes):
        if format is not None or canvas_size is not None:
            raise ValueError(
                "For bounding box tv_tensor inputs, `format` and `canvas_size` must not be passed."
            )
        mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
        if mode is None:
            return inpt
        return wrap(_clamped(plain(inpt), inpt.format, inpt.canvas_size), like=inpt)
    if format is None or canvas_size is None:
        raise ValueError("For pure tensor inputs, `format` and `canvas_size` have to be passed.")
    return inpt if clamping_mode is None else _clamped(inpt, format_of(format), canvas_size)


def _clamped(boxes: Tensor, format: BoundingBoxFormat, canvas_size: Any) -> Tensor:
    corners = clip_boxes_to_image(_converted(boxes, format, XYXY), canvas_size)
    return _converted(corners, XYXY, format)


def _moved(
    boxes: BoundingBoxes, canvas_size: Any, change: Callable[..., Any], clamp: bool = True
) -> BoundingBoxes:
    """Boxes whose corners ``change`` maps, in an image of another size."""
    corners = change(*_converted(plain(boxes), boxes.format, XYXY).unbind(-1))
    out = _converted(torch.stack(corners, -1), XYXY, boxes.format).to(boxes.dtype)
    made = wrap(out, like=boxes, canvas_size=tuple(canvas_size))
    return clamp_bounding_boxes(made) if clamp else made  # type: ignore[return-value]


def horizontal_flip(boxes: BoundingBoxes) -> BoundingBoxes:
    width = boxes.canvas_size[1]
    return _moved(boxes, boxes.canvas_size, lambda x, y, u, v: (width - u, y, width - x, v), clamp=False)


def vertical_flip(boxes: BoundingBoxes) -> BoundingBoxes:
    height = boxes.canvas_size[0]
    return _moved(boxes, boxes.canvas_size, lambda x, y, u, v: (x, height - v, u, height - y), clamp=False)


def crop(boxes: BoundingBoxes, top: int, left: int, height: int, width: int) -> BoundingBoxes:
    return _moved(boxes, (height, width), lambda x, y, u, v: (x - left, y - top, u - left, v - top))


def center_crop(boxes: BoundingBoxes, output_size: Any) -> BoundingBoxes:
    height, width = F._pair(output_size)
    rows, columns = boxes.canvas_size
    return crop(boxes, round((rows - height) / 2.0), round((columns - width) / 2.0), height, width)


def pad(
    boxes: BoundingBoxes, padding: Any, fill: Any = None, padding_mode: str = "constant"
) -> BoundingBoxes:
    if padding_mode not in ("constant", "edge"):
        raise NotImplementedError(
            f"padding_mode {padding_mode!r} repeats parts of the image, but not their boxes: use constant or edge"
        )
    left, top, right, bottom = F._four(padding)
    rows, columns = boxes.canvas_size
    size = (rows + top + bottom, columns + left + right)
    return _moved(boxes, size, lambda x, y, u, v: (x + left, y + top, u + left, v + top))


def resize(
    boxes: BoundingBoxes,
    size: Any,
    interpolation: Any = None,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> BoundingBoxes:
    rows, columns = boxes.canvas_size
    height, width = F._new_size(rows, columns, [size] if isinstance(size, int) else size, max_size)
    if (height, width) == (rows, columns):
        return boxes
    across, down = width / columns, height / rows
    scaled = plain(boxes) * torch.tensor([across, down, across, down])  # of any format
    return wrap(scaled.to(boxes.dtype), like=boxes, canvas_size=(height, width))


def resized_crop(
    boxes: BoundingBoxes,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = None,
    antialias: bool | None = True,
) -> BoundingBoxes:
    return resize(crop(boxes, top, left, height, width), F._pair(size))
