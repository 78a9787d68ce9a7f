"""Repetitions of elements: `expand`, `repeat`, `tile`, `repeat_interleave`, `meshgrid`, `combinations`."""

from __future__ import annotations

import itertools
import operator
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array.refusal import refuse
from .._base import dtypes
from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    INT64,
    at_least_1d,
    broadcast_shapes,
    check_expand,
    compute,
    rounded_once,
    type_name,
    wrap_dim,
)
from .reshaping import _reshape, _sizes, view

# expanding


@op(view=True, where="method", varargs="size")
def expand(input: TensorOnly, size: tuple[int, ...], *, implicit: bool = False):
    """A view with dimensions of size 1 repeated, and new leading dimensions; -1 keeps a size."""
    offset = len(size) - input.ndim
    if offset < 0:
        raise RuntimeError(
            f"expand(torch.{type_name(input)}Tensor{{{list(input.shape)}}}, size={list(size)}): the number of sizes "
            f"provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor ({input.ndim})"
        )
    for i, n in enumerate(size[:offset]):
        if n == -1:
            raise RuntimeError(
                f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
            )
    target = tuple(input.shape[i - offset] if n == -1 else n for i, n in enumerate(size))
    check_expand(input.shape, target)
    return compute(lambda x: jnp.broadcast_to(x, target), input.dtype, input)


@composite(where="method")
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """`expand` to the shape of ``other``."""
    return bind.function("expand")(self, tuple(other.shape))


@composite()
def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """`expand` to ``size``."""
    return bind.function("expand")(input, _sizes(size))


@composite(where="torch")
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand tensors to their common shape; a tensor that has it is returned itself."""
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    shape = broadcast_shapes(*[tuple(x.shape) for x in listed])
    return tuple(x if tuple(x.shape) == shape else bind.function("expand")(x, shape) for x in listed)


# repeating


def _repeat(input: jax.Array, repeats: tuple[int, ...]) -> jax.Array:
    if len(repeats) < input.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    shape = (1,) * (len(repeats) - input.ndim) + input.shape
    if min(repeats, default=0) < 0:
        sizes = [n * r for n, r in zip(shape, repeats, strict=True)]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
    return compute(lambda x: jnp.tile(x, repeats), input.dtype, input)


@op(where="method", varargs="repeats")
def repeat(input: TensorOnly, repeats: tuple[int, ...]):
    """A copy, repeated along each dimension; extra numbers add leading dimensions."""
    return _repeat(input, repeats)


@op(node="RepeatBackward0", varargs="dims")
def tile(input: TensorOnly, dims: tuple[int, ...]):
    """`repeat`, but a number that is missing for a leading dimension counts as 1."""
    return _repeat(input, (1,) * (input.ndim - len(dims)) + tuple(dims))


@op("_repeat_each", where="", node="ViewBackward0")
@rounded_once
def _repeat_each(input: TensorOnly, repeats: int, dim: int | None = None):
    """Every element repeated the same number of times."""
    x = input.reshape(-1) if dim is None else at_least_1d(input)
    return jnp.repeat(x, repeats, axis=0 if dim is None else wrap_dim(dim, input.ndim))


@op("_repeat_by", where="", node="IndexSelectBackward0")
@rounded_once
def _repeat_by(input: TensorOnly, repeats: TensorOnly, dim: int | None, total: int):
    """Every element repeated as often as ``repeats`` says, ``total`` in all."""
    x = input.reshape(-1) if dim is None else at_least_1d(input)
    axis = 0 if dim is None else wrap_dim(dim, input.ndim)
    return jnp.repeat(x, jnp.broadcast_to(repeats, (x.shape[axis],)), axis=axis, total_repeat_length=total)


@op("_repeat_indices", where="", differentiable=False)
def _repeat_indices(repeats: TensorOnly, total: int):
    """The position of every count, repeated that many times."""
    return jnp.repeat(jnp.arange(repeats.shape[0]), repeats, total_repeat_length=total).astype(INT64)


def _check_repeats(repeats: Tensor) -> None:
    if repeats.dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(
            f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype.scalar_name}'"
        )
    if repeats.ndim > 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    refuse(lambda n: n < 0, lambda n: RuntimeError("repeats can not be negative"), repeats._look())


def _check_total(repeats: Tensor, times: int, total: int) -> None:
    error = RuntimeError("allocated size does not match required size")
    refuse(lambda n: n.sum() * times != total, lambda n: error, repeats._look())


_REPEATED = "a given output_size"


@composite()
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat each element along ``dim``, by default of the flattened input."""
    if repeats is None:
        _check_repeats(input)
        if output_size is None:
            output_size = input.sum()._as_size("repeat_interleave", _REPEATED)
        else:
            _check_total(input, 1, output_size)
        return bind.function("_repeat_indices")(input, output_size)
    length = input.numel() if dim is None else input.shape[wrap_dim(dim, input.ndim)]
    if not isinstance(repeats, Tensor):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        if output_size not in (None, length * repeats):
            raise RuntimeError(
                f"repeat_interleave: Invalid output_size, expected {length * repeats} but got {output_size}"
            )
        out = bind.function("_repeat_each")(input, operator.index(repeats), dim)
        return out.view(out.shape)  # as PyTorch's, a view of a tensor that nobody holds
    _check_repeats(repeats)
    if repeats.numel() not in (1, length):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.numel()} and "
            f"input.size(0) = {length}"
        )
    times = length if repeats.numel() == 1 else 1
    if output_size is None:
        output_size = repeats.sum()._as_size("repeat_interleave", _REPEATED) * times  # type: ignore[attr-defined]
    else:
        _check_total(repeats, times, output_size)
    return bind.function("_repeat_by")(input, repeats, dim, output_size)


# combining


@composite(where="torch")
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of vectors, one tensor for each; ``indexing`` is "ij" (default) or "xy"."""
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            UserWarning,
            stacklevel=2,
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in listed:
        if x.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
    swap = indexing == "xy" and len(listed) >= 2
    ordered = [listed[1], listed[0], *listed[2:]] if swap else list(listed)
    shape = tuple(x.numel() for x in ordered)
    grids = [
        view(x, tuple(n if d == i else 1 for d, n in enumerate(shape))).expand(shape)  # type: ignore[attr-defined]
        for i, x in enumerate(ordered)
    ]
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


@composite(where="torch")
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """The Cartesian product of vectors, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return bind.function("stack")([_reshape(g, (-1,)) for g in grids], dim=1)


@composite(where="torch")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, as rows."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = tuple(choose(range(input.shape[0]), r))
    if r == 0:
        return input.new_empty((0,))  # type: ignore[attr-defined]
    return bind.function("_rows")(input, rows, r)


@op("_rows", where="", node="StackBackward0")
def _rows(input: TensorOnly, index: tuple[tuple[int, ...], ...], width: int):
    """The elements at fixed positions."""
    return input[np.asarray(index, INT64).reshape(-1, width)]
