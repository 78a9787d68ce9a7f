"""Checks of values: eager mode makes them at once, a compiled function at every call.

An operation says what it refuses by `refuse`: which elements are bad, as a function of arrays, and the error. The same
formula runs on numpy arrays where values are known, and in a trace on tracers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._base import meshes
from . import tracing
from .placed import brought

__all__ = ["Check", "first_of", "outside", "refuse", "some", "unknown", "xp_of"]

Tracer = jax.core.Tracer


class Check:
    """One thing that a trace found to be checked.

    Attributes:
        bad: from the values to where they are bad: an array of bools, or one.
        error: from the values to the exception.
        values: arrays.
    """

    __slots__ = ("bad", "error", "values")

    def __init__(
        self, bad: Callable[..., Any], error: Callable[..., Exception], values: Sequence[Any]
    ) -> None:
        self.bad, self.error, self.values = bad, error, values

    def flag(self) -> Any:
        """Whether anything is bad, as a 0-dim array."""
        with tracing.x64():
            return jnp.any(self.bad(*self.values))


def refuse(bad: Callable[..., Any], error: Callable[..., Exception], *values: Any) -> None:
    """Raise ``error(*values)`` if ``bad(*values)`` is true anywhere. In a trace the program is to do so.

    Args:
        bad: a function of arrays, numpy's or tracers (see `xp_of`).
        error: a function of numpy arrays.
        values: arrays or numbers. Nothing is checked where one is a shape alone.
    """
    known: list[Any] = []
    traced = spread = False
    for value in values:
        if value.__class__ is not np.ndarray:
            if isinstance(value, Tracer):
                traced = True
            elif isinstance(value, jax.ShapeDtypeStruct):
                return
            elif not meshes.is_here(value):
                spread = True  # over processes, which all compute whether it is bad
            else:
                value = np.asarray(value)
        known.append(value)
    if traced:
        if tracing.overlay:
            tracing.overlay.note_check(Check(bad, error, known))
        return
    if spread:
        if Check(bad, error, known).flag():
            raise error(*map(_whole, known))
        return
    found = bad(*known)
    if isinstance(found, Tracer):  # a number that must fit to a size that the program does not know
        tracing.overlay.note_check(Check(bad, error, known))
    elif found is not False and np.any(found):
        raise error(*known)


def _whole(value: Any) -> Any:
    """The numbers, also of an array that lies in several processes."""
    if not meshes.is_here(value):
        value = brought(value, NamedSharding(value.sharding.mesh, PartitionSpec()))
    return np.asarray(value) if isinstance(value, jax.Array) else value


def xp_of(*values: Any) -> Any:
    """`jax.numpy` if one of the values is a tracer or lies in several processes, else `numpy`."""
    return jnp if any(isinstance(v, jax.Array) for v in values) else np


def outside(index: Any, low: int, high: int) -> Any:
    """Where integers are not in ``[low, high)``."""
    if not index.size:
        return False
    if index.__class__ is np.ndarray:
        # a third of what `min` and `max` take
        if low <= index.item(index.argmin()) and index.item(index.argmax()) < high:
            return False
    wide = index.astype(np.int64) if index.dtype.itemsize < 4 else index
    return (wide < low) | (wide >= high)


# ------------------------------------------------- checks made inside of vmap, loops and branches


def some(flags: Any, *values: Any) -> Any:
    """`Check.bad` of flags that were found for every example or round."""
    return flags


def first_of(error: Callable[..., Exception]) -> Callable[..., Exception]:
    """`Check.error` where flags and values come stacked: the error of the first example or round that failed."""

    def of_first(flags: Any, *values: Any) -> Exception:
        at = int(np.argmax(flags))
        return error(*(np.asarray(v[at]) for v in values))

    return of_first


#: values to try for those that are not known; some are refused
_TRIED = (0, -1, -2, 2**31 - 1, 2**31 - 2, np.nan, np.inf)


def unknown(check: Check) -> Callable[..., Exception]:
    """`Check.error` where the values are not known any more: with question marks for the numbers that come from
    them.
    """
    bad, error, forms = check.bad, check.error, [(v.shape, v.dtype) for v in check.values]

    def masked(*_: Any) -> Exception:
        made = []
        for number in _TRIED:
            with np.errstate(all="ignore"):
                values = [np.full(shape, number, np.float64).astype(dtype) for shape, dtype in forms]
            if np.any(bad(*values)):
                made.append(error(*values))
        parts = [re.split(r"(-?\d+)", str(e)) for e in made if type(e) is type(made[0])]
        if not parts or any(len(p) != len(parts[0]) for p in parts):
            return RuntimeError("a check of values failed in a compiled function")
        return type(made[0])("".join(each[0] if len(set(each)) == 1 else "?" for each in zip(*parts)))

    return masked
