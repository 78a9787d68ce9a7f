"""Attention of sequences that are split over devices: the parts of keys and values go round in a ring.

Each device has its part of the queries, and meets every part of the keys once. Weights are never kept: the running
maximum and sum of a row say what its softmax is, and the derivative computes them again.

References: Ring Attention with Blockwise Transformers, https://arxiv.org/abs/2310.01889; the derivative is that of
FlashAttention-2, https://arxiv.org/abs/2307.08691 (algorithm 2).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from .._base.meshes import within
from .._run.registry import Array, op
from ._common import wide
from .attention import _check, _repeated
from .products import product

__all__ = ["ring_attention"]


@op("_ring_attention", where="", node="ScaledDotProductFlashAttentionBackward0")
def ring_attention(
    query: Array,
    key: Array,
    value: Array,
    mesh: Any,
    axis: str,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
) -> Any:
    """Attention with the dimension before the last split over an axis of a `jax.sharding.Mesh`."""
    _check(query, key, value, None, is_causal)
    if enable_gqa:
        key, value = _repeated(key, query.shape[-3]), _repeated(value, query.shape[-3])
    batch = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (query, key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    return _ring(mesh, axis, is_causal, factor)(query, key, value)


def _ring(mesh: Any, axis: str, is_causal: bool, scale: Any) -> Callable[..., Any]:
    def on_parts(fn: Callable[..., Any], like: Any) -> Callable[..., Any]:
        spec = PartitionSpec(*[None] * (like.ndim - 2), axis)
        return jax.shard_map(
            fn, mesh=within(mesh), in_specs=spec, out_specs=spec, axis_names={axis}, check_vma=False
        )

    part = functools.partial(_forward, axis, is_causal, scale)
    back = functools.partial(_backward, axis, is_causal, scale)

    @jax.custom_vjp
    def attend(q: Any, k: Any, v: Any) -> Any:
        return on_parts(part, q)(q, k, v)[0]

    def forward(q: Any, k: Any, v: Any) -> Any:
        out, sums = on_parts(part, q)(q, k, v)
        return out, (q, k, v, out, sums)

    def backward(kept: Any, ct: Any) -> Any:
        return on_parts(back, ct)(*kept, ct)

    attend.defvjp(forward, backward)
    return attend


def _masked(scores: Any, here: Any, there: Any) -> Any:
    """The scores of a part of the queries for a part of the keys, for a causal mask."""
    rows = here * scores.shape[-2] + lax.broadcasted_iota(jnp.int32, scores.shape[-2:], 0)
    columns = there * scores.shape[-1] + lax.broadcasted_iota(jnp.int32, scores.shape[-2:], 1)
    return jnp.where(rows >= columns, scores, -jnp.inf)


def _round(axis: str, is_causal: bool, q: Any, k: Any, meet: Callable[..., Any]) -> Any:
    """How many parts there are; a step, which meets the i-th one; and one after which what moves goes on.

    ``meet(state, moving, there)`` gives the state and what moves anew.
    """
    count, here = lax.axis_size(axis), lax.axis_index(axis)
    on = [(i, (i + 1) % count) for i in range(count)]

    def step(i: Any, carry: Any) -> Any:
        there = (here - i) % count
        if not is_causal:
            return meet(*carry, there)
        # all of a later part is hidden
        seen = (here + 1) * q.shape[-2] > there * k.shape[-2]
        return lax.cond(seen, lambda c: meet(*c, there), lambda c: c, carry)

    def turn(i: Any, carry: Any) -> Any:
        now, parts = step(i, carry)
        return now, jax.tree.map(lambda x: lax.ppermute(x, axis, on), parts)

    return count, step, turn


def _forward(axis: str, is_causal: bool, scale: Any, q: Any, k: Any, v: Any) -> Any:
    """The result of this part's queries, and the logarithm of the sum of each row's weights."""
    here, dtype = lax.axis_index(axis), wide(q.dtype)
    rows = q.astype(dtype) * scale

    def meet(state: Any, moving: Any, there: Any) -> Any:
        (most, total, out), (keys, values) = state, moving
        scores = product(rows, jnp.swapaxes(keys.astype(dtype), -1, -2))
        if is_causal:
            scores = _masked(scores, here, there)
        now = jnp.maximum(most, scores.max(-1))
        base = jnp.where(jnp.isneginf(now), 0, now)
        weights, old = jnp.exp(scores - base[..., None]), jnp.exp(most - base)
        out = out * old[..., None] + product(weights, values.astype(dtype))
        return (now, total * old + weights.sum(-1), out), moving

    state = (
        jnp.full(q.shape[:-1], -jnp.inf, dtype),
        jnp.zeros(q.shape[:-1], dtype),
        jnp.zeros((*q.shape[:-1], v.shape[-1]), dtype),
    )
    count, step, turn = _round(axis, is_causal, q, k, meet)
    carry = lax.fori_loop(0, count - 1, turn, (state, (k, v)))
    (most, total, out), _ = step(count - 1, carry)
    safe = jnp.where(total == 0, 1, total)
    return (out / safe[..., None]).astype(q.dtype), jnp.where(total == 0, jnp.inf, most + jnp.log(safe))


def _backward(
    axis: str, is_causal: bool, scale: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, ct: Any
) -> Any:
    """The gradients of this part; those of keys and values go round with them."""
    here, dtype = lax.axis_index(axis), wide(q.dtype)
    rows, ct = q.astype(dtype) * scale, ct.astype(dtype)
    inner = (out.astype(dtype) * ct).sum(-1)

    def meet(dq: Any, moving: Any, there: Any) -> Any:
        keys, values, dk, dv = moving
        keys_wide = keys.astype(dtype)
        scores = product(rows, jnp.swapaxes(keys_wide, -1, -2))
        if is_causal:
            scores = _masked(scores, here, there)
        weights = jnp.exp(scores - sums[..., None])
        slopes = product(ct, jnp.swapaxes(values.astype(dtype), -1, -2))
        slopes = weights * (slopes - inner[..., None])
        dv = dv + product(jnp.swapaxes(weights, -1, -2), ct)
        dk = dk + product(jnp.swapaxes(slopes, -1, -2), rows)
        return dq + product(slopes, keys_wide), (keys, values, dk, dv)

    moving = k, v, jnp.zeros(k.shape, dtype), jnp.zeros(v.shape, dtype)
    count, _, turn = _round(axis, is_causal, q, k, meet)
    dq, (_, _, dk, dv) = lax.fori_loop(0, count, turn, (jnp.zeros(q.shape, dtype), moving))
    return (dq * scale).astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)
