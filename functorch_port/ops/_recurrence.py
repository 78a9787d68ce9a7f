"""Recurrent layers: all steps of one layer in one direction, and their derivative.

The product with the input is made for all steps at once before, and the derivative has its own rule, so that the
weights' gradients are one product each after the steps instead of a sum inside them. The steps are one `lax.scan`, and
in programs for a CPU, where oneDNN is installed, one call (`_cpu.native.recurrence`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

from .._base import lowering as primitives
from .._cpu.native import recurrence
from .._cpu.native.recurrence import Recurrence
from ._cells import CELLS, Cell, Gates, States

__all__ = ["recur", "times"]


def times(x: jax.Array, w: jax.Array) -> jax.Array:
    """``x @ w.T``."""
    from ._product import multiply

    return multiply(x, w, transposed=True)


def _split(x: jax.Array, n: int) -> list[jax.Array]:
    return jnp.split(x, n, axis=-1)


def _chosen(mask: Any, new: States, old: States) -> States:
    """The new states where the sequence goes on, the old ones where it has ended."""
    if mask is None:
        return new
    return tuple(jnp.where(mask[:, None], n, o) for n, o in zip(new, old, strict=True))


def _forward(
    mode: str, reverse: bool, keep: bool, x: Any, states: States, w: Any, b: Any, w_hr: Any, mask: Any
) -> tuple[States, Any]:
    """The last states, and of all steps the outputs or (``keep``) the states, what the derivative needs, and with
    ``w_hr`` the outputs before it.
    """
    cell = CELLS[mode]

    def body(old: States, xs: Any) -> tuple[States, Any]:
        p = times(old[0], w)
        p = p if b is None else p + b
        new, kept = cell.step(_split(xs[0], cell.gates), _split(p, cell.gates), old)
        unprojected = new[0]
        if w_hr is not None:
            new = (times(new[0], w_hr), *new[1:])
        new = _chosen(xs[1], new, old)
        return new, (new, kept, unprojected if w_hr is not None else None) if keep else new[0]

    return lax.scan(body, states, (x, mask), reverse=reverse)


def _tangents(
    mode: str, reverse: bool, before: States, after: States, kept: Gates, w: Any, alone: Gates, gates: Any, d: States,
    w_hr: Any = None, projected: Any = None, mask: Any = None,
) -> tuple[States, jax.Array]:  # fmt: skip
    """The tangents of the last states and of all steps' outputs; linear in ``alone``, ``gates``, ``d``, ``projected``.

    Args:
        before, after, kept: what the steps started from, came to, and kept.
        alone, gates: the tangents of all steps, gathered.
        d: those of the first states.
        projected: the part of the outputs' tangents that comes from the tangent of ``w_hr``.
    """
    cell = CELLS[mode]

    def body(old: States, xs: Any) -> tuple[States, jax.Array]:
        slopes, alone, gates, projected, mask = xs
        new = cell.tangent(slopes, alone, _split(gates + times(old[0], w), cell.gates), old)
        if w_hr is not None:
            new = (times(new[0], w_hr) + projected, *new[1:])
        new = _chosen(mask, new, old)
        return new, new[0]

    slopes = cell.slopes(kept, before, after)
    return lax.scan(body, d, (slopes, alone, gates, projected, mask), reverse=reverse)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def recur(
    mode: str, reverse: bool, x: Any, states: States, w: Any, b: Any, w_hr: Any, mask: Any
) -> tuple[jax.Array, States]:
    """(outputs of all steps, last states).

    Args:
        mode: the cell, a key of `CELLS`.
        reverse: go from the last step to the first.
        x: (T, N, gates), the input's product with its weight.
        states: the first states, (N, size) each.
        w, b: (gates, size) and (gates) or None, for the state.
        w_hr: (projected size, size) or None, the projection of the output.
        mask: (T, N) of bools, False where a sequence has ended; or None.
    """
    if _suits_kernel(mode, x, states, w_hr, mask):
        outputs, *last = _forward_p.bind(*_flat(x, states, w, b), mode=mode, reverse=reverse, keep=False)
        return outputs, tuple(last)
    last, outputs = _forward(mode, reverse, False, x, states, w, b, w_hr, mask)
    return outputs, last


@recur.defjvp
def _recur_jvp(mode: str, reverse: bool, primals: Any, tangents: Any) -> Any:
    x, states, w, b, w_hr, mask = primals
    dx, dstates, dw, db, dw_hr, _ = tangents
    cell = CELLS[mode]
    kernel = _suits_kernel(mode, x, states, w_hr, mask)
    if kernel:
        made = _forward_p.bind(*_flat(x, states, w, b), mode=mode, reverse=reverse, keep=True)
        after, kept, last = _cut(made, cell.states, cell.kept)
    else:
        last, (after, kept, unprojected) = _forward(mode, reverse, True, x, states, w, b, w_hr, mask)
    before = tuple(_shifted(first, all_, reverse) for first, all_ in zip(states, after, strict=True))
    dp = times(before[0], dw)
    alone, gates = _gathered(cell, dx, dp if b is None else dp + db)
    if kernel:
        given = *before, *after, *kept, w, *alone, gates, *dstates
        douts, *dlast = _tangents_p.bind(*given, mode=mode, reverse=reverse)
        return (after[0], last), (douts, tuple(dlast))
    projected = None if w_hr is None else times(unprojected, dw_hr)
    how = w_hr, projected, mask
    dlast, douts = _tangents(mode, reverse, before, after, kept, w, alone, gates, dstates, *how)
    return (after[0], last), (douts, dlast)


def _gathered(cell: Cell, dx: Any, dp: Any) -> tuple[Gates, Any]:
    if cell.gather is None:
        return (), dx + dp
    alone, gates = cell.gather(_split(dx, cell.gates), _split(dp, cell.gates))
    return alone, jnp.concatenate(gates, -1)


def _shifted(first: jax.Array, states: jax.Array, reverse: bool) -> jax.Array:
    """The states that the steps started from."""
    return jnp.concatenate([states[1:], first[None]] if reverse else [first[None], states[:-1]])


# ------------------------------------------------------------------ one call for all steps, on a CPU


def _suits_kernel(mode: str, x: Any, states: States, w_hr: Any, mask: Any) -> bool:
    if w_hr is not None or mask is not None:
        return False
    return recurrence.suits(x.shape[0], *states[0].shape, CELLS[mode].gates, x, *states)


def _flat(x: Any, states: States, w: Any, b: Any) -> list[Any]:
    return [x, *([] if b is None else [b]), *states, w]


def _cut(values: Sequence[Any], *counts: int) -> list[Any]:
    """So many values each, and the rest."""
    parts, at = [], 0
    for count in counts:
        parts.append(tuple(values[at : at + count]))
        at += count
    return [*parts, tuple(values[at:])]


def _like(a: Any, *shape: int) -> jax.core.ShapedArray:
    return jax.core.ShapedArray(shape, a.dtype)


def _defined(
    name: str, shapes: Callable[..., Any], by_xla: Callable[..., Any], on_cpu: Callable[..., Any]
) -> Primitive:
    """A primitive that XLA computes but for programs for a CPU, where ``on_cpu`` gives None if it cannot."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(shapes)

    def there(*arrays: Any, **how: Any) -> Any:
        made = on_cpu(*arrays, **how)
        return by_xla(*arrays, **how) if made is None else made

    def rule(arrays: Any, results: Any, **how: Any) -> Any:
        return mlir.lower_fun(partial(there, **how), multiple_results=True)

    primitives.define(primitive, by_xla, rule)
    return primitive


# of x, a bias for the state or none, the first states and w: the outputs and last states, or with ``keep`` of all steps
# the states and what is kept, and the last states


def _forward_by_xla(x: Any, *rest: Any, mode: str, reverse: bool, keep: bool) -> list[Any]:
    biases, states, (w,) = _cut(rest, len(rest) - 1 - CELLS[mode].states, CELLS[mode].states)
    b = biases[0] if biases else None
    last, made = _forward(mode, reverse, keep, x, states, w, b, None, None)
    return [*((*made[0], *made[1]) if keep else (made,)), *last]


def _forward_shapes(x: Any, *rest: Any, mode: str, reverse: bool, keep: bool) -> list[Any]:
    cell, state = CELLS[mode], rest[-2]
    count = cell.states + cell.kept if keep else 1
    return [_like(x, x.shape[0], *state.shape)] * count + [_like(x, *state.shape)] * cell.states


def _forward_on_cpu(x: Any, *rest: Any, mode: str, reverse: bool, keep: bool) -> Any:
    cell = CELLS[mode]
    biases, states, (w,) = _cut(rest, len(rest) - 1 - cell.states, cell.states)
    made = recurrence.run(_forward_of(mode, len(biases), keep), reverse, [x, *biases], states, w)
    return made and [*made[0], *made[1]]


@cache
def _forward_of(mode: str, biases: int, keep: bool) -> Recurrence:
    cell = CELLS[mode]

    def formula(steps: Any, whole: Any, product: Gates, states: States) -> Any:
        p = [a + b for a, b in zip(product, whole[0], strict=True)] if whole else product
        new, kept = cell.step(steps[0], p, states)
        return [[a] for a in ((*new, *kept) if keep else new[:1])], new

    results = cell.states + cell.kept if keep else 1
    gates = (cell.gates,)
    return Recurrence(formula, gates, gates * biases, cell.gates, (1,) * results, cell.states, first=True)


_forward_p = _defined("recurrence", _forward_shapes, _forward_by_xla, _forward_on_cpu)


def _forward_jvp(primals: Any, tangents: Any, **how: Any) -> Any:
    return jax.jvp(partial(_forward_by_xla, **how), primals, tuple(map(ad.instantiate_zeros, tangents)))


ad.primitive_jvps[_forward_p] = _forward_jvp


# of the states before and after all steps, what was kept, and w, the coefficients; and of the tangents that are
# gathered and those of the first states: the tangents of the outputs and of the last states


def _coefficients(mode: str, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Before, after, kept, w, and the rest."""
    cell = CELLS[mode]
    before, after, kept, (w,), rest = _cut(arrays, cell.states, cell.states, cell.kept, 1)
    return before, after, kept, w, rest


def _tangents_by_xla(*arrays: Any, mode: str, reverse: bool) -> list[Any]:
    before, after, kept, w, rest = _coefficients(mode, arrays)
    alone, (gates,), d = _cut(rest, CELLS[mode].alone, 1)
    last, outs = _tangents(mode, reverse, before, after, kept, w, alone, gates, d)
    return [outs, *last]


def _tangents_shapes(*arrays: Any, mode: str, reverse: bool) -> list[Any]:
    return [_like(a, *a.shape) for a in (arrays[0], *arrays[-CELLS[mode].states :])]


def _tangents_on_cpu(*arrays: Any, mode: str, reverse: bool) -> Any:
    before, after, kept, w, rest = _coefficients(mode, arrays)
    alone, gates, d = _cut(rest, CELLS[mode].alone, 1)
    steps = [*before, *after, *kept, *alone, *gates]
    made = recurrence.run(_tangents_of(mode), reverse, steps, d, w)
    return made and [*made[0], *made[1]]


@cache
def _tangents_of(mode: str) -> Recurrence:
    cell = CELLS[mode]
    ones = 2 * cell.states + cell.kept + cell.alone

    def formula(steps: Any, whole: Any, product: Gates, d: States) -> Any:
        *single, gates = steps
        before, after, kept, alone = _cut([a for (a,) in single], cell.states, cell.states, cell.kept)
        gates = [a + q for a, q in zip(gates, product, strict=True)]
        new = cell.tangent(cell.slopes(kept, before, after), alone, gates, d)
        return [[new[0]]], new

    return Recurrence(formula, (*(1,) * ones, cell.gates), (), cell.gates, (1,), cell.states, first=True)


_tangents_p = _defined("recurrence_tangents", _tangents_shapes, _tangents_by_xla, _tangents_on_cpu)


# the transpose: of the coefficients, and of the cotangents of the outputs and of the last states: those of the tangents
# that were gathered and of the first states


def _cotangents_by_xla(*arrays: Any, mode: str, reverse: bool) -> list[Any]:
    before, after, kept, w, (outs, *last) = _coefficients(mode, arrays)

    def tangents(alone: Gates, gates: Any, d: States) -> Any:
        return _tangents(mode, reverse, before, after, kept, w, alone, gates, d)

    cell = CELLS[mode]
    gates = jax.ShapeDtypeStruct((*outs.shape[:2], cell.gates * outs.shape[2]), outs.dtype)
    alone, state = (
        jax.ShapeDtypeStruct(outs.shape, outs.dtype),
        jax.ShapeDtypeStruct(outs.shape[1:], outs.dtype),
    )
    given = (alone,) * cell.alone, gates, (state,) * cell.states
    alone, gates, d = jax.linear_transpose(tangents, *given)((tuple(last), outs))
    return [*alone, gates, *d]


def _cotangents_shapes(*arrays: Any, mode: str, reverse: bool) -> list[Any]:
    cell, x = CELLS[mode], arrays[0]
    steps, batch, units = x.shape
    gates = _like(x, steps, batch, cell.gates * units)
    return [_like(x, *x.shape)] * cell.alone + [gates] + [_like(x, batch, units)] * cell.states


def _cotangents_on_cpu(*arrays: Any, mode: str, reverse: bool) -> Any:
    before, after, kept, w, (outs, *last) = _coefficients(mode, arrays)
    made = recurrence.run(_cotangents_of(mode), not reverse, [*before, *after, *kept, outs], last, w)
    if made is None:
        return None
    (gates, *alone), (first, *others), product = made
    return [*alone, gates, first + product, *others]


@cache
def _cotangents_of(mode: str) -> Recurrence:
    cell = CELLS[mode]

    def formula(steps: Any, whole: Any, product: Gates, last: States) -> Any:
        before, after, kept, (out,) = _cut([a for (a,) in steps], cell.states, cell.states, cell.kept)
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


_cotangents_p = _defined("recurrence_cotangents", _cotangents_shapes, _cotangents_by_xla, _cotangents_on_cpu)


def _linear(primitive: Primitive, by_xla: Callable[..., Any], transpose: Primitive) -> None:
    """Say how a primitive is differentiated that is linear in all but the coefficients, and what its transpose is."""

    def jvp(primals: Any, tangents: Any, *, mode: str, reverse: bool) -> Any:
        cell, how = CELLS[mode], {"mode": mode, "reverse": reverse}
        at = cell.coefficients
        filled = tuple(map(ad.instantiate_zeros, tangents))
        if all(type(t) is ad.Zero for t in tangents[:at]):
            return primitive.bind(*primals, **how), primitive.bind(*primals[:at], *filled[at:], **how)
        return jax.jvp(partial(by_xla, **how), primals, filled)

    def transposed(cotangents: Any, *arrays: Any, mode: str, reverse: bool) -> Any:
        at = CELLS[mode].coefficients
        filled = map(ad.instantiate_zeros, cotangents)
        return [None] * at + transpose.bind(*arrays[:at], *filled, mode=mode, reverse=reverse)

    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transposed


_linear(_tangents_p, _tangents_by_xla, _cotangents_p)
_linear(_cotangents_p, _cotangents_by_xla, _tangents_p)
