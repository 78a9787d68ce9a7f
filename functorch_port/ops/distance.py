"""Distances and similarities between vectors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._base.division import divide
from functorch_port._base.promotion import promote
from functorch_port._run.registry import Array, op, pointwise_op
from functorch_port.ops._common import (
    absolute,
    broadcast_shapes,
    not_implemented,
    rounded_once,
    type_name,
    wrap_dim,
    wrap_dims,
)
from functorch_port.ops.vector_norms import vector_norm_of


@op("cosine_similarity", where="torch F", node="SumBackward1")
@rounded_once
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-08):
    """The cosine similarity of vectors along ``dim``; norms are at least ``eps``."""
    if eps < 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    shape = broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = promote(x1, x2)
    if x1.dtype.kind in "biu":
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {type_name(x1)}")
    x1, x2 = jnp.broadcast_to(x1, shape), jnp.broadcast_to(x2, shape)
    dims = (wrap_dim(dim, len(shape)),) if shape else wrap_dims(dim, 0)
    return jnp.sum(_unit(x1, dims, eps) * _unit(x2, dims, eps), dims)


def _unit(x: jax.Array, dim: tuple[int, ...], eps: float) -> jax.Array:
    norm = vector_norm_of(x, 2.0, dim, True)
    # the gradient ignores the lower limit of the norm
    return x / (norm + jax.lax.stop_gradient(jnp.maximum(norm, eps) - norm))


def cosine_of_loss(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """The cosine along the last dimension as in `cosine_embedding_loss`: with an epsilon added to the squares."""
    x1, x2 = promote(x1, x2)
    eps = 1e-12
    squares = (jnp.sum(x1 * x1, -1) + eps) * (jnp.sum(x2 * x2, -1) + eps)
    return jnp.sum(x1 * x2, -1) / jnp.sqrt(squares)


@op("pairwise_distance", where="torch F", node="NormBackward1")
@rounded_once
def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""
    broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = promote(x1, x2)
    return vector_norm_of(x1 - x2 + eps, p, (-1,), keepdim)


def length_of(x: jax.Array, p: float) -> jax.Array:
    """The p-norm of a difference along the last dimension, as a distance."""
    if p == float("inf"):
        return _largest(x)
    if p == 0:  # the number of elements that differ; unlike a norm it is nan if one is
        return jnp.sum(jnp.minimum(jnp.ceil(absolute(x)), 1), -1)
    return vector_norm_of(x, p, (-1,), False)


def _largest(x: jax.Array) -> jax.Array:
    """The maximum of ``|x|`` along the last dimension; every tied element gets the whole gradient."""
    size = jnp.abs(x)
    top = jax.lax.stop_gradient(jnp.max(size, -1, keepdims=True, initial=0))
    hit = jnp.where(size == top, absolute(x), 0)
    return top[..., 0] + jnp.sum(hit - jax.lax.stop_gradient(hit), -1)


@op("pdist", where="torch F")
def pdist(input: Array, p: float = 2):
    """The p-norm distances of all pairs of rows: (0, 1), (0, 2), ..., (1, 2), ..."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if input.dtype.kind not in "fV":
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if input.dtype.itemsize < 4:
        not_implemented("pdist", input, kinds="fV")
    first, second = np.triu_indices(input.shape[0], 1)
    x = jnp.take(input, first.astype(np.int32), 0) - jnp.take(input, second.astype(np.int32), 0)
    return length_of(x, float(p))


@pointwise_op("_unit_vectors", where="", node="DivBackward0")
@rounded_once
def unit_vectors(input: Array, p: float, dim: Any, eps: float):
    """``input`` divided by the larger of ``eps`` and its p-norm along ``dim``."""
    norm = vector_norm_of(input, p, wrap_dims(dim, input.ndim), True)
    return divide(input, jnp.where(norm < eps, jnp.asarray(eps, norm.dtype), norm).astype(input.dtype))
