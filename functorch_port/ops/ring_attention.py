"""Attention of sequences that are split over devices: the parts of keys and values go round in a ring.

Each device has its part of the queries, and meets every part of the keys once. Weights are never kept: the running
maximum and sum of a row say what its softmax is, and the derivative computes them again. Which weights are dropped
follows from their places in the whole: the derivative finds it out again, and it does not depend on the devices.

References: Ring Attention with Blockwise Transformers, https://arxiv.org/abs/2310.01889; the derivative is that of
FlashAttention-2, https://arxiv.org/abs/2307.08691 (algorithm 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from .._base.meshes import within
from .._run.registry import Array, op
from ._common import wide
from .attention import _check, product_for, repeated

__all__ = ["ring_attention"]


@op("_ring_attention", where="", node="ScaledDotProductFlashAttentionBackward0", lays=True)
def ring_attention(
    query: Array,
    key: Array,
    value: Array,
    seed: Array | None,
    mesh: Any,
    axis: str,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
    dropout_p: float,
) -> Any:
    """Attention with the dimension before the last split over an axis of a `jax.sharding.Mesh`.

    Args:
        seed: two numbers of 32 bits, which say what is dropped; None: nothing.
    """
    _check(query, key, value, None, is_causal)
    if enable_gqa:
        key, value = repeated(key, query.shape[-3]), repeated(value, query.shape[-3])
    batch = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (query, key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    count, length = mesh.shape[axis], query.shape[-2]
    is_dealt = is_causal and count > 1 and length == key.shape[-2] and length % (2 * count) == 0
    ring = _Ring(mesh, axis, count, is_causal, is_dealt, factor, 0.0 if seed is None else dropout_p)
    return ring.attend(query, key, value, seed)


@dataclass(frozen=True)
class _Ring:
    """How the parts meet.

    With a causal mask the first part of a sequence sees little and the last one all. So the sequence is dealt: of 2n
    pieces each device has one from the start and one from the end, and all have as much to do.
    """

    mesh: Any
    axis: str
    count: int
    is_causal: bool
    is_dealt: bool
    scale: Any
    dropout_p: float

    def attend(self, q: Any, k: Any, v: Any, seed: Any) -> Any:
        split, whole = PartitionSpec(*[None] * (q.ndim - 2), self.axis), PartitionSpec()

        def on_parts(fn: Callable[..., Any]) -> Callable[..., Any]:
            return lambda seed, *parts: jax.shard_map(
                fn,
                mesh=within(self.mesh),
                in_specs=(whole, *[split] * len(parts)),
                out_specs=split,
                axis_names={self.axis},
                check_vma=False,
            )(seed, *parts)

        def forward(seed: Any, *qkv: Any) -> Any:
            out, kept = on_parts(self.forward)(seed, *qkv)
            return out, (seed, *kept)

        attend = jax.custom_vjp(lambda *args: forward(*args)[0])
        attend.defvjp(forward, lambda kept, ct: (None, *on_parts(self.backward)(*kept, ct)))
        return attend(seed, q, k, v)

    # -------------------------------------------------------------- dealing

    def _ways(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Where each device sends its first and its second piece: piece c to device c or, from the end, 2n - 1 - c."""
        to = lambda c: (c // 2, c if c < self.count else 2 * self.count - 1 - c)
        return [to(2 * i) for i in range(self.count)], [to(2 * i + 1) for i in range(self.count)]

    def deal(self, x: Any) -> Any:
        if not self.is_dealt:
            return x
        even, odd = self._ways()
        first, second = jnp.split(x, 2, -2)
        first, second = lax.ppermute(first, self.axis, even), lax.ppermute(second, self.axis, odd)
        return self._crossed(first, second)

    def collect(self, x: Any) -> Any:
        if not self.is_dealt:
            return x
        even, odd = self._ways()
        first, second = jnp.split(self._crossed(*jnp.split(x, 2, -2)), 2, -2)
        back = lambda pairs: [(b, a) for a, b in pairs]
        first, second = lax.ppermute(first, self.axis, back(even)), lax.ppermute(second, self.axis, back(odd))
        return jnp.concatenate([first, second], -2)

    def _crossed(self, a: Any, b: Any) -> Any:
        """On an odd device the piece from the start came second."""
        is_even = lax.axis_index(self.axis) % 2 == 0
        return jnp.concatenate([jnp.where(is_even, a, b), jnp.where(is_even, b, a)], -2)

    def _places(self, part: Any, shape: tuple[int, ...], dim: int) -> Any:
        """Where the elements of a part stand in the sequence."""
        i, size = lax.broadcasted_iota(jnp.int32, shape, dim), shape[dim]
        if not self.is_dealt:
            return part * size + i
        half = size // 2
        return jnp.where(i < half, part * half + i, (2 * self.count - 1 - part) * half + i - half)

    def _factors(self, seed: Any, q: Any, k: Any) -> Callable[..., Any]:
        """A function that gives the factors of the weights of a meeting: 0 for those that are dropped."""
        if not self.dropout_p:
            return lambda there: None
        from jax.extend.random import threefry2x32_p  # it takes 50 ms to import

        *batch, size, _ = q.shape
        heads = jnp.arange(math.prod(batch)).reshape(*batch, 1, 1)
        query = heads * self.count * size + self._places(lax.axis_index(self.axis), (size, 1), 0)
        least = jnp.uint32(min(int(self.dropout_p * 2**32), 2**32 - 1))
        factor = jnp.asarray(0 if self.dropout_p == 1 else 1 / (1 - self.dropout_p), wide(q.dtype))

        def factors(there: Any) -> Any:
            """Each weight has a number of its own, in two words: that of the query, and that of the key."""
            key = self._places(there, (k.shape[-2],), 0)
            words = jnp.broadcast_arrays(
                *seed.astype(jnp.uint32), query.astype(jnp.uint32), key.astype(jnp.uint32)
            )
            bits, _ = threefry2x32_p.bind(*words)
            return (bits >= least) * factor

        return factors

    # -------------------------------------------------------------- meeting

    def _around(
        self, size: int, others: int, meet: Callable[..., Any], first: Any, factors: Any, last: bool
    ) -> Any:
        """Have all parts meet. ``meet(carry, rows, columns, mask, factors)`` gives the carry anew, of which what moves
        goes on.

        Args:
            factors: gives those of the weights for a part that is met; None for no factors.
            last: whether it goes on after the last meeting, too: then it is home again.
        """
        here = lax.axis_index(self.axis)
        on = [(i, (i + 1) % self.count) for i in range(self.count)]
        whole = slice(None)

        def step(i: Any, carry: Any) -> Any:
            there = (here - i) % self.count
            kept = factors(there)
            if not self.is_causal:
                return meet(carry, whole, whole, None, kept)
            shape = size, others
            hidden = lambda: self._places(here, shape, 0) < self._places(there, shape, 1)
            masked = lambda c: meet(c, whole, whole, hidden(), kept)
            if not self.is_dealt:  # all of a later part is hidden
                return lax.cond((here + 1) * size > there * others, masked, lambda c: c, carry)
            before = lambda c: meet(c, whole, slice(None, others // 2), None, kept)
            after = lambda c: meet(c, slice(size // 2, None), whole, None, kept)
            which = (there >= here).astype(jnp.int32) + (there > here)
            return lax.switch(which, [before, masked, after], carry)

        def turn(i: Any, carry: Any) -> Any:
            state, moving = step(i, carry)
            return state, jax.tree.map(lambda x: lax.ppermute(x, self.axis, on), moving)

        if last:
            return lax.fori_loop(0, self.count, turn, first)
        return step(self.count - 1, lax.fori_loop(0, self.count - 1, turn, first))

    def forward(self, seed: Any, q: Any, k: Any, v: Any) -> Any:
        """The result of this part's queries; and what `backward` needs, dealt, with the logarithms of the sums of the
        rows' weights.
        """
        dtype = wide(q.dtype)
        q, k, v = map(self.deal, (q, k, v))
        q_wide = q.astype(dtype)
        product = partial(product_for, q.dtype)

        def meet(carry: Any, rows: slice, columns: slice, hidden: Any, factors: Any) -> Any:
            (most, total, out), (keys, values) = carry
            keys_wide, values_wide = (x[..., columns, :].astype(dtype) for x in (keys, values))
            scores = _hidden(product(q_wide[..., rows, :], keys_wide, transposed=True) * self.scale, hidden)
            now = jnp.maximum(most[..., rows], scores.max(-1))
            base = jnp.where(jnp.isneginf(now), 0, now)
            weights, old = jnp.exp(scores - base[..., None]), jnp.exp(most[..., rows] - base)
            total = _put(total, rows, total[..., rows] * old + weights.sum(-1), -1)
            weights = _times(weights, factors, rows, columns)
            out = _put(out, rows, out[..., rows, :] * old[..., None] + product(weights, values_wide))
            return (_put(most, rows, now, -1), total, out), (keys, values)

        state = (
            jnp.full(q.shape[:-1], -jnp.inf, dtype),
            jnp.zeros(q.shape[:-1], dtype),
            jnp.zeros((*q.shape[:-1], v.shape[-1]), dtype),
        )
        factors = self._factors(seed, q, k)
        (most, total, out), _ = self._around(
            q.shape[-2], k.shape[-2], meet, (state, (k, v)), factors, last=False
        )
        safe = jnp.where(total == 0, 1, total)
        sums = jnp.where(total == 0, jnp.inf, most + jnp.log(safe))
        out = (out / safe[..., None]).astype(q.dtype)
        return self.collect(out), (q, k, v, out, sums)

    def backward(self, seed: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, ct: Any) -> Any:
        """The gradients of this part; those of keys and values go round with them."""
        dtype = wide(q.dtype)
        q_wide, ct = q.astype(dtype), self.deal(ct).astype(dtype)
        product = partial(product_for, q.dtype)
        inner = (out.astype(dtype) * ct).sum(-1)

        def meet(carry: Any, rows: slice, columns: slice, hidden: Any, factors: Any) -> Any:
            dq, (keys, values, dk, dv) = carry
            keys_wide, values_wide = (x[..., columns, :].astype(dtype) for x in (keys, values))
            mine, slope = q_wide[..., rows, :], ct[..., rows, :]
            scores = _hidden(product(mine, keys_wide, transposed=True) * self.scale, hidden)
            weights = jnp.exp(scores - sums[..., rows, None])
            slopes = _times(product(slope, values_wide, transposed=True), factors, rows, columns)
            slopes = weights * (slopes - inner[..., rows, None])
            kept = _times(weights, factors, rows, columns)
            dv = _put(dv, columns, dv[..., columns, :] + product(kept.mT, slope))
            dk = _put(dk, columns, dk[..., columns, :] + product(slopes.mT, mine))
            return _put(dq, rows, dq[..., rows, :] + product(slopes, keys_wide)), (keys, values, dk, dv)

        moving = k, v, jnp.zeros(k.shape, dtype), jnp.zeros(v.shape, dtype)
        first = jnp.zeros(q.shape, dtype), moving
        factors = self._factors(seed, q, k)
        dq, (_, _, dk, dv) = self._around(q.shape[-2], k.shape[-2], meet, first, factors, last=True)
        found = (dq * self.scale).astype(q.dtype), (dk * self.scale).astype(k.dtype), dv.astype(v.dtype)
        return tuple([self.collect(x) for x in found])


def _put(x: Any, at: slice, part: Any, dim: int = -2) -> Any:
    """``x`` with another part. (XLA refuses the constants of ``x.at`` in a function on parts within another one.)"""
    if at == slice(None):
        return part
    return lax.dynamic_update_slice_in_dim(x, part, at.start or 0, x.ndim + dim)


def _hidden(scores: Any, hidden: Any) -> Any:
    return scores if hidden is None else jnp.where(hidden, -jnp.inf, scores)


def _times(x: Any, factors: Any, rows: slice, columns: slice) -> Any:
    return x if factors is None else x * factors[..., rows, columns]
