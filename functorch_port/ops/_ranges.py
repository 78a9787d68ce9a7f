"""Ranges of random integers, as a dtype can hold them."""

from __future__ import annotations

import math
import warnings

import numpy as np

from functorch_port._base import dtypes
from functorch_port._base.dtypes import dtype as DType
from functorch_port.ops._drawing import _C_NAMES, _INT64_MAX, _INT64_MIN


def _digits(d: DType) -> int:
    """Bits of a float type's significand."""
    return 1 - round(math.log2(dtypes.finfo(d).eps))


def _range(name: str, d: DType, low: int, high: int) -> tuple[int, int]:
    """[low, high) as type ``d`` can hold it; PyTorch's errors if it cannot."""
    if d.is_complex or (d.itemsize == 1 and d.is_floating_point):
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if d.is_floating_point:
        low, high = _representable_from(low, d), _representable_to(high, d)
        if low >= high:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
                f"from={low} >= to={high}"
            )
    _check_range(low, high - 1, d)
    return low, high


def _as_stored(value: int, d: DType) -> int:
    stored = float(np.asarray(value, np.float64).astype(d.np))
    return int(stored) if math.isfinite(stored) else (_INT64_MAX if stored > 0 else _INT64_MIN)


def _representable_from(low: int, d: DType) -> int:
    """The next number of the float type that is not below ``low``."""
    stored = _as_stored(low + 1, d)
    return stored + (1 << (abs(low + 1).bit_length() - _digits(d))) if stored < low else low


def _representable_to(high: int, d: DType) -> int:
    """The end of the range whose last number, rounded to the float type, is still below ``high``."""
    stored = _as_stored(high - 1, d)
    return stored - (1 << (abs(high - 1).bit_length() - _digits(d))) if stored >= high else high


def _check_range(low: int, last: int, d: DType) -> None:
    if d.is_floating_point:
        smallest, largest = -_as_limit(d), _as_limit(d)
    elif d is dtypes.bool_:
        smallest, largest = 0, 1
    else:
        info = dtypes.iinfo(d)
        smallest, largest = info.min, info.max
    for label, value in (("from", low), ("to - 1", last)):
        if not smallest <= value <= largest:
            raise RuntimeError(f"{label} is out of bounds for {_C_NAMES[d.name]}")
    if d.is_floating_point:
        digits = _digits(d)
        for label, value in (("from", low), ("to - 1", last)):
            if abs(value) > 1 << digits:
                warnings.warn(
                    f"{label} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                    f"{_C_NAMES[d.name]} can support discrete uniform distribution only within this range. This "
                    "warning will become an error in version 1.7 release, please fix the code in advance",
                    UserWarning,
                    stacklevel=5,
                )


def _as_limit(d: DType) -> int:
    return int(dtypes.finfo(d).max)
