"""Norms of vectors: `linalg.vector_norm`, `dist`, `renorm`."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._base import dtypes
from .._base.promotion import promote_types
from .._run.registry import TensorOnly, op
from ._common import (
    Dims,
    absolute,
    check_broadcast,
    elementwise,
    is_inexact,
    rounded_once,
    type_name,
    wide,
    wrap_dim,
    wrap_dims,
)
from .reduction import _real_of, sqrt_flat_at_zero


def vector_norm_of(x: jax.Array, p: float, dims: tuple[int, ...], keepdim: bool) -> jax.Array:
    """The p-norm over ``dims``, with gradient 0 where the norm, or an element's size, is 0."""
    if p == 2:
        square = jnp.real(x) ** 2 + jnp.imag(x) ** 2 if x.dtype.kind == "c" else x * x
        return sqrt_flat_at_zero(jnp.sum(square, axis=dims, keepdims=keepdim))
    if x.dtype.kind == "c":
        x = sqrt_flat_at_zero(jnp.real(x) ** 2 + jnp.imag(x) ** 2)
    size = absolute(x)
    if p == 1:
        return jnp.sum(size, axis=dims, keepdims=keepdim)
    if p == 0:
        return jnp.sum((x != 0).astype(size.dtype), axis=dims, keepdims=keepdim)
    if math.isinf(p):
        return (jnp.max if p > 0 else jnp.min)(size, axis=dims, keepdims=keepdim)
    zero = size == 0
    powers = jnp.where(zero, 0 if p > 0 else math.inf, jnp.where(zero, 1, size) ** p).astype(size.dtype)
    total = jnp.sum(powers, axis=dims, keepdims=keepdim)
    none = total == 0
    return jnp.where(none, 0 if p > 0 else math.inf, jnp.where(none, 1, total) ** (1 / p)).astype(size.dtype)


@op("vector_norm", where="linalg", node="LinalgVectorNormBackward0")
def vector_norm(
    x: TensorOnly,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
):
    """The vector norm of order ``ord`` over ``dim``."""
    if not is_inexact(x.dtype):
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {type_name(x)}"
        )
    if dtype is not None and not can_cast_without_loss(x.dtype, dtype.np):
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({type_name(x)}) should be convertible without narrowing to "
            f"the specified dtype ({dtype.scalar_name})"
        )
    if x.size == 0 and (ord < 0 or ord == math.inf):
        _check_empty_norm(x, ord, dim)
    y = x if dtype is None else x.astype(dtype.np)
    out = vector_norm_of(y.astype(wide(y.dtype)), ord, wrap_dims(dim, x.ndim), keepdim)
    return out.astype(_real_of(y.dtype))


def can_cast_without_loss(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether every value of one float type is one of the other."""
    return dtypes.from_np(target) is promote_types(dtypes.from_np(source), dtypes.from_np(target))


def _check_empty_norm(x: jax.Array, ord: float, dim: Dims) -> None:
    if dim is None or any(x.shape[d] == 0 for d in wrap_dims(dim, x.ndim)):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord:g} norm on an empty tensor because the operation does not "
            "have an identity"
        )


@op()
def dist(input: TensorOnly, other: TensorOnly, p: float = 2):
    """The p-norm of ``input - other``."""
    check_broadcast(input, other)
    difference = elementwise(lambda a, b: a - b, input, other)
    return vector_norm(difference, p)


@op(inplace=True)
@rounded_once
def renorm(input: TensorOnly, p: float, dim: int, maxnorm: float):
    """Scale each slice along ``dim`` whose p-norm is above ``maxnorm`` down to it."""
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    axis = wrap_dim(dim, input.ndim)
    norm = vector_norm_of(input, p, tuple(d for d in range(input.ndim) if d != axis), True)
    return input * jnp.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1).astype(input.dtype)
