"""The difference of two runs: in units in the last place, and relative to the largest value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._problems import Arrays
from ._sides import DTYPES

__all__ = ["Gap", "Place", "element", "gap", "relative", "spacing", "ulps", "worst"]


class Place(NamedTuple):
    """The place of the largest difference of two sets of tensors.

    Attributes:
        name: the tensor's name.
        spot: the element's index; None if the shapes differ or one side lacks the tensor.
        ours, theirs: the two values; without an index, descriptions of the two sides.
    """

    name: str
    spot: tuple[int, ...] | None
    ours: Any
    theirs: Any

    def text(self, labels: tuple[str, str], dtype: str) -> str:
        """The place as one line, such as ``weight[2, 0]: 0.25 ours, 0.5 torch``."""
        name = element(self.name, self.spot or ())
        form = ".17g" if dtype == "float64" else ".9g"
        ours, theirs = (v if isinstance(v, str) else format(v, form) for v in (self.ours, self.theirs))
        return f"{name}: {ours} {labels[0]}, {theirs} {labels[1]}"


class Gap(NamedTuple):
    """The difference of two sets of tensors.

    Attributes:
        ulps: the largest difference in units in the last place, at `most`.
        relative: the largest difference over the largest size in its tensor, at `at`.
    """

    ulps: float
    relative: float
    most: Place | None
    at: Place | None


def element(name: str, index: tuple[int, ...]) -> str:
    """An element as in Python: ``weight[2, 0]``."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def spacing(size: np.ndarray, dtype: str) -> np.ndarray:
    """The spacing of a dtype's numbers at ``size``, and at least that at its smallest normal number."""
    kind = DTYPES[dtype]
    if dtype == "bfloat16":
        exponent = np.floor(np.log2(np.maximum(size, 2.0**-126)))
        return 2.0 ** (exponent - 7)
    info = np.finfo(kind)
    return np.spacing(np.maximum(size, float(info.tiny)).astype(kind)).astype(np.float64)


def ulps(a: np.ndarray, b: np.ndarray, before: np.ndarray, dtype: str) -> np.ndarray:
    """The elementwise difference of ``a`` and ``b`` in units in the last place.

    The unit is that of the largest of the value before the step, the values after it and the step itself, since any
    step that ends near zero loses the digits of its start.
    """
    size = np.maximum.reduce([np.abs(a), np.abs(b), np.abs(before), np.abs(a - before)])
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b) / spacing(size, dtype)
    apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, apart)
    return np.where(np.isnan(apart), np.inf, apart)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest value of ``a``; 0 if both are equal, also at nan and inf."""
    return worst("", a, b)[0]


def worst(name: str, a: np.ndarray | None, b: np.ndarray | None) -> tuple[float, Place | None]:
    """The relative difference of ``a`` (theirs) and ``b`` (ours) and its place; inf if they are not comparable."""
    if a is None or b is None or a.shape != b.shape:
        kinds = ["none" if v is None else f"shape {v.shape}" for v in (b, a)]
        return float("inf"), Place(name, None, *kinds)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if np.all(same):
        return 0.0, None
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    apart = np.where(np.isnan(apart), np.inf, apart)
    place = _place(name, apart, b, a)
    size = float(np.max(np.abs(a)))
    ratio = float(np.max(apart)) / size if size else float("inf")
    return (ratio if np.isfinite(ratio) else float("inf")), place


def _place(name: str, apart: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> Place:
    index = tuple(map(int, np.unravel_index(np.argmax(apart), apart.shape)))
    return Place(name, index, ours[index].item(), theirs[index].item())


def gap(a: Arrays, b: Arrays, before: Arrays, dtype: str) -> Gap:
    """The difference of two sets of parameters after a step from ``before``."""
    found = Gap(0.0, 0.0, None, None)
    for name, value in a.items():
        if not value.size:
            continue
        apart = ulps(value, b[name], before[name], dtype)
        most = float(np.max(apart))
        if most > found.ulps:
            found = found._replace(ulps=most, most=_place(name, apart, b[name], value))
        ratio, place = worst(name, value, b[name])
        if ratio > found.relative:
            found = found._replace(relative=ratio, at=place)
    return found
