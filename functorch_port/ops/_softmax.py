"""Softmax and its logarithm along a dimension, and the derivatives of both."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive

from ..core import rows

__all__ = ["log_softmax", "softmax"]


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def softmax(x: jax.Array, dim: int, masked: bool = False) -> tuple[jax.Array, jax.Array]:
    """Softmax along ``dim``, and the logarithm of the sum of the exponentials; that keeps the dimension.

    With ``masked`` it is all zeros where every number is -inf, and not NaN. Derivatives are PyTorch's, which need the
    result alone. Along the last dimension each is one loop over the rows, on a CPU (see `core.rows`): of (4728, 197)
    they take 0.23 and 0.08 ms instead of 0.34 and 0.18.
    """
    if rows.are_last(x, (dim,)):
        found, shift, total = _softmax_p.bind(rows.of(x, (dim,)), masked=masked)
        kept = x.shape[:-1] + (1,)
        found, shift, total = found.reshape(x.shape), shift.reshape(kept), total.reshape(kept)
    else:
        found, shift, total = _softmax(x, dim, masked)
    return found, jnp.log(total) + shift


@softmax.defjvp
def _softmax_jvp(dim: int, masked: bool, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    found, summed = softmax(x, dim, masked)
    if rows.are_last(x, (dim,)):
        (slope,) = _slope_p.bind(*(rows.of(t, (dim,)) for t in (dx, found)))
        slope = slope.reshape(x.shape)
    else:
        (slope,) = _slope(dx, found, dim)
    return (found, summed), (slope, jnp.sum(dx * found, dim, keepdims=True))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_softmax(x: jax.Array, dim: int) -> jax.Array:
    """The logarithm of `softmax`, computed without under- or overflow."""
    if not rows.are_last(x, (dim,)):
        return _log_softmax(x, dim)[0]
    return _log_softmax_p.bind(rows.of(x, (dim,)))[0].reshape(x.shape)


@log_softmax.defjvp
def _log_softmax_jvp(dim: int, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    found = log_softmax(x, dim)
    if not rows.are_last(x, (dim,)):
        return found, _log_slope(dx, found, dim)[0]
    slope = _log_slope_p.bind(*(rows.of(t, (dim,)) for t in (dx, found)))[0]
    return found, slope.reshape(x.shape)


def _softmax(x: jax.Array, dim: int, masked: bool) -> list[jax.Array]:
    """It, what was subtracted before the exponentials were taken, and their sum."""
    shift = jnp.max(x, dim, keepdims=True, initial=-jnp.inf)
    if masked:
        shift = lax.select(shift == -jnp.inf, jnp.zeros_like(shift), shift)
    e = jnp.exp(x - shift)
    total = jnp.sum(e, dim, keepdims=True)
    divisor = lax.select(total == 0, jnp.ones_like(total), total) if masked else total
    return [e / divisor, shift, total]


def _slope(dx: jax.Array, found: jax.Array, dim: int) -> list[jax.Array]:
    """The derivative of `softmax`: a symmetric map of ``dx``."""
    return [(dx - jnp.sum(dx * found, dim, keepdims=True)) * found]


def _log_softmax(x: jax.Array, dim: int) -> list[jax.Array]:
    x = x - jnp.max(x, dim, keepdims=True, initial=-jnp.inf)
    return [x - jnp.log(jnp.sum(jnp.exp(x), dim, keepdims=True))]


def _log_slope(dx: jax.Array, found: jax.Array, dim: int) -> list[jax.Array]:
    """The derivative of `log_softmax`."""
    return [dx - jnp.sum(dx * jnp.exp(found), dim, keepdims=True)]


def _log_slope_back(dx: jax.Array, found: jax.Array, dim: int) -> list[jax.Array]:
    """The transpose of that, as a map of ``dx``."""
    return [dx - jnp.sum(dx, dim, keepdims=True) * jnp.exp(found)]


# ------------------------------------------------ the same as primitives, of shape (rows, n) and (rows, 1)


def _softmax_of_rows(x: jax.Array, *, masked: bool) -> list[jax.Array]:
    return _softmax(x, 1, masked)


def _slope_of_softmax(dx: jax.Array, found: jax.Array) -> list[jax.Array]:
    return _slope(dx, found, 1)


def _log_softmax_of_rows(x: jax.Array) -> list[jax.Array]:
    return _log_softmax(x, 1)


def _slope_of_log_softmax(dx: jax.Array, found: jax.Array) -> list[jax.Array]:
    return _log_slope(dx, found, 1)


def _slope_of_log_softmax_back(dx: jax.Array, found: jax.Array) -> list[jax.Array]:
    return _log_slope_back(dx, found, 1)


_softmax_p, _log_softmax_p = Primitive("softmax"), Primitive("log_softmax")
rows.define(_softmax_p, _softmax_of_rows)
rows.define(_log_softmax_p, _log_softmax_of_rows)
_slope_p = Primitive("slope_of_softmax")
rows.define_linear(_slope_p, _slope_of_softmax, _slope_p)
_log_slope_p, _log_slope_back_p = Primitive("slope_of_log_softmax"), Primitive("slope_of_log_softmax_back")
rows.define_linear(_log_slope_p, _slope_of_log_softmax, _log_slope_back_p)
rows.define_linear(_log_slope_back_p, _slope_of_log_softmax_back, _log_slope_p)
