"""Changes of shape: `view`, `reshape`, `flatten`, `squeeze`, `unsqueeze`; and view operations in place."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from .._array import tracing
from .._array.sizes import as_index, is_one, plain_dim
from .._base import dtypes, strides
from .._base.tuning import tuning
from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor import grad_mode
from .._tensor.tensor import Tensor
from .._tensor.view import PLAIN, reinterpret
from ._common import INT64, numel, type_name, wrap_dim, wrap_dims


def infer_size(size: Sequence[int], count: int) -> tuple[int, ...]:
    """``size`` with its -1 filled in for ``count`` elements."""
    return _inferred(tuple(map(plain_dim, size)), plain_dim(count))


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
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified dimension size -1 "
            "can be any value and is ambiguous"
        )
    if known == 0 or count % known:
        raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {count}")
    return tuple(count // known if n == -1 else n for n in size)


def _suffix_products(size: Sequence[int]) -> set[int]:
    return {1, *itertools.accumulate(reversed(size), operator.mul)}


def can_view(shape: Sequence[int], strides: Sequence[int], size: Sequence[int]) -> bool:
    """Whether a tensor with these strides has a view in the shape ``size``.

    Adjacent dimensions that are contiguous together form a block. No new dimension may extend over two blocks.
    """
    shape, strides, size = (tuple(map(plain_dim, part)) for part in (shape, strides, size))
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
    return tuple(s if type(s) is int else as_index(s) for s in size)


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


def _check_sizes(input: Tensor, new: dtypes.dtype) -> None:
    """Refuse a view of elements of another size that lie so that there is none."""
    old = input.dtype
    if new.itemsize == old.itemsize or not input.ndim:
        return
    how = f"to view {old.scalar_name} as {new.scalar_name} (different element sizes), but got"
    strides, offset = input._layout()
    ratio = new.itemsize // old.itemsize
    if ratio and input.shape[-1] % ratio:
        return  # which the operation tells
    if strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {how} {strides[-1]}")
    if ratio and offset % ratio:
        raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {how} {offset}")
    for dim, stride in enumerate(strides[:-1]):
        if ratio and stride % ratio:
            raise RuntimeError(f"self.stride({dim}) must be divisible by {ratio} {how} {stride}")


@op("_reshape_copy", where="", node="UnsafeViewBackward0")
def _reshape_copy(input: TensorOnly, size: tuple[int, ...]):
    """A copy in another shape."""
    return input.reshape(size)


_NEGATIVE = "tensors with negative bit set"


@composite(where="method")
def view(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """A view in another shape, or of the same bytes as another ``dtype``; it shares the Storage."""
    if "dtype" in kwargs or (len(size) == 1 and isinstance(size[0], dtypes.dtype | type)):
        new_type = dtypes.as_dtype(kwargs["dtype"] if kwargs else size[0], "view")
        conj, neg = self._turned()
        if conj or neg:
            raise RuntimeError(
                f"torch.Tensor.view is not supported for {'conjugate view tensors' if conj else _NEGATIVE} when "
                "converting to a different dtype."
            )
        # PyTorch does not count it as a view: it has no history
        _check_sizes(self, new_type)
        return bind.function("_view_dtype")(self, new_type)._alias()
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
    """The tensor in another shape: a view if its strides allow one, else a copy."""
    return _reshape(input, _sizes((shape,)))


@composite("reshape", where="method")
def _reshape_method(self: Tensor, *shape: Any, **kwargs: Any) -> Tensor:
    """The tensor in another shape: a view if its strides allow one, else a copy."""
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
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one."""
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
    """All elements as a vector."""
    return input.contiguous().view(-1) if input.numel() else _reshape(input, (0,))


@composite()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split dimension ``dim`` into dimensions of ``sizes``, one of which may be -1."""
    axis, shape = wrap_dim(dim, input.ndim), tuple(input.shape)
    sizes = _sizes((sizes,))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(n for n in sizes if n != -1)
    if (-1 not in sizes and known != shape[axis]) or (-1 in sizes and (known == 0 or shape[axis] % known)):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({shape[axis]}) in "
            "the input tensor"
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
    """Remove all dimensions of size 1, or those in ``dim``."""
    dims = range(input.ndim) if dim is None else () if dim == () else wrap_dims(dim, input.ndim)
    return lax.squeeze(input, [d for d in dims if is_one(input.shape[d])])


@op(view=True)
def unsqueeze(input: TensorOnly, dim: int):
    """Insert a dimension of size 1 at position ``dim``."""
    return jnp.expand_dims(input, wrap_dim(dim, input.ndim + 1))


def _atleast(ndim: int, dims: Callable[[int], Sequence[int]]) -> None:
    def fn(*tensors: Any) -> Any:
        listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
        out = tuple(_widened(x, dims(x.ndim)) if x.ndim < ndim else x for x in listed)
        return out[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else out

    fn.__name__ = fn.__qualname__ = f"atleast_{ndim}d"
    fn.__doc__ = f"Give each tensor at least {ndim} dimension{'s' * (ndim > 1)}, by inserting some of size 1."
    composite(fn.__name__, where="torch")(fn)


def _widened(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Insert dimensions of size 1."""
    if input.ndim == 0:
        return _reshape(input, (1,) * len(dims))
    for dim in dims:
        input = bind.function("unsqueeze")(input, dim)
    return input


_atleast(1, lambda ndim: (0,))
_atleast(2, lambda ndim: (0, 0)[ndim:])
_atleast(3, lambda ndim: ((0, 0, 0), (0, -1), (-1,))[ndim])


@op("_unravel_index", where="", differentiable=False)
def _unravel_index(indices: TensorOnly, shape: tuple[int, ...]):
    """The coordinates of flat positions."""
    steps = strides.contiguous(shape)
    return tuple(indices.astype(INT64) // step % n for step, n in zip(steps, shape, strict=True))


@composite("unravel_index", where="torch")
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension, of positions in a flattened tensor of ``shape``."""
    if indices.dtype.np.kind not in "iu":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype!r}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in sizes:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if min(sizes, default=0) < 0:
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    return bind.function("_unravel_index")(indices, sizes)


# in place


def _reshaped_in_place(name: str) -> None:
    """Register the in-place form of a view operation: it changes the tensor's view, and writes nothing."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self._check_history()
        overlay = tracing.current()
        if overlay is not None and not overlay.transforms and overlay.is_outside(self):
            raise NotImplementedError(
                f"{name}_() inside a compiled function cannot change the shape of a tensor from outside: the change "
                f"would be lost after the call. Use {name}()."
            )
        # Also in no_grad mode. PyTorch keeps the old shape's history there, so its backward fails or mixes up elements.
        recorded = not self._is_stale() and self.grad_fn is not None
        with grad_mode.set_grad_enabled(recorded):
            seen = bind.function(name)(self, *args, **kwargs)
        seen._view.origin = PLAIN if self._view is None else self._view.origin
        self._view = seen._view
        tracing.bump_epoch()
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
