"""How far apart two runs are: in units in the last place, and relative to the largest value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .problems import Arrays
from .sides import DTYPES

__all__ = ["Gap", "gap", "relative", "spacing", "ulps"]


class Gap(NamedTuple):
    """The difference of two sets of tensors.

    Attributes:
        ulps: the largest difference in units in the last place.
        relative: the largest difference over the largest size in its tensor.
        where: the name of the tensor with the largest relative difference.
    """

    ulps: float
    relative: float
    where: str


def spacing(size: np.ndarray, dtype: str) -> np.ndarray:
    """The distance of neighbouring numbers of a dtype at a size (at least that at the smallest normal number)."""
    kind = DTYPES[dtype]
    if dtype == "bfloat16":
        exponent = np.floor(np.log2(np.maximum(size, 2.0**-126)))
        return 2.0 ** (exponent - 7)
    info = np.finfo(kind)
    return np.spacing(np.maximum(size, float(info.tiny)).astype(kind)).astype(np.float64)


def ulps(a: np.ndarray, b: np.ndarray, before: np.ndarray, dtype: str) -> np.ndarray:
    """Element by element, how many units in the last place ``a`` and ``b`` are apart.

    The unit is that of the largest of the value before the step, the values after it and the step itself: where
    a step ends near zero, the digits are lost to its start, whoever computed it.
    """
    size = np.maximum.reduce([np.abs(a), np.abs(b), np.abs(before), np.abs(a - before)])
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b) / spacing(size, dtype)
    apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, apart)
    return np.where(np.isnan(apart), np.inf, apart)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference over the largest value of ``a`` (0 if they are equal, nan and infinity included)."""
    if a.shape != b.shape:
        return float("inf")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if np.all(same):
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        apart = float(np.max(np.where(same, 0.0, np.abs(a - b))))
    size = float(np.max(np.abs(a)))
    ratio = apart / size if size else float("inf")
    return ratio if np.isfinite(ratio) else float("inf")


def gap(a: Arrays, b: Arrays, before: Arrays, dtype: str) -> Gap:
    """The difference of two sets of parameters after a step from ``before``."""
    most, worst, where = 0.0, 0.0, ""
    for name, value in a.items():
        most = max(most, float(np.max(ulps(value, b[name], before[name], dtype), initial=0.0)))
        r = relative(value, b[name]) if value.size else 0.0
        if r > worst:
            worst, where = r, name
    return Gap(most, worst, where)
