"""Functions of the colors of images; `functional` has them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor

from . import _functional_pil, _functional_tensor
from ._convert import pil_to_tensor, to_pil_image

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation", "adjust_sharpness",
    "autocontrast", "by_tensor", "convert_image_dtype", "equalize", "gaussian_blur", "home", "invert", "normalize",
    "permute_channels", "posterize", "rgb_to_grayscale", "solarize", "to_grayscale",
]  # fmt: skip


def home(img: Any) -> Any:
    """The module that has the functions for such an image."""
    return _functional_tensor if isinstance(img, Tensor) else _functional_pil


def by_tensor(img: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    """What Pillow cannot do: by way of a tensor."""
    if isinstance(img, Tensor):
        return fn(img)
    _functional_pil.check(img)
    return to_pil_image(fn(pil_to_tensor(img)), mode=img.mode)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Make an image brighter: 0 gives black, 1 the image."""
    return home(img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Give an image more contrast: 0 gives gray, 1 the image."""
    return home(img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Give an image stronger colors: 0 gives shades of gray, 1 the image."""
    return home(img).adjust_saturation(img, saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Make an image sharper: 0 gives a blurred one, 1 the image."""
    return home(img).adjust_sharpness(img, sharpness_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Turn the hues: -0.5 and 0.5 give the complementary colors, 0 the image.

    Raises:
        ValueError: the factor is not from -0.5 to 0.5.
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return home(img).adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """The power law: ``gain * img ** gamma`` of values from 0 to 1."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    return home(img).adjust_gamma(img, gamma, gain)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Shades of gray, in one channel or in three that are equal."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    return home(img).rgb_to_grayscale(img, num_output_channels)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """`rgb_to_grayscale` of Pillow images."""
    if isinstance(img, Tensor):
        raise TypeError("Input should be PIL Image")
    return rgb_to_grayscale(img, num_output_channels)


def permute_channels(img: Any, permutation: Sequence[int]) -> Any:
    """The channels in another order: ``permutation[i]`` is that which becomes channel i."""
    if isinstance(img, Tensor):
        return _functional_tensor.permute_channels(img, permutation)
    return to_pil_image(_functional_tensor.permute_channels(pil_to_tensor(img), permutation))


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Blur an image.

    Args:
        kernel_size: the width and the height of the average, odd numbers, or one for both.
        sigma: the standard deviation along x and y, or one for both. Default: 0.15 * kernel_size + 0.35.
    """
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(sizes)}")
    for size in sizes:
        if size % 2 == 0 or size < 0:
            raise ValueError(f"kernel_size should have odd and positive integers. Got {sizes}")
    if sigma is None:
        sigma = [size * 0.15 + 0.35 for size in sizes]
    sigmas = [float(sigma)] * 2 if isinstance(sigma, int | float) else list(sigma)
    sigmas = sigmas * 2 if len(sigmas) == 1 else sigmas
    if len(sigmas) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigmas)}")
    for s in sigmas:
        if s <= 0.0:
            raise ValueError(f"sigma should have positive values. Got {sigmas}")
    return by_tensor(img, lambda t: _functional_tensor.gaussian_blur(t, sizes, sigmas))


def invert(img: Any) -> Any:
    """The negative."""
    return home(img).invert(img)


def posterize(img: Any, bits: int) -> Any:
    """Keep the first ``bits`` (0 to 8) of each byte."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    return home(img).posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Invert what is not darker than a threshold."""
    return home(img).solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    """Stretch each channel to the whole range."""
    return home(img).autocontrast(img)


def equalize(img: Any) -> Any:
    """Make all shades of a channel equally frequent."""
    return home(img).equalize(img)


def convert_image_dtype(image: Tensor, dtype: Any = torch.float32) -> Tensor:
    """Convert a tensor to another dtype, and its values to that dtype's range (a float's is 0 to 1).

    Raises:
        TypeError: it is no tensor.
        RuntimeError: the dtype holds more integers than the float dtype can tell apart.
    """
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    return _functional_tensor.convert_image_dtype(image, dtype)


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """Subtract a mean from each channel of a float tensor, and divide it by a standard deviation.

    Args:
        tensor: (..., C, H, W).
        mean, std: a number for each channel.
        inplace: whether to write the result to the tensor.

    Raises:
        TypeError: it is no tensor, or not of a float dtype.
        ValueError: a standard deviation is zero, or the tensor is no image.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.normalize.html
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    return _functional_tensor.normalize(tensor, mean, std, inplace)
