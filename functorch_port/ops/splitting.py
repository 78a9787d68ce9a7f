"""Parts of a tensor along one dimension, as views: `narrow`, `select`, `unbind`, `split`, `chunk`, `tensor_split`."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from .._array.refusal import outside, refuse
from .._array.sizes import as_index
from .._base import dtypes
from .._base.promotion import cast
from .._run import bind
from .._run.registry import Scalar, TensorOnly, composite, op
from .._tensor.tensor import Tensor
from .._tensor.view import PLAIN, SPLIT
from ._common import choose, wrap_dim


def _wrap_start(start: Any, size: int) -> Any:
    """The start as a non-negative number; it may be traced."""
    return (
        (start + size if start < 0 else start)
        if isinstance(start, int)
        else choose(start < 0, start + size, start)
    )


def _slice(input: jax.Array, axis: int, start: Any, length: int) -> jax.Array:
    """A block along one dimension, whose start is an int or a traced number (so that all starts share a program)."""
    start = _wrap_start(start, input.shape[axis])
    if isinstance(start, int):
        return lax.slice_in_dim(input, start, start + length, axis=axis)
    return lax.dynamic_slice_in_dim(input, cast(start, np.dtype(np.int32)), length, axis=axis)


def _check_narrow(input: Any, dim: int, start: Any, length: int) -> None:
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    wrap_dim(dim, input.ndim)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if hasattr(start, "dtype") and (start.ndim or start.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")


def _check_start(input: Any, dim: int, start: Any, length: int) -> None:
    _check_narrow(input, dim, start, length)
    size = input.shape[wrap_dim(dim, input.ndim)]

    def bad(start: Any) -> Any:
        return (start < -size) | (start > size) | ((start < 0) * size + start + length > size)

    def error(given: Any) -> Exception:
        start = int(given)
        if not -size <= start <= size:
            text = f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
            return IndexError(text)
        start = start + size if start < 0 else start
        return RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")

    refuse(bad, error, start)


@op(view=True, node="SliceBackward0", check=_check_start)
def narrow(input: TensorOnly, dim: int, start: Scalar, length: int):
    """A view of ``length`` elements along ``dim``, from ``start`` on."""
    _check_narrow(input, dim, start, length)
    return _slice(input, wrap_dim(dim, input.ndim), start, length)


@op("_split_part", where="", view=True, node="SplitBackward0")
def _split_part(input: TensorOnly, dim: int, start: Scalar, length: int):
    """One of the parts of `split`."""
    return _slice(input, dim, start, length)


@op("_split_sizes_part", where="", view=True, node="SplitWithSizesBackward0")
def _split_sizes_part(input: TensorOnly, dim: int, start: Scalar, length: int):
    """One of the parts of `split_with_sizes`."""
    return _slice(input, dim, start, length)


def _check_select(input: Any, dim: int, index: Any) -> None:
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis, shape = wrap_dim(dim, input.ndim), list(input.shape)

    def error(index: Any) -> Exception:
        return IndexError(
            f"select(): index {int(index)} out of range for tensor of size {shape} at dimension {axis}"
        )

    refuse(functools.partial(outside, low=-shape[axis], high=shape[axis]), error, index)


@op(view=True, check=_check_select)
def select(input: TensorOnly, dim: int, index: Scalar):
    """A view of the slice ``index`` along ``dim``, without that dimension."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis = wrap_dim(dim, input.ndim)
    return lax.squeeze(_slice(input, axis, index, 1), [axis])


@op("_unbind_part", where="", view=True, node="UnbindBackward0")
def _unbind_part(input: TensorOnly, dim: int, index: Scalar):
    """One of the slices of `unbind`."""
    return lax.squeeze(_slice(input, dim, index, 1), [dim])


@op("_part", where="", view=True)
def _part(input: TensorOnly, size: tuple[int, ...], start: Scalar):
    """Consecutive elements of a vector, in a shape of their own."""
    return _slice(input, 0, start, math.prod(size)).reshape(size)


@composite()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along ``dim``, without that dimension."""
    axis = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return tuple(bind.function("_unbind_part")(input, axis, i) for i in range(input.shape[axis]))


def _cut(part: str, input: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    starts = [0, *itertools.accumulate(sizes)]
    return tuple(bind.function(part)(input, axis, s, n) for s, n in zip(starts, sizes, strict=False))


def _axis_of(name: str, input: Tensor, dim: int) -> int:
    if input.ndim == 0:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return wrap_dim(dim, input.ndim)


@composite("split", where="method")
def _split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along ``dim`` into parts of one size (the last may be smaller), or of the sizes in a list."""
    return split(self, split_size, dim)


@composite("unsafe_split")
def unsafe_split(tensor: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`, whose parts autograd lets you change in place."""
    return _writable(split(tensor, split_size, dim))


@composite("unsafe_split_with_sizes")
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, whose parts autograd lets you change in place."""
    return _writable(split_with_sizes(input, split_sizes, dim))


@composite("unsafe_chunk")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, whose parts autograd lets you change in place."""
    return _writable(chunk(input, chunks, dim))


def _writable(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    for part in parts:
        if part._view is not None and part._view.origin is SPLIT:
            part._view.origin = PLAIN
    return parts


@composite("split", where="torch")
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along ``dim`` into parts of one size (the last may be smaller), or of the sizes in a list."""
    if isinstance(split_size_or_sections, list | tuple):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    sizes = split_sizes_of(tensor, split_size_or_sections, dim)
    return _cut("_split_part", tensor, wrap_dim(dim, tensor.ndim), sizes)


def split_sizes_of(tensor: Tensor, split_size: int, dim: int) -> list[int]:
    """The sizes of the parts that `split` makes."""
    axis, size = _axis_of("split", tensor, dim), operator.index(split_size)
    total = tensor.shape[axis]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and total:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
        )
    whole = total // size if size else 0
    rest = total - whole * size
    sizes = [size] * whole + [rest] * (rest > 0)
    return sizes or [total]


@composite("split_with_sizes", where="torch method")
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Split along ``dim`` into parts of these sizes."""
    sizes = [as_index(n) for n in split_sizes]
    return _cut("_split_sizes_part", input, check_split_sizes(input, sizes, dim), sizes)


def check_split_sizes(input: Tensor, sizes: Sequence[int], dim: int) -> int:
    """The dimension as a non-negative number; raises unless the sizes add up to its size."""
    axis = _axis_of("split", input, dim)
    total = input.shape[axis]
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
        )
    if sum(sizes) != total:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension {dim}), "
            f"but got split_sizes={sizes}"
        )
    return axis


@composite("chunk", where="torch method")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along ``dim`` into at most ``chunks`` parts of one size; the last may be smaller."""
    axis = _axis_of("chunk", input, dim)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    total = input.shape[axis]
    if total == 0:
        return _cut("_split_sizes_part", input, axis, [0] * chunks)
    return split(input, -(-total // chunks), axis)


def _either(name: str, given: Any, indices: Any, sections: Any) -> Any:
    """The one argument of three that is given: PyTorch's documentation has the first name, its parser the others."""
    found = [value for value in (given, indices, sections) if value is not None]
    if len(found) != 1 or not isinstance(found[0], int | list | tuple | Tensor):
        kinds = ", ".join(["Tensor", *(type(value).__name__ for value in found)])
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({kinds})")
    return found[0]


@composite()
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """Split along ``dim`` into a number of parts, whose sizes differ by at most 1, or at the indices in a list."""
    if input.ndim == 0:
        raise RuntimeError(
            f"tensor_split expected at least a 1-dimensional tensor, but got a tensor with {input.ndim} dims"
        )
    axis = wrap_dim(dim, input.ndim)
    total = input.shape[axis]
    at = _either("tensor_split", indices_or_sections, indices, sections)
    if isinstance(at, Tensor):
        if at.dtype is not dtypes.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{at.dtype.scalar_name}"
            )
        if at.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
                f"but got a tensor with {at.ndim} dims"
            )
        at = at.tolist()
    if isinstance(at, list | tuple):
        cuts = [max(0, min(total, c + total if c < 0 else c)) for c in map(operator.index, at)]
        ends = [*cuts, total]
        sizes = [max(0, e - s) for s, e in zip([0, *cuts], ends, strict=True)]
        return tuple(
            bind.function("narrow")(input, axis, s, n) for s, n in zip([0, *cuts], sizes, strict=True)
        )
    if at <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {at}")
    small, larger = divmod(total, at)
    return _cut("narrow", input, axis, [small + 1] * larger + [small] * (at - larger))


def _split_along(name: str, needed: int, axis: int) -> None:
    def fn(
        input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        if input.ndim < needed:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {needed} dimension, but got a tensor with {input.ndim} "
                "dimensions!"
            )
        at = _either(name, indices_or_sections, indices, sections)
        dim = 0 if input.ndim == 1 else axis
        total = input.shape[dim]
        if isinstance(at, int) and (at <= 0 or total % at):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {total} is not "
                f"divisible by the split_size {at}!"
            )
        return tensor_split(input, at, dim)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = (
        f"`tensor_split` along dimension {axis}{' (vector: 0)' * (axis == 1)}; a number must divide it."
    )
    composite(name)(fn)


for _name, _needed, _axis in (("vsplit", 2, 0), ("hsplit", 1, 1), ("dsplit", 3, 2)):
    _split_along(_name, _needed, _axis)
