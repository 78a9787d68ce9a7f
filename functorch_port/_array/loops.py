"""Elementwise updates of many arrays: each one loop where a backend has that, else as XLA compiles them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._base import lowering
from .._base.tuning import tuning
from . import tracing

__all__ = ["Loops", "by_xla", "current", "update", "update_or_none"]

#: arrays of a tensor: a parameter, its state, its gradient
Row: TypeAlias = Sequence[Any]
#: rows, and the arrays that are joined
New: TypeAlias = tuple[Sequence[Row], Row]


class Loops:
    """A backend's loops; this one has none."""

    def run(self, fn: Any, rows: Any, written: int, numbers: Any, joined: Any = ()) -> New | None:
        """As `update`; None if there is no loop for it."""
        return None


#: a backend sets it when it is first asked for (see `lowering.at_first_use`)
current = Loops()


def update(fn: Callable[..., Any], rows: Sequence[Row], written: int, numbers: Any, joined: Row = ()) -> New:
    """``fn(rows[i], joined[i], numbers)`` for every i. Called in a trace.

    What is overwritten is to be donated, or XLA copies.

    Args:
        fn: a function of elements, which gives the new ones of the row and of the joined arrays. The same object means
            the same function, and so does an equal text ``fn.exact``, in other processes too.
        rows: for every tensor its arrays, of one shape. The shapes of tensors may differ, the types may not.
        written: how many of a row's arrays, the first ones, are overwritten with the first ones that ``fn`` gives. It
            may give more, and None for those.
        numbers: 0-dim arrays, or an array of one dimension; ``fn`` gets its elements.
        joined: arrays of one dimension with elements of all tensors, one after the other. All are overwritten.

    Returns:
        the new rows and the new joined arrays.
    """
    return update_or_none(fn, rows, written, numbers, joined) or by_xla(fn, rows, numbers, joined)


def update_or_none(
    fn: Callable[..., Any], rows: Sequence[Row], written: int, numbers: Any, joined: Row = ()
) -> New | None:
    """As `update`, or None if it is not one loop."""
    if not tracing.is_local():
        return None
    lowering.ready()
    return current.run(fn, rows, written, numbers, joined)


def by_xla(fn: Callable[..., Any], rows: Sequence[Row], numbers: Any, joined: Row = ()) -> New:
    """What `run` gives, as XLA compiles it."""
    each, numbers = _traced_once(fn), tuple(numbers)
    if not joined:
        return [each(row, (), numbers)[0] for row in rows], []
    # Barriers, or XLA puts the joining and cutting into the function's own loop, which then is several times slower.
    whole = lax.optimization_barrier(
        [jnp.concatenate([x.ravel() for x in column]) for column in zip(*rows, strict=True)]
    )
    made, new_joined = each(whole, joined, numbers)
    ends = np.cumsum([row[0].size for row in rows])[:-1].tolist()
    cut = [[None] * len(rows) if x is None else jnp.split(x, ends) for x in lax.optimization_barrier(made)]
    return [
        [x if x is None else x.reshape(row[0].shape) for x in new]
        for row, *new in zip(rows, *cut, strict=True)
    ], new_joined


@lru_cache(tuning.cached_programs)
def _traced_once(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, traced once for all arrays of one shape and type."""
    return jax.jit(fn)
