"""`lax.while_loop` with a gradient, for loops with an unknown number of iterations.

The forward pass saves the state of every ``stride``-th iteration in a fixed number of slots; when they are full, every
second one is dropped and the stride is doubled. The backward pass runs from the last iteration to the first and
recomputes the state before each from the nearest saved one: at most ``stride - 1`` iterations, none for short loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["while_loop"]

SLOTS = 64

Arrays = list[Any]


def while_loop(going: Callable[[Arrays], Any], body: Callable[[Arrays], Arrays], state: Arrays) -> Arrays:
    """`lax.while_loop` over a list of arrays, differentiable in reverse mode (once), not in forward mode."""
    body, constants = jax.closure_convert(body, state)
    going, conditions = jax.closure_convert(going, state)

    @jax.custom_vjp
    def loop(state: Arrays, constants: Arrays, conditions: Arrays) -> Arrays:
        return lax.while_loop(lambda s: going(s, *conditions), lambda s: body(s, *constants), state)

    def forward(state: Arrays, constants: Arrays, conditions: Arrays) -> tuple[Arrays, Any]:
        def step(carry: Any) -> Any:
            count, stride, now, kept = carry
            full = count == stride * SLOTS
            kept = lax.cond(full, _every_second, lambda k: k, kept)
            stride = jnp.where(full, 2 * stride, stride)
            slot = jnp.where(count % stride == 0, count // stride, SLOTS)  # past the end: not kept
            kept = [k.at[slot].set(v, mode="drop") for k, v in zip(kept, now)]
            return count + 1, stride, body(now, *constants), kept

        kept = [jnp.zeros((SLOTS, *v.shape), v.dtype) for v in state]
        start = (jnp.int32(0), jnp.int32(1), state, kept)
        count, stride, last, kept = lax.while_loop(lambda c: going(c[2], *conditions), step, start)
        return last, (count, stride, kept, constants)

    def backward(residuals: Any, gradients: Arrays) -> tuple[Any, Any, None]:
        count, stride, kept, constants = residuals
        smooth = [i for i, k in enumerate(kept) if jnp.issubdtype(k.dtype, jnp.inexact)]

        def step(carry: Any) -> Any:
            index, grads, sums = carry
            index -= 1
            slot = index // stride
            before = lax.fori_loop(
                slot * stride, index, lambda _, s: body(s, *constants), [k[slot] for k in kept]
            )

            def again(values: Arrays, constants: Arrays) -> Arrays:
                given = dict(zip(smooth, values))
                out = body([given.get(i, b) for i, b in enumerate(before)], *constants)
                return [out[i] for i in smooth]

            _, pull = jax.vjp(again, [before[i] for i in smooth], constants)
            grads, more = pull(grads)
            return index, grads, [s + m for s, m in zip(sums, more)]

        start = (count, [gradients[i] for i in smooth], [jnp.zeros_like(c) for c in constants])
        _, grads, sums = lax.while_loop(lambda c: c[0] > 0, step, start)
        given = dict(zip(smooth, grads))
        return [given.get(i) for i in range(len(kept))], sums, None

    loop.defvjp(forward, backward)
    return loop(state, list(constants), list(conditions))


def _every_second(kept: Arrays) -> Arrays:
    return [k.at[: SLOTS // 2].set(k[::2]) for k in kept]
