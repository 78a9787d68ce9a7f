"""Colors of images (..., C, H, W): kernels for numpy and JAX.

torchvision's v2 rounds a multiplication and an addition once, v1 twice. Where bytes are cut off then, this makes a
difference of 1: kernels do it as v2 does with ``fused``.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ._kernel import Array, kernel, namespace

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation", "adjust_sharpness",
    "add_scaled", "autocontrast", "convert_dtype", "equalize", "gaussian_blur", "invert", "normalize", "posterize",
    "posterize_floats", "rgb_to_grayscale", "solarize",
]  # fmt: skip


def is_float(dtype: Any) -> bool:
    """Whether it is a floating dtype, bfloat16 included."""
    return np.dtype(dtype).kind not in "biu"


def real_of(dtype: Any) -> Any:
    """The float dtype that an image is computed in."""
    return np.dtype(dtype).type if is_float(dtype) else np.float32


def largest(dtype: Any) -> int:
    """The value of white: 1, or the largest integer of the dtype."""
    if is_float(dtype) or np.dtype(dtype).kind == "b":
        return 1
    return int(np.iinfo(dtype).max)


@kernel
def normalize(x: Array, mean: tuple[float, ...], std: tuple[float, ...]):
    """Subtract a mean from each channel, and divide it by a standard deviation."""
    dtype = x.dtype
    centre, scale = (np.asarray(v, dtype).reshape(-1, 1, 1) for v in (mean, std))
    if isinstance(x, np.ndarray):
        out = np.subtract(x, centre)
        return np.divide(out, scale, out=out) if out.dtype == dtype else (out / scale).astype(dtype)
    return (x - centre) / scale


@kernel
def convert_dtype(x: Array, dtype: Any, by_product: bool = False):
    """Convert an image to another dtype, and its values to that dtype's range.

    Integers are divided by their largest one or, as v2 does it, multiplied by its reciprocal (``by_product``).
    """
    old, new = np.dtype(x.dtype), np.dtype(dtype)
    if old == new:
        return x
    if is_float(old):
        if is_float(new):
            return x.astype(new)
        wide = _wide(old)
        return (x.astype(wide) * wide(largest(new) + 1 - 1e-3)).astype(old).astype(new)
    if is_float(new):
        wide, bound = _wide(new), largest(old)
        real = x.astype(new).astype(wide)
        return (real * wide(1.0 / bound) if by_product else real / wide(bound)).astype(new)
    before, after = largest(old), largest(new)
    if before > after:
        return (x // old.type((before + 1) // (after + 1))).astype(new)
    return x.astype(new) * new.type((after + 1) // (before + 1))


def _wide(dtype: np.dtype) -> Any:
    """The float dtype in which PyTorch multiplies numbers of this one by a Python number."""
    return np.float32 if dtype.itemsize == 2 else dtype.type


def _sum(x: Any, scale: float, other: Any, fused: bool) -> Any:
    """``x + scale * other``, in float32 rounded twice or, with ``fused``, once."""
    dtype = x.dtype
    if not fused or dtype != np.float32 or not isinstance(x, np.ndarray):
        return x + dtype.type(scale) * other
    return (x + np.float64(np.float32(scale)) * other).astype(np.float32)


def blend(x: Any, other: Any, ratio: float, fused: bool = False) -> Any:
    """``ratio`` of the first image and the rest of the other one, in the range of the first."""
    xp, dtype, real = namespace(x), x.dtype, real_of(x.dtype)
    mixed = _sum(x.astype(real) * real(ratio), 1.0 - ratio, other, fused)
    return xp.clip(mixed, 0, largest(dtype)).astype(dtype)


def gray_of(x: Any, fused: bool = False) -> Any:
    """The luminance of an image in RGB, (..., 1, H, W), in the float dtype that it is computed in."""
    real = real_of(x.dtype)
    red, green, blue = (x[..., i : i + 1, :, :].astype(real) for i in range(3))
    return _sum(_sum(real(0.2989) * red, 0.587, green, fused), 0.114, blue, fused)


@kernel
def rgb_to_grayscale(x: Array, num_output_channels: int, fused: bool = False):
    """The luminance, in one channel or three."""
    if x.shape[-3] == 1 and not fused:  # v1 gives three channels to none but those that had three
        return x
    gray = gray_of(x, fused).astype(x.dtype) if x.shape[-3] == 3 else x
    if num_output_channels == 1:
        return gray
    return namespace(x).broadcast_to(gray, (*x.shape[:-3], 3, *x.shape[-2:]))


@kernel
def adjust_brightness(x: Array, factor: float):
    """Mix an image with black."""
    return blend(x, np.zeros((1,) * x.ndim, real_of(x.dtype)), factor)


@kernel
def adjust_contrast(x: Array, factor: float, fused: bool = False):
    """Mix an image with its mean luminance."""
    xp = namespace(x)
    gray = gray_of(x, fused) if x.shape[-3] == 3 else x
    if not is_float(x.dtype):
        gray = xp.floor(gray).astype(np.float32)
    return blend(x, xp.mean(gray, (-3, -2, -1), keepdims=True), factor, fused)


@kernel
def adjust_saturation(x: Array, factor: float, fused: bool = False):
    """Mix an image with its luminance."""
    if x.shape[-3] == 1:
        return x
    gray = gray_of(x, fused)
    return blend(x, gray if is_float(x.dtype) else namespace(x).floor(gray), factor, fused)


@kernel
def adjust_hue(x: Array, factor: float):
    """Turn the hues, by a part of the circle."""
    if x.shape[-3] == 1:
        return x
    dtype = x.dtype
    real = x if is_float(dtype) else convert_dtype.array(x, np.dtype(np.float32))
    turned = _turned(real, factor)
    return turned if is_float(dtype) else convert_dtype.array(turned, dtype)


def _extreme(x: Any, which: Any) -> Any:
    """The largest or smallest channel of each pixel. Of equal ones the first gets the gradient, as in PyTorch."""
    if isinstance(x, np.ndarray):
        return x.max(-3) if which is np.argmax else x.min(-3)
    return jnp.take_along_axis(x, which(x, -3, keepdims=True), -3)[..., 0, :, :]


def _turned(x: Any, factor: float) -> Any:
    """An image in RGB with other hues, by way of HSV: see https://en.wikipedia.org/wiki/HSL_and_HSV."""
    xp = namespace(x)
    real = x.dtype.type
    red, green, blue = x[..., 0, :, :], x[..., 1, :, :], x[..., 2, :, :]
    high, low = _extreme(x, xp.argmax), _extreme(x, xp.argmin)
    flat, spread = high == low, high - low
    safe = xp.where(flat, xp.ones_like(high), spread)
    to_red, to_green, to_blue = ((high - part) / safe for part in (red, green, blue))
    is_red, is_green = high == red, high == green
    angle = xp.where(
        is_red,
        to_blue - to_green,
        xp.where(is_green, real(2) + to_red - to_blue, real(4) + to_green - to_red),
    )
    hue = xp.fmod(angle / real(6) + real(1), real(1))
    saturation = spread / xp.where(flat, xp.ones_like(high), high)
    hue = (hue + real(factor)) % real(1)
    sector = xp.floor(hue * real(6))
    part = hue * real(6) - sector
    p = xp.clip(high * (1 - saturation), 0, 1)
    q = xp.clip(high * (1 - saturation * part), 0, 1)
    t = xp.clip(high * (1 - saturation * (1 - part)), 0, 1)
    index = sector.astype(np.int32) % 6
    choices = ((high, q, p, p, t, high), (t, high, high, q, p, p), (p, p, t, high, high, q))
    cases = [index == i for i in range(6)]
    return xp.stack([xp.select(cases, list(choice)) for choice in choices], -3)


@kernel
def adjust_gamma(x: Array, gamma: float, gain: float):
    """The power law, ``gain * x ** gamma``."""
    dtype = x.dtype
    real = x if is_float(dtype) else convert_dtype.array(x, np.dtype(np.float32))
    out = namespace(x).clip(real.dtype.type(gain) * real ** real.dtype.type(gamma), 0, 1)
    return out if is_float(dtype) else convert_dtype.array(out, dtype)


@kernel
def adjust_sharpness(x: Array, factor: float, fused: bool = False):
    """Mix an image with a blurred one, except at its border."""
    height, width = x.shape[-2:]
    if height <= 2 or width <= 2:
        return x
    xp, real = namespace(x), real_of(x.dtype)
    wide = x.astype(real)
    total: Any = 0
    for i in range(3):
        for j in range(3):
            weight = real(5.0 if i == j == 1 else 1.0) / real(13.0)
            total = total + weight * wide[..., i : height - 2 + i, j : width - 2 + j]
    if not is_float(x.dtype):
        total = xp.rint(total)
    blurred = _framed(total, wide)
    if not fused:
        return blend(x, blurred, factor)
    return xp.clip(_sum(wide, 1.0 - factor, blurred - wide, True), 0, largest(x.dtype)).astype(x.dtype)


def _framed(inside: Any, x: Any) -> Any:
    """An image with the outermost pixels of ``x``."""
    xp = namespace(x)
    rows = xp.concatenate([x[..., 1:-1, :1], inside, x[..., 1:-1, -1:]], -1)
    return xp.concatenate([x[..., :1, :], rows, x[..., -1:, :]], -2)


@kernel
def add_scaled(x: Array, other: Array, weight: Array):
    """``x + weight * other``, with a weight for each image of a batch."""
    scale = weight.reshape(-1, *(1,) * (other.ndim - 1))
    return x + scale * other.astype(scale.dtype)


@kernel
def invert(x: Array):
    """The negative."""
    return x.dtype.type(largest(x.dtype)) - x


@kernel
def posterize(x: Array, bits: int):
    """Keep the first bits of each integer, without its sign."""
    size = largest(x.dtype).bit_length()
    return x if bits >= size else x & x.dtype.type(((1 << bits) - 1) << (size - bits))


@kernel
def posterize_floats(x: Array, bits: int):
    """As `posterize`, of values from 0 to 1: the next smaller one of ``2 ** bits`` shades."""
    levels = 1 << bits
    shades = namespace(x).clip(namespace(x).floor(x * x.dtype.type(levels)), 0, levels - 1)
    return shades * x.dtype.type(1.0 / levels)


@kernel
def solarize(x: Array, threshold: float):
    """Invert what is not darker than a threshold."""
    return namespace(x).where(x >= threshold, invert.array(x), x)


@kernel
def autocontrast(x: Array, by_quotient: bool = False):
    """Stretch each channel to the whole range: multiply or, as v2 does it, divide (``by_quotient``)."""
    xp, dtype, real = namespace(x), x.dtype, real_of(x.dtype)
    bound = real(largest(dtype))
    low, high = (f(x, (-2, -1), keepdims=True).astype(real) for f in (xp.min, xp.max))
    same = low == high
    low = xp.where(same, xp.zeros_like(low), low)
    spread = xp.where(same, xp.full_like(high, bound), high - low)
    moved = x.astype(real) - low
    if by_quotient:
        stretched = moved / (spread * (real(1) / bound))
    else:
        stretched = moved * xp.where(same, xp.ones_like(high), bound * (real(1) / spread))
    return xp.clip(stretched, 0, bound).astype(dtype)


@kernel
def equalize(x: Array):
    """Make all shades of a channel equally frequent."""
    xp = namespace(x)
    if not x.size:
        return x
    flat = x.reshape(-1, x.shape[-2] * x.shape[-1])
    return xp.stack([_equalized(xp, channel) for channel in flat]).reshape(x.shape)


def _equalized(xp: Any, x: Any) -> Any:
    """One channel. Pillow's rule: the last shade that is there does not count for the size of a step."""
    upto = xp.searchsorted(xp.sort(x), xp.arange(256, dtype=np.uint8), side="right").astype(np.int32)
    counts = xp.diff(upto, prepend=0)
    last = counts[xp.max(x)]
    step = (x.size - last) // 255
    table = xp.clip((upto - counts + step // 2) // xp.maximum(step, 1), 0, 255).astype(np.uint8)
    return xp.where(step == 0, x, table[x])


def _gaussian(size: int, sigma: float, real: Any) -> np.ndarray:
    """The weights of a blur along one dimension."""
    half = (size - 1) * 0.5
    at = np.linspace(-half, half, size).astype(real)
    weight = np.exp(real(-0.5) * (at / real(sigma)) ** 2)
    return weight / weight.sum()


@kernel
def gaussian_blur(x: Array, kernel_size: tuple[int, int], sigma: tuple[float, float]):
    """Average with weights of a normal distribution, along one dimension after the other."""
    xp, dtype, real = namespace(x), x.dtype, real_of(x.dtype)
    out = x.astype(real)
    for axis, size, width in zip((-1, -2), kernel_size, sigma):
        half = size // 2
        pads = [(0, 0)] * x.ndim
        pads[axis] = (half, half)
        padded = xp.pad(out, pads, mode="reflect")
        length = x.shape[axis]
        total: Any = 0
        for i, weight in enumerate(_gaussian(size, width, real)):
            part = padded[..., i : i + length] if axis == -1 else padded[..., i : i + length, :]
            total = total + weight * part
        out = total
    return out if is_float(dtype) else xp.rint(out).astype(dtype)
