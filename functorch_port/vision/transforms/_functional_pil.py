"""The functions of images on Pillow images, by Pillow itself. `_functional_tensor` has the same names for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functorch_port.vision._pillow import Image, ImageEnhance, ImageOps

from ._modes import InterpolationMode, pillow_mode

_GRAY_MODES = frozenset({"L", "1", "I", "F"})


def check(img: Any) -> None:
    """Refuse what is no Pillow image."""
    if not isinstance(img, Image.Image):
        raise TypeError(f"img should be PIL Image. Got {type(img)}")


def get_dimensions(img: Any) -> list[int]:
    check(img)
    return [len(img.getbands()), img.height, img.width]


def hflip(img: Any) -> Any:
    check(img)
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    check(img)
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    check(img)
    return img.crop((left, top, left + width, top + height))


def resize(img: Any, size: Sequence[int], mode: InterpolationMode) -> Any:
    check(img)
    height, width = size
    return img.resize((width, height), pillow_mode(mode))


def pad(img: Any, padding: tuple[int, int, int, int], fill: Any, padding_mode: str) -> Any:
    check(img)
    if padding_mode == "constant":
        image = ImageOps.expand(img, border=padding, fill=_fill(fill, img))
    else:
        left, top, right, bottom = padding
        if min(padding) < 0:
            cut = (-min(left, 0), -min(top, 0), img.width + min(right, 0), img.height + min(bottom, 0))
            img = img.crop(cut)
        widths = [(max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))]
        array = np.asarray(img)
        padded = np.pad(array, widths + [(0, 0)] * (array.ndim - 2), mode=padding_mode)  # type: ignore[call-overload]
        image = Image.fromarray(padded)
    if img.mode == "P":
        image.putpalette(img.getpalette())
    return image


def _fill(fill: Any, img: Any) -> Any:
    """The color of new pixels as Pillow takes it: one number for each channel."""
    channels = len(img.getbands())
    if fill is None:
        fill = 0
    if isinstance(fill, int | float) and channels > 1:
        fill = (fill,) * channels
    if isinstance(fill, list | tuple):
        if len(fill) == 1:
            fill = tuple(fill) * channels
        elif len(fill) != channels:
            raise ValueError(
                "The number of elements in 'fill' does not match the number of channels of the image "
                f"({len(fill)} != {channels})"
            )
        fill = tuple(fill)
    if img.mode != "F":
        fill = tuple(int(x) for x in fill) if isinstance(fill, tuple) else int(fill)
    return fill


def affine(img: Any, matrix: Sequence[float], mode: InterpolationMode, fill: Any) -> Any:
    check(img)
    return img.transform(
        img.size, Image.Transform.AFFINE, list(matrix), pillow_mode(mode), fillcolor=_fill(fill, img)
    )


def rotate(
    img: Any, angle: float, mode: InterpolationMode, expand: bool, center: Sequence[float] | None, fill: Any
) -> Any:
    check(img)
    middle = None if center is None else tuple(center)
    return img.rotate(angle, pillow_mode(mode), expand, middle, fillcolor=_fill(fill, img))


def perspective(img: Any, coefficients: Sequence[float], mode: InterpolationMode, fill: Any) -> Any:
    check(img)
    return img.transform(
        img.size,
        Image.Transform.PERSPECTIVE,
        list(coefficients),
        pillow_mode(mode),
        fillcolor=_fill(fill, img),
    )


def adjust_brightness(img: Any, factor: float) -> Any:
    check(img)
    return ImageEnhance.Brightness(img).enhance(factor)


def adjust_contrast(img: Any, factor: float) -> Any:
    check(img)
    return ImageEnhance.Contrast(img).enhance(factor)


def adjust_saturation(img: Any, factor: float) -> Any:
    check(img)
    return ImageEnhance.Color(img).enhance(factor)


def adjust_sharpness(img: Any, factor: float) -> Any:
    check(img)
    return ImageEnhance.Sharpness(img).enhance(factor)


def adjust_hue(img: Any, factor: float) -> Any:
    check(img)
    if img.mode in _GRAY_MODES:
        return img
    hue, saturation, value = img.convert("HSV").split()
    turned = np.array(hue, np.uint8) + np.int32(factor * 255).astype(np.uint8)  # a circle of 256 steps
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert(img.mode)


def adjust_gamma(img: Any, gamma: float, gain: float) -> Any:
    check(img)
    image = img.convert("RGB")
    table = [int((255 + 1 - 1e-3) * gain * pow(x / 255.0, gamma)) for x in range(256)]
    return image.point(table * 3).convert(img.mode)


def rgb_to_grayscale(img: Any, num_output_channels: int) -> Any:
    check(img)
    gray = img.convert("L")
    if num_output_channels == 1:
        return gray
    return Image.merge("RGB", (gray, gray, gray))


def invert(img: Any) -> Any:
    check(img)
    return ImageOps.invert(img)


def posterize(img: Any, bits: int) -> Any:
    check(img)
    return ImageOps.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    check(img)
    return ImageOps.solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    check(img)
    return ImageOps.autocontrast(img)


def equalize(img: Any) -> Any:
    check(img)
    return ImageOps.equalize(img)
