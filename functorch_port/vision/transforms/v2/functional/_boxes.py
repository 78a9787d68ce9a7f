"""Boxes after a change of their image, with torchvision's arithmetic in each format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.vision.ops.boxes import clip_boxes_to_image
from functorch_port.vision.transforms import _tensor_geometry as geometry
from functorch_port.vision.transforms import functional as F
from functorch_port.vision.tv_tensors import BoundingBoxes, BoundingBoxFormat, format_of, plain, wrap

__all__ = ["clamp_bounding_boxes", "convert_bounding_box_format"]

XYXY, XYWH, CXCYWH = BoundingBoxFormat.XYXY, BoundingBoxFormat.XYWH, BoundingBoxFormat.CXCYWH


def _real(boxes: Tensor) -> Tensor:
    """Boxes in the float dtype that they are computed in."""
    return boxes if boxes.dtype in (torch.float32, torch.float64) else boxes.float()


def _converted(boxes: Tensor, old: BoundingBoxFormat, new: BoundingBoxFormat) -> Tensor:
    """Boxes in another format. Of integers a middle is rounded down, and a corner between pixels towards 0."""
    if old is new:
        return boxes
    whole = not boxes.is_floating_point()
    if old is CXCYWH:
        middle, sides = (boxes.float() if whole else boxes).chunk(2, -1)
        corner = middle - sides / 2
        other = corner + sides
        if whole:
            corner, other = corner.to(boxes.dtype), other.to(boxes.dtype)
            sides = other - corner
        return torch.cat([corner, other if new is XYXY else sides], -1)
    corner, second = boxes.chunk(2, -1)
    sides = second if old is XYWH else second - corner
    if new is CXCYWH:
        return torch.cat([corner + (sides.div(2, rounding_mode="floor") if whole else sides / 2), sides], -1)
    return torch.cat([corner, sides if new is XYWH else corner + sides], -1)


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
        inpt: `BoundingBoxes`, or a tensor (..., 4) with ``format``, ``canvas_size`` and ``clamping_mode``.
        format, canvas_size: those of a tensor.
        clamping_mode: "soft" and "hard" cut, None does not; "auto" does what `BoundingBoxes` say.

    Raises:
        ValueError: there is no such mode, or the arguments do not go with the input.
    """
    if clamping_mode not in ("soft", "hard", "auto", None):
        raise ValueError(f"clamping_mode must be soft, hard, auto or None, got {clamping_mode}")
    if isinstance(inpt, BoundingBoxes):
        if format is not None or canvas_size is not None:
            raise ValueError(
                "For bounding box tv_tensor inputs, `format` and `canvas_size` must not be passed."
            )
        mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
        return wrap(_clamped(plain(inpt), inpt.format, inpt.canvas_size, mode), like=inpt)
    if format is None or canvas_size is None or clamping_mode == "auto":
        raise ValueError(
            "For pure tensor inputs, `format`, `canvas_size` and `clamping_mode` have to be passed."
        )
    return _clamped(inpt, format_of(format), canvas_size, clamping_mode)


def _clamped(boxes: Tensor, format: BoundingBoxFormat, canvas_size: Any, mode: str | None) -> Tensor:
    if mode is None:
        return boxes.clone()
    real = boxes if boxes.is_floating_point() else boxes.float()
    corners = clip_boxes_to_image(_converted(real, format, XYXY), canvas_size)
    return _converted(corners, XYXY, format).to(boxes.dtype)


def _within(boxes: Tensor, canvas_size: Any, like: BoundingBoxes) -> BoundingBoxes:
    """Numbers of boxes as boxes in an image of another size, at whose border they are cut."""
    size = tuple(canvas_size)
    return wrap(_clamped(boxes, like.format, size, like.clamping_mode), like=like, canvas_size=size)


def _mirrored(boxes: BoundingBoxes, axis: int) -> BoundingBoxes:
    """Boxes of the mirror image along x (0) or y (1)."""
    size = boxes.canvas_size[1 - axis]
    numbers = list(plain(boxes).unbind(-1))
    at, second = numbers[axis], numbers[axis + 2]
    if boxes.format is XYXY:
        numbers[axis], numbers[axis + 2] = size - second, size - at
    else:
        numbers[axis] = size - (at if boxes.format is CXCYWH else at + second)
    return wrap(torch.stack(numbers, -1), like=boxes)


def horizontal_flip(boxes: BoundingBoxes) -> BoundingBoxes:
    return _mirrored(boxes, 0)


def vertical_flip(boxes: BoundingBoxes) -> BoundingBoxes:
    return _mirrored(boxes, 1)


def _step(boxes: BoundingBoxes, x: int, y: int) -> Tensor:
    """A movement by ``x`` and ``y`` pixels, in the numbers of the format."""
    step = [x, y, x, y] if boxes.format is XYXY else [x, y, 0, 0]
    return torch.tensor(step, dtype=boxes.dtype, device=boxes.device)


def crop(boxes: BoundingBoxes, top: int, left: int, height: int, width: int) -> BoundingBoxes:
    return _within(plain(boxes) - _step(boxes, left, top), (height, width), boxes)


def center_crop(boxes: BoundingBoxes, output_size: Any) -> BoundingBoxes:
    height, width = F._pair(output_size)
    rows, columns = boxes.canvas_size
    return crop(boxes, round((rows - height) / 2.0), round((columns - width) / 2.0), height, width)


def pad(
    boxes: BoundingBoxes, padding: Any, fill: Any = None, padding_mode: str = "constant"
) -> BoundingBoxes:
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported with bounding boxes")
    left, top, right, bottom = F._four(padding)
    rows, columns = boxes.canvas_size
    size = (rows + top + bottom, columns + left + right)
    return _within(plain(boxes) + _step(boxes, left, top), size, boxes)


def resize(
    boxes: BoundingBoxes,
    size: Any,
    interpolation: Any = None,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> BoundingBoxes:
    rows, columns = boxes.canvas_size
    height, width = F._new_size(rows, columns, size, max_size)
    if (height, width) == (rows, columns):
        return boxes
    across, down = width / columns, height / rows
    scaled = plain(boxes) * torch.tensor([across, down, across, down], device=boxes.device)  # of any format
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
    return resize(crop(boxes, top, left, height, width), size)


def _around(
    corners: Tensor, move: Callable[..., tuple[Tensor, Tensor]], canvas_size: Any, like: BoundingBoxes
) -> BoundingBoxes:
    """The boxes around what ``move`` makes of the four corners of others: it takes and gives their x and y."""
    x, y = move(corners[:, [0, 2, 2, 0]], corners[:, [1, 1, 3, 3]])
    around = torch.stack([x.amin(-1), y.amin(-1), x.amax(-1), y.amax(-1)], -1).to(corners.dtype)
    cut = _clamped(around, XYXY, canvas_size, like.clamping_mode)
    boxes = _converted(cut, XYXY, like.format).to(like.dtype)
    return wrap(boxes, like=like, canvas_size=tuple(canvas_size))


def _affine(boxes: BoundingBoxes, center: Any, *numbers: Any, expand: bool = False) -> BoundingBoxes:
    """Boxes after an affine map of their image, given by what `affine_matrix` takes."""
    if not boxes.numel():
        return boxes  # with expand, too, as in torchvision
    size = rows, columns = boxes.canvas_size
    middle = [columns * 0.5, rows * 0.5] if center is None else center
    a, b, c, d, e, f = geometry.affine_matrix(middle, *numbers)
    corners = _converted(_real(plain(boxes)), boxes.format, XYXY)
    left: Any = 0.0
    top: Any = 0.0

    def move(x: Any, y: Any) -> Any:
        return x * a + y * b + c - left, x * d + y * e + f - top

    if expand:
        size = geometry.expanded(geometry.inverse_matrix(middle, *numbers), rows, columns)
        frame = corners.new_tensor([[0.0, 0.0, columns, columns], [0.0, rows, rows, 0.0]])
        left, top = (ends.amin() for ends in move(*frame))
    return _around(corners, move, size, boxes)


def rotate(
    boxes: BoundingBoxes,
    angle: float,
    interpolation: Any = None,
    expand: bool = False,
    center: Any = None,
    fill: Any = None,
) -> BoundingBoxes:
    shear = F._affine_arguments(angle, [0.0, 0.0], 1.0, 0.0, center)
    return _affine(boxes, center, -angle, [0.0, 0.0], 1.0, shear, expand=expand)


def affine(
    boxes: BoundingBoxes,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = None,
    fill: Any = None,
    center: Any = None,
) -> BoundingBoxes:
    shear = F._affine_arguments(angle, translate, scale, shear, center)
    return _affine(boxes, center, angle, translate, scale, shear)


def perspective(
    boxes: BoundingBoxes,
    startpoints: Any,
    endpoints: Any,
    interpolation: Any = None,
    fill: Any = None,
    coefficients: Any = None,
) -> BoundingBoxes:
    if not boxes.numel():
        return boxes
    coefficients = F._coefficients(startpoints, endpoints, coefficients)
    first, second, third = np.array([*coefficients, 1.0]).reshape(3, 3)  # of the inverse map
    scale = first[0] * second[1] - first[1] * second[0]
    if scale == 0:
        raise RuntimeError(
            f"Provided perspective_coeffs {coefficients} can not be inverted to transform bounding boxes. "
            f"Denominator is zero, denom={scale}"
        )
    columns = np.cross(second, third), np.cross(third, first), np.cross(first, second)
    (a, b, c), (d, e, f), (g, h, _) = (np.stack(columns, -1) / scale).tolist()

    def move(x: Any, y: Any) -> Any:
        below = x * g + y * h + 1.0
        return (x * a + y * b + c) / below, (x * d + y * e + f) / below

    corners = _converted(plain(boxes), boxes.format, XYXY)
    return _around(_real(corners), move, boxes.canvas_size, boxes)


def elastic(
    boxes: BoundingBoxes, displacement: Tensor, interpolation: Any = None, fill: Any = None
) -> BoundingBoxes:
    """Corners move against the displacement at their pixel: an approximation, which the inverse map need not be."""
    rows, columns = boxes.canvas_size
    geometry.check_displacement(displacement, rows, columns)
    if not boxes.numel():
        return boxes
    corners = _converted(plain(boxes), boxes.format, XYXY)
    real = _real(corners)
    shifts = displacement.to(real)[0]

    def pixel(x: Any, size: int) -> Any:
        return (x.ceil() if x.is_floating_point() else x).long().clamp(0, size - 1)

    def moved(at: Any, size: int, shift: Any) -> Any:
        places = torch.linspace(
            (1 - size) / size, (size - 1) / size, size, dtype=real.dtype, device=real.device
        )
        return (places[at] - shift + 1) * (0.5 * size) - 0.5

    def move(x: Any, y: Any) -> Any:
        x, y = pixel(x, columns), pixel(y, rows)
        shift = shifts[y, x]
        return moved(x, columns, shift[..., 0]), moved(y, rows, shift[..., 1])

    return _around(corners, move, boxes.canvas_size, boxes)
