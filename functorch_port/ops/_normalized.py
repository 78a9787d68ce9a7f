"""Normalization to mean 0 and variance 1, and its derivative."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._rows import Formula, transposes

__all__ = ["normalized"]

Dims = tuple[int, ...]


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def normalized(x: jax.Array, dims: Dims, eps: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Normalize to mean 0 and variance 1 along ``dims``; returns also the mean and (biased) variance, with these dims.

    The derivative has the form with the fewest passes over the array. Both are primitives, for which a platform may
    have a lowering of its own.
    """
    out, mean, var = _normalize(x, dims=dims, eps=eps)
    return out, mean, var


@normalized.defjvp
def _normalized_jvp(dims: Dims, eps: float, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    out, mean, var = normalized(x, dims, eps)
    (dout,) = _slope(dx, out, var, dims=dims, eps=eps)
    dmean, along = (jnp.mean(t, dims, keepdims=True) for t in (dx, out * dx))
    return (out, mean, var), (dout, dmean, 2 * along * jnp.sqrt(var + eps))


def _normalize_formula(x: Any, *, dims: Dims, eps: float) -> list[Any]:
    mean = jnp.mean(x, dims, keepdims=True)
    centred = x - mean
    var = jnp.mean(centred * centred, dims, keepdims=True)
    return [centred * lax.rsqrt(var + eps), mean, var]


def _slope_formula(dx: Any, out: Any, var: Any, *, dims: Dims, eps: float) -> list[Any]:
    """The derivative of the normalized values: a symmetric map of ``dx``."""
    dmean, along = (jnp.mean(t, dims, keepdims=True) for t in (dx, out * dx))
    return [(dx - dmean - out * along) * lax.rsqrt(var + eps)]


_normalize = Formula("normalize", _normalize_formula)
_slope = Formula("slope_of_normalize", _slope_formula)
transposes(_slope, _slope)
