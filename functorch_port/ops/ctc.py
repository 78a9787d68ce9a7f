"""Connectionist temporal classification: the probability of a label sequence over all its alignments.

The states are the labels with blanks around them. One `lax.scan` over time propagates the log-probabilities of the
states forward; for the gradient another one propagates them backward.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._array.refusal import refuse
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import not_implemented

_WHERE = "(while checking arguments for ctc_loss_allocate_outputs)"


def _check_lengths(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any
) -> None:
    """Check that the lengths fit the frames and the labels."""
    shapes = log_probs.shape[0], tuple(targets.shape)
    refuse(partial(_bad_lengths, *shapes), partial(_lengths_error, *shapes), input_lengths, target_lengths)


def _bad_lengths(time: int, shape: tuple[int, ...], frames: Any, labels: Any) -> Any:
    bad = (labels < 0).any() | ((frames < 0) | (frames > time)).any()
    if len(shape) == 1:
        bad = bad | (labels.sum() != shape[0])
    return bad | (labels > shape[1]).any() if len(shape) == 2 else bad


def _lengths_error(time: int, shape: tuple[int, ...], frames: Any, labels: Any) -> Exception:
    for what, values in (("target_lengths", labels), ("input_lengths", frames)):
        if values.size and values.min() < 0:
            return RuntimeError(
                f"Expected {what} to have value at least 0, but got value {values.min()} {_WHERE}"
            )
    total, longest = int(labels.sum()), int(labels.max(initial=0))
    if len(shape) == 1 and shape[0] != total:
        return RuntimeError(
            f"Expected tensor to have size {total} at dimension 0, but got size {shape[0]} for argument #2 "
            f"'targets' {_WHERE}"
        )
    if len(shape) == 2 and shape[1] < longest:
        return RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size {shape[1]} for "
            f"argument #2 'targets' {_WHERE}"
        )
    return RuntimeError(
        f"Expected input_lengths to have value at most {time}, but got value {frames.max()} {_WHERE}"
    )


def _check(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> None:
    if not log_probs.size:
        raise RuntimeError("log_probs tensor must not be empty")
    not_implemented("ctc_loss_cpu", log_probs, kinds="biuc")
    if log_probs.dtype.itemsize < 4:
        not_implemented("ctc_loss_cpu", log_probs, kinds="fV")
    batch, classes = log_probs.shape[1:]
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for what, value in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if value.dtype.kind not in "iu":
            raise RuntimeError(f"{what} must be integral")
        if value.shape != (batch,):
            raise RuntimeError(f"{what} must be of size batch_size")
    if targets.ndim not in (1, 2):
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 'targets' {_WHERE}"
        )
    if targets.ndim == 2 and targets.shape[0] != batch:
        raise RuntimeError(
            f"Expected tensor to have size {batch} at dimension 0, but got size {targets.shape[0]} for argument #2 "
            f"'targets' {_WHERE}"
        )


def _states(targets: Any, lengths: jax.Array, longest: int, blank: int) -> jax.Array:
    """The states (N, 2 * longest + 1): blank, label, blank, ..., blank; those past a length do not matter."""
    if targets.ndim == 1:
        place = (jnp.cumsum(lengths) - lengths)[:, None] + np.arange(longest)
        targets = (
            targets.at[place].get(mode="clip") if targets.size else jnp.zeros(place.shape, targets.dtype)
        )
    labels = targets[:, :longest].astype(np.int32)
    blanks = jnp.full_like(labels, blank)
    pairs = jnp.stack([blanks, labels], 2).reshape(labels.shape[0], -1)
    return jnp.pad(pairs, [(0, 0), (0, 1)], constant_values=blank)


def _log_sum(*xs: jax.Array) -> jax.Array:
    """The logarithm of the sum of exponentials."""
    top = functools.reduce(jnp.maximum, xs)
    top = jnp.where(top == -jnp.inf, jnp.zeros((), top.dtype), top)
    return jnp.log(functools.reduce(jnp.add, [jnp.exp(x - top) for x in xs])) + top


def _shifted(x: jax.Array, by: int) -> jax.Array:
    """Shift the states by ``by``; log-probabilities from outside are -inf."""
    pad, width = [(0, 0), (max(by, 0), max(-by, 0))], x.shape[1]
    return lax.slice_in_dim(
        jnp.pad(x, pad, constant_values=-jnp.inf), max(-by, 0), max(-by, 0) + width, axis=1
    )


class _Lattice:
    """The log-probabilities (T, N, S) of the states' classes, and the allowed transitions."""

    def __init__(self, log_probs: Any, states: jax.Array, frames: jax.Array, labels: jax.Array) -> None:
        self.scores = jnp.take_along_axis(log_probs, states[None], 2, mode="clip")
        self.time = jnp.arange(log_probs.shape[0], dtype=frames.dtype)
        self.number = np.arange(states.shape[1])
        self.frames, self.labels = frames, labels
        before = jnp.pad(states, [(0, 0), (2, 0)])[:, :-2]
        # a blank between different labels may be left out
        self.skips = (self.number > 1) & (self.number % 2 == 1) & (states != before)

    def forward(self) -> jax.Array:
        """The log-probability (T, N, S) of each state, after the frames up to this one."""

        def step(alpha: jax.Array, score: jax.Array) -> Any:
            skip = jnp.where(self.skips, _shifted(alpha, 2), -jnp.inf)
            alpha = _log_sum(alpha, _shifted(alpha, 1), skip) + score
            return alpha, alpha

        first = jnp.where(self.number < 2, self.scores[0], -jnp.inf)
        return jnp.concatenate([first[None], lax.scan(step, first, self.scores[1:])[1]])

    def backward(self) -> jax.Array:
        """The log-probability (T, N, S) of the frames from this one on, given each state."""
        last = (self.number == 2 * self.labels[:, None]) | (self.number == 2 * self.labels[:, None] - 1)

        def step(beta: jax.Array, now: Any) -> Any:
            time, score = now
            skip = _shifted(jnp.where(self.skips, beta, -jnp.inf), -2)
            moved = _log_sum(beta, _shifted(beta, -1), skip) + score
            ends = (time == self.frames - 1)[:, None]
            beta = jnp.where(ends, jnp.where(last, score, -jnp.inf), moved)
            return beta, beta

        start = jnp.full(self.scores.shape[1:], -jnp.inf, self.scores.dtype)
        return lax.scan(step, start, (self.time, self.scores), reverse=True)[1]

    def losses(self, alpha: jax.Array) -> jax.Array:
        """The negative log-probability of the labels; inf for labels without frames."""
        place = jnp.maximum(self.frames - 1, 0)[None, :, None]
        final = jnp.take_along_axis(alpha, place, 0, mode="clip")[0]
        at_blank, at_label = (
            jnp.take_along_axis(final, jnp.maximum(2 * self.labels - back, 0)[:, None], 1, mode="clip")[:, 0]
            for back in (0, 1)
        )
        found = -_log_sum(at_blank, jnp.where(self.labels > 0, at_label, -jnp.inf))
        empty = jnp.where(self.labels == 0, 0.0, jnp.inf).astype(found.dtype)
        return jnp.where(self.frames == 0, empty, found)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def _losses(
    log_probs: jax.Array, states: jax.Array, frames: jax.Array, labels: jax.Array, zero_infinity: bool
) -> jax.Array:
    lattice = _Lattice(log_probs, states, frames, labels)
    losses = lattice.losses(lattice.forward())
    return jnp.where(losses == jnp.inf, 0, losses).astype(losses.dtype) if zero_infinity else losses


@_losses.defjvp
def _losses_jvp(zero_infinity: bool, primals: Any, tangents: Any) -> Any:
    log_probs, states, frames, _ = primals
    lattice = _Lattice(*primals)
    alpha = lattice.forward()
    losses = lattice.losses(alpha)
    # how probable a state is at a time, given the labels; then added up by class
    share = jnp.exp(alpha + lattice.backward() + losses[:, None] - lattice.scores).transpose(1, 2, 0)
    batch, time = np.arange(log_probs.shape[1])[:, None], log_probs.shape[0]
    by_class = jnp.zeros((*log_probs.shape[1:], time), log_probs.dtype).at[batch, states].add(share)
    slope = jnp.exp(log_probs) - by_class.transpose(2, 0, 1)
    endless = losses == jnp.inf
    slope = jnp.where(endless[:, None], 0.0 if zero_infinity else jnp.nan, slope)
    slope = jnp.where((lattice.time[:, None] < frames)[..., None], slope, 0).astype(log_probs.dtype)
    losses = jnp.where(endless, 0, losses).astype(losses.dtype) if zero_infinity else losses
    return losses, jnp.sum(slope * tangents[0], (0, 2))


@op("_ctc_loss", where="", node="CtcLossBackward0", edges=("log_probs",), check=_check_lengths)
def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    reduction: str,
    zero_infinity: bool,
    longest: int,
):
    """The loss of log-probabilities (T, N, C) for labels (N, S) or concatenated labels; ``longest`` bounds S.

    The gradient is PyTorch's, which is right only if ``log_probs`` come from `log_softmax`: it has an extra term that
    the gradient of `log_softmax` takes away.
    """
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    frames, labels = input_lengths.astype(np.int32), target_lengths.astype(np.int32)
    longest = min(longest, targets.shape[1]) if targets.ndim == 2 else longest
    states = _states(targets, labels, longest, blank)
    losses = _losses(log_probs, states, frames, labels, zero_infinity)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return jnp.sum(losses)
    return jnp.mean(losses / jnp.maximum(labels, 1).astype(losses.dtype))
