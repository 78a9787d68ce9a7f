"""CRC-32, the sum of a zip archive's entries, by carry-less multiplication where the processor has it.

zlib sums 1 to 2 GB in a second, which is longer than it takes to read them. A CRC is a remainder of polynomials, so 64
bytes can be folded onto the next 64 that have the same remainder, by multiplying with what x to the power of their
distance leaves (Gopal and others, Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, 2009). zlib
sums the last 16. That needs llvmlite.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..core import ffi

__all__ = ["crc32"]

#: bytes from which on machine code is made, which takes 30 ms
MANY = 64 << 20
#: bytes that are worth calling it
_FEW = 1 << 14

_summed = 0

#: Four accumulators of 16 bytes go through blocks of 64; then one goes through the other three.
_TEXT = """
declare <2 x i64> @llvm.x86.pclmulqdq(<2 x i64>, <2 x i64>, i8 immarg)

define internal <2 x i64> @folded(<2 x i64> %x, <2 x i64> %by, <2 x i64> %onto) alwaysinline
    "target-features"="+pclmul" {
  %low = call <2 x i64> @llvm.x86.pclmulqdq(<2 x i64> %x, <2 x i64> %by, i8 0)
  %high = call <2 x i64> @llvm.x86.pclmulqdq(<2 x i64> %x, <2 x i64> %by, i8 17)
  %both = xor <2 x i64> %low, %high
  %out = xor <2 x i64> %both, %onto
  ret <2 x i64> %out
}

define void @crc32_fold(ptr %data, i64 %end, i64 %start, ptr %out) "target-features"="+pclmul" {
entry:
LOADS_FIRST
  %started = insertelement <2 x i64> zeroinitializer, i64 %start, i32 0
  %a0 = xor <2 x i64> %first0, %started
  br label %loop
loop:
  %at = phi i64 [ 64, %entry ], [ %next, %loop ]
PHIS
LOADS
FOLDS
  %next = add i64 %at, 64
  %more = icmp ult i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  %one = call <2 x i64> @folded(<2 x i64> %y0, <2 x i64> NEAR, <2 x i64> %y1)
  %two = call <2 x i64> @folded(<2 x i64> %one, <2 x i64> NEAR, <2 x i64> %y2)
  %three = call <2 x i64> @folded(<2 x i64> %two, <2 x i64> NEAR, <2 x i64> %y3)
  store <2 x i64> %three, ptr %out, align 1
  ret void
}
"""
#: what x to the power of 64 and of 16 bytes, more or less half of 16, leaves
_FAR = f"<i64 {0x0154442BD4}, i64 {0x01C6E41596}>"
_NEAR = f"<i64 {0x01751997D0}, i64 {0x00CCAA009E}>"


def crc32(data: Any, start: int = 0) -> int:
    """What ``zlib.crc32`` gives, without the interpreter's lock.

    Args:
        data: a contiguous memoryview of bytes.
        start: the sum of what comes before.
    """
    global _summed
    size = len(data)
    _summed += size
    fold = _folding() if size >= _FEW and _summed >= MANY else None
    if fold is None:
        return zlib.crc32(data, start)
    return _by_folding(fold, data, start)


def _by_folding(fold: Callable[..., None], data: memoryview, start: int) -> int:
    array = np.frombuffer(data, np.uint8)  # which has an address, even if it is read-only
    whole = array.size & ~63
    rest = (ctypes.c_char * 16)()
    fold(array.ctypes.data, whole, start ^ 0xFFFFFFFF, rest)
    return zlib.crc32(data[whole:], zlib.crc32(rest, 0xFFFFFFFF))


@cache
def _folding() -> Callable[..., None] | None:
    """The function that folds 128 bytes or more, a multiple of 64, to 16; None where there is none."""
    if not ffi.compiles():
        return None
    import llvmlite.binding as llvm

    if not llvm.get_host_cpu_features().get("pclmul"):
        return None
    address = ffi.function("crc32_fold", _text())
    kinds = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)
    return ctypes.CFUNCTYPE(None, *kinds)(address)


def _text() -> str:
    first, phis, loads, folds = [], [], [], []
    for k in range(4):
        first += [
            f"  %p{k} = getelementptr i8, ptr %data, i64 {16 * k}",
            f"  %first{k} = load <2 x i64>, ptr %p{k}, align 1",
        ]
        begin = "%a0" if k == 0 else f"%first{k}"
        phis.append(f"  %x{k} = phi <2 x i64> [ {begin}, %entry ], [ %y{k}, %loop ]")
        loads += [
            f"  %at{k} = add i64 %at, {16 * k}",
            f"  %q{k} = getelementptr i8, ptr %data, i64 %at{k}",
            f"  %l{k} = load <2 x i64>, ptr %q{k}, align 1",
        ]
        folds.append(f"  %y{k} = call <2 x i64> @folded(<2 x i64> %x{k}, <2 x i64> {_FAR}, <2 x i64> %l{k})")
    text = _TEXT.replace("NEAR", _NEAR)
    for name, lines in (("LOADS_FIRST", first), ("PHIS", phis), ("LOADS", loads), ("FOLDS", folds)):
        text = text.replace(name, "\n".join(lines))
    return text
