"""How the primitives of `ops` are computed in programs for a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir

from ..._base import lowering
from ..._base.tuning import tuning
from ...ops._cells import CELLS, Gates, States, cell_of
from ...ops._convolution import Convolution, convolution_p
from ...ops._product import multiply_p, sizes
from ...ops._recurrence import coefficients, cotangents_p, cut, forward_p, parameters, tangents_p
from . import onednn, products, recurrence, rows
from .onednn import Product
from .recurrence import Recurrence

__all__ = ["RECURRENCES", "install"]

#: what goes through the steps, as `recurrence.run` does
Run: TypeAlias = Callable[..., recurrence.Made | None]


def install() -> None:
    """Register them all."""
    rows.install()
    lowering.register(convolution_p, "cpu", _convolution, _suits_convolution)
    lowering.register(multiply_p, "cpu", _product, _suits_product, each=True)
    for primitive, way in RECURRENCES.items():
        lowering.register(primitive, "cpu", partial(_recurrence, primitive, way), _suits_recurrence)


# ------------------------------------------------------------------ convolutions, by oneDNN


def _suits_convolution(x: Any, w: Any, how: Convolution) -> bool:
    work = prod(how.output) * prod(how.weight[1:])
    return len(how.input) == 4 and work >= tuning.convolution_least and onednn.takes(x, w)


def _convolution(avals: Sequence[Any], results: Sequence[Any], *, kind: str, how: Convolution) -> Any:
    planned = onednn.plan(kind, how)
    if planned is None:
        return None
    return mlir.lower_fun(partial(onednn.call, planned, results[0].shape), multiple_results=False)


# ------------------------------------------------------------------ products, by oneDNN or by a kernel if small


def _suits_product(a: Any, b: Any, transposed: bool) -> bool:
    work = prod(a.shape) * b.shape[-2 if transposed else -1]
    if work >= tuning.product_least:
        return onednn.takes(a, b)
    is_small = work >= tuning.small_product_least and prod(a.shape[:-1]) >= tuning.small_product_rows
    return b.ndim == 2 and is_small and products.takes(a, b)


def _product(avals: Sequence[Any], results: Sequence[Any], *, left: bool, right: bool, precision: Any) -> Any:
    (result,) = results

    def rule(context: Any, *operands: Any) -> Any:
        (a, of_a, flipped_a), (b, of_b, flipped_b) = map(_behind_transpose, operands, avals)
        size = sizes(avals[0], avals[1], left, right)
        given = (*size, left != flipped_a, right != flipped_b)
        batch = prod(result.shape[:-2])
        if batch == 1 and prod(size) < tuning.product_least:
            planned = products.plan(*given)
        else:
            planned = onednn.plan_product(Product(batch, *given))

        def product(x: jax.Array, y: jax.Array) -> jax.Array:
            flips = (flipped_a, flipped_b)
            shapes = (_swapped(v.shape) if f else v.shape for v, f in zip(avals, flips, strict=True))
            return onednn.call(planned, result.shape, *map(jnp.reshape, (x, y), shapes))

        lower = mlir.lower_fun(product, multiple_results=False)
        return lower(context.replace(avals_in=[of_a, of_b]), a, b)

    return rule


def _swapped(shape: Sequence[int]) -> tuple[int, ...]:
    *batch, rows, columns = shape
    return *batch, columns, rows


def _behind_transpose(value: Any, aval: Any) -> tuple[Any, Any, bool]:
    """What is transposed, in the program that is being written, to make this value of (..., rows, columns): oneDNN
    takes it as it is. Then its value, its aval, and whether it is that. ``q @ k.mT`` of (24, 256, 64) takes 1.0 ms, and
    2.4 with a copy.
    """
    maker = _maker(value, "stablehlo.reshape")
    source = maker.operands[0] if maker else value
    shape, flipped = source.type.shape, False
    if shape[-2:] != list(aval.shape[-2:]):
        return value, aval, False
    last = len(shape) - 1
    while maker := _maker(source, "stablehlo.transpose"):
        if list(maker.attributes["permutation"]) != [*range(last - 1), last, last - 1]:
            break
        source, flipped = maker.operands[0], not flipped
    return source, jax.core.ShapedArray(tuple(source.type.shape), aval.dtype), flipped


def _maker(value: Any, name: str) -> Any:
    """The operation that makes a value, if it is called so; it has none if it is an argument."""
    owner = value.owner
    return owner if getattr(owner, "name", "") == name else None


# ------------------------------------------------------------------ recurrent layers, all steps in one call


def _suits_recurrence(mode: str, x: Any, states: States) -> bool:
    return recurrence.suits(x.shape[0], *states[0].shape, CELLS[mode].gates, x, *states)


def _recurrence(primitive: Primitive, way: Callable[..., Any], arrays: Any, results: Any, **how: Any) -> Any:
    def there(*arrays: Any) -> Any:
        made = way(recurrence.run, *arrays, **how)
        return primitive.impl(*arrays, **how) if made is None else made

    return mlir.lower_fun(there, multiple_results=True)


def _forward(run: Run, x: Any, *rest: Any, mode: str, masked: bool, reverse: bool, keep: bool) -> Any:
    going, biases, states, w = parameters(mode, masked, rest)
    made = run(_forward_of(mode, masked, len(biases), keep), reverse, [x, *going, *biases], states, w)
    return made and [*made[0], *made[1]]


@cache
def _forward_of(mode: str, masked: bool, biases: int, keep: bool) -> Recurrence:
    cell = cell_of(mode, masked)
    results = cell.states + CELLS[mode].kept if keep else 1

    def formula(steps: Any, whole: Any, product: Gates, states: States) -> Any:
        p = [a + b for a, b in zip(product, whole[0], strict=True)] if whole else product
        new, kept = cell.step([a for array in steps for a in array], p, states)
        return [[a] for a in (*new, *kept)[:results]], new

    steps, whole = (cell.gates, *(1,) * masked), (cell.gates,) * biases
    return Recurrence(formula, steps, whole, cell.gates, (1,) * results, cell.states, first=True)


def _tangents(run: Run, *arrays: Any, mode: str, masked: bool, reverse: bool) -> Any:
    before, after, kept, w, rest = coefficients(mode, masked, arrays)
    alone, gates, d = cut(rest, CELLS[mode].alone, 1)
    steps = [*before, *after, *kept, *alone, *gates]
    made = run(_tangents_of(mode, masked), reverse, steps, d, w)
    return made and [*made[0], *made[1]]


@cache
def _tangents_of(mode: str, masked: bool) -> Recurrence:
    cell = cell_of(mode, masked)
    ones = 2 * cell.states + cell.kept + cell.alone

    def formula(steps: Any, whole: Any, product: Gates, d: States) -> Any:
        *single, gates = steps
        before, after, kept, alone = cut([a for (a,) in single], cell.states, cell.states, cell.kept)
        gates = [a + q for a, q in zip(gates, product, strict=True)]
        new = cell.tangent(cell.slopes(kept, before, after), alone, gates, d)
        return [[new[0]]], new

    return Recurrence(formula, (*(1,) * ones, cell.gates), (), cell.gates, (1,), cell.states, first=True)


def _cotangents(run: Run, *arrays: Any, mode: str, masked: bool, reverse: bool) -> Any:
    before, after, kept, w, (outs, *last) = coefficients(mode, masked, arrays)
    made = run(_cotangents_of(mode, masked), not reverse, [*before, *after, *kept, outs], last, w)
    if made is None:
        return None
    (gates, *alone), (first, *others), product = made
    return [*alone, gates, first + product, *others]


@cache
def _cotangents_of(mode: str, masked: bool) -> Recurrence:
    cell = cell_of(mode, masked)

    def formula(steps: Any, whole: Any, product: Gates, last: States) -> Any:
        before, after, kept, (out,) = cut([a for (a,) in steps], cell.states, cell.states, cell.kept)
        slopes = cell.slopes(kept, before, after)

        def tangent(alone: Gates, gates: Gates, d: States) -> States:
            return cell.tangent(slopes, alone, gates, d)

        given = [(out,) * n for n in (cell.alone, cell.gates, cell.states)]
        transposed = jax.linear_transpose(tangent, *given)
        alone, gates, d = transposed((out + product[0] + last[0], *last[1:]))
        return [gates, *([a] for a in alone)], d

    steps = (1,) * cell.coefficients
    results = (cell.gates, *(1,) * cell.alone)
    return Recurrence(formula, steps, (), 1, results, cell.states, first=False)


#: what computes each primitive with a `Run`, from its arrays and parameters; it gives None if that does
RECURRENCES: dict[Primitive, Callable[..., Any]] = {
    forward_p: _forward,
    tangents_p: _tangents,
    cotangents_p: _cotangents,
}
