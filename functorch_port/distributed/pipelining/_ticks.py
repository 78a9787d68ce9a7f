"""What the stages of a pipeline do at each tick, as functions of the arrays of one stage. All run the same program.

Each function runs within `jax.shard_map` over the axis of the stages. Microbatches are (count, ...). ``Layers`` gives
what the layers of a stage make of one: from their parameters, the microbatch and its number. It also returns rows, one
for each check of values that it makes: a flag, and what the error is to tell. A stage has nothing to compute in the
first ticks and in the last ones, and computes something nevertheless: nothing of that is kept, nor is it refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["Gradients", "all_forward", "one_forward_one_backward"]

Rows = list[list[Any]]
Layers = Callable[[list[Any], Any, Any], tuple[Any, Rows]]


def all_forward(layers: Layers, own: list[Any], x: Any, axis: str) -> tuple[Any, Rows]:
    """All microbatches through all stages; the results are right in the last one.

    Stage ``s`` computes microbatch ``m`` in tick ``m + s``.
    """
    stage, last, count = lax.axis_index(axis), lax.axis_size(axis) - 1, x.shape[0]

    def tick(arrived: Any, now: Any) -> Any:
        number, given = now[0] - stage, now[1]
        y, rows = layers(own, jnp.where(stage == 0, given, arrived), number)
        return _to_next(y, axis), (y, _kept(rows, _is_one(number, count)))

    # of a real microbatch, also where nobody needs it, since zeros may have no derivative
    given = jnp.concatenate([x, jnp.broadcast_to(x[:1], (last, *x.shape[1:]))]) if last else x
    _, (y, rows) = lax.scan(tick, x[0], (jnp.arange(count + last, dtype=jnp.int32), given))
    return y[last:], rows


class Gradients(NamedTuple):
    """What `one_forward_one_backward` computes, and in which stage it is right.

    Attributes:
        losses: of the microbatches; in the last stage.
        results: of the microbatches, or None; in the last stage.
        given: gradients with respect to the microbatches, or None; in the first stage.
        own: with respect to the parameters of the stage.
        shared: with respect to those of the loss; in the last stage.
        rows: of the checks of the layers, and of the loss.
    """

    losses: Any
    results: Any
    given: Any
    own: list[Any]
    shared: list[Any]
    rows: tuple[Rows, Rows]


def one_forward_one_backward(
    layers: Layers,
    again: Layers,
    loss: Callable[[list[Any], Any, Any, Any], tuple[Any, Rows]],
    own: list[Any],
    shared: list[Any],
    x: Any,
    target: Any,
    axis: str,
    scale: float,
    with_results: bool,
    with_given: bool,
) -> Gradients:
    """Losses of all microbatches and their gradients, a forward and a backward pass in each tick.

    Of ``S`` stages, stage ``s`` takes microbatch ``m`` forward in tick ``m + s``, and back in ``m + 2 (S - 1) - s``. So
    the last one takes it back at once, and the first one has the inputs of ``2 S - 1`` microbatches at a time, however
    many there are. From these inputs the backward pass computes again what it needs.

    Args:
        again: the same as `layers`, for the backward pass.
        loss: from the parameters ``shared``, a result, the target and the number of a microbatch.
        scale: the gradients are those of the sum of the losses times this.
    """
    stage, last, count = lax.axis_index(axis), lax.axis_size(axis) - 1, x.shape[0]
    slots = 2 * last + 1

    def tick(carry: Any, now: Any) -> Any:
        (arrived, slope, ring), sums = carry
        number, old = now - stage, now - 2 * last + stage
        given = jnp.where(stage == 0, _at(x, number), arrived)
        ring = lax.dynamic_update_index_in_dim(ring, given, now % slots, 0)
        y, rows = layers(own, given, number)

        def of_result(shared: list[Any], y: Any) -> Any:
            return loss(shared, y, _at(target, number), number)

        value, pull, loss_rows = jax.vjp(of_result, shared, y, has_aux=True)
        to_shared, to_result = pull(jnp.full_like(value, scale))
        saved = lax.dynamic_index_in_dim(ring, (now - 2 * (last - stage)) % slots, 0, keepdims=False)
        _, pull, _ = jax.vjp(lambda own, x: again(own, x, old), own, saved, has_aux=True)
        to_own, to_given = pull(jnp.where(stage == last, to_result, slope))
        here, back = _is_one(number, count), _is_one(old, count)
        sums = [
            total + jnp.where(real, more, 0)
            for total, more, real in zip(
                sums, [*to_own, *to_shared], [back] * len(own) + [here] * len(shared), strict=True
            )
        ]
        out = (
            value,
            y if with_results else None,
            to_given if with_given else None,
            (_kept(rows, here), _kept(loss_rows, here & (stage == last))),
        )
        return ((_to_next(y, axis), _to_previous(to_given, axis), ring), sums), out

    ring = jnp.broadcast_to(x[0], (slots, *x.shape[1:]))
    start = (x[0], jnp.zeros_like(x[0]), ring), [jnp.zeros_like(value) for value in (*own, *shared)]
    ticks = jnp.arange(count + 2 * last, dtype=jnp.int32)
    (_, sums), (losses, results, given, rows) = lax.scan(tick, start, ticks)
    return Gradients(
        losses[last : last + count],
        results[last : last + count] if with_results else None,
        given[2 * last :] if with_given else None,
        sums[: len(own)],
        sums[len(own) :],
        rows,
    )


def _at(rows: Any, number: Any) -> Any:
    """A microbatch; the first or the last one, where a stage has nothing to do."""
    return lax.dynamic_index_in_dim(rows, jnp.clip(number, 0, rows.shape[0] - 1), 0, keepdims=False)


def _is_one(number: Any, count: int) -> Any:
    return (number >= 0) & (number < count)


def _kept(rows: Rows, real: Any) -> Rows:
    """The rows of checks, whose flags count where there was something to do."""
    return [[flag & real, *values] for flag, *values in rows]


def _to_next(x: Any, axis: str) -> Any:
    return lax.ppermute(x, axis, [(s, s + 1) for s in range(lax.axis_size(axis) - 1)])


def _to_previous(x: Any, axis: str) -> Any:
    return lax.ppermute(x, axis, [(s + 1, s) for s in range(lax.axis_size(axis) - 1)])
