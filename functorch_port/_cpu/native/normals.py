"""Normal numbers of PyTorch's CPU generator in float32, made of its words by Box and Muller's method.

PyTorch's vectorised logarithm, sine and cosine are the Cephes library's polynomials with fused multiply-adds. They are
followed operation by operation, so that the results agree to the last bit.

The formula is written with numpy's functions. numpy goes through memory for each of them: 28 ms for a million numbers,
where PyTorch takes 3.4 to 4.8. So once many have been drawn the same formula becomes machine code, by `llvm.Value`:
4.3 ms, most of them for the words. That needs llvmlite.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["AT_ONCE", "fill", "fma", "uniform24"]

NDArray = np.ndarray[Any, np.dtype[Any]]

#: a block: so many words for radii, then as many for angles; so many cosines, then as many sines
_HALF = 8
#: numbers that numpy works on at a time, so that temporaries stay in the processor's cache
AT_ONCE = 1 << 16
#: numbers drawn by a process from which on there is machine code; to make it takes as long as these do by numpy
_MANY = 1 << 20

_drawn = 0


def fill(out: NDArray, words: NDArray, mean: float, std: float) -> None:
    """Make float32 numbers of as many words: of 16, 32, 48, ... of them."""
    global _drawn
    _drawn += out.size
    fast = _compiled() if out.size and _drawn > _MANY else None
    if fast is not None:
        fast(out.ctypes.data, words.ctypes.data, out.size // (2 * _HALF), mean, std)
        return
    for start in range(0, out.size, AT_ONCE):
        given, made = (a[start : start + AT_ONCE].reshape(-1, 2, _HALF) for a in (words, out))
        made[:, 0], made[:, 1] = _normals(given[:, 0], given[:, 1], np.float32(mean), np.float32(std))


# ------------------------------------------------------------- of arrays, or of `llvm.Value`s


def uniform24(words: Any) -> Any:
    """float32 numbers in [0, 1): the low 24 bits of words."""
    return (words & np.uint32(0xFFFFFF)).view(np.int32).astype(np.float32) * np.float32(2.0**-24)


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` in float32, rounded once: the product of two such numbers is exact in float64."""
    if not isinstance(a, np.ndarray):
        return a.fma(b, c)
    return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)


def _normals(radii: Any, angles: Any, mean: Any, std: Any) -> tuple[Any, Any]:
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


# ------------------------------------------------------------------------ machine code


@cache
def _compiled() -> Callable[..., None] | None:
    """The function of addresses of results and words, and of the number of blocks, the mean and the deviation; None
    without llvmlite.
    """
    from . import ffi, llvm  # most programs that draw few numbers need none of them at the start

    if not ffi.compiles():
        return None
    lines = llvm.Lines("v")
    radii, angles = (
        llvm.Value(lines, lines.add(f"load i32, ptr %{array}.at"), np.uint32) for array in ("radii", "angles")
    )
    mean, std = (llvm.Value(lines, name, np.float32) for name in ("%mean", "%std"))
    cosine, sine = _normals(radii, angles, mean, std)
    text = _FUNCTION.format(
        lines=lines, cosine=cosine.name, sine=sine.name, half=_HALF, vectors=llvm.vectors(_HALF)
    )
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_float)
    return ctypes.CFUNCTYPE(None, *kinds)(ffi.function("normals", text))


_FUNCTION = """
define void @normals(ptr noalias %out, ptr noalias %words, i64 %blocks, float %mean, float %std) {{
entry:
  br label %block
block:
  %b = phi i64 [ 0, %entry ], [ %b.next, %block.end ]
  %radii = mul i64 %b, {half}
  %first = mul i64 %radii, 2
  br label %pair
pair:
  %j = phi i64 [ 0, %block ], [ %j.next, %pair ]
  %one = add nuw nsw i64 %first, %j
  %other = add nuw nsw i64 %one, {half}
  %radii.at = getelementptr i32, ptr %words, i64 %one
  %angles.at = getelementptr i32, ptr %words, i64 %other
{lines}
  %cosines.at = getelementptr float, ptr %out, i64 %one
  %sines.at = getelementptr float, ptr %out, i64 %other
  store float {cosine}, ptr %cosines.at
  store float {sine}, ptr %sines.at
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp slt i64 %j.next, {half}
  br i1 %j.more, label %pair, label %block.end, !llvm.loop !0
block.end:
  %b.next = add nuw nsw i64 %b, 1
  %b.more = icmp slt i64 %b.next, %blocks
  br i1 %b.more, label %block, label %out.end
out.end:
  ret void
}}

{vectors}
"""
