"""Gathering and scattering by index tensors and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import executor
from .._array.fits import ITEM, OWN
from .._array.refusal import refuse
from .._base import determinism
from .._base.layout import first_order
from .._base.promotion import cast, promote
from .._run import bind
from .._run.out import write_out
from .._run.registry import Array, Scalar, TensorOnly, composite, op
from .._tensor.tensor import Tensor
from .._tensor.view import laid
from ._common import (
    BOOL,
    INT64,
    add_at,
    at_least_1d,
    broadcast_shapes,
    c_name,
    check_broadcast,
    check_index_range,
    choose,
    int32_if_small,
    is_inexact,
    multiply_at,
    not_implemented,
    numel,
    put_at,
    rounded_once,
    take_along,
    type_name,
    wrap_dim,
)

Indices = tuple[Any, ...]

# one index tensor along one dimension: gather and scatter


def _check_index_type(name: str, index: jax.Array) -> None:
    if index.dtype not in (np.int32, np.int64):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")


def _out_of_bounds(dim: int, size: int) -> Callable[[int], Exception]:
    return lambda bad: RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _check_gather_range(input: Any, dim: int, index: Any, src: Any = None, *_: Any, **__: Any) -> None:
    """Check that indices are in range, unless the shapes are wrong, which the operation itself reports."""
    axis = wrap_dim(dim, input.ndim)
    if getattr(src, "ndim", 0) not in (0, index.ndim):
        return
    if any(n > m for d, (n, m) in enumerate(zip(index.shape, input.shape, strict=False)) if d != axis):
        return
    size = input.shape[axis] if input.ndim else 1
    check_index_range(index, size, _out_of_bounds(axis, size), lowest=0)


def _fits(index: jax.Array, shape: tuple[int, ...], axis: int | None) -> bool:
    return all(d == axis or n <= m for d, (n, m) in enumerate(zip(index.shape, shape, strict=True)))


def _check_gather(input: jax.Array, axis: int, index: jax.Array) -> None:
    _check_index_type("gather", index)
    if index.ndim != input.ndim and max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for d, (n, m) in enumerate(zip(index.shape, input.shape, strict=False)):
        if d != axis and n > m:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no larger than self "
                f"{list(input.shape)} apart from dimension {axis}"
            )


@op(check=_check_gather_range)
@rounded_once
def gather(input: TensorOnly, dim: int, index: TensorOnly, *, sparse_grad: bool = False):
    """``out[i][j] = input[index[i][j]][j]`` for ``dim=0``, and so on. ``sparse_grad`` has no effect."""
    axis = wrap_dim(dim, input.ndim)
    if index.size == 0:
        return jnp.zeros(index.shape, input.dtype)
    _check_gather(input, axis, index)
    x, at = at_least_1d(input), at_least_1d(index)
    block = x[tuple(slice(None) if d == axis else slice(0, n) for d, n in enumerate(at.shape))]
    return take_along(block, int32_if_small(at, x.shape[axis]), axis).reshape(index.shape)


def _grid(index: jax.Array, axis: int) -> Indices:
    """Index arrays for ``x.at[...]``: element (i, j) goes to (index[i, j], j) for axis 0, and so on."""
    grid = [lax.broadcasted_iota(index.dtype, index.shape, d) for d in range(index.ndim)]
    grid[axis] = index
    return tuple(grid)


def _check_scatter(name: str, input: jax.Array, axis: int, index: jax.Array, src: jax.Array | None) -> None:
    _check_index_type("scatter", index)
    shapes = [input] if src is None else [input, src]
    if any(max(index.ndim, 1) != max(x.ndim, 1) for x in shapes):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as "
            f"{'self' if max(input.ndim, 1) != max(index.ndim, 1) else 'src'} tensor"
        )
    if src is not None and src.dtype != input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    at = at_least_1d(index)
    wide_enough = src is None or _fits(at, at_least_1d(src).shape, None)
    if not (_fits(at, at_least_1d(input).shape, axis) and wide_enough):
        tail = "" if src is None else f" and to be no larger size than src {list(src.shape)}"
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from dimension "
            f"{axis}{tail}"
        )


def _scatter_parts(
    name: str, input: jax.Array, dim: int, index: jax.Array, src: Any
) -> tuple[jax.Array, Indices, Any]:
    """The input, the index arrays and the values to write, with at least one dimension."""
    axis = wrap_dim(dim, input.ndim)
    is_array = getattr(src, "ndim", 0) > 0 or (hasattr(src, "dtype") and not getattr(src, "weak_type", False))
    x, at = at_least_1d(input), at_least_1d(index)
    if index.size == 0:
        return x, (jnp.zeros(0, np.int32),), jnp.zeros((0, *x.shape[1:]), x.dtype)
    _check_scatter(name, input, axis, index, src if is_array else None)
    values = at_least_1d(src)[tuple(slice(0, n) for n in at.shape)] if is_array else cast(src, input.dtype)
    return x, _grid(int32_if_small(at, max(x.shape)), axis), values


_LEGACY_REDUCE = {"add": add_at, "multiply": multiply_at}


@op(inplace=True, check=_check_gather_range, fits={"src": OWN, "value": OWN})
def scatter(
    input: TensorOnly,
    dim: int,
    index: TensorOnly,
    src: Array | None = None,
    *,
    value: Array | None = None,
    reduce: str | None = None,
):
    """A copy with ``out[index[i][j]][j] = src[i][j]`` for ``dim=0``, and so on; ``src`` may be a number."""
    src = value if src is None else src
    if reduce is not None and reduce not in _LEGACY_REDUCE:
        raise RuntimeError("reduce argument must be either add or multiply.")
    x, at, values = _scatter_parts("scatter", input, dim, index, src)
    if reduce is None:
        return put_at(x, at, values, mode="promise_in_bounds").reshape(input.shape)
    return _LEGACY_REDUCE[reduce](x, at, values, mode="promise_in_bounds").reshape(input.shape)


@op(inplace=True, check=_check_gather_range)
@rounded_once
def scatter_add(input: TensorOnly, dim: int, index: TensorOnly, src: TensorOnly):
    """A copy with ``out[index[i][j]][j] += src[i][j]`` for ``dim=0``, and so on."""
    x, at, values = _scatter_parts("scatter_add", input, dim, index, src)
    return add_at(x, at, values, mode="promise_in_bounds").reshape(input.shape)


@jax.custom_jvp
def _multiply_at(x: jax.Array, at: Indices, src: jax.Array) -> jax.Array:
    """``x``, multiplied by ``src`` at the indices ``at``."""
    return multiply_at(x, at, src, mode="promise_in_bounds")


@_multiply_at.defjvp
def _multiply_at_jvp(primals: Any, tangents: Any) -> Any:
    (x, at, src), (dx, _, dsrc) = primals, tangents
    out, how = _multiply_at(x, at, src), "promise_in_bounds"
    zeros = (x == 0).astype(np.int32).at[at].add((src == 0).astype(np.int32), mode=how)
    # zeros whose derivative is not 0
    none = jnp.where(x == 0, x, 0).at[at].add(jnp.where(src == 0, src, 0), mode=how)
    others = _multiply_at(
        jnp.where(x == 0, 1, x), at, jnp.where(src == 0, 1, src)
    )  # the product of what is not 0

    def slope(factor: jax.Array, out: jax.Array, zeros: jax.Array, none: jax.Array, others: jax.Array) -> Any:
        """The product of the other factors, in a form with the right derivative."""
        of_zero = jnp.where(zeros == 1, others, jnp.where(zeros == 2, others * (none - factor), 0))
        return jnp.where(factor == 0, of_zero, out / jnp.where(factor == 0, 1, factor))

    moved = (slope(src, out[at], zeros[at], none[at], others[at]) * dsrc).astype(x.dtype)
    return out, (slope(x, out, zeros, none, others) * dx).at[at].add(moved, mode=how)


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
_NEUTRAL = {"sum": 0, "prod": 1, "mean": 0}


def _reduce_at(x: jax.Array, at: Indices, values: jax.Array, reduce: str, include_self: bool) -> jax.Array:
    hit = jnp.zeros(x.shape, np.int32).at[at].add(1, mode="promise_in_bounds")
    start = x
    if not include_self:
        start = jnp.where(hit > 0, cast(_neutral(reduce, x.dtype), x.dtype), x)
    if reduce == "prod":
        return _multiply_at(start, at, values)
    if reduce in ("amax", "amin"):
        return _extreme_at(start, at, values, reduce == "amax")
    total = add_at(start, at, values, mode="promise_in_bounds")
    if reduce == "sum":
        return total
    count = jnp.maximum(hit + 1 if include_self else hit, 1).astype(x.dtype)
    return total / count if is_inexact(x.dtype) else jnp.floor_divide(total, count)


def _neutral(reduce: str, np_dtype: np.dtype[Any]) -> Any:
    if reduce in _NEUTRAL:
        return _NEUTRAL[reduce]
    if np_dtype == BOOL:
        return reduce == "amin"
    limits = jnp.finfo(np_dtype) if is_inexact(np_dtype) else jnp.iinfo(np_dtype)
    if is_inexact(np_dtype):
        return -np.inf if reduce == "amax" else np.inf
    return limits.min if reduce == "amax" else limits.max


@jax.custom_jvp
def _maximum_at(x: jax.Array, at: Indices, src: jax.Array) -> jax.Array:
    return x.at[at].max(src, mode="promise_in_bounds")


@_maximum_at.defjvp
def _maximum_at_jvp(primals: Any, tangents: Any) -> Any:
    """All elements that are equal to the maximum share the gradient."""
    (x, at, src), (dx, _, dsrc) = primals, tangents
    out = _maximum_at(x, at, src)
    own, theirs = x == out, src == out[at]
    count = own.astype(x.dtype).at[at].add(theirs.astype(x.dtype), mode="promise_in_bounds")
    tangent = jnp.where(own, dx, 0).at[at].add(jnp.where(theirs, dsrc, 0), mode="promise_in_bounds")
    return out, tangent / jnp.maximum(count, 1)


def _extreme_at(x: jax.Array, at: Indices, src: jax.Array, largest: bool) -> jax.Array:
    if largest or not is_inexact(x.dtype):
        return _maximum_at(x, at, src) if largest else x.at[at].min(src, mode="promise_in_bounds")
    return -_maximum_at(-x, at, -src)


def _check_reduce(reduce: str) -> None:
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")


@op(inplace=True, check=_check_gather_range)
@rounded_once
def scatter_reduce(
    input: TensorOnly, dim: int, index: TensorOnly, src: TensorOnly, reduce: str, *, include_self: bool = True
):
    """A copy into which `scatter` reduces ``src``: by "sum", "prod", "mean", "amax" or "amin"."""
    _check_reduce(reduce)
    if reduce == "mean":
        not_implemented("scatter_gather_tensor_cpu_reduce_mean", input, kinds="b")
    x, at, values = _scatter_parts("scatter_reduce", input, dim, index, src)
    return _reduce_at(x, at, values, reduce, include_self).reshape(input.shape)


# one vector of positions along one dimension


def _check_vector(name: str, index: jax.Array) -> None:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    if index.dtype not in (np.int32, np.int64):
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index")


def _check_select_range(input: Any, dim: int, index: Any) -> None:
    size = input.shape[wrap_dim(dim, input.ndim)] if input.ndim else 1
    if size == 0 and index.size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    check_index_range(index, size, lambda bad: IndexError("index out of range in self"), lowest=0)


@op(check=_check_select_range)
@rounded_once
def index_select(input: TensorOnly, dim: int, index: TensorOnly):
    """The slices along ``dim`` at the positions ``index``."""
    _check_vector("index_select", index)
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    at = int32_if_small(at_least_1d(index), x.shape[axis])
    out = x.at[(slice(None),) * axis + (at,)].get(mode="promise_in_bounds", wrap_negative_indices=False)
    return out if input.ndim else out.reshape(())


def _along(x: jax.Array, axis: int, index: jax.Array) -> Indices:
    at = at_least_1d(index)
    at = choose(at < 0, at + x.shape[axis], at)
    return (slice(None),) * axis + (int32_if_small(at, x.shape[axis]),)


def _check_source(
    name: str, input: jax.Array, dim: int, index: jax.Array, source: jax.Array, error: type[Exception]
) -> None:
    if index.ndim > 1:
        raise IndexError(f"{name}_(): Index should have dimension 1 or 0 (got {index.ndim})")
    axis = wrap_dim(dim, input.ndim)
    size = source.shape[axis] if source.ndim else 1
    if index.size != size:
        tail = f", for dim: {axis}" if error is RuntimeError else ""
        shown = f"source.size(dim): ({size})" if error is RuntimeError else f"source.size(dim) ({size})"
        raise error(f"{name}_(): Number of indices ({index.size}) should be equal to {shown}{tail}")


def _check_add_range(input: Any, dim: int, index: Any, source: Any, *_: Any, **__: Any) -> None:
    axis = wrap_dim(dim, input.ndim)
    size = input.shape[axis] if input.ndim else 1
    if index.size == (source.shape[axis] if source.ndim else 1) and index.ndim < 2:
        line = IndexError("index out of range in self")
        check_index_range(
            index, size, (lambda bad: line) if input.ndim == 1 else _out_of_bounds(axis, size), lowest=0
        )


@op(inplace=True, check=_check_add_range, fits={"alpha": OWN})
@rounded_once
def index_add(input: TensorOnly, dim: int, index: TensorOnly, source: TensorOnly, *, alpha: Scalar = 1):
    """A copy with ``alpha * source`` added to the slices at the positions ``index``."""
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"index_add_(): self ({type_name(input)}) and source ({type_name(source)}) must have the same scalar type"
        )
    _check_source("index_add", input, dim, index, source, RuntimeError)
    axis = wrap_dim(dim, input.ndim)
    if input.shape[:axis] + input.shape[axis + 1 :] != source.shape[:axis] + source.shape[axis + 1 :]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(input.shape)} source.shape = {list(source.shape)}"
        )
    axis = wrap_dim(dim, input.ndim)
    x, values = at_least_1d(input), at_least_1d(source)
    if not (isinstance(alpha, int) and alpha == 1):
        values = values * cast(alpha, values.dtype)
    return add_at(x, _along(x, axis, index), values, mode="promise_in_bounds").reshape(input.shape)


def _checked_range(prefix: str) -> Callable[..., None]:
    """A check that indices are in range, counting negative ones from the end."""

    def check(input: Any, dim: int, index: Any, *_: Any, **__: Any) -> None:
        axis = wrap_dim(dim, input.ndim)
        size = input.shape[axis] if input.ndim else 1
        text = f"is out of bounds for dimension {axis} with size {size}"
        check_index_range(index, size, lambda bad: IndexError(f"{prefix}index {bad} {text}"))

    return check


@op(inplace=True, check=_checked_range("index_copy_(): "))
def index_copy(input: TensorOnly, dim: int, index: TensorOnly, source: TensorOnly):
    """A copy with the slices of ``source`` at the positions ``index``."""
    if input.dtype != source.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{type_name(input)} and (source) {type_name(source)}"
        )
    axis = wrap_dim(dim, input.ndim)
    if not source.ndim and index.size != 1:
        raise IndexError(
            f"index_copy_(): When source is scalar, index should have one element (got {index.size})"
        )
    if input.ndim and source.ndim and input.ndim != source.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({input.ndim})"
        )
    _check_source("index_copy", input, dim, index, source, IndexError)
    ours, theirs = (s[:axis] + s[axis + 1 :] for s in (input.shape, source.shape))
    if ours != theirs:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, ours))} at dimension {axis} and source slice shape: {' '.join(map(str, theirs))} at "
            "dimension 0."
        )
    x = at_least_1d(input)
    at = _along(x, axis, index)
    return put_at(x, at, at_least_1d(source), mode="promise_in_bounds").reshape(input.shape)


@op(inplace=True, check=_checked_range(""), fits={"value": ITEM}, order=first_order)
def index_fill(input: TensorOnly, dim: int, index: TensorOnly, value: Array):
    """A copy with ``value`` in the slices at the positions ``index``."""
    if getattr(value, "ndim", 0) > 0:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    return (
        x.at[_along(x, axis, index)].set(cast(value, x.dtype), mode="promise_in_bounds").reshape(input.shape)
    )


@op(inplace=True, check=_check_add_range)
@rounded_once
def index_reduce(
    input: TensorOnly,
    dim: int,
    index: TensorOnly,
    source: TensorOnly,
    reduce: str,
    *,
    include_self: bool = True,
):
    """A copy into which the slices of ``source`` are reduced by index: "prod", "mean", "amax" or "amin"."""
    if reduce not in _REDUCTIONS[1:]:
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    not_implemented("index_func_", input, kinds="b")
    _check_source("index_reduce", input, dim, index, source, RuntimeError)
    axis = wrap_dim(dim, input.ndim)
    x, values = at_least_1d(input), at_least_1d(source)
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    full = jnp.broadcast_to(at_least_1d(index).reshape(shape), values.shape)
    return _reduce_at(x, _grid(full, axis), values, reduce, include_self).reshape(input.shape)


# positions in the flattened input


def _check_flat_range(input: Any, index: Any, *_: Any, **__: Any) -> None:
    def message(bad: int) -> Exception:
        return IndexError(f"out of range: tried to access index {bad} on a tensor of {input.size} elements.")

    check_index_range(index, input.size, message)


def _flat_index(name: str, input: jax.Array, index: jax.Array) -> jax.Array:
    if index.dtype != np.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {type_name(index)}")
    return int32_if_small(jnp.where(index < 0, index + input.size, index), input.size)


@op(check=_check_flat_range)
@rounded_once
def take(input: TensorOnly, index: TensorOnly):
    """The elements of the flattened input at the positions ``index``."""
    at = _flat_index("take", input, index)
    return input.reshape(-1).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _check_put(input: Any, index: Any, source: Any, accumulate: bool = False) -> None:
    if not accumulate:
        determinism.alert("put_")
    _check_flat_range(input, index)


@op(inplace=True, check=_check_put, order=first_order)
@rounded_once
def put(input: TensorOnly, index: TensorOnly, source: TensorOnly, accumulate: bool = False):
    """A copy with ``source`` written (or added) at positions of the flattened input."""
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {type_name(input)} and "
            f"source.dtype = {type_name(source)}"
        )
    if index.size != source.size:
        raise RuntimeError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.size}, index.numel() = {index.size}"
        )
    flat, at = input.reshape(-1), _flat_index("put_", input, index).reshape(-1)
    if not accumulate:
        return put_at(flat, (at,), source.reshape(-1), mode="promise_in_bounds").reshape(input.shape)
    return add_at(flat, at, source.reshape(-1), mode="promise_in_bounds").reshape(input.shape)


def _check_take_along(input: Any, indices: Any, dim: int | None = None) -> None:
    if dim is None:
        _check_flat_range(input, indices)
    else:
        axis = wrap_dim(dim, input.ndim)
        size = input.shape[axis]
        check_index_range(indices, size, _out_of_bounds(axis, size))


@op(node="GatherBackward0", check=_check_take_along)
@rounded_once
def take_along_dim(input: TensorOnly, indices: TensorOnly, dim: int | None = None):
    """`gather`, with input and indices broadcast; without ``dim``, from the flattened input."""
    if dim is None:
        if indices.dtype not in (np.int64, np.int32):
            raise RuntimeError("gather(): Expected dtype int32/int64 for index")
        return input.reshape(-1)[indices.reshape(-1)]
    if indices.dtype != np.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {type_name(indices)}"
        )
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    axis = wrap_dim(dim, input.ndim)
    x = jnp.broadcast_to(
        input, _shape_with(broadcast_shapes(_one(input, axis), _one(indices, axis)), axis, input)
    )
    at = jnp.broadcast_to(
        indices, _shape_with(broadcast_shapes(_one(input, axis), _one(indices, axis)), axis, indices)
    )
    return take_along(x, jnp.where(at < 0, at + x.shape[axis], at), axis)


def _one(x: jax.Array, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], 1, *x.shape[axis + 1 :])


def _shape_with(shape: tuple[int, ...], axis: int, x: jax.Array) -> tuple[int, ...]:
    return (*shape[:axis], x.shape[axis], *shape[axis + 1 :])


# masks


def _check_mask_type(name: str, mask: jax.Array) -> None:
    if mask.dtype != BOOL:
        found = type_name(mask) if name == "masked_scatter_" else c_name(mask)
        raise RuntimeError(f"{name} only supports boolean masks, but got mask with dtype {found}")


@op(inplace=True, fits={"value": ITEM})
def masked_fill(input: TensorOnly, mask: TensorOnly, value: Array):
    """A copy with ``value`` where ``mask`` is True."""
    _check_mask_type("masked_fill_", mask)
    if getattr(value, "ndim", 0) > 0:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    check_broadcast(mask, input)
    return jnp.where(mask, cast(value, input.dtype), input)


def _check_enough(input: Any, mask: Any, source: Any) -> None:
    if input.dtype != source.dtype or mask.dtype != BOOL:
        return  # an error of its own
    size, times = source.size, numel(broadcast_shapes(input.shape, mask.shape)) // max(mask.size, 1)
    refuse(
        lambda mask: mask.sum() * times > size,
        lambda mask: RuntimeError("Number of elements of source < number of ones in mask"),
        mask,
    )


@op(inplace=True, check=_check_enough)
def masked_scatter(input: TensorOnly, mask: TensorOnly, source: TensorOnly):
    """A copy in which the elements where ``mask`` is True are, in order, those of ``source``."""
    _check_mask_type("masked_scatter_", mask)
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got{type_name(input)} and "
            f"{type_name(source)}"
        )
    shape = broadcast_shapes(input.shape, mask.shape)
    full = jnp.broadcast_to(mask, shape).reshape(-1)
    if source.size == 0:
        return jnp.broadcast_to(input, shape)
    order = jnp.clip(jnp.cumsum(full) - 1, 0, source.size - 1)
    return jnp.where(full.reshape(shape), source.reshape(-1)[order].reshape(shape), input)


_STATIC = "torch.nonzero_static(input, size=...)"


@op("_masked_select", where="", node="MaskedSelectBackward0")
def _masked_select(input: TensorOnly, index: TensorOnly, shape: tuple[int, ...]):
    """The elements of the broadcast input at flat positions."""
    return jnp.broadcast_to(input, shape).reshape(-1).at[index].get(mode="promise_in_bounds")


@composite()
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A vector of the elements where ``mask`` is True."""
    if mask.dtype.np != BOOL:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(tuple(mask.shape), tuple(input.shape))
    flat = bind.function("_flat_nonzero")(mask, shape)
    result = bind.function("_masked_select")(input, flat, shape)
    return result if out is None else write_out(out, result, "masked_select", (input, mask))


@op(
    "_flat_nonzero",
    where="",
    eager=f"torch.where(mask, input, other), or the first positions from {_STATIC}",
    differentiable=False,
)
def _flat_nonzero(mask: TensorOnly, shape: tuple[int, ...]):
    """The flat positions where the broadcast mask is True."""
    return executor.current.place(np.flatnonzero(np.broadcast_to(np.asarray(mask), shape)).astype(INT64))


@op("_nonzero", where="", eager=_STATIC, differentiable=False)
def _nonzero(input: TensorOnly):
    """The indices of nonzero elements, as rows."""
    return executor.current.place(np.argwhere(np.asarray(input) != 0).astype(INT64))


@composite()
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """The indices of nonzero elements: the rows of a matrix, or with ``as_tuple`` one vector per dimension."""
    if out is not None and as_tuple:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if out is not None and out.dtype.np != INT64:
        raise RuntimeError(
            f"nonzero: Expected out tensor to have scalar type Long but got scalar type{out.dtype.scalar_name}"
        )
    if as_tuple and input.ndim == 0:
        input = input.reshape(1)  # type: ignore[attr-defined]
    rows = laid(bind.function("_nonzero")(input), (1, 0))
    if out is not None:
        return write_out(out, rows, "nonzero", (input,))
    return tuple(rows.unbind(1)) if as_tuple else rows


@op(differentiable=False)
def nonzero_static(input: TensorOnly, *, size: int, fill_value: int = -1):
    """The indices of the first ``size`` nonzero elements, as rows; missing ones are ``fill_value``."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if input.ndim == 0:
        return jnp.zeros((size, 0), INT64)
    if input.size == 0:
        return jnp.full((size, input.ndim), fill_value, INT64)
    found = jnp.nonzero(input, size=size, fill_value=fill_value)
    return jnp.stack(found, axis=1).astype(INT64)


@composite()
def argwhere(input: Tensor) -> Tensor:
    """The indices of nonzero elements, as rows."""
    return nonzero(input)


@op(where="torch", differentiable=False)
def isin(elements: Array, test_elements: Array, *, assume_unique: bool = False, invert: bool = False):
    """Whether each element is one of ``test_elements``."""
    for given in (elements, test_elements):
        if getattr(given, "dtype", BOOL).kind in "bc" and (hasattr(given, "ndim") or isinstance(given, bool)):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {type_name(given)}")
    x, among = promote(elements, test_elements)
    return jnp.isin(x, among, invert=invert)


@composite("fill_diagonal_", where="method")
def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Fill the main diagonal with a number, in place; ``wrap`` starts it again below a square."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    self._check_inplace(name="fill_diagonal_")
    return self._take(bind.function("_diagonal_filled")(self, fill_value, wrap))


@op("_diagonal_filled", where="", node="FillBackward0", fits={"value": OWN})
def _diagonal_filled(input: TensorOnly, value: Array, wrap: bool):
    """A copy with the main diagonal filled with a number."""
    shape = input.shape
    step = sum(numel(shape[d + 1 :]) for d in range(len(shape)))
    last = numel(shape) if wrap and len(shape) == 2 else min(min(shape) * step, numel(shape))
    position = np.arange(0, last, step)
    return input.reshape(-1).at[position].set(cast(value, input.dtype)).reshape(shape)
