"""Softmax and log-softmax along a dimension, and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._rows import Formula, transposes

__all__ = ["log_softmax", "softmax"]


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def softmax(x: jax.Array, dim: int, masked: bool = False) -> tuple[jax.Array, jax.Array]:
    """Softmax along ``dim``, and the log-sum-exp, which keeps the dimension.

    With ``masked`` a row of -inf gives zeros instead of NaN. Derivatives are PyTorch's, which need only the result.
    Both are primitives, for which a platform may have a lowering of its own.
    """
    found, shift, total = _softmax(x, dims=(dim,), masked=masked)
    return found, jnp.log(total) + shift


@softmax.defjvp
def _softmax_jvp(dim: int, masked: bool, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    found, summed = softmax(x, dim, masked)
    (slope,) = _slope(dx, found, dims=(dim,))
    return (found, summed), (slope, jnp.sum(dx * found, dim, keepdims=True))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_softmax(x: jax.Array, dim: int) -> jax.Array:
    """The logarithm of `softmax`, computed without under- or overflow."""
    return _log_softmax(x, dims=(dim,))[0]


@log_softmax.defjvp
def _log_softmax_jvp(dim: int, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    found = log_softmax(x, dim)
    return found, _log_slope(dx, found, dims=(dim,))[0]


def _softmax_formula(x: Any, *, dims: Sequence[int], masked: bool) -> list[Any]:
    """The softmax, the maximum that was subtracted, and the sum of the exponentials."""
    shift = jnp.max(x, dims, keepdims=True, initial=-jnp.inf)
    if masked:
        shift = lax.select(shift == -jnp.inf, jnp.zeros_like(shift), shift)
    e = jnp.exp(x - shift)
    total = jnp.sum(e, dims, keepdims=True)
    divisor = lax.select(total == 0, jnp.ones_like(total), total) if masked else total
    return [e / divisor, shift, total]


def _slope_formula(dx: Any, found: Any, *, dims: Sequence[int]) -> list[Any]:
    """The derivative of `softmax`: a symmetric map of ``dx``."""
    return [(dx - jnp.sum(dx * found, dims, keepdims=True)) * found]


def _log_softmax_formula(x: Any, *, dims: Sequence[int]) -> list[Any]:
    x = x - jnp.max(x, dims, keepdims=True, initial=-jnp.inf)
    return [x - jnp.log(jnp.sum(jnp.exp(x), dims, keepdims=True))]


def _log_slope_formula(dx: Any, found: Any, *, dims: Sequence[int]) -> list[Any]:
    """The derivative of `log_softmax`."""
    return [dx - jnp.sum(dx * jnp.exp(found), dims, keepdims=True)]


def _log_slope_back_formula(dx: Any, found: Any, *, dims: Sequence[int]) -> list[Any]:
    """The transpose of `_log_slope_formula` as a map of ``dx``."""
    return [dx - jnp.sum(dx, dims, keepdims=True) * jnp.exp(found)]


_softmax = Formula("softmax", _softmax_formula)
_log_softmax = Formula("log_softmax", _log_softmax_formula)
_slope = Formula("slope_of_softmax", _slope_formula)
_log_slope = Formula("slope_of_log_softmax", _log_slope_formula)
_log_slope_back = Formula("slope_of_log_softmax_back", _log_slope_back_formula)
transposes(_slope, _slope)
transposes(_log_slope, _log_slope_back)
