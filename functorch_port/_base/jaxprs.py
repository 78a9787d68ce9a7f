"""Looking through jaxprs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jax.extend.core import Jaxpr, Literal

__all__ = ["count_of", "largest", "operations", "together"]


def operations(params: Iterable[Any]) -> Iterator[Any]:
    """Those of the jaxprs among these parameters of operations, and of the jaxprs within."""
    for value in params:
        jaxpr = getattr(value, "jaxpr", value)
        if isinstance(value, tuple | list):
            yield from operations(value)
        elif isinstance(jaxpr, Jaxpr):
            for eqn in jaxpr.eqns:
                yield eqn
                yield from operations(eqn.params.values())


def count_of(jaxpr: Any) -> int:
    """How many operations there are in a program."""
    return sum(1 for _ in operations([jaxpr]))


def largest(jaxpr: Any) -> int:
    """Bytes of the largest array that a program computes."""
    return max((_bytes(x) for eqn in operations([jaxpr]) for x in eqn.outvars), default=0)


def together(jaxpr: Any) -> int:
    """Bytes of the arrays that a program needs at a time, at most, if its operations come one after the other."""
    last = {x: k for k, eqn in enumerate(jaxpr.eqns) for x in eqn.invars if not isinstance(x, Literal)}
    now = most = 0
    made: dict[Any, int] = {}
    for k, eqn in enumerate(jaxpr.eqns):
        made |= {x: _bytes(x) for x in eqn.outvars}
        now += sum(map(_bytes, eqn.outvars))
        most = max(most, now)
        over = {x for x in (*eqn.invars, *eqn.outvars) if not isinstance(x, Literal) and last.get(x, -1) <= k}
        now -= sum(made.pop(x, 0) for x in over)
    return most


def _bytes(x: Any) -> int:
    return int(x.aval.size * x.aval.dtype.itemsize) if hasattr(x.aval, "dtype") else 0
