"""Views that may overlap: `as_strided`, and windows by `unfold`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from .._base import watch
from .._run import bind, duals
from .._run.registry import TensorOnly, composite, op
from .._tensor.tensor import Tensor
from .._tensor.view import LAID_OUT
from ._common import at_least_1d, index_dtype, numel, wrap_dim
from .complex import view_as_real
from .reshaping import _sizes


@op(view=True, where="method")
def unfold(input: TensorOnly, dimension: int, size: int, step: int):
    """A view of windows of ``size`` elements, ``step`` apart, along a dimension; each is in the last dimension."""
    axis = wrap_dim(dimension, input.ndim)
    x = at_least_1d(input)
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > x.shape[axis]:
        raise RuntimeError(
            f"maximum size for tensor at dimension {axis} is {x.shape[axis]} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if input.ndim == 0:
        return x[:size]
    count = (x.shape[axis] - size) // step + 1
    kind = index_dtype(x.shape[axis])
    index = jnp.arange(count, dtype=kind)[:, None] * step + jnp.arange(size, dtype=kind)  # (count, size)
    taken = x.at[(slice(None),) * axis + (index,)].get(mode="clip")  # jnp.take loses dimensions of nothing
    return jnp.moveaxis(taken, axis + 1, -1)


@op("_as_strided", where="", view=True, node="AsStridedBackward0")
def _as_strided(input: TensorOnly, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int = 0):
    """The elements that these strides reach in a contiguous array."""
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    needed = storage_offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if numel(size) and needed > input.size:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {storage_offset}, and itemsize "
            f"{input.dtype.itemsize} requiring a storage size of {needed * input.dtype.itemsize} are out of bounds for "
            f"storage of size {input.size * input.dtype.itemsize}"
        )
    index = jnp.full((), storage_offset, index_dtype(input.size))
    for n, s in zip(size, stride, strict=True):
        index = index[..., None] + jnp.arange(n, dtype=index.dtype) * s
    return input.reshape(-1).at[index].get(mode="clip")


@composite("as_strided")
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view of the elements that these strides reach in the tensor's Storage."""
    if input._view is not None and input._view.chain()[0].plan.name == LAID_OUT:
        raise NotImplementedError(
            "as_strided() in a compiled function does not support an argument that is a view: pass its base, or call "
            "as_strided() outside"
        )
    offset = input.storage_offset() if storage_offset is None else storage_offset
    if watch.state.level is not None:  # of a dual: its base has no tangent, or another
        return duals.linear(lambda x: _from_root(x, size, stride, offset), input)
    return _from_root(input, size, stride, offset)


def _from_root(input: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    root = input if input._view is None else input._base
    if root is None or root._view is not None:
        root = input._alias()
        root._view = None
    return _strided(root, size, stride, offset, input.dtype, input._turned())


@composite(where="")
def _strided(
    root: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
    dtype: Any,
    turned: tuple[bool, bool],
) -> Tensor:
    """A view of a whole Storage: the elements of this dtype that these strides reach, conjugate or negative."""
    if root.dtype is not dtype:
        flat: Any = view_as_real(root) if root.is_complex() else root
        root = flat.view(-1)
    if root.dtype is not dtype:
        if root.requires_grad:
            raise NotImplementedError(
                f"as_strided() of a view of {root.dtype} as {dtype} has no gradient here: use reshape and indexing"
            )
        root = root.view(dtype)  # type: ignore[attr-defined]
    made = bind.function("_as_strided")(root, _sizes((size,)), _sizes((stride,)), offset)
    for name, on in zip(("_conj", "_neg_view"), turned, strict=True):
        made = bind.function(name)(made) if on else made
    return made
