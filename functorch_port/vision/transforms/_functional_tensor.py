"""The functions of images on tensors (..., C, H, W). `_functional_pil` has the same names for Pillow images.

Some round as torchvision's v2 does if they are asked to (``v2``), which for bytes makes a difference of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor

from . import _tensor_color as color
from . import _tensor_geometry as geometry
from ._modes import InterpolationMode

_SMOOTHED = ("bilinear", "bicubic")


def check(img: Any) -> None:
    """Refuse a tensor that is no image."""
    if not isinstance(img, Tensor) or img.ndim < 2:
        raise TypeError("Tensor is not a torch image.")


def _check_channels(img: Tensor, permitted: tuple[int, ...] = (1, 3)) -> None:
    check(img)
    channels = get_dimensions(img)[0]
    if channels not in permitted:
        raise TypeError(
            f"Input image tensor permitted channel values are {[*permitted]}, but found {channels}"
        )


def _checked_factor(what: str, factor: float) -> float:
    if factor < 0:
        raise ValueError(f"{what}_factor ({factor}) is not non-negative.")
    return float(factor)


def get_dimensions(img: Tensor) -> list[int]:
    check(img)
    channels = 1 if img.ndim == 2 else img.shape[-3]
    return [channels, img.shape[-2], img.shape[-1]]


def hflip(img: Tensor) -> Tensor:
    check(img)
    return geometry.hflip(img)


def vflip(img: Tensor) -> Tensor:
    check(img)
    return geometry.vflip(img)


def permute_channels(img: Tensor, permutation: Sequence[int]) -> Tensor:
    check(img)
    if len(permutation) != img.shape[-3]:
        raise ValueError(
            f"Length of permutation does not match number of channels: {len(permutation)} != {img.shape[-3]}"
        )
    return geometry.permute_channels(img, list(permutation))


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    check(img)
    return geometry.crop(img, top, left, height, width)


def _resizing(mode: InterpolationMode, antialias: Any) -> tuple[str, bool]:
    if mode.value not in ("nearest", "nearest-exact", *_SMOOTHED):
        raise ValueError(
            "This interpolation mode is unsupported with Tensor input: use InterpolationMode.NEAREST, NEAREST_EXACT, "
            f"BILINEAR or BICUBIC, or resize a Pillow image, not {mode}"
        )
    return mode.value, bool(antialias) and mode.value in _SMOOTHED


def resize(
    img: Tensor, size: Sequence[int], mode: InterpolationMode, antialias: Any = True, v2: bool = False
) -> Tensor:
    check(img)
    return geometry.resize(img, list(size), *_resizing(mode, antialias), v2)


def resized_crop(
    img: Tensor,
    box: tuple[int, int, int, int],
    size: Sequence[int],
    mode: InterpolationMode,
    antialias: Any = True,
    v2: bool = False,
) -> Tensor:
    check(img)
    return geometry.resized_crop(img, box, list(size), *_resizing(mode, antialias), v2)


def pad(img: Tensor, padding: tuple[int, int, int, int], fill: Any, padding_mode: str) -> Tensor:
    check(img)
    if isinstance(fill, list | tuple):
        if len(fill) == 1:
            fill = fill[0]
        elif len(fill) != img.shape[-3]:
            raise ValueError(
                f"fill has {len(fill)} numbers, but the image {img.shape[-3]} channels: give one for each, or one"
            )
        elif padding_mode != "constant":
            raise ValueError(f"Padding mode '{padding_mode}' is not supported if fill is not scalar")
    return geometry.pad(img, padding, 0 if fill is None else fill, padding_mode)


def _sampling(mode: InterpolationMode) -> str:
    if mode.value not in ("nearest", "bilinear"):
        raise ValueError(f"Interpolation mode '{mode.value}' is unsupported with Tensor input")
    return mode.value


def affine(img: Tensor, matrix: Sequence[float], mode: InterpolationMode, fill: Any) -> Tensor:
    check(img)
    return geometry.affine(img, matrix, _sampling(mode), fill)


def rotate(img: Tensor, matrix: Sequence[float], mode: InterpolationMode, expand: bool, fill: Any) -> Tensor:
    check(img)
    return geometry.rotate(img, matrix, _sampling(mode), expand, fill)


def perspective(img: Tensor, coefficients: Sequence[float], mode: InterpolationMode, fill: Any) -> Tensor:
    check(img)
    return geometry.perspective(img, coefficients, _sampling(mode), fill)


def elastic(img: Tensor, displacement: Tensor, mode: InterpolationMode, fill: Any) -> Tensor:
    check(img)
    geometry.check_displacement(displacement, img.shape[-2], img.shape[-1])
    return geometry.elastic(img, displacement, _sampling(mode), fill)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool) -> Tensor:
    check(img)
    value = v if v.dtype == img.dtype else v.to(img.dtype)
    erased = geometry.erase(img, value, i, j, h, w)
    return img.copy_(erased) if inplace else erased


def normalize(img: Tensor, mean: Any, std: Any, inplace: bool, v2: bool = False) -> Tensor:
    """Normalize an image. Of one channel v2 makes as many as there are means, unless that is in place."""
    check(img)
    if not img.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {img.dtype}.")
    if img.ndim < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {img.size()}"
        )
    mean, std = _numbers(mean), _numbers(std)
    if not all(np.asarray(std, img.dtype.np)):
        raise ValueError(
            f"std evaluated to zero after conversion to {img.dtype}, leading to division by zero."
        )
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, img.shape[-3]) and img.shape[-3] != 1:
            raise RuntimeError(
                f"The size of tensor a ({img.shape[-3]}) must match the size of tensor b ({len(values)}) at "
                f"non-singleton dimension {img.ndim - 3}: {name} has a number for each channel, or one for all"
            )
    *outer, channels, height, width = img.shape
    most = max(channels, len(mean)) if v2 and not inplace else channels
    for values in (mean, std):
        if len(values) not in (1, most):
            raise RuntimeError(
                f"output with shape {[*outer, most, height, width]} doesn't match the broadcast shape "
                f"{[*outer, len(values), height, width]}"
            )
    out = color.normalize(img, mean, std)
    return img.copy_(out) if inplace else out


def _numbers(values: Any) -> tuple[float, ...]:
    """A number, several, or a tensor of them, as a tuple."""
    values = values.tolist() if isinstance(values, Tensor | np.ndarray) else values
    return tuple(map(float, values)) if isinstance(values, list | tuple) else (float(values),)


def convert_image_dtype(img: Tensor, dtype: Any, v2: bool = False) -> Tensor:
    wide = {torch.float32: (torch.int32, torch.int64), torch.float64: (torch.int64,)}
    if dtype in wide.get(img.dtype, ()):
        raise RuntimeError(f"The cast from {img.dtype} to {dtype} cannot be performed safely.")
    return img if img.dtype == dtype else color.convert_dtype(img, dtype.np, v2)


def adjust_brightness(img: Tensor, factor: float) -> Tensor:
    factor = _checked_factor("brightness", factor)
    _check_channels(img)
    return color.adjust_brightness(img, factor)


def adjust_contrast(img: Tensor, factor: float, v2: bool = False) -> Tensor:
    factor = _checked_factor("contrast", factor)
    _check_channels(img, (3, 1))
    return color.adjust_contrast(img, factor, v2)


def adjust_saturation(img: Tensor, factor: float, v2: bool = False) -> Tensor:
    factor = _checked_factor("saturation", factor)
    _check_channels(img)
    return color.adjust_saturation(img, factor, v2)


def adjust_hue(img: Tensor, factor: float) -> Tensor:
    _check_channels(img)
    return color.adjust_hue(img, float(factor))


def adjust_sharpness(img: Tensor, factor: float, v2: bool = False) -> Tensor:
    factor = _checked_factor("sharpness", factor)
    _check_channels(img)
    return color.adjust_sharpness(img, factor, v2)


def adjust_gamma(img: Tensor, gamma: float, gain: float) -> Tensor:
    _check_channels(img)
    return color.adjust_gamma(img, float(gamma), float(gain))


def rgb_to_grayscale(img: Tensor, num_output_channels: int, v2: bool = False) -> Tensor:
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    _check_channels(img)
    return color.rgb_to_grayscale(img, num_output_channels, v2)


def invert(img: Tensor) -> Tensor:
    _check_channels(img)
    return color.invert(img)


def posterize(img: Tensor, bits: int) -> Tensor:
    _check_bytes(img)
    return color.posterize(img, int(bits))


def solarize(img: Tensor, threshold: float) -> Tensor:
    _check_channels(img)
    bound = color.largest(img.dtype.np)
    if threshold > bound:
        raise TypeError("Threshold should be less than bound of img.")
    real = (
        img.dtype if img.is_floating_point() else torch.get_default_dtype()
    )  # in which PyTorch compares them
    return color.solarize(img, float(np.asarray(threshold, real.np)))


def autocontrast(img: Tensor, v2: bool = False) -> Tensor:
    _check_channels(img)
    return color.autocontrast(img, v2)


def equalize(img: Tensor) -> Tensor:
    _check_bytes(img)
    return color.equalize(img)


def _check_bytes(img: Tensor) -> None:
    _check_channels(img)
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")


def gaussian_blur(img: Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Tensor:
    check(img)
    return color.gaussian_blur(img, list(kernel_size), [float(s) for s in sigma])
