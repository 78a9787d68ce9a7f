"""Views and other operations that only move elements: reshaping, permuting, slicing, joining, repeating."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import storage
from .._array.refusal import outside, refuse
from .._base import dtypes, watch
from .._base.layout import common_format_order, first_order
from .._base.promotion import cast, promote
from .._base.tuning import tuning
from .._run import bind, duals
from .._run.registry import Scalar, TensorOnly, TensorsOnly, composite, op
from .._tensor import grad_mode
from .._tensor.tensor import Tensor
from .._tensor.view import LAID_OUT, PLAIN, SPLIT, reinterpret
from ._common import (
    INT64,
    at_least_1d,
    broadcast_shapes,
    check_expand,
    compute,
    index_dtype,
    numel,
    rounded_once,
    type_name,
    wrap_dim,
    wrap_dims,
)

# reshaping


def infer_size(size: Sequence[int], count: int) -> tuple[int, ...]:
    """``size`` with its -1 filled in for ``count`` elements."""
    return _inferred(tuple(size), count)


@functools.lru_cache(tuning.cached_facts)
def _inferred(size: tuple[int, ...], count: int) -> tuple[int, ...]:
    if size.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for n in size:
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n} at index {size.index(n)} of shape {list(size)}")
    known = math.prod(n for n in size if n != -1)
    if -1 not in size:
        if known != count:
            raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {count}")
        return size
    if known == 0 and count == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified dimension "
            "size -1 can "
            "be any value and is ambiguous"
        )
    if known == 0 or count % known:
        raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {count}")
    return tuple(count // known if n == -1 else n for n in size)


def _suffix_products(size: Sequence[int]) -> set[int]:
    return {1, *itertools.accumulate(reversed(size), operator.mul)}


def can_view(shape: Sequence[int], strides: Sequence[int], size: Sequence[int]) -> bool:
    """Whether a tensor with these strides can be seen in the shape ``size`` without moving elements.

    Neighbouring dimensions whose strides fit together form runs that may be cut anywhere; the new sizes must come out
    even at the ends of the runs.
    """
    if numel(shape) == 0:
        return True
    ends, covered = [1], 1
    expected: int | None = None
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if expected is not None and stride != expected:
            ends.append(covered)
        covered *= n
        expected = n * stride
    return _suffix_products(size).issuperset(ends)


def _sizes(size: Sequence[Any]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(size) == 1 and isinstance(size[0], list | tuple):
        size = size[0]
    return tuple(s if type(s) is int else operator.index(s) for s in size)


def _given(name: str, key: str, size: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The sizes of a method that takes them one by one, as one sequence, or by keyword."""
    if not size and key not in kwargs:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{key}"')
    return _sizes(size or (kwargs[key],))


@op("_view", where="", view=True, node="ViewBackward0")
def _view(input: TensorOnly, size: tuple[int, ...]):
    """The same elements in another shape."""
    return input.reshape(size)


@op("_view_dtype", where="", view=True, differentiable=False)
def _view_dtype(input: TensorOnly, dtype: dtypes.dtype):
    """The same bytes as another type."""
    old, new = input.dtype.itemsize, dtype.itemsize
    if old != new and input.ndim == 0:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {type_name(input)} as {dtype.scalar_name} (different element sizes)"
        )
    ratio = new // old
    if ratio > 1 and input.shape[-1] % ratio:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {ratio} to view {type_name(input)} as {dtype.scalar_name} (different "
            f"element sizes), but got {input.shape[-1]}"
        )
    return reinterpret(input, dtype.np)


@op("_reshape_copy", where="", node="UnsafeViewBackward0")
def _reshape_copy(input: TensorOnly, size: tuple[int, ...]):
    """A copy in another shape."""
    return input.reshape(size)


_NEGATIVE = "tensors with negative bit set"


@composite(where="method")
def view(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """The same elements in another shape, sharing the Storage; or the same bytes as another ``dtype``."""
    if "dtype" in kwargs or (len(size) == 1 and isinstance(size[0], dtypes.dtype)):
        conj, neg = self._turned()
        if conj or neg:
            raise RuntimeError(
                f"torch.Tensor.view is not supported for {'conjugate view tensors' if conj else _NEGATIVE} when "
                "converting to a different dtype."
            )
        # which PyTorch does not call a view: it has no history
        return bind.function("_view_dtype")(self, kwargs["dtype"] if kwargs else size[0]).detach()
    new = infer_size(_given("view", "size", size, kwargs), self.numel())
    if self._view is not None and not can_view(self.shape, self._strides(), new):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return bind.function("_view").call(self, new)


def _reshape(input: Tensor, size: tuple[int, ...]) -> Tensor:
    new = infer_size(size, input.numel())
    if input._view is None or can_view(input.shape, input._strides(), new):
        return bind.function("_view").call(input, new)
    return bind.function("_reshape_copy")(input, new)


@composite(where="torch")
def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape: a view where PyTorch's layout allows it, else a copy."""
    return _reshape(input, _sizes((shape,)))


@composite("reshape", where="method")
def _reshape_method(self: Tensor, *shape: Any, **kwargs: Any) -> Tensor:
    """The same elements in another shape: a view where PyTorch's layout allows it, else a copy."""
    return _reshape(self, _given("reshape", "shape", shape, kwargs))


@composite(where="method")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """`view` in the shape of ``other``."""
    return view(self, other.shape)


@composite(where="method")
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of ``other``."""
    return _reshape(self, tuple(other.shape))


@composite()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from ``start_dim`` to ``end_dim`` as one."""
    start, end = wrap_dim(start_dim, input.ndim), wrap_dim(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    shape = tuple(input.shape)
    if not shape:
        return _reshape(input, (1,))
    return (
        input
        if start == end
        else _reshape(input, (*shape[:start], numel(shape[start : end + 1]), *shape[end + 1 :]))
    )


@composite()
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
    return input.contiguous().view(-1) if input.numel() else _reshape(input, (0,))


@composite()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension split into several."""
    axis, shape = wrap_dim(dim, input.ndim), tuple(input.shape)
    sizes = _sizes((sizes,))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(n for n in sizes if n != -1)
    if (-1 not in sizes and known != shape[axis]) or (-1 in sizes and (known == 0 or shape[axis] % known)):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} "
            f"({shape[axis]}) in the "
            "input tensor"
        )
    return view(input, (*shape[:axis], *infer_size(sizes, shape[axis]), *shape[axis + 1 :]))


def squeeze_node(static: dict[str, Any]) -> str:
    dim = static.get("dim")
    return (
        "SqueezeBackward0"
        if dim is None
        else "SqueezeBackward2"
        if isinstance(dim, tuple)
        else "SqueezeBackward1"
    )


@op(view=True, node=squeeze_node)
def squeeze(input: TensorOnly, dim: int | tuple[int, ...] | None = None):
    """Without the dimensions of size 1, or those of them that are in ``dim``."""
    dims = range(input.ndim) if dim is None else () if dim == () else wrap_dims(dim, input.ndim)
    return lax.squeeze(input, [d for d in dims if input.shape[d] == 1])


@op(view=True)
def unsqueeze(input: TensorOnly, dim: int):
    """With a new dimension of size 1 before ``dim``."""
    return jnp.expand_dims(input, wrap_dim(dim, input.ndim + 1))


# permuting


@op("transpose", "swapaxes", "swapdims", view=True)
def transpose(input: TensorOnly, dim0: int, dim1: int):
    """Two dimensions exchanged."""
    a, b = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    return jnp.swapaxes(input, a, b) if input.ndim else input


@op(view=True)
def t(input: TensorOnly):
    """A matrix transposed; vectors and 0-dim tensors as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input.T


@op(view=True, varargs="dims")
def permute(input: TensorOnly, dims: tuple[int, ...]):
    """The dimensions in another order."""
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = tuple(wrap_dim(d, input.ndim) for d in dims)
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return lax.transpose(input, order)


def _moved(dim: int | tuple[int, ...], ndim: int, name: str) -> tuple[int, ...]:
    given = (dim,) if isinstance(dim, int) else dim
    dims = tuple(wrap_dim(d, ndim) for d in given)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    return dims


@op("movedim", "moveaxis", view=True, node="PermuteBackward0")
def movedim(input: TensorOnly, source: int | tuple[int, ...], destination: int | tuple[int, ...]):
    """Dimensions moved to other places, the others kept in order."""
    listed = [[x] if isinstance(x, int) else list(x) for x in (source, destination)]
    if len(listed[0]) != len(listed[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({listed[0]} dims) should contain the same number of "
            f"dims as destination ({listed[1]} dims)"
        )
    if input.ndim == 0:
        return input
    return jnp.moveaxis(
        input, _moved(source, input.ndim, "source"), _moved(destination, input.ndim, "destination")
    )


def _matrix_transpose(name: str) -> Any:
    def get(self: Tensor) -> Tensor:
        if self.ndim == 1:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
            )
        flipped: Any = bind.function("transpose")(self, -2, -1) if self.ndim else self
        return flipped.conj() if name == "mH" and self.is_complex() else flipped

    return property(get, doc="The last two dimensions exchanged" + (", conjugated." if name == "mH" else "."))


def _reverse_dims(self: Tensor) -> Tensor:
    """The dimensions in reverse order."""
    return bind.function("permute")(self, tuple(range(self.ndim))[::-1])


def _hermitian(self: Tensor) -> Tensor:
    """A matrix transposed and conjugated."""
    if self.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
    return self.mH if self.ndim else self  # type: ignore[attr-defined]


Tensor.T = property(_reverse_dims)  # type: ignore[attr-defined]
Tensor.H = property(_hermitian)  # type: ignore[attr-defined]
Tensor.mT = _matrix_transpose("mT")  # type: ignore[attr-defined]
Tensor.mH = _matrix_transpose("mH")  # type: ignore[attr-defined]


@composite()
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged, conjugated."""
    return input.mH  # type: ignore[attr-defined]


def _reshaped_in_place(name: str) -> None:
    """The in-place twin of a view op: the tensor looks at its Storage in another way, nothing is written."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self._check_history()
        overlay = storage.current()
        if overlay is not None and not overlay.transforms and overlay.is_outside(self):
            raise NotImplementedError(
                f"{name}_() inside a compiled function gives a new form to a tensor from outside, which "
                f"would not have it after the call. Use {name}()."
            )
        # In no_grad mode too, where PyTorch's history goes on to be that of the old form: its backward fails, or
        # mixes up the elements.
        recorded = not self._is_stale() and self.grad_fn is not None
        with grad_mode.set_grad_enabled(recorded):
            seen = bind.function(name)(self, *args, **kwargs)
        seen._view.origin = PLAIN if self._view is None else self._view.origin
        self._view = seen._view
        self._touch()
        if recorded:
            self._requires_grad, self._grad_fn, self._output_nr = (
                seen._requires_grad,
                seen._grad_fn,
                seen._output_nr,
            )
        return self

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"In-place version of `{name}`."
    composite(f"{name}_", where="method")(method)


for _name in ("t", "transpose", "swapaxes", "swapdims", "squeeze", "unsqueeze", "as_strided"):
    _reshaped_in_place(_name)


# expanding


@op(view=True, where="method", varargs="size")
def expand(input: TensorOnly, size: tuple[int, ...], *, implicit: bool = False):
    """Dimensions of size 1 repeated without a copy; -1 keeps a size."""
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
    """Every tensor expanded to the common shape; itself where it has that shape."""
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    shape = broadcast_shapes(*[tuple(x.shape) for x in listed])
    return tuple(x if tuple(x.shape) == shape else bind.function("expand")(x, shape) for x in listed)


# slicing


def _wrap_start(start: Any, size: int) -> Any:
    """A start counted from the end when negative; it may be traced."""
    return (
        (start + size if start < 0 else start)
        if isinstance(start, int)
        else jnp.where(start < 0, start + size, start)
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
    """``length`` elements along ``dim`` from ``start`` on."""
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
    """One slice along ``dim``, without that dimension."""
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
    """All slices along ``dim``."""
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
    """Parts of ``split_size`` elements along ``dim`` (the last may be smaller), or of the sizes in a list."""
    return split(self, split_size, dim)


@composite("unsafe_split")
def unsafe_split(tensor: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`, whose parts may be written to in place."""
    return _writable(split(tensor, split_size, dim))


@composite("unsafe_split_with_sizes")
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, whose parts may be written to in place."""
    return _writable(split_with_sizes(input, split_sizes, dim))


@composite("unsafe_chunk")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, whose parts may be written to in place."""
    return _writable(chunk(input, chunks, dim))


def _writable(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    for part in parts:
        if part._view is not None and part._view.origin is SPLIT:
            part._view.origin = PLAIN
    return parts


@composite("split", where="torch")
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of ``split_size`` elements along ``dim`` (the last may be smaller), or of the sizes in a list."""
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
    """Parts of the given sizes along ``dim``."""
    sizes = [operator.index(n) for n in split_sizes]
    return _cut("_split_sizes_part", input, check_split_sizes(input, sizes, dim), sizes)


def check_split_sizes(input: Tensor, sizes: Sequence[int], dim: int) -> int:
    """The dimension as a number from 0 on, if these sizes add up to its own."""
    axis = _axis_of("split", input, dim)
    total = input.shape[axis]
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
        )
    if sum(sizes) != total:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at "
            f"dimension {dim}), "
            f"but got split_sizes={sizes}"
        )
    return axis


@composite("chunk", where="torch method")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts of equal size along ``dim``; the last may be smaller."""
    axis = _axis_of("chunk", input, dim)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    total = input.shape[axis]
    if total == 0:
        return _cut("_split_sizes_part", input, axis, [0] * chunks)
    return split(input, -(-total // chunks), axis)


@composite()
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along ``dim``: as many as given, differing by one element at most, or cut at the given positions."""
    if input.ndim == 0:
        raise RuntimeError(
            f"tensor_split expected at least a 1-dimensional tensor, but got a tensor with {input.ndim} dims"
        )
    axis = wrap_dim(dim, input.ndim)
    total = input.shape[axis]
    at = indices_or_sections
    if isinstance(at, Tensor):
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
    def fn(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        if input.ndim < needed:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {needed} dimension, but got a tensor with {input.ndim} "
                "dimensions!"
            )
        if not isinstance(indices_or_sections, int | list | tuple | Tensor):
            given = f"Tensor, {type(indices_or_sections).__name__}"
            raise TypeError(f"{name}() received an invalid combination of arguments - got ({given})")
        dim = 0 if input.ndim == 1 else axis
        total = input.shape[dim]
        if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or total % indices_or_sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {total} is not "
                f"divisible by the split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, dim)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"`tensor_split` along dimension {axis}."
    composite(name)(fn)


for _name, _needed, _axis in (("vsplit", 2, 0), ("hsplit", 1, 1), ("dsplit", 3, 2)):
    _split_along(_name, _needed, _axis)


@op(view=True)
def diagonal(input: TensorOnly, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """A diagonal of the matrices in two dimensions, as the last dimension."""
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


@op(view=True, where="method")
def unfold(input: TensorOnly, dimension: int, size: int, step: int):
    """Windows of ``size`` elements, ``step`` apart, along a dimension; the window is the last dimension."""
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
    return jnp.moveaxis(jnp.take(x, index, axis=axis, mode="clip"), axis + 1, -1)


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
    return jnp.take(input.reshape(-1), index, mode="clip")


@composite("as_strided")
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """The elements that these strides reach in the tensor's Storage."""
    if input._view is not None and input._view.chain()[0].plan.name == LAID_OUT:
        raise NotImplementedError(
            "as_strided() in a compiled function, of an argument that is a view of another tensor: pass that tensor, "
            "or call as_strided() outside"
        )
    offset = input.storage_offset() if storage_offset is None else storage_offset
    if watch.state.level is not None:  # of a dual: its base has no tangent, or another
        return duals.linear(lambda x: _from_root(x, size, stride, offset), input)
    return _from_root(input, size, stride, offset)


def _from_root(input: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    root = input if input._view is None else input._base
    if root is None or root._view is not None:
        root = input.detach()
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
                f"as_strided() of a view of {root.dtype} as {dtype} is not recorded here: use reshape and indexing"
            )
        root = root.view(dtype)  # type: ignore[attr-defined]
    made = bind.function("_as_strided")(root, _sizes((size,)), _sizes((stride,)), offset)
    for name, on in zip(("_conj", "_neg_view"), turned, strict=True):
        made = bind.function(name)(made) if on else made
    return made


# complex parts


@composite(where="torch")
def real(input: Tensor) -> Tensor:
    """The real part; real tensors as they are."""
    if not isinstance(input, Tensor):
        raise TypeError(f"real(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return bind.function("_real")(input) if input.is_complex() else input


@op("_real", where="", view=True, node="RealBackward0")
def _real(input: TensorOnly):
    """The real part of complex numbers."""
    return jnp.real(input)


@op("imag", where="torch", view=True)
def imag(input: TensorOnly):
    """The imaginary part."""
    if input.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return jnp.imag(input)


def _complex_part(get: Callable[[Tensor], Any]) -> Any:
    def put(self: Tensor, value: Any) -> None:
        if isinstance(value, Tensor):
            get(self).copy_(value)
        else:
            get(self)[...] = value

    return property(get, put)


Tensor.real = _complex_part(real)  # type: ignore[attr-defined]
Tensor.imag = _complex_part(lambda self: bind.function("imag")(self))  # type: ignore[attr-defined]


@composite(where="torch")
def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers as pairs in a last dimension of size 2."""
    if input._turned()[0]:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the "
            "original."
        )
    return bind.function("_view_as_real")(input)


@op("_view_as_real", where="", view=True, node="ViewAsRealBackward0")
def _view_as_real(input: TensorOnly):
    """Complex numbers as pairs in a last dimension."""
    if input.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return jnp.stack([jnp.real(input), jnp.imag(input)], axis=-1)


@composite(where="torch")
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs in the last dimension, which lie side by side, as complex numbers."""
    if input._view is not None and input.ndim and input.shape[-1] == 2:
        *strides, last = input._strides()
        if last != 1:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any(stride % 2 for stride, size in zip(strides, input.shape, strict=False) if size > 1):
            raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
        if input.storage_offset() % 2:
            raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return bind.function("_view_as_complex")(input)


@op("_view_as_complex", where="", view=True, node="ViewAsComplexBackward0")
def _view_as_complex(input: TensorOnly):
    """Pairs in the last dimension as complex numbers."""
    if input.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return lax.complex(input[..., 0], input[..., 1])


# joining


def _legacy_empty(x: jax.Array) -> bool:
    return x.shape == (0,)


@op("cat", "concat", "concatenate", where="torch", order=common_format_order)
def cat(tensors: TensorsOnly, dim: int = 0):
    """Tensors one after another along ``dim``."""
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
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {first.shape[d]} "
                    "but got size "
                    f"{x.shape[d]} for tensor number {i} in the list."
                )
    return jnp.concatenate([x for _, x in kept], axis=axis)


@op(where="torch")
def stack(tensors: TensorsOnly, dim: int = 0):
    """Tensors of one shape along a new dimension."""
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
    """Tensors side by side: along dimension 1, or 0 for vectors."""
    _check_any("hstack", tensors)
    arrays = [at_least_1d(x) for x in tensors]
    return cat(arrays, 0 if arrays and arrays[0].ndim == 1 else 1)


@op("vstack", "row_stack", where="torch", node="CatBackward0")
def vstack(tensors: TensorsOnly):
    """Tensors one below the other: along dimension 0, vectors as rows."""
    _check_any("vstack", tensors)
    return cat([jnp.atleast_2d(x) for x in tensors], 0)


@op(where="torch", node="CatBackward0")
def dstack(tensors: TensorsOnly):
    """Tensors one behind the other: along dimension 2."""
    _check_any("dstack", tensors)
    return cat([jnp.atleast_3d(x) for x in tensors], 2)


@op(where="torch", node="CatBackward0")
def column_stack(tensors: TensorsOnly):
    """Tensors side by side, vectors as columns."""
    return cat([x.reshape(x.size, 1) if x.ndim <= 1 else x for x in tensors], 1)


@op(where="torch", varargs="tensors")
def block_diag(tensors: TensorsOnly):
    """A matrix with these matrices along its diagonal."""
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


# reordering and repeating


@op(varargs="dims", order=first_order)
def flip(input: TensorOnly, dims: tuple[int, ...]):
    """The order reversed along ``dims``."""
    return jnp.flip(input, wrap_dims(dims, input.ndim)) if dims != () else input


@op(node="FlipBackward0", order=first_order)
def fliplr(input: TensorOnly):
    """The columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return jnp.flip(input, 1)


@op(node="FlipBackward0", order=first_order)
def flipud(input: TensorOnly):
    """The rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return jnp.flip(input, 0)


@op(order=common_format_order)
def roll(input: TensorOnly, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None):
    """Elements shifted along ``dims``, those that fall off coming in at the other end."""
    amounts = (shifts,) if isinstance(shifts, int) else shifts
    axes = () if dims is None else (dims,) if isinstance(dims, int) else dims
    if not amounts:
        raise RuntimeError("`shifts` required")
    if not axes and len(amounts) == 1:
        return jnp.roll(input.reshape(-1), amounts[0]).reshape(input.shape)
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {axes[0]} but tensor has no dimensions")
    if len(amounts) != len(axes):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(amounts)}, dims:{len(axes)}")
    return jnp.roll(input, amounts, tuple(wrap_dim(d, input.ndim) for d in axes))


@op()
def rot90(input: TensorOnly, k: int = 1, dims: tuple[int, ...] = (0, 1)):
    """Rotated ``k`` times by 90 degrees in the plane of two dimensions."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == input.ndim:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return jnp.rot90(input, k, (wrap_dim(dims[0], input.ndim), wrap_dim(dims[1], input.ndim)))


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
    """The tensor repeated along its dimensions, copied."""
    return _repeat(input, repeats)


@op(node="RepeatBackward0", varargs="dims")
def tile(input: TensorOnly, dims: tuple[int, ...]):
    """`repeat` that leaves the leading dimensions alone when ``dims`` is short."""
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


_REPEATED = "a given output_size"


@composite()
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element repeated along ``dim`` (of the flattened input by default)."""
    if repeats is None:
        _check_repeats(input)
        if output_size is None:
            output_size = input.sum()._as_size("repeat_interleave", _REPEATED)
        return bind.function("_repeat_indices")(input, output_size)
    if not isinstance(repeats, Tensor):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        out = bind.function("_repeat_each")(input, operator.index(repeats), dim)
        return out.view(out.shape)  # as PyTorch's, a view of a tensor that nobody holds
    _check_repeats(repeats)
    length = input.numel() if dim is None else input.shape[wrap_dim(dim, input.ndim)]
    if repeats.numel() not in (1, length):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.numel()} and "
            f"input.size(0) = {length}"
        )
    if output_size is None:
        total = repeats.sum()._as_size("repeat_interleave", _REPEATED)  # type: ignore[attr-defined]
        output_size = total * (length if repeats.numel() == 1 else 1)
    return bind.function("_repeat_by")(input, repeats, dim, output_size)


@composite(where="torch")
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of vectors: one tensor per vector, in the shape of all of them."""
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
    """All combinations of one element from each vector, as rows."""
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


def _atleast(ndim: int, dims: Callable[[int], Sequence[int]]) -> None:
    def fn(*tensors: Any) -> Any:
        listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
        out = tuple(_widened(x, dims(x.ndim)) if x.ndim < ndim else x for x in listed)
        return out[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else out

    fn.__name__ = fn.__qualname__ = f"atleast_{ndim}d"
    fn.__doc__ = f"With at least {ndim} dimensions."
    composite(fn.__name__, where="torch")(fn)


def _widened(input: Tensor, dims: Sequence[int]) -> Tensor:
    """With dimensions of size 1 put in; a number is given its shape at once."""
    if input.ndim == 0:
        return _reshape(input, (1,) * len(dims))
    for dim in dims:
        input = bind.function("unsqueeze")(input, dim)
    return input


_atleast(1, lambda ndim: (0,))
_atleast(2, lambda ndim: (0, 0)[ndim:])
_atleast(3, lambda ndim: ((0, 0, 0), (0, -1), (-1,))[ndim])


# triangles and diagonals


def _triangle(name: str, input: jax.Array, keep: Any) -> jax.Array:
    """The elements whose column minus row ``keep`` accepts, zeros elsewhere."""
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    shape = input.shape[-2:]
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), shape, d) for d in (0, 1))
    return jnp.where(keep(columns - rows), input, jnp.zeros((), input.dtype))


@op(inplace=True)
def tril(input: TensorOnly, diagonal: int = 0):
    """The lower triangle, zeros above."""
    return _triangle("tril", input, lambda offset: offset <= diagonal)


@op(inplace=True)
def triu(input: TensorOnly, diagonal: int = 0):
    """The upper triangle, zeros below."""
    return _triangle("triu", input, lambda offset: offset >= diagonal)


@op()
def diag_embed(input: TensorOnly, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Matrices with the last dimension on a diagonal."""
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
    """A matrix with the vector on a diagonal, or a copy of a matrix's diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return globals()["diagonal"](input, diagonal)


@op(node="DiagEmbedBackward0")
def diagflat(input: TensorOnly, offset: int = 0):
    """A matrix with all elements on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


# putting parts back


def _check_part(src: jax.Array, shape: Sequence[int]) -> None:
    if src.shape != tuple(shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(shape)}"
        )


@op(order=first_order)
def select_scatter(input: TensorOnly, src: TensorOnly, dim: int, index: int):
    """A copy with ``src`` in the place of one slice."""
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

    The gradient of ``input`` is 0 there; PyTorch's is 0 everywhere else instead, which is an error.
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


@composite("narrow_copy")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`."""
    if length < 0 and input.ndim:
        size = input.shape[wrap_dim(dim, input.ndim)]
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return bind.function("narrow")(input, dim, start, length).clone()


@op("_unravel_index", where="", differentiable=False)
def _unravel_index(indices: TensorOnly, shape: tuple[int, ...]):
    """The coordinates of flat positions."""
    return tuple(i.astype(INT64) for i in jnp.unravel_index(indices, shape))


@composite("unravel_index", where="torch")
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension, of positions in a flattened tensor of ``shape``."""
    return bind.function("_unravel_index")(indices, (shape,) if isinstance(shape, int) else tuple(shape))


@op("_vander", where="", node="CatBackward0")
def _vander(x: TensorOnly, columns: int, increasing: bool):
    """Powers of a vector as columns."""
    exponents = jnp.arange(columns, dtype=x.dtype)
    powers = jnp.where(exponents == 0, jnp.ones((), x.dtype), x[..., None] ** exponents)
    return powers if increasing else powers[..., ::-1]


@composite("vander", where="torch")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix of a vector, highest powers first."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    return bind.function("_vander")(x, x.shape[0] if N is None else N, increasing)


@composite("vander", where="linalg")
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Vandermonde matrices, lowest powers first."""
    if x.dtype is dtypes.bool_:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
        )
    columns = (x.shape[-1] if x.ndim else 1) if N is None else N
    if columns <= 1:
        raise RuntimeError("N must be greater than 1.")
    return bind.function("_vander")(x if x.ndim else x.reshape(1), columns, True)  # type: ignore[attr-defined]
