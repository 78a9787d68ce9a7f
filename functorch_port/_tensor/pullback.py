"""Pullbacks: `jax.vjp` in PyTorch's convention for complex numbers, where a gradient is the conjugate of JAX's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from .._base import config, scopes
from .avals import aval_of

__all__ = [
    "Kept",
    "Pullback",
    "Residuals",
    "conj",
    "forward_and_pullback",
    "kept_pullback",
    "pull",
    "pull_kept",
    "pullback_of",
]


class Pullback:
    """From gradients of outputs (None for zero) to those of inputs.

    Attributes:
        pull: the same as `jax.vjp` has it.
        outs: arrays or shapes and dtypes of the outputs.
        many: whether there is a tuple of them.
        scope: under which names the operation was traced.
    """

    __slots__ = ("many", "outs", "pull", "scope")

    def __init__(self, pull: Callable[..., Any], outs: Sequence[Any], many: bool) -> None:
        self.pull, self.outs, self.many = pull, outs, many
        self.scope = scopes.state.path

    def __call__(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        cotangents = tuple([_cotangent_of(o, g) for o, g in zip(self.outs, grads, strict=True)])
        pull = config.by_our_rules(self.pull)
        return tuple([conj(g) for g in pull(cotangents if self.many else cotangents[0])])


def pullback_of(fn: Callable[..., Any], mask: Sequence[bool], values: Sequence[Any]) -> tuple[Any, Pullback]:
    """The result of ``fn``, and the pullback to the values in ``mask``."""

    def masked(*diff: Any) -> Any:
        it = iter(diff)
        out = fn(*[next(it) if m else v for v, m in zip(values, mask, strict=True)])
        return tuple(out) if isinstance(out, list) else out

    out, pull = jax.vjp(masked, *[v for v, m in zip(values, mask, strict=True) if m])
    many = isinstance(out, tuple)
    return out, Pullback(pull, out if many else (out,), many)


def pull(fn: Callable[..., Any], mask: Sequence[bool], holes: Sequence[bool], *args: Any) -> Any:
    """Gradients of the inputs in ``mask``. ``args`` are the inputs, then gradients of the outputs but ``holes``."""
    values, grads = args[: len(mask)], iter(args[len(mask) :])
    _, pullback = pullback_of(fn, mask, values)
    return pullback([None if hole else next(grads) for hole in holes])


def _cotangent_of(out: Any, grad: Any) -> Any:
    if not jax.numpy.issubdtype(out.dtype, np.inexact):
        return np.zeros(out.shape, jax.dtypes.float0)
    if grad is None:
        return jax.numpy.zeros(out.shape, out.dtype)
    return conj(grad if grad.dtype == out.dtype else grad.astype(out.dtype))


def conj(x: Any) -> Any:
    return x.conj() if jax.numpy.issubdtype(x.dtype, np.complexfloating) else x


# ------------------------------------------------------- a pullback that a forward pass leaves behind


class Residuals(NamedTuple):
    """How a pullback is put together again from arrays.

    Attributes:
        tree: of the pullback, whose leaves are inputs and arrays that were kept.
        sources: for each leaf the number of an input, or -1 for the next of the arrays.
        outs: shapes and dtypes of the outputs.
        many: whether there are several outputs.
        inputs: how many there are.
    """

    tree: Any
    sources: tuple[int, ...]
    outs: tuple[jax.ShapeDtypeStruct, ...]
    many: bool
    inputs: int


@jax.tree_util.register_dataclass
@dataclass
class Kept:
    """A pullback as its forward pass leaves it: ``arrays`` are what it needs besides the inputs."""

    arrays: list[Any]
    residuals: Residuals = field(metadata={"static": True})


def forward_and_pullback(fn: Callable[..., Any], mask: Sequence[bool], *values: Any) -> tuple[Any, Kept]:
    """The result of ``fn``, and its pullback, from within a jitted function."""
    out, pullback = pullback_of(fn, mask, values)
    leaves, tree = jax.tree.flatten(pullback.pull)
    number = {id(v): k for k, v in enumerate(values)}
    sources = tuple([number.get(id(leaf), -1) for leaf in leaves])
    arrays = [leaf for leaf, source in zip(leaves, sources, strict=True) if source < 0]
    outs = tuple([aval_of(o) for o in pullback.outs])
    return out, Kept(arrays, Residuals(tree, sources, outs, pullback.many, len(values)))


def kept_pullback(residuals: Residuals, inputs: Sequence[Any], arrays: Sequence[Any]) -> Pullback:
    """The pullback, put together again from the inputs and the arrays that were kept."""
    kept = iter(arrays)
    pull = jax.tree.unflatten(residuals.tree, [next(kept) if s < 0 else inputs[s] for s in residuals.sources])
    return Pullback(pull, residuals.outs, residuals.many)


def pull_kept(residuals: Residuals, holes: Sequence[bool], *args: Any) -> Any:
    """As `pull`. ``args`` are the inputs, the arrays kept, then gradients of the outputs but ``holes``."""
    inputs = residuals.inputs
    count = inputs + residuals.sources.count(-1)
    grads = iter(args[count:])
    pullback = kept_pullback(residuals, args[:inputs], args[inputs:count])
    return pullback([None if hole else next(grads) for hole in holes])
