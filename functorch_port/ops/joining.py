"""Joining tensors: `cat`, `stack` and the like, `block_diag`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._base.layout import common_format_order
from .._base.promotion import promote
from .._run.registry import TensorsOnly, op
from ._common import at_least_1d, wrap_dim


def _legacy_empty(x: jax.Array) -> bool:
    return x.shape == (0,)


@op("cat", "concat", "concatenate", where="torch", order=common_format_order)
def cat(tensors: TensorsOnly, dim: int = 0):
    """Concatenate tensors along ``dim``; vectors without elements are left out."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for i, x in enumerate(tensors):
        if x.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    arrays = promote(*tensors)
    kept = [(i, x) for i, x in enumerate(arrays) if not _legacy_empty(x)]
    if not kept:
        return arrays[0]
    first = kept[0][1]
    axis = wrap_dim(dim, first.ndim)
    for i, x in kept[1:]:
        if x.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}")
        for d in range(x.ndim):
            if d != axis and x.shape[d] != first.shape[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {first.shape[d]} but got "
                    f"size {x.shape[d]} for tensor number {i} in the list."
                )
    return jnp.concatenate([x for _, x in kept], axis=axis)


@op(where="torch")
def stack(tensors: TensorsOnly, dim: int = 0):
    """Stack tensors of one shape along a new dimension ``dim``."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    axis = wrap_dim(dim, tensors[0].ndim + 1)
    for i, x in enumerate(tensors):
        if x.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(x.shape)} at entry {i}"
            )
    return jnp.stack(promote(*tensors), axis=axis)


def _check_any(name: str, tensors: Sequence[Any]) -> None:
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")


@op(where="torch", node="CatBackward0")
def hstack(tensors: TensorsOnly):
    """Concatenate tensors along dimension 1, or vectors along dimension 0."""
    _check_any("hstack", tensors)
    arrays = [at_least_1d(x) for x in tensors]
    return cat(arrays, 0 if arrays and arrays[0].ndim == 1 else 1)


@op("vstack", "row_stack", where="torch", node="CatBackward0")
def vstack(tensors: TensorsOnly):
    """Concatenate tensors along dimension 0; a vector counts as a row."""
    _check_any("vstack", tensors)
    return cat([jnp.atleast_2d(x) for x in tensors], 0)


@op(where="torch", node="CatBackward0")
def dstack(tensors: TensorsOnly):
    """Concatenate tensors along dimension 2, after `atleast_3d`."""
    _check_any("dstack", tensors)
    return cat([jnp.atleast_3d(x) for x in tensors], 2)


@op(where="torch", node="CatBackward0")
def column_stack(tensors: TensorsOnly):
    """Concatenate tensors along dimension 1; a vector counts as a column."""
    return cat([x.reshape(x.size, 1) if x.ndim <= 1 else x for x in tensors], 1)


@op(where="torch", varargs="tensors")
def block_diag(tensors: TensorsOnly):
    """The block diagonal matrix of these matrices; a vector counts as a row."""
    arrays = [jnp.atleast_2d(x) for x in promote(*tensors)]
    for i, x in enumerate(arrays):
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    out = jnp.zeros((sum(x.shape[0] for x in arrays), sum(x.shape[1] for x in arrays)), arrays[0].dtype)
    row = column = 0
    for x in arrays:
        out = lax.dynamic_update_slice(out, x, (row, column))
        row, column = row + x.shape[0], column + x.shape[1]
    return out
