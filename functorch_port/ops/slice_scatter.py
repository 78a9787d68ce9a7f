"""Copies in which a part is replaced: `select_scatter`, `slice_scatter`, `diagonal_scatter`, `as_strided_scatter`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._base.layout import first_order
from .._run.registry import TensorOnly, op
from ._common import wrap_dim
from .diagonals import diagonal
from .splitting import _check_select
from .strides import _as_strided


def _check_part(src: jax.Array, shape: Sequence[int]) -> None:
    if src.shape != tuple(shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(shape)}"
        )


@op(order=first_order)
def select_scatter(input: TensorOnly, src: TensorOnly, dim: int, index: int):
    """A copy with ``src`` in the place of the slice ``index`` along ``dim``."""
    axis = wrap_dim(dim, input.ndim)
    _check_select(input, dim, index)
    _check_part(src, input.shape[:axis] + input.shape[axis + 1 :])
    block = jnp.expand_dims(src.astype(input.dtype), axis)
    return lax.dynamic_update_slice_in_dim(input, block, index % input.shape[axis], axis)


@op(order=first_order)
def slice_scatter(
    input: TensorOnly,
    src: TensorOnly,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
):
    """A copy with ``src`` in the place of ``input[start:end:step]`` along ``dim``."""
    axis = wrap_dim(dim, input.ndim)
    index = range(input.shape[axis])[start:end:step]
    _check_part(src, (*input.shape[:axis], len(index), *input.shape[axis + 1 :]))
    where = (slice(None),) * axis + (np.asarray(index, np.int64),)
    return input.at[where].set(src.astype(input.dtype), unique_indices=True)


@op(order=first_order)
def diagonal_scatter(input: TensorOnly, src: TensorOnly, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """A copy with ``src`` on a diagonal."""
    take = functools.partial(diagonal, offset=offset, dim1=dim1, dim2=dim2)
    _check_part(src, jax.eval_shape(take, input).shape)
    (moved,) = jax.linear_transpose(take, input)(src.astype(input.dtype))
    (seen,) = jax.linear_transpose(take, jax.ShapeDtypeStruct(input.shape, np.int8))(
        jnp.ones(src.shape, np.int8)
    )
    return jnp.where(seen != 0, moved, input)


@op("as_strided_scatter")
def as_strided_scatter(
    input: TensorOnly,
    src: TensorOnly,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    storage_offset: int | None = None,
):
    """A copy with ``src`` at the elements that these strides reach.

    The gradient of ``input`` is 0 there. PyTorch's is wrong: it is 0 everywhere else.
    """
    take = functools.partial(_as_strided, size=size, stride=stride, storage_offset=storage_offset or 0)
    _check_part(src, size)
    jax.eval_shape(take, input)
    position = take(jnp.arange(input.size).reshape(input.shape))
    return (
        input.reshape(-1)
        .at[position.reshape(-1)]
        .set(src.reshape(-1).astype(input.dtype))
        .reshape(input.shape)
    )
