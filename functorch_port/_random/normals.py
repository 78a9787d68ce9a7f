"""Normal numbers of PyTorch's CPU generator in float32, made of its words by Box and Muller's method.

PyTorch's vectorised logarithm, sine and cosine are the Cephes library's polynomials with fused multiply-adds. They are
followed operation by operation, so that the results agree to the last bit.

The formula is written with numpy's functions, which go through memory for each of them. Once many numbers have been
drawn a platform may compute the same formula in a way of its own (`faster`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.tuning import tuning

__all__ = ["AT_ONCE", "HALF", "fill", "fma", "pairs", "uniform24"]

NDArray = np.ndarray[Any, np.dtype[Any]]

#: a block: so many words for radii, then as many for angles; so many cosines, then as many sines
HALF = 8
#: numbers that numpy works on at a time, so that temporaries stay in the processor's cache
AT_ONCE = 1 << 16

_drawn = 0


def faster() -> Callable[..., None] | None:
    """A function of the addresses of results and words, and of the number of blocks, the mean and the deviation; None
    where a platform has put none here.
    """
    return None


def fill(out: NDArray, words: NDArray, mean: float, std: float) -> None:
    """Make float32 numbers of as many words: of 16, 32, 48, ... of them."""
    global _drawn
    _drawn += out.size
    fast = faster() if out.size and _drawn > tuning.normals_least else None
    if fast is not None:
        fast(out.ctypes.data, words.ctypes.data, out.size // (2 * HALF), mean, std)
        return
    for start in range(0, out.size, AT_ONCE):
        given, made = (a[start : start + AT_ONCE].reshape(-1, 2, HALF) for a in (words, out))
        made[:, 0], made[:, 1] = pairs(given[:, 0], given[:, 1], np.float32(mean), np.float32(std))


# ------------------------------------------------------------- of arrays, or of what computes as they do


def uniform24(words: Any) -> Any:
    """float32 numbers in [0, 1): the low 24 bits of words."""
    return (words & np.uint32(0xFFFFFF)).view(np.int32).astype(np.float32) * np.float32(2.0**-24)


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` in float32, rounded once: the product of two such numbers is exact in float64."""
    if not isinstance(a, np.ndarray):
        return a.fma(b, c)
    return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)


def pairs(radii: Any, angles: Any, mean: Any, std: Any) -> tuple[Any, Any]:
    """Pairs of normal numbers from pairs of words."""
    radius = np.sqrt(np.float32(-2) * _log(np.float32(1) - uniform24(radii)))
    sine, cosine = _sincos(np.float32(2 * np.pi) * uniform24(angles))
    return fma(radius * cosine, std, mean), fma(radius * sine, std, mean)


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    """Horner's scheme."""
    y: Any = np.float32(coefficients[0])
    for c in coefficients[1:]:
        y = fma(x, y, np.float32(c))
    return y


_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_LN2_LOW, _LN2_HIGH = np.float32(-2.12194440e-4), np.float32(0.693359375)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_PI_4_PARTS = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


def _log(x: Any) -> Any:
    bits = np.maximum(x, np.finfo(np.float32).tiny).view(np.int32)
    exponent = ((bits >> 23) - 126).astype(np.float32)
    mantissa = ((bits & 0x7FFFFF) | 0x3F000000).view(np.float32)  # in [0.5, 1)
    small = mantissa < np.float32(math.sqrt(0.5))
    x = np.where(small, mantissa - np.float32(1) + mantissa, mantissa - np.float32(1))
    exponent = exponent - small
    square = x * x
    y = _polynomial(_LOG, x) * x
    y = fma(y, square, exponent * _LN2_LOW)
    return fma(exponent, _LN2_HIGH, x + (y - square * np.float32(0.5)))


def _sincos(x: Any) -> tuple[Any, Any]:
    """Sine and cosine of non-negative float32 numbers."""
    octant = ((x * np.float32(4 / np.pi)).astype(np.int32) + 1) & ~1
    turns = octant.astype(np.float32)
    for part in _PI_4_PARTS:
        x = fma(turns, np.float32(part), x)
    square = x * x
    near_cos = fma(_polynomial(_COS, square) * square, square, square * np.float32(-0.5)) + np.float32(1)
    near_sin = fma(_polynomial(_SIN, square) * square, x, x)
    swap = (octant & 2) != 0
    sine, cosine = np.where(swap, near_cos, near_sin), np.where(swap, near_sin, near_cos)
    return np.where((octant & 4) != 0, -sine, sine), np.where(((octant - 2) & 4) != 0, cosine, -cosine)
