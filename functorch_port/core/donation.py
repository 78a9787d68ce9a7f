"""Which arrays may be donated to a program: those that nobody else can still see."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np

from .storage import Storage

__all__ = ["HELD", "on_one_cpu", "own"]

getrefcount = sys.getrefcount


def own(values: list[Any]) -> list[Any]:
    """The list, with a copy in place of every array that others hold besides this list and one owner.

    Places may be empty (None).
    """
    if max(map(getrefcount, values), default=0) <= HELD:
        return values
    for i, value in enumerate(values):
        if getrefcount(value) > _ALONE and value is not None:
            values[i] = jax.device_put(value, may_alias=False)
    return values


def on_one_cpu(value: Any) -> bool:
    """Whether this is an array on one CPU device alone, where a call takes the time that its memory and arrays take."""
    devices = value.sharding.device_set if isinstance(value, jax.Array) else ()
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"


def _measure_alone() -> tuple[int, int]:
    """The reference counts that `own` sees, by `map` and in its loop, of an array which only its Storage holds."""
    cell = object.__new__(Storage)  # one made as usual asks JAX for its trace, which takes time at the import
    cell._value = jax.ShapeDtypeStruct((), np.float32)
    values = [c._value for c in [cell]]
    by_map = max(map(getrefcount, values))
    for _, value in enumerate(values):
        return by_map, getrefcount(value)
    return 0, 0


#: what `map` sees of an object that a list and one owner hold, and what the loop in `own` does
HELD, _ALONE = _measure_alone()
