"""Samples whose number of draws depends on chance: `binomial`, and the gamma family's `_standard_gamma`,
`_sample_dirichlet`.

On the CPU they are PyTorch's numbers for the same seed; under `compile` and on accelerators they come from a JAX key.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port.core import dtypes, storage
from functorch_port.core.dispatch import Plan, run
from functorch_port.core.generator import Generator, default_generator, drawing
from functorch_port.core.registry import composite
from functorch_port.core.tensor import Tensor, wrap
from functorch_port.ops.random import _is_meta, _require, _unsupported, _with_history

__all__: list[str] = []


@composite("binomial", where="torch")
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of successes in ``count`` trials of chance ``prob``.

    Args:
        count: numbers of trials, of a floating type.
        prob: chances, broadcast with ``count``.
        generator: where the numbers come from.

    Example:
        >>> import functorch_port as torch
        >>> torch.binomial(torch.tensor([5.0, 7.0]), torch.tensor([1.0, 0.0]))
        tensor([5., 0.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.binomial.html
    """
    counts, probs = _require("binomial", count)._value, _require("binomial", prob)._value
    d = dtypes.from_np(counts.dtype)
    if not d.is_floating_point:
        raise ValueError(f"binomial only supports floating-point dtypes for count, got: {d.scalar_name}")
    if d.itemsize < 4:
        raise _unsupported("binomial_cpu", d)
    if counts.dtype != probs.dtype:
        raise RuntimeError(
            f"Found dtype {dtypes.from_np(probs.dtype).scalar_name} but expected {d.scalar_name}"
        )
    if _is_meta(counts):
        return wrap(counts)
    source = default_generator if generator is None else generator
    if storage.overlay or source.keyed:
        with storage.x64():
            value = jax.random.binomial(source.split_key(), counts, probs).astype(d.np)
    else:
        host = [np.asarray(x).astype(np.float64) for x in np.broadcast_arrays(counts, probs)]
        source.may_move()
        with drawing:
            drawn = source.stream.binomial(*(x.ravel() for x in host)).reshape(host[0].shape)
        with storage.x64():
            value = jnp.asarray(drawn.astype(d.np))
    return _with_history("BinomialBackward0", [count, prob], value)


@composite("_standard_gamma", where="torch")
def _standard_gamma(self: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma numbers of the concentrations in ``self`` and rate 1, differentiable (implicit reparametrization)."""
    value = _draw_gamma("gamma_cpu", _require("_standard_gamma", self)._value, generator, None)
    return run(_differentiable(), [self, wrap(value)])


@composite("_sample_dirichlet", where="torch")
def _sample_dirichlet(self: Tensor, generator: Generator | None = None) -> Tensor:
    """Points of the simplex with the concentrations along the last dimension of ``self``, differentiable.

    The gradient is that of gamma numbers divided by their sum. It has the right mean, and is not PyTorch's number
    by number.
    """
    concentration = _require("_sample_dirichlet", self)._value
    drawn = _draw_gamma("dirichlet", concentration, generator, np.float64)
    return run(_normalized(), [self, wrap(drawn)])


def _draw_gamma(name: str, concentration: Any, generator: Generator | None, kept: Any) -> Any:
    """An array of gamma numbers, not smaller than the smallest normal number; of type ``kept``, or its own."""
    d = dtypes.from_np(concentration.dtype)
    if d not in (dtypes.float32, dtypes.float64):
        raise _unsupported(name, d)
    if _is_meta(concentration):
        return concentration
    tiny, kind = float(dtypes.finfo(d).tiny), d.np if kept is None else kept
    source = default_generator if generator is None else generator
    with storage.x64():
        if storage.overlay or source.keyed:
            keyed = jax.random.gamma(source.split_key(), concentration.astype(_computed(d)))
            return jnp.maximum(keyed, tiny).astype(jax.dtypes.canonicalize_dtype(kind))
        host = np.asarray(concentration).astype(kind)
        source.may_move()
        with drawing:
            drawn = source.stream.gamma(host.ravel()).reshape(host.shape)
        return jnp.asarray(np.maximum(drawn, tiny).astype(kind))


def _computed(d: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(np.float64 if d is dtypes.float64 else np.float32)


@jax.custom_jvp
def _given(concentration: jax.Array, sample: jax.Array) -> jax.Array:
    """``sample``, as the function of ``concentration`` that it is for a fixed chance."""
    return sample


@_given.defjvp
def _(primals: Any, tangents: Any) -> Any:
    concentration, sample = primals
    kind = np.float64 if concentration.dtype == np.float64 else np.float32
    wide = (concentration.astype(kind), sample.astype(kind))
    slope = jax.lax.random_gamma_grad(*wide).astype(sample.dtype)
    return sample, (slope * tangents[0]).astype(sample.dtype)


def _simplex(concentration: jax.Array, gammas: jax.Array) -> jax.Array:
    """Gamma numbers divided by their sum, inside of the simplex."""
    d = dtypes.from_np(concentration.dtype)
    gammas = _given(concentration.astype(gammas.dtype), gammas)
    below = np.nextafter(d.np.type(1), d.np.type(0))
    parts = (gammas / gammas.sum(-1, keepdims=True)).astype(concentration.dtype)
    return jnp.clip(parts, float(dtypes.finfo(d).tiny), below)


@cache
def _differentiable() -> Plan:
    return Plan(_given, "_standard_gamma", "StandardGammaBackward0")


@cache
def _normalized() -> Plan:
    return Plan(_simplex, "_sample_dirichlet", "_DirichletBackward")
