"""``torchvision.transforms.functional``: functions of Pillow images and of tensors (..., C, H, W).

Tensors are computed in numpy where that is possible (see `_kernel`), Pillow images by Pillow.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from typing import Any

from functorch_port._tensor.tensor import Tensor

from . import _functional_pil, _functional_tensor
from ._convert import pil_to_tensor, to_pil_image, to_tensor
from ._functional_colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    by_tensor,
    convert_image_dtype,
    equalize,
    gaussian_blur,
    home,
    invert,
    normalize,
    posterize,
    rgb_to_grayscale,
    solarize,
    to_grayscale,
)
from ._modes import InterpolationMode, mode_of
from ._tensor_geometry import inverse_matrix, perspective_coefficients

__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "adjust_sharpness", "affine", "autocontrast", "center_crop", "convert_image_dtype", "crop", "elastic_transform",
    "equalize", "erase", "five_crop", "gaussian_blur", "get_dimensions", "get_image_num_channels", "get_image_size",
    "hflip", "invert", "normalize", "pad", "perspective", "pil_to_tensor", "posterize", "resize",
    "resized_crop", "rgb_to_grayscale", "rotate", "solarize", "ten_crop", "to_grayscale", "to_pil_image", "to_tensor",
    "vflip",
]  # fmt: skip


def get_dimensions(img: Any) -> list[int]:
    """The number of channels, the height and the width."""
    return home(img).get_dimensions(img)


def get_image_size(img: Any) -> list[int]:
    """The width and the height."""
    _, height, width = get_dimensions(img)
    return [width, height]


def get_image_num_channels(img: Any) -> int:
    """The number of channels."""
    return get_dimensions(img)[0]


def _new_size(height: int, width: int, size: int | Sequence[int] | None, max_size: int | None) -> list[int]:
    """The size after `resize`.

    Raises:
        ValueError: the size has more than two numbers, or does not go with max_size.
    """
    if isinstance(size, int):
        size = [size]
    elif isinstance(size, list | tuple):
        if len(size) not in (1, 2):
            raise ValueError(
                f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element tuple/list"
            )
        if max_size is not None and len(size) != 1:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge, i.e. size should be "
                "an int or a sequence of length 1 in torchscript mode."
            )
    """Height and width after `resize`: one number is for the shorter side, none fits the longer one to max_size."""
    if size is not None and len(size) == 2:
        return [int(n) for n in size]
    short, long = min(height, width), max(height, width)
    if size is None:
        if not isinstance(max_size, int):
            raise ValueError(f"max_size must be an integer when size is None, but got {max_size} instead.")
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = size[0], int(size[0] * long / short)
        if max_size is not None:
            if max_size <= size[0]:
                raise ValueError(
                    f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge "
                    f"size = {size}"
                )
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
    return [new_long, new_short] if width <= height else [new_short, new_long]


def resize(
    img: Any,
    size: int | Sequence[int] | None,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
    _v2: bool = False,
) -> Any:
    """Resize an image.

    Args:
        img: a Pillow image, or a tensor (..., H, W).
        size: (height, width), or a number for the shorter side; the longer one keeps the proportions.
        interpolation: an `InterpolationMode`; tensors allow nearest, bilinear and bicubic.
        max_size: the most that the longer side may get.
        antialias: whether to average a tensor's pixels where it gets smaller. Pillow always does.

    Raises:
        ValueError: the size has more than two numbers, or does not go with max_size.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.resize.html
    """
    mode = mode_of(interpolation)
    _, height, width = get_dimensions(img)
    new = _new_size(height, width, size, max_size)
    if new == [height, width]:
        return img
    if isinstance(img, Tensor):
        return _functional_tensor.resize(img, new, mode, antialias, _v2)
    if antialias is False:
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. Argument antialias is ignored.",
            stacklevel=2,
        )
    return _functional_pil.resize(img, new, mode)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Put a frame around an image.

    Args:
        img: a Pillow image, or a tensor (..., H, W).
        padding: one number, two (left and right, above and below), or four (left, above, right, below).
        fill: the color, for the mode "constant".
        padding_mode: "constant", "edge", "reflect" or "symmetric" (which repeats the outermost pixel).

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.pad.html
    """
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if not isinstance(padding, int | list | tuple):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, int | float | str | list | tuple | None):
        raise TypeError("Got inappropriate fill arg")
    return home(img).pad(img, _four(padding), fill, padding_mode)


def _four(padding: Any) -> tuple[int, int, int, int]:
    """The padding of the left, above, of the right and below."""
    sides = [padding] if isinstance(padding, int) else list(padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(sides)} element tuple"
        )
    left, top, right, bottom = (sides * (4 // len(sides))) if len(sides) != 4 else sides
    return left, top, right, bottom


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Cut a rectangle out; what lies outside the image is black."""
    return home(img).crop(img, top, left, height, width)


def _pair(size: Any) -> list[int]:
    """Height and width, of a number or one or two of them."""
    if isinstance(size, numbers.Number):
        size = [int(size)]  # type: ignore[call-overload]
    return [size[0], size[0]] if len(size) == 1 else list(size)


def center_crop(img: Any, output_size: Any) -> Any:
    """Cut the middle out; an image that is smaller gets a black frame.

    Args:
        output_size: the height and the width, or one number for both.
    """
    height, width = _pair(output_size)
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        across, down = max(width - columns, 0), max(height - rows, 0)
        img = pad(img, [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2])
        _, rows, columns = get_dimensions(img)
        if (width, height) == (columns, rows):
            return img
    return crop(img, round((rows - height) / 2.0), round((columns - width) / 2.0), height, width)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
    _v2: bool = False,
) -> Any:
    """Cut a rectangle out and resize it, as `crop` and `resize` do."""
    mode = mode_of(interpolation)
    new = _new_size(height, width, size, None)
    box = (top, left, height, width)
    if isinstance(img, Tensor):
        return _functional_tensor.resized_crop(img, box, new, mode, antialias, _v2)
    return resize(crop(img, *box), new, mode, antialias=antialias)


def hflip(img: Any) -> Any:
    """Mirror left and right."""
    return home(img).hflip(img)


def vflip(img: Any) -> Any:
    """Mirror above and below."""
    return home(img).vflip(img)


def perspective(
    img: Any,
    startpoints: Any,
    endpoints: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
    coefficients: Sequence[float] | None = None,
) -> Any:
    """Apply the projective map that takes four points to four others.

    Args:
        img: a Pillow image, or a tensor (..., H, W).
        startpoints, endpoints: four points (x, y): top left, top right, bottom right and bottom left.
        interpolation: an `InterpolationMode`; tensors allow nearest and bilinear.
        fill: the color of what was outside, a number or one for each channel.
        coefficients: the eight of the inverse map, in place of the points.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.perspective.html
    """
    coefficients = _coefficients(startpoints, endpoints, coefficients)
    return home(img).perspective(img, coefficients, mode_of(interpolation), fill)


def _coefficients(startpoints: Any, endpoints: Any, coefficients: Sequence[float] | None) -> Sequence[float]:
    if coefficients is None:
        return perspective_coefficients(startpoints, endpoints)
    if startpoints is not None and endpoints is not None:
        raise ValueError("The startpoints/endpoints and the coefficients shouldn't be defined concurrently.")
    if len(coefficients) != 8:
        raise ValueError("Argument coefficients should have 8 float values")
    return coefficients


def _centred(img: Any, center: Sequence[float]) -> list[float]:
    """A point relative to the middle of an image."""
    _, height, width = get_dimensions(img)
    return [1.0 * (c - size * 0.5) for c, size in zip(center, (width, height))]


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = None,
) -> Any:
    """Turn an image counter-clockwise.

    Args:
        img: a Pillow image, or a tensor (..., H, W).
        angle: in degrees.
        interpolation: an `InterpolationMode`; tensors allow nearest and bilinear.
        expand: whether the result gets so large that nothing is cut off.
        center: x and y of the middle of the rotation, in pixels. Default: the middle of the image.
        fill: the color of what was outside, a number or one for each channel.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.rotate.html
    """
    mode = mode_of(interpolation)
    if not isinstance(angle, int | float):
        raise TypeError("Argument angle should be int or float")
    if center is not None and not isinstance(center, list | tuple):
        raise TypeError("Argument center should be a sequence")
    if not isinstance(img, Tensor):
        return _functional_pil.rotate(img, angle, mode, expand, center, fill)
    if expand and center is not None:
        warnings.warn(
            "The provided center argument has no effect on the result if expand is True", stacklevel=2
        )
    middle = [0.0, 0.0] if center is None else _centred(img, center)
    matrix = inverse_matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return _functional_tensor.rotate(img, matrix, mode, expand, fill)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
    center: Sequence[float] | None = None,
) -> Any:
    """Rotate, shear, scale and move an image, which keeps its size.

    Args:
        img: a Pillow image, or a tensor (..., H, W).
        angle: in degrees, clockwise.
        translate: pixels along x and y.
        scale: the factor, above 0.
        shear: degrees along x, or along x and y.
        interpolation: an `InterpolationMode`; tensors allow nearest and bilinear.
        fill: the color of what was outside, a number or one for each channel.
        center: x and y of what stays in its place. Default: the middle of the image.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.affine.html
    """
    mode = mode_of(interpolation)
    shear = _affine_arguments(angle, translate, scale, shear, center)
    if isinstance(img, Tensor):
        middle = [0.0, 0.0] if center is None else _centred(img, center)
        matrix = inverse_matrix(middle, angle, [1.0 * t for t in translate], scale, shear)
        return _functional_tensor.affine(img, matrix, mode, fill)
    _, height, width = get_dimensions(img)
    middle = [width * 0.5, height * 0.5] if center is None else list(center)
    return _functional_pil.affine(img, inverse_matrix(middle, angle, translate, scale, shear), mode, fill)


def _affine_arguments(angle: Any, translate: Any, scale: Any, shear: Any, center: Any) -> list[float]:
    """Check them; returns the shear along x and y."""
    if not isinstance(angle, int | float):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, list | tuple):
        raise TypeError("Argument translate should be a sequence")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if not isinstance(shear, numbers.Number | list | tuple):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    if center is not None and not isinstance(center, list | tuple):
        raise TypeError("Argument center should be a sequence")
    if isinstance(shear, numbers.Number):
        return [float(shear), 0.0]  # type: ignore[arg-type]
    if len(shear) not in (1, 2):
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    return [shear[0], shear[-1]]


def elastic_transform(
    img: Any,
    displacement: Tensor,
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
) -> Any:
    """Move each pixel by a displacement.

    Args:
        img: a Pillow image, or a tensor (..., H, W).
        displacement: (1, H, W, 2), in the coordinates of `torch.nn.functional.grid_sample`.
        interpolation: an `InterpolationMode`: nearest or bilinear.
        fill: the color of what was outside, a number or one for each channel.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.elastic_transform.html
    """
    mode = mode_of(interpolation)
    return by_tensor(img, lambda t: _functional_tensor.elastic(t, displacement, mode, fill))


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """The four corners (top left, top right, bottom left, bottom right) and the middle.

    Args:
        size: the height and the width, or one number for both.
    """
    if isinstance(size, list | tuple) and len(size) not in (1, 2):
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    height, width = _pair(size)
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        raise ValueError(f"Requested crop size {(height, width)} is bigger than input size {(rows, columns)}")
    corners = [(0, 0), (0, columns - width), (rows - height, 0), (rows - height, columns - width)]
    parts = [crop(img, top, left, height, width) for top, left in corners]
    return (*parts, center_crop(img, [height, width]))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image, and of its mirror image (above and below with ``vertical_flip``)."""
    parts = five_crop(img, size)
    return (*parts, *five_crop(vflip(img) if vertical_flip else hflip(img), size))


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """Overwrite a rectangle of a tensor.

    Args:
        img: (..., C, H, W).
        i, j, h, w: the top, the left, the height and the width.
        v: what to write.
        inplace: whether to write to the tensor itself.
    """
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    return _functional_tensor.erase(img, i, j, h, w, v, inplace)
