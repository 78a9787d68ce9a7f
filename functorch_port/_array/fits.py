"""Whether a dtype holds a number: PyTorch refuses one that it does not, and never wraps it or makes it infinite."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from .._base import dtypes
from .._base.promotion import result_dtype
from .refusal import refuse

__all__ = [
    "ALPHA", "ASSIGNED", "COMMON", "COMMON_FACTOR", "CONVERTED", "FACTOR", "ITEM", "OWN", "How", "check", "fits",
]  # fmt: skip


class How(NamedTuple):
    """What an operation makes of a number: one of its input's dtype, if nothing else is said.

    Attributes:
        common: of the common dtype of all arguments.
        half: of this dtype where that is half precision: what is computed in float32 takes float32, and what makes
            a tensor of the number first rounds it as it rounds every tensor, to infinity if need be.
        item: also of the number in a 0-dim tensor.
        alike: the operation refuses a float for integers by itself.
    """

    common: bool = False
    half: Any = None
    item: bool = False
    alike: bool = False


_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_HALVES = ("float16", "bfloat16")

OWN, ITEM, ASSIGNED, FACTOR = How(), How(item=True), How(half=_DOUBLE), How(half=_SINGLE)
COMMON, ALPHA, CONVERTED, COMMON_FACTOR = (
    How(True),
    How(True, alike=True),
    How(True, _DOUBLE),
    How(True, _SINGLE),
)

_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int32": "int",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>", "bool": "bool",
    "float8_e4m3fn": "c10::Float8_e4m3fn", "float8_e5m2": "c10::Float8_e5m2",
}  # fmt: skip


@cache
def _limits(np_dtype: Any) -> tuple[float, float]:
    """The smallest and the largest number of a dtype; a bool is made of any."""
    kind = dtypes.from_np(np_dtype)
    if kind is dtypes.bool_:
        return -np.inf, np.inf
    info: Any = (dtypes.finfo if kind.is_floating_point or kind.is_complex else dtypes.iinfo)(kind)
    return info.min, info.max


def fits(value: Any, np_dtype: Any) -> None:
    """Refuse a number that a dtype does not hold.

    Args:
        value: a number, or a 0-dim array.
        np_dtype: the numpy dtype that it is to be converted to.

    Raises:
        RuntimeError: if it does not fit. Negative integers wrap around in an unsigned type, as in C++.
        OverflowError: for an integer of more than 64 bits.
    """
    cls = value.__class__
    if cls is float or cls is int:
        low, high = _limits(np_dtype)
        if low <= value <= high:
            return
        kind = np_dtype.kind
        if cls is int:
            if value > 2**64 - 1:
                raise OverflowError("int too big to convert")
            if value < -(2**63):
                raise OverflowError("can't convert negative int to unsigned")
            held = kind == "u" and -high <= value < 0
        else:
            held = kind == "b" or (kind not in "iu" and (value != value or abs(value) == np.inf))
        if not held:
            raise _error(np_dtype)
    elif cls is complex or (cls is not bool and value.dtype != np_dtype):
        refuse(partial(_misfit, np_dtype), partial(_error, np_dtype), value)


def _misfit(np_dtype: Any, value: Any) -> Any:
    kind = np_dtype.kind
    if kind == "b":
        return False
    low, high = _limits(np_dtype)
    if value.dtype.kind == "c":
        bad = _misfit(np_dtype, value.real)
        return bad | (_misfit(np_dtype, value.imag) if kind == "c" else value.imag != 0)
    if kind == "u" and value.dtype.kind in "iu":
        low = -high
    x = value.astype(np.float64)
    if kind in "iu":
        return ~((x >= low) & (x <= high))
    return ((x < low) | (x > high)) & (abs(x) != np.inf)


def _error(np_dtype: Any, *_: Any) -> Exception:
    name = _NAMES.get(np_dtype.name, f"{np_dtype.name}_t")
    return RuntimeError(f"value cannot be converted to type {name} without overflow")


def check(how: How, value: Any, *arrays: Any) -> None:
    """Refuse a number that does not fit beside arrays and numbers, of which the first one is the input."""
    cls = value.__class__
    if (
        cls is not float
        and cls is not int
        and cls is not complex
        and not how.item
        and not getattr(value, "weak_type", False)
    ):
        return
    np_dtype = result_dtype(*arrays).np if how.common else arrays[0].dtype
    if how.alike and cls is float and np_dtype.kind in "biu":
        return
    fits(value, how.half if how.half is not None and np_dtype.name in _HALVES else np_dtype)
