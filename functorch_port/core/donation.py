"""Which arrays may be donated to a program: those that nobody else can still see."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np

from .storage import Storage

__all__ = ["own"]

getrefcount = sys.getrefcount


def own(values: list[Any]) -> list[Any]:
    """The list, with a copy in place of every array that others hold besides this list and one owner.

    Places may be empty (None).
    """
    for i, value in enumerate(values):
        if getrefcount(value) > _ALONE and value is not None:
            values[i] = jax.device_put(value, may_alias=False)
    return values


def _measure_alone() -> int:
    """The reference count that `own` sees of an array which, besides the list, only its Storage holds."""
    cell = Storage(jax.ShapeDtypeStruct((), np.float32))
    values = [c._value for c in [cell]]
    for _, value in enumerate(values):
        return getrefcount(value)
    return 0


_ALONE = _measure_alone()
