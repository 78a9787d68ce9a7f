"""Elementwise updates of many arrays: each one loop where a backend has that, else as XLA compiles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._base import lowering
from .._base.tuning import tuning
from . import tracing

if TYPE_CHECKING:  # it takes 20 ms to import
    from jax.extend.core import Jaxpr

__all__ = ["Loops", "Wholes", "are_available", "by_xla", "current", "update", "update_or_none", "wholes_of"]

#: arrays of a tensor: a parameter, its state, its gradient
Row: TypeAlias = Sequence[Any]
#: rows, and the arrays that are joined
New: TypeAlias = tuple[Sequence[Row], Row]
#: places among a program's inputs, or its outputs
Places = tuple[int, ...]


class Wholes(NamedTuple):
    """A program that takes some arrays joined.

    Attributes:
        jaxpr: the program, with an input more for each, and an output more for those that it writes.
        written, read: their names, in the order of those inputs.
        unread: those of which it does not look at the members.
    """

    jaxpr: Jaxpr
    written: list[int]
    read: list[int]
    unread: set[int]


class Loops:
    """A backend's loops; this one has none."""

    def are_available(self) -> bool:
        """Whether there are loops for programs that are made now."""
        return False

    def run(self, fn: Any, rows: Any, written: int, numbers: Any, joined: Any = ()) -> New | None:
        """As `update`; None if there is no loop for it."""
        return None

    def wholes_of(self, jaxpr: Jaxpr, bundles: Any, reads: Any) -> Wholes:
        """As `wholes_of`."""
        return Wholes(jaxpr, [], [], set())


#: a backend sets it when it is first asked for (see `lowering.at_first_use`)
current = Loops()


def are_available() -> bool:
    """Whether there are loops for programs that are made now."""
    lowering.ready()
    return current.are_available()


def update(fn: Callable[..., Any], rows: Sequence[Row], written: int, numbers: Any, joined: Row = ()) -> New:
    """``fn(rows[i], joined[i], numbers)`` for every i. Called in a trace.

    What is overwritten is to be donated, or XLA copies.

    Args:
        fn: a function of elements, which gives the new ones of the row and of the joined arrays. The same object means
            the same function.
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


def wholes_of(
    jaxpr: Jaxpr, bundles: Mapping[int, tuple[Places, Places]], reads: Mapping[int, Places]
) -> Wholes:
    """Let loops that update all members of a bundle have it as a whole.

    Args:
        bundles: by name the places of the members among the inputs, and of their new values among the outputs.
        reads: by name the places, among the inputs, of the gradients that a bundle's members are updated with.
    """
    return current.wholes_of(jaxpr, bundles, reads)


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
