"""Diagonals and triangles of matrices: `diagonal`, `diag`, `diag_embed`, `tril`, `triu`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._run.registry import TensorOnly, op
from ._common import index_dtype, wrap_dim


@op(view=True)
def diagonal(input: TensorOnly, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """A view of the diagonals of matrices in ``dim1`` and ``dim2``, as the last dimension."""
    a, b = wrap_dim(dim1, input.ndim), wrap_dim(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = input.shape[a], input.shape[b]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    moved = jnp.moveaxis(input, (a, b), (-2, -1))
    flat = moved.reshape(*moved.shape[:-2], rows * columns)
    first = max(offset, 0) - min(offset, 0) * columns
    if length == 0:
        return lax.slice_in_dim(flat, 0, 0, axis=-1)
    return lax.slice_in_dim(flat, first, first + (length - 1) * (columns + 1) + 1, columns + 1, axis=-1)


def _triangle(name: str, input: jax.Array, keep: Any) -> jax.Array:
    """The elements whose column minus row ``keep`` accepts, zeros elsewhere."""
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    shape = input.shape[-2:]
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), shape, d) for d in (0, 1))
    return jnp.where(keep(columns - rows), input, jnp.zeros((), input.dtype))


@op(inplace=True)
def tril(input: TensorOnly, diagonal: int = 0):
    """The lower triangle up to ``diagonal``, with zeros above it."""
    return _triangle("tril", input, lambda offset: offset <= diagonal)


@op(inplace=True)
def triu(input: TensorOnly, diagonal: int = 0):
    """The upper triangle from ``diagonal`` on, with zeros below it."""
    return _triangle("triu", input, lambda offset: offset >= diagonal)


@op()
def diag_embed(input: TensorOnly, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Matrices in ``dim1`` and ``dim2``, with the last dimension of ``input`` on a diagonal."""
    ndim = input.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = input.shape[-1]
    size = length + abs(offset)
    position = jnp.arange(length, dtype=index_dtype(size))
    out = jnp.zeros((*input.shape[:-1], size, size), input.dtype)
    out = out.at[..., position + max(-offset, 0), position + max(offset, 0)].set(input, unique_indices=True)
    return jnp.moveaxis(out, (-2, -1), (a, b))


@op(node="DiagonalBackward0_copy")
def diag(input: TensorOnly, diagonal: int = 0):
    """The matrix with a vector on its diagonal, or a copy of a matrix's diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return globals()["diagonal"](input, diagonal)


@op(node="DiagEmbedBackward0")
def diagflat(input: TensorOnly, offset: int = 0):
    """The matrix with all elements of ``input`` on its diagonal."""
    return diag_embed(input.reshape(-1), offset)
