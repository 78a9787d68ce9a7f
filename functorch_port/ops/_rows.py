"""Formulas of rows of numbers, with their sums or maxima: primitives that a platform can lower to one loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad

from .._base import lowering
from .._base.tuning import tuning

__all__ = ["FORMULAS", "Formula", "transposes"]


class Formula:
    """A formula of arrays whose rows are the elements along some dimensions.

    Args:
        name: the name of the primitive for platforms that compute row by row.
        formula: ``(*arrays, dims, **how) -> list of arrays``. The first array has the full shape; the others and the
            results have it, too, or size 1 along ``dims``. Operations are elementwise, sums or maxima over ``dims``
            that keep them, or counts along a row. Equal ``how`` means the same formula.
        loop: the formula of the loop, if it differs; in a loop a maximum is NaN if one number is.
    """

    def __init__(
        self, name: str, formula: Callable[..., list[Any]], loop: Callable[..., list[Any]] | None = None
    ) -> None:
        self.formula, self.loop = formula, loop or formula
        self._shapes_of = lru_cache(tuning.cached_kinds)(
            lambda given, how: jax.eval_shape(partial(self.of_rows, **dict(how)), *given)
        )
        self.primitive = Primitive(name)
        self.primitive.multiple_results = True
        self.primitive.def_abstract_eval(self._shapes)
        lowering.define(self.primitive, self.of_rows)
        FORMULAS.append(self)

    def __call__(self, *arrays: jax.Array, dims: Sequence[int], **how: Any) -> list[jax.Array]:
        """Compute row by row if the rows are the last dimensions and the platform supports it, else by XLA."""
        x = arrays[0]
        if not self.takes(x, dims):
            return self.formula(*arrays, dims=dims, **how)
        length = prod(x.shape[x.ndim - len(dims) :])
        flat = [a.reshape(-1, length if a.shape == x.shape else 1) for a in arrays]
        kept = x.shape[: x.ndim - len(dims)] + (1,) * len(dims)
        return [
            r.reshape(x.shape if r.shape[1] == length else kept) for r in self.primitive.bind(*flat, **how)
        ]

    def takes(self, x: Any, dims: Sequence[int]) -> bool:
        """Whether the platform computes this formula row by row over ``dims`` of ``x`` in this program."""
        return lowering.has_way(self.primitive, x, dims)

    def of_rows(self, *arrays: Any, **how: Any) -> list[Any]:
        """The formula for arrays of shape (rows, n) or (rows, 1)."""
        return self.formula(*arrays, dims=(1,), **how)

    def _shapes(self, *arrays: Any, **how: Any) -> list[Any]:
        given = tuple([jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays])
        return [jax.core.ShapedArray(x.shape, x.dtype) for x in self._shapes_of(given, tuple(how.items()))]


#: all there are
FORMULAS: list[Formula] = []


def transposes(a: Formula, b: Formula) -> None:
    """Register two formulas as each other's transpose; a symmetric map is its own.

    Both are linear in their first array, have one result, and take the same other arrays.
    """
    for one, other in {a: b, b: a}.items():
        _is_linear(one, other)


def _is_linear(formula: Formula, transposed: Formula) -> None:
    def jvp(primals: Any, tangents: Any, **how: Any) -> Any:
        tangents = [ad.instantiate_zeros(t) for t in tangents]
        return jax.jvp(partial(formula.of_rows, **how), tuple(primals), tuple(tangents))

    def transpose(slopes: Any, x: Any, *others: Any, **how: Any) -> Any:
        (slope,) = slopes
        is_zero = type(slope) is ad.Zero
        made = ad.Zero(x.aval) if is_zero else transposed.primitive.bind(slope, *others, **how)[0]
        return made, *(None for _ in others)

    ad.primitive_jvps[formula.primitive] = jvp
    ad.primitive_transposes[formula.primitive] = transpose
