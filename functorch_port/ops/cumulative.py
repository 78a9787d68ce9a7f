"""Cumulative sums, products, maxima and minima: `cumsum`, `cumprod`, `cummax`, `logcumsumexp`, ..."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._base import dtypes
from .._run.registry import TensorOnly, op
from ._common import INT64, at_least_1d, not_implemented, positions, take_along, wide, wrap_dim
from .cast import cast_array
from .reduction import _sum_dtype


def _scan(fn: Any, input: jax.Array, dim: int, out: np.dtype[Any]) -> jax.Array:
    axis = wrap_dim(dim, input.ndim)
    return fn(cast_array(at_least_1d(input), wide(out)), axis=axis).astype(out).reshape(input.shape)


@op(inplace=True)
def cumsum(input: TensorOnly, dim: int, *, dtype: dtypes.dtype | None = None):
    """The cumulative sum along ``dim``."""
    return _scan(lax.cumsum, input, dim, _sum_dtype(input, dtype))


@op(inplace=True)
def cumprod(input: TensorOnly, dim: int, *, dtype: dtypes.dtype | None = None):
    """The cumulative product along ``dim``."""
    return _scan(lax.cumprod, input, dim, _sum_dtype(input, dtype))


@op()
def logcumsumexp(input: TensorOnly, dim: int):
    """``log(cumsum(exp(input)))`` along ``dim``, without overflow."""
    return _scan(lax.cumlogsumexp, input, dim, input.dtype)


def _running(better: Any, input: jax.Array, dim: int) -> tuple[jax.Array, jax.Array]:
    """The cumulative extremum and its last index; from the first NaN on it is NaN."""
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    fixed = lax.stop_gradient(x)

    def later(a: Any, b: Any) -> Any:
        (value_a, index_a), (value_b, index_b) = a, b
        take_b = (value_b != value_b) | ((value_a == value_a) & better(value_b, value_a))
        return jnp.where(take_b, value_b, value_a), jnp.where(take_b, index_b, index_a)

    _, index = lax.associative_scan(later, (fixed, positions(x, axis)), axis=axis)
    return take_along(x, index, axis).reshape(input.shape), index.astype(INT64).reshape(input.shape)


@op(returns=("values", "indices"))
def cummax(input: TensorOnly, dim: int):
    """The cumulative maximum along ``dim``, and its last index."""
    not_implemented("cummax_cpu", input, kinds="c")
    return _running(jnp.greater_equal, input, dim)


@op(returns=("values", "indices"))
def cummin(input: TensorOnly, dim: int):
    """The cumulative minimum along ``dim``, and its last index."""
    not_implemented("cummin_cpu", input, kinds="c")
    return _running(jnp.less_equal, input, dim)
