"""Recurrent layers: all steps of one layer in one direction, and their derivative.

The product with the input is computed for all steps at once beforehand. The derivative has its own rule, so that each
weight's gradient is one product after the steps instead of a sum inside them. The steps are one `lax.scan`, or one
primitive that a platform lowers itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad

from .._base import lowering
from ._cells import CELLS, Cell, Gates, States, cell_of
from ._product import multiply

__all__ = ["coefficients", "cotangents_p", "cut", "forward_p", "parameters", "recur", "tangents_p", "times"]


def times(x: jax.Array, w: jax.Array) -> jax.Array:
    """``x @ w.T``."""
    return multiply(x, w, transposed=True)


def _split(x: jax.Array, n: int) -> list[jax.Array]:
    return jnp.split(x, n, axis=-1)


def _chosen(mask: Any, new: States, old: States) -> States:
    """The new states where the sequence continues, the old ones where it has ended."""
    if mask is None:
        return new
    return tuple(jnp.where(mask[:, None], n, o) for n, o in zip(new, old, strict=True))


def _forward(
    mode: str, reverse: bool, keep: bool, x: Any, states: States, w: Any, b: Any, w_hr: Any, mask: Any
) -> tuple[States, Any]:
    """Run all steps; returns the last states and, of all steps, the outputs.

    With ``keep`` it returns the states of all steps instead, the values for the derivative, and the outputs before
    ``w_hr``, if there is one.
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
        before, after, kept: the states before and after each step, and the values that it kept.
        alone, gates: the tangents of all steps, from ``gather``.
        d: the tangents of the first states.
        projected: the part of the outputs' tangents from the tangent of ``w_hr``.
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
    """Run all steps of a layer; returns (outputs of all steps, last states).

    Args:
        mode: the cell, a key of `CELLS`.
        reverse: whether to run from the last step to the first.
        x: the product of the input and its weight (T, N, gates).
        states: the initial states, (N, size) each.
        w, b: the state's weight (gates, size) and bias (gates) or None.
        w_hr: the projection of the output (projected size, size), or None.
        mask: bools (T, N), False where a sequence has ended, or None.
    """
    if _is_primitive(mode, x, states, w_hr):
        outputs, *last = _bind(mode, reverse, False, x, states, w, b, _going(mask, states))
        return outputs, tuple(last)
    last, outputs = _forward(mode, reverse, False, x, states, w, b, w_hr, mask)
    return outputs, last


@recur.defjvp
def _recur_jvp(mode: str, reverse: bool, primals: Any, tangents: Any) -> Any:
    x, states, w, b, w_hr, mask = primals
    dx, dstates, dw, db, dw_hr, _ = tangents
    cell = CELLS[mode]
    one, going = _is_primitive(mode, x, states, w_hr), _going(mask, states)
    if one:
        made = _bind(mode, reverse, True, x, states, w, b, going)
        after, kept, last = cut(made, cell.states, cell.kept)
    else:
        last, (after, kept, unprojected) = _forward(mode, reverse, True, x, states, w, b, w_hr, mask)
    before = tuple(_shifted(first, all_, reverse) for first, all_ in zip(states, after, strict=True))
    dp = times(before[0], dw)
    alone, gates = _gathered(cell, dx, dp if b is None else dp + db)
    if one:
        given = *before, *after, *kept, *going, w, *alone, gates, *dstates
        douts, *dlast = tangents_p.bind(*given, mode=mode, masked=bool(going), reverse=reverse)
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
    """The states before each step."""
    return jnp.concatenate([states[1:], first[None]] if reverse else [first[None], states[:-1]])


# ------------------------------------------------------------------ one primitive for all steps


def _is_primitive(mode: str, x: Any, states: States, w_hr: Any) -> bool:
    return w_hr is None and lowering.has_way(forward_p, mode, x, states)


def _going(mask: Any, states: States) -> Gates:
    """The mask as the primitives have it: nothing, or a number for each unit of each step."""
    if mask is None:
        return ()
    state = states[0]
    return (jnp.broadcast_to(mask[..., None], (*mask.shape, state.shape[1])).astype(state.dtype),)


def _mask(going: Gates) -> Any:
    return going[0][..., 0] != 0 if going else None


def _bind(mode: str, reverse: bool, keep: bool, x: Any, states: States, w: Any, b: Any, going: Gates) -> Any:
    given = [x, *going, *([] if b is None else [b]), *states, w]
    return forward_p.bind(*given, mode=mode, masked=bool(going), reverse=reverse, keep=keep)


def cut(values: Sequence[Any], *counts: int) -> list[Any]:
    """Split ``values`` into parts of ``counts`` values, and the rest."""
    parts, at = [], 0
    for count in counts:
        parts.append(tuple(values[at : at + count]))
        at += count
    return [*parts, tuple(values[at:])]


def _like(a: Any, *shape: int) -> jax.core.ShapedArray:
    return jax.core.ShapedArray(shape, a.dtype)


def _defined(name: str, shapes: Callable[..., Any], formula: Callable[..., Any]) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(shapes)
    lowering.define(primitive, formula)
    return primitive


# of x, what tells where sequences end if they are ``masked``, a bias for the state or none, the first states and w: the
# outputs and last states, or with ``keep`` of all steps the states and what is kept, and the last states


def parameters(mode: str, masked: bool, rest: Sequence[Any]) -> tuple[Any, ...]:
    """Split the arrays after x into (what tells where sequences end, biases, states, w)."""
    states = CELLS[mode].states
    going, biases, states, (w,) = cut(rest, masked, len(rest) - 1 - masked - states, states)
    return going, biases, states, w


def _forward_by_xla(x: Any, *rest: Any, mode: str, masked: bool, reverse: bool, keep: bool) -> list[Any]:
    going, biases, states, w = parameters(mode, masked, rest)
    b = biases[0] if biases else None
    last, made = _forward(mode, reverse, keep, x, states, w, b, None, _mask(going))
    return [*((*made[0], *made[1]) if keep else (made,)), *last]


def _forward_shapes(x: Any, *rest: Any, mode: str, masked: bool, reverse: bool, keep: bool) -> list[Any]:
    cell, state = CELLS[mode], rest[-2]
    count = cell.states + cell.kept if keep else 1
    return [_like(x, x.shape[0], *state.shape)] * count + [_like(x, *state.shape)] * cell.states


forward_p = _defined("recurrence", _forward_shapes, _forward_by_xla)


def _forward_jvp(primals: Any, tangents: Any, **how: Any) -> Any:
    return jax.jvp(partial(_forward_by_xla, **how), primals, tuple(map(ad.instantiate_zeros, tangents)))


ad.primitive_jvps[forward_p] = _forward_jvp


# of the states before and after all steps, what a cell of `cell_of` kept, and w, the coefficients; and of the tangents
# that are gathered and those of the first states: the tangents of the outputs and of the last states


def coefficients(mode: str, masked: bool, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Split ``arrays`` into (before, after, kept, w, rest)."""
    cell = cell_of(mode, masked)
    before, after, kept, (w,), rest = cut(arrays, cell.states, cell.states, cell.kept, 1)
    return before, after, kept, w, rest


def _tangents_by_xla(*arrays: Any, mode: str, masked: bool, reverse: bool) -> list[Any]:
    before, after, kept, w, rest = coefficients(mode, masked, arrays)
    kept, going = cut(kept, CELLS[mode].kept)
    alone, (gates,), d = cut(rest, CELLS[mode].alone, 1)
    last, outs = _tangents(mode, reverse, before, after, kept, w, alone, gates, d, mask=_mask(going))
    return [outs, *last]


def _tangents_shapes(*arrays: Any, mode: str, masked: bool, reverse: bool) -> list[Any]:
    return [_like(a, *a.shape) for a in (arrays[0], *arrays[-CELLS[mode].states :])]


tangents_p = _defined("recurrence_tangents", _tangents_shapes, _tangents_by_xla)


# the transpose: of the coefficients, and of the cotangents of the outputs and of the last states: those of the tangents
# that were gathered and of the first states


def _cotangents_by_xla(*arrays: Any, mode: str, masked: bool, reverse: bool) -> list[Any]:
    before, after, kept, w, (outs, *last) = coefficients(mode, masked, arrays)
    cell = CELLS[mode]
    kept, going = cut(kept, cell.kept)

    def tangents(alone: Gates, gates: Any, d: States) -> Any:
        return _tangents(mode, reverse, before, after, kept, w, alone, gates, d, mask=_mask(going))

    gates = jax.ShapeDtypeStruct((*outs.shape[:2], cell.gates * outs.shape[2]), outs.dtype)
    alone, state = (
        jax.ShapeDtypeStruct(outs.shape, outs.dtype),
        jax.ShapeDtypeStruct(outs.shape[1:], outs.dtype),
    )
    given = (alone,) * cell.alone, gates, (state,) * cell.states
    alone, gates, d = jax.linear_transpose(tangents, *given)((tuple(last), outs))
    return [*alone, gates, *d]


def _cotangents_shapes(*arrays: Any, mode: str, masked: bool, reverse: bool) -> list[Any]:
    cell, x = CELLS[mode], arrays[0]
    steps, batch, units = x.shape
    gates = _like(x, steps, batch, cell.gates * units)
    return [_like(x, *x.shape)] * cell.alone + [gates] + [_like(x, batch, units)] * cell.states


cotangents_p = _defined("recurrence_cotangents", _cotangents_shapes, _cotangents_by_xla)


def _linear(primitive: Primitive, by_xla: Callable[..., Any], transpose: Primitive) -> None:
    """Register the derivative and transpose of a primitive that is linear in all but the coefficients."""

    def jvp(primals: Any, tangents: Any, *, mode: str, masked: bool, reverse: bool) -> Any:
        how = {"mode": mode, "masked": masked, "reverse": reverse}
        at = cell_of(mode, masked).coefficients
        filled = tuple(map(ad.instantiate_zeros, tangents))
        if all(type(t) is ad.Zero for t in tangents[:at]):
            return primitive.bind(*primals, **how), primitive.bind(*primals[:at], *filled[at:], **how)
        return jax.jvp(partial(by_xla, **how), primals, filled)

    def transposed(cotangents: Any, *arrays: Any, mode: str, masked: bool, reverse: bool) -> Any:
        at = cell_of(mode, masked).coefficients
        filled = map(ad.instantiate_zeros, cotangents)
        how = {"mode": mode, "masked": masked, "reverse": reverse}
        return [None] * at + transpose.bind(*arrays[:at], *filled, **how)

    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transposed


_linear(tangents_p, _tangents_by_xla, cotangents_p)
_linear(cotangents_p, _cotangents_by_xla, tangents_p)
