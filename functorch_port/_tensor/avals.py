"""What is known of a pure function and its arguments without a run: shapes, dtypes, and which arguments it looks at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from .._array import tracing
from .._base.jaxprs import pruned

__all__ = ["NUMBERS", "aval_of", "avals_of", "looks_at"]

NUMBERS = frozenset({bool, int, float, complex})


def aval_of(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def avals_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """Shapes and dtypes of those that are no numbers."""
    kinds = [getattr(v, "aval", v) for v in values if v.__class__ not in NUMBERS]
    return tuple([(kind.shape, kind.dtype) for kind in kinds if hasattr(kind, "dtype")])


def looks_at(fn: Callable[..., Any], args: Sequence[Any], holes: Sequence[bool] = ()) -> list[bool]:
    """Which arguments the results of ``fn``, but those at ``holes``, depend on, other than on their shapes."""
    with tracing.x64():
        jaxpr = jax.make_jaxpr(fn)(*_avals(args)).jaxpr
    return pruned(jaxpr, [not hole for hole in holes] or None)[1]


def _avals(args: Sequence[Any]) -> list[Any]:
    return [aval_of(a) if hasattr(a, "dtype") else a for a in args]
