"""Reductions and scans: sums, means, extrema, norms, order statistics, cumulative operations."""

from __future__ import annotations

import builtins
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.refusal import refuse
from .._base import dtypes
from .._base.division import divide
from .._base.promotion import promote_types
from .._run import bind
from .._run.registry import Array, Arrays, Scalar, TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    BOOL,
    INT64,
    Dims,
    absolute,
    at_least_1d,
    check_broadcast,
    elementwise,
    float_dtype,
    index_dtype,
    is_inexact,
    no_complex,
    not_implemented,
    positions,
    rounded_once,
    stable_order,
    type_name,
    wide,
    wrap_dim,
    wrap_dims,
)


def _node(name: str) -> Any:
    """PyTorch numbers the nodes: ``SumBackward0`` reduces everything, ``SumBackward1`` over dimensions."""
    return lambda static: f"{name}Backward{int(static.get('dim') is not None)}"


# sums and products


def _sum_dtype(input: jax.Array, dtype: dtypes.dtype | None) -> np.dtype[Any]:
    """The result type of a sum or product: integers and bools are summed as int64."""
    if dtype is not None:
        return dtype.np
    return input.dtype if is_inexact(input.dtype) else INT64


def _reduce(fn: Any, input: jax.Array, dim: Dims, keepdim: bool, out: np.dtype[Any]) -> jax.Array:
    """A reduction that accumulates half precision in float32 and rounds once."""
    dims = wrap_dims(dim, input.ndim)
    return fn(input.astype(wide(out)), axis=dims, keepdims=keepdim).astype(out)


@op(node=_node("Sum"))
def sum(input: TensorOnly, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None):
    """The sum over ``dim`` (all dimensions by default)."""
    return _reduce(jnp.sum, input, dim, keepdim, _sum_dtype(input, dtype))


@op()
def nansum(input: TensorOnly, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None):
    """The sum, with nan counted as 0."""
    no_complex("nansum on CPU does not support complex inputs", input)
    filled = jnp.where(input != input, 0, input).astype(input.dtype)
    return _reduce(jnp.sum, filled, dim, keepdim, _sum_dtype(input, dtype))


def _mean_dtype(input: jax.Array, dtype: dtypes.dtype | None) -> np.dtype[Any]:
    chosen = dtype.np if dtype is not None else input.dtype
    if not is_inexact(chosen):
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. "
            f"Got: {dtypes.from_np(chosen).scalar_name}"
        )
    return chosen


@op(node=_node("Mean"))
def mean(input: TensorOnly, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None):
    """The mean over ``dim`` (all dimensions by default)."""
    out = _mean_dtype(input, dtype)
    total = _reduce(jnp.sum, input, dim, keepdim, wide(out))
    return divide(total, _count(input, dim)).astype(out)


def _count(input: jax.Array, dim: Dims) -> int:
    """How many elements one result is made of."""
    return math.prod(input.shape[d] for d in wrap_dims(dim, input.ndim))


@op()
def nanmean(input: TensorOnly, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None):
    """The mean of the values that are not nan."""
    if not is_inexact(input.dtype):
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {type_name(input)}"
        )
    count = jnp.sum(
        input == input, axis=wrap_dims(dim, input.ndim), keepdims=keepdim, dtype=index_dtype(input.size)
    )
    total = nansum(input, dim, keepdim, dtype=dtype)
    return elementwise(divide, total, count.astype(wide(total.dtype)).astype(total.dtype))


@op(node=_node("Prod"))
def prod(
    input: TensorOnly, dim: int | None = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None
):
    """The product over ``dim`` (all dimensions by default)."""
    return _reduce(jnp.prod, input, dim, keepdim, _sum_dtype(input, dtype))


@op(differentiable=False)
def count_nonzero(input: TensorOnly, dim: Dims = None):
    """How many values are not 0."""
    return jnp.sum(input != 0, axis=wrap_dims(dim, input.ndim), dtype=INT64)


# variance


def _correction(dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Dims, float]:
    """The dimensions and the correction from both spellings; ``var(False)`` means ``var(unbiased=False)``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        return dim, 1 if unbiased else 0
    return dim, 1 if correction is None else correction


def _variance(
    name: str, input: jax.Array, dim: Dims, correction: float, keepdim: bool
) -> tuple[jax.Array, jax.Array]:
    """Variance and mean, both in the type to compute in."""
    if not is_inexact(input.dtype):
        who = "std and var" if name in ("std", "var") else name
        raise RuntimeError(f"{who} only support floating point and complex dtypes")
    x = input.astype(wide(input.dtype))
    dims, count = wrap_dims(dim, x.ndim), _count(x, dim)
    if count - correction <= 0:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=2,
        )
    average = divide(jnp.sum(x, axis=dims, keepdims=True), count)
    # around one of them, so that equal numbers have no variance, not even by rounding
    first = x[tuple([slice(1) if d in dims else slice(None) for d in range(x.ndim)])]
    off = x - lax.stop_gradient(first)
    off = off - divide(jnp.sum(off, axis=dims, keepdims=True), count)
    square = jnp.real(off) ** 2 + jnp.imag(off) ** 2 if off.dtype.kind == "c" else off * off
    variance = divide(jnp.sum(square, axis=dims, keepdims=keepdim), builtins.max(count - correction, 0))
    return variance, average if keepdim else average.reshape(variance.shape)


def sqrt_flat_at_zero(x: jax.Array) -> jax.Array:
    """The square root, with gradient 0 (not infinity) at 0: what PyTorch does in norms and standard deviations."""
    return jnp.where(x == 0, 0, jnp.sqrt(jnp.where(x == 0, 1, x))).astype(x.dtype)


def _real_of(np_dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtypes.from_np(np_dtype).to_real().np


@op()
def var(
    input: TensorOnly,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
):
    """The variance: squared deviations from the mean, summed and divided by ``count - correction``."""
    dim, correction = _correction(dim, unbiased, correction)
    return _variance("var", input, dim, correction, keepdim)[0].astype(_real_of(input.dtype))


@op()
def std(
    input: TensorOnly,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
):
    """The standard deviation; its gradient is 0 where it is 0."""
    dim, correction = _correction(dim, unbiased, correction)
    variance = _variance("std", input, dim, correction, keepdim)[0]
    return sqrt_flat_at_zero(variance).astype(_real_of(input.dtype))


@op(where="torch")
def var_mean(
    input: TensorOnly,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Array, Array]:
    """Variance and mean."""
    dim, correction = _correction(dim, unbiased, correction)
    variance, average = _variance("var_mean", input, dim, correction, keepdim)
    return variance.astype(_real_of(input.dtype)), average.astype(input.dtype)


@op(where="torch")
def std_mean(
    input: TensorOnly,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Array, Array]:
    """Standard deviation and mean."""
    dim, correction = _correction(dim, unbiased, correction)
    variance, average = _variance("std_mean", input, dim, correction, keepdim)
    return sqrt_flat_at_zero(variance).astype(_real_of(input.dtype)), average.astype(input.dtype)


# extrema


def _check_not_empty(name: str, input: jax.Array, dim: Dims, error: type[Exception] = RuntimeError) -> None:
    if dim is None or dim == ():
        if input.size == 0:
            tail = " Specify the reduction dim with the 'dim' argument." if error is RuntimeError else ""
            raise error(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.{tail}")
        return
    for d in wrap_dims(dim, input.ndim):
        if input.ndim and input.shape[d] == 0:
            shown = name if name == "aminmax" else f"{name}()"
            raise IndexError(f"{shown}: Expected reduction dim {d} to have non-zero size.")


@op("_max", where="", node="MaxBackward1")
def max_all(input: TensorOnly):
    """The largest value; ties share the gradient."""
    _check_not_empty("max", input, None)
    from ._extremes import largest

    return largest(input, wrap_dims(None, input.ndim), nans=True)


@op("_min", where="", node="MinBackward1")
def min_all(input: TensorOnly):
    """The smallest value; ties share the gradient."""
    _check_not_empty("min", input, None)
    from ._extremes import smallest

    return smallest(input, wrap_dims(None, input.ndim), nans=True)


def _pick(name: str, input: jax.Array, dim: int, keepdim: bool) -> tuple[jax.Array, jax.Array]:
    """Values and indices of an extremum along one dimension: the gradient goes to the picked element alone."""
    _check_not_empty(name, input, dim)
    index = _arg(name, lax.stop_gradient(input), dim, True)
    values = take_along(input, index, wrap_dim(dim, input.ndim))
    if not keepdim and input.ndim:
        values, index = values.squeeze(dim), index.squeeze(dim)
    return values, index.astype(INT64)


def take_along(input: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    """``input`` at indices along one dimension that are known to be in range."""
    if input.ndim == 0:
        return input
    return jnp.take_along_axis(input, index, axis=dim, mode="promise_in_bounds")


@op("_max_dim", where="", node="MaxBackward0", return_type="max", returns=("values", "indices"))
def max_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The largest values along ``dim`` and where they are."""
    return _pick("max", input, dim, keepdim)


@op("_min_dim", where="", node="MinBackward0", return_type="min", returns=("values", "indices"))
def min_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The smallest values along ``dim`` and where they are."""
    return _pick("min", input, dim, keepdim)


def _extremum(name: str, elementwise_name: str) -> Any:
    def fn(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
    ) -> Any:
        kwargs = {} if out is None else {"out": out}
        if not isinstance(input, Tensor) and dim is not None:
            given = f"{type(input).__name__}, {type(dim).__name__}"
            raise TypeError(f"{name}() received an invalid combination of arguments - got ({given})")
        if isinstance(dim, Tensor) and not (dim.ndim == 0 and not dim.is_floating_point()):
            other, dim = dim, None
        if other is not None:
            return bind.function(elementwise_name)(input, other, **kwargs)
        if dim is None:
            return bind.function(f"_{name}")(input, **kwargs)
        return bind.function(f"_{name}_dim")(input, dim, keepdim, **kwargs)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = (
        f"The {name}imum of all values; with ``dim`` the values along it and where they are; with another tensor the "
        f"elementwise `{elementwise_name}`."
    )
    return composite(name)(fn)


_extremum("max", "maximum")
_extremum("min", "minimum")


@op()
def amax(input: TensorOnly, dim: Dims = (), keepdim: bool = False):
    """The largest values over ``dim``; ties share the gradient."""
    not_implemented("max_values_cpu", input, kinds="c")
    _check_not_empty("amax", input, dim)
    from ._extremes import largest

    return largest(input, wrap_dims(dim, input.ndim), keepdim)


@op()
def amin(input: TensorOnly, dim: Dims = (), keepdim: bool = False):
    """The smallest values over ``dim``; ties share the gradient."""
    not_implemented("min_values_cpu", input, kinds="c")
    _check_not_empty("amin", input, dim)
    from ._extremes import smallest

    return smallest(input, wrap_dims(dim, input.ndim), keepdim)


@op(returns=("min", "max"))
def aminmax(input: TensorOnly, *, dim: int | None = None, keepdim: bool = False):
    """The smallest and the largest values."""
    not_implemented("aminmax_cpu", input, kinds="c")
    if dim is None and input.size == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    _check_not_empty("aminmax", input, dim)
    dims = wrap_dims(dim, input.ndim)
    from ._extremes import largest, smallest

    return smallest(input, dims, keepdim), largest(input, dims, keepdim)


def _arg(name: str, input: jax.Array, dim: int | None, keepdim: bool) -> jax.Array:
    from ._extremes import argmax, argmin

    x = at_least_1d(input) if dim is not None else input.reshape(-1)
    axis = 0 if dim is None else wrap_dim(dim, input.ndim)
    index = (argmax if name == "max" else argmin)(x, axis, index_dtype(x.shape[axis]))
    if dim is None:
        return index.reshape((1,) * input.ndim) if keepdim else index
    return jnp.expand_dims(index, axis) if keepdim and input.ndim else index


@op(differentiable=False)
def argmax(input: TensorOnly, dim: int | None = None, keepdim: bool = False):
    """Where the largest value is, the first one at ties."""
    _check_arg("argmax", input, dim)
    return _arg("max", input, dim, keepdim).astype(INT64)


@op(differentiable=False)
def argmin(input: TensorOnly, dim: int | None = None, keepdim: bool = False):
    """Where the smallest value is, the first one at ties."""
    _check_arg("argmin", input, dim)
    return _arg("min", input, dim, keepdim).astype(INT64)


def _check_arg(name: str, input: jax.Array, dim: int | None) -> None:
    if input.dtype == BOOL:
        raise RuntimeError(f"{name}(): does not support bool input")
    _check_not_empty(name, input, dim, IndexError)


@op("all", differentiable=False)
def all_(input: TensorOnly, dim: Dims = None, keepdim: bool = False):
    """Whether all values are nonzero."""
    out = jnp.all(input != 0, axis=wrap_dims(dim, input.ndim), keepdims=keepdim)
    return out.astype(input.dtype) if input.dtype == np.uint8 else out


@op("any", differentiable=False)
def any_(input: TensorOnly, dim: Dims = None, keepdim: bool = False):
    """Whether any value is nonzero."""
    out = jnp.any(input != 0, axis=wrap_dims(dim, input.ndim), keepdims=keepdim)
    return out.astype(input.dtype) if input.dtype == np.uint8 else out


# order statistics


def _rank_with_nan(x: jax.Array, axis: int, skip_nan: bool) -> jax.Array:
    """The rank of the lower median among sorted values, in which nan come last."""
    size = x.shape[axis]
    numbers = jnp.sum(x == x, axis=axis, keepdims=True, dtype=index_dtype(size))
    rank = jnp.maximum(numbers - 1, 0) // 2
    return rank if skip_nan else jnp.where(numbers < size, numbers, rank)


def _median_index(x: jax.Array, axis: int, skip_nan: bool) -> jax.Array:
    order = stable_order(x, axis)
    rank = _rank_with_nan(x, axis, skip_nan)
    return jnp.take_along_axis(order, rank, axis=axis, mode="promise_in_bounds").astype(INT64)


@jax.custom_jvp
def _shared(x: jax.Array, value: jax.Array) -> jax.Array:
    """``value``, whose gradient is shared by all elements of ``x`` that are equal to it."""
    return value


@_shared.defjvp
def _shared_jvp(primals: Any, tangents: Any) -> Any:
    (x, value), (dx, _) = primals, tangents
    same = (x == value) | ((x != x) & (value != value))
    return _shared(x, value), jnp.sum(jnp.where(same, dx, 0)) / jnp.sum(same).astype(dx.dtype)


def _median_all(input: jax.Array, skip_nan: bool) -> jax.Array:
    if input.size == 0:
        fill = math.nan if is_inexact(input.dtype) else np.iinfo(input.dtype).min
        return jnp.full((), fill, input.dtype)
    flat = lax.stop_gradient(input.reshape(-1))
    value = flat[_median_index(flat, 0, skip_nan)[0]]
    return _shared(input, value) if is_inexact(input.dtype) else value


def _median_dim(
    name: str, input: jax.Array, dim: int, keepdim: bool, skip_nan: bool
) -> tuple[jax.Array, jax.Array]:
    axis = wrap_dim(dim, input.ndim)
    if input.ndim and input.shape[axis] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
    x = at_least_1d(input)
    index = _median_index(lax.stop_gradient(x), axis, skip_nan)
    values = take_along(x, index, axis)
    if keepdim and input.ndim:
        return values, index
    return values.squeeze(axis), index.squeeze(axis)


@op("_median", where="", node="MedianBackward0")
def median_all(input: TensorOnly):
    """The lower median of all values, nan if there is one."""
    return _median_all(input, False)


@op("_median_dim", where="", node="MedianBackward1", return_type="median", returns=("values", "indices"))
def median_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The lower medians along ``dim`` and where they are."""
    return _median_dim("median", input, dim, keepdim, False)


@op("_nanmedian", where="", node="NanmedianBackward0")
def nanmedian_all(input: TensorOnly):
    """The lower median of the values that are not nan."""
    return _median_all(input, True)


@op(
    "_nanmedian_dim",
    where="",
    node="NanmedianBackward1",
    return_type="nanmedian",
    returns=("values", "indices"),
)
def nanmedian_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The lower medians along ``dim`` of the values that are not nan, and where they are."""
    return _median_dim("nanmedian", input, dim, keepdim, True)


def _median(name: str, doc: str) -> Any:
    def fn(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
        kwargs = {} if out is None else {"out": out}
        if dim is None:
            return bind.function(f"_{name}")(input, **kwargs)
        return bind.function(f"_{name}_dim")(input, dim, keepdim, **kwargs)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    return composite(name)(fn)


_median("median", "The lower median of all values; with ``dim`` the medians along it and where they are.")
_median("nanmedian", "`median` of the values that are not nan.")


@op(returns=("values", "indices"))
def mode(input: TensorOnly, dim: int = -1, keepdim: bool = False):
    """The most frequent values (the smallest of several) and the last place of each."""
    not_implemented("mode_cpu", input, kinds="c")
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    fixed = lax.stop_gradient(x)
    order = stable_order(fixed, axis)
    ordered = take_along(fixed, order, axis)
    position = positions(x, axis)
    first = jnp.concatenate(
        [
            jnp.ones_like(lax.slice_in_dim(ordered, 0, 1, axis=axis), dtype=BOOL),
            jnp.diff(ordered, axis=axis) != 0,
        ],
        axis=axis,
    )
    run = position - lax.cummax(jnp.where(first, position, 0), axis=axis)
    index = take_along(order, jnp.argmax(run, axis=axis, keepdims=True), axis).astype(INT64)
    values = take_along(x, index, axis)
    return (values, index) if keepdim and input.ndim else (values.squeeze(axis), index.squeeze(axis))


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    name: str, input: jax.Array, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool
) -> jax.Array:
    _check_quantile(name, input, q, interpolation)
    axis = 0 if dim is None else wrap_dim(dim, input.ndim)
    x = input.reshape(-1) if dim is None else at_least_1d(input)
    ordered = jnp.moveaxis(jnp.sort(x, axis=axis), axis, 0)
    numbers = jnp.sum(ordered == ordered, axis=0, dtype=index_dtype(x.shape[axis]))
    last = jnp.maximum(numbers - 1, 0) if skip_nan else jnp.full_like(numbers, x.shape[axis] - 1)
    quantiles = jnp.asarray(q, x.dtype)
    rank = quantiles.reshape(-1, *[1] * last.ndim) * last.astype(x.dtype)  # (Q, rest)
    out = _at_rank(ordered, rank, interpolation)
    undefined = (numbers == 0) if skip_nan else (numbers < x.shape[axis])
    out = jnp.where(undefined, math.nan, out)
    if keepdim:
        out = jnp.expand_dims(out, axis + 1) if dim is not None else out.reshape(-1, *[1] * input.ndim)
    if input.ndim == 0:
        out = out.reshape(-1)
    return out if quantiles.ndim else out[0]


def _check_quantile(name: str, input: jax.Array, q: Any, interpolation: str) -> None:
    if input.size == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if input.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if getattr(q, "ndim", 0) > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if hasattr(q, "dtype") and not getattr(q, "weak_type", False) and q.dtype != input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )


def _at_rank(ordered: jax.Array, rank: jax.Array, interpolation: str) -> jax.Array:
    """The values at fractional ranks along the first dimension."""
    low = {"higher": jnp.ceil, "nearest": jnp.round}.get(interpolation, jnp.floor)(rank)

    def at(position: jax.Array) -> jax.Array:
        return take_along(ordered, position.astype(index_dtype(ordered.shape[0])), 0)

    if interpolation not in ("linear", "midpoint"):
        return at(low)
    weight = rank - low if interpolation == "linear" else jnp.full_like(rank, 0.5)
    below, above = at(low), at(jnp.ceil(rank))
    return jnp.where(weight < 0.5, below + weight * (above - below), above - (above - below) * (1 - weight))


def _check_q(input: Any, q: Any, **_: Any) -> None:
    refuse(
        lambda q: ~((q >= 0) & (q <= 1)),
        lambda q: RuntimeError("quantile() q values must be in the range [0, 1]"),
        q,
    )


@op(check=lambda input, q, *_, **__: _check_q(input, q))
def quantile(
    input: TensorOnly,
    q: Array,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
):
    """The values below which a part ``q`` of all values lies."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@op(check=lambda input, q, *_, **__: _check_q(input, q))
def nanquantile(
    input: TensorOnly,
    q: Array,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
):
    """`quantile` of the values that are not nan."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# norms


def vector_norm_of(x: jax.Array, p: float, dims: tuple[int, ...], keepdim: bool) -> jax.Array:
    """The p-norm over ``dims``, with gradient 0 where the norm, or an element's size, is 0."""
    if p == 2:
        square = jnp.real(x) ** 2 + jnp.imag(x) ** 2 if x.dtype.kind == "c" else x * x
        return sqrt_flat_at_zero(jnp.sum(square, axis=dims, keepdims=keepdim))
    if x.dtype.kind == "c":
        x = sqrt_flat_at_zero(jnp.real(x) ** 2 + jnp.imag(x) ** 2)
    size = absolute(x)
    if p == 1:
        return jnp.sum(size, axis=dims, keepdims=keepdim)
    if p == 0:
        return jnp.sum((x != 0).astype(size.dtype), axis=dims, keepdims=keepdim)
    if math.isinf(p):
        return (jnp.max if p > 0 else jnp.min)(size, axis=dims, keepdims=keepdim)
    zero = size == 0
    powers = jnp.where(zero, 0 if p > 0 else math.inf, jnp.where(zero, 1, size) ** p).astype(size.dtype)
    total = jnp.sum(powers, axis=dims, keepdims=keepdim)
    none = total == 0
    return jnp.where(none, 0 if p > 0 else math.inf, jnp.where(none, 1, total) ** (1 / p)).astype(size.dtype)


@op("vector_norm", where="linalg", node="LinalgVectorNormBackward0")
def vector_norm(
    x: TensorOnly,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
):
    """The vector norm of order ``ord`` over ``dim``."""
    if not is_inexact(x.dtype):
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {type_name(x)}"
        )
    if dtype is not None and not can_cast_without_loss(x.dtype, dtype.np):
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({type_name(x)}) should be convertible without "
            "narrowing to the "
            f"specified dtype ({dtype.scalar_name})"
        )
    if x.size == 0 and (ord < 0 or ord == math.inf):
        _check_empty_norm(x, ord, dim)
    y = x if dtype is None else x.astype(dtype.np)
    out = vector_norm_of(y.astype(wide(y.dtype)), ord, wrap_dims(dim, x.ndim), keepdim)
    return out.astype(_real_of(y.dtype))


def can_cast_without_loss(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether every value of one float type is one of the other."""
    return dtypes.from_np(target) is promote_types(dtypes.from_np(source), dtypes.from_np(target))


def _check_empty_norm(x: jax.Array, ord: float, dim: Dims) -> None:
    if dim is None or any(x.shape[d] == 0 for d in wrap_dims(dim, x.ndim)):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord:g} norm on an empty tensor because the operation "
            "does not have "
            "an identity"
        )


@op()
def dist(input: TensorOnly, other: TensorOnly, p: float = 2):
    """The p-norm of ``input - other``."""
    check_broadcast(input, other)
    difference = elementwise(lambda a, b: a - b, input, other)
    return vector_norm(difference, p)


@op(inplace=True)
@rounded_once
def renorm(input: TensorOnly, p: float, dim: int, maxnorm: float):
    """Every slice along ``dim`` shrunk to a p-norm of at most ``maxnorm``."""
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    axis = wrap_dim(dim, input.ndim)
    norm = vector_norm_of(input, p, tuple(d for d in range(input.ndim) if d != axis), True)
    return input * jnp.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1).astype(input.dtype)


@op(where="torch method special")
def logsumexp(input: TensorOnly, dim: Dims, keepdim: bool = False):
    """``log(sum(exp(input)))`` without overflow."""
    out = float_dtype(input)
    x = input.astype(wide(out))
    dims = wrap_dims(dim, x.ndim)
    if x.size == 0:
        return jnp.log(jnp.sum(jnp.exp(x), axis=dims, keepdims=keepdim)).astype(out)
    top = jnp.max(lax.stop_gradient(x.real), axis=dims, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0).astype(x.dtype)
    total = jnp.log(jnp.sum(jnp.exp(x - top), axis=dims, keepdims=keepdim))
    return (total + top.reshape(total.shape)).astype(out)


# scans


def _scan(fn: Any, input: jax.Array, dim: int, out: np.dtype[Any]) -> jax.Array:
    axis = wrap_dim(dim, input.ndim)
    return fn(at_least_1d(input).astype(wide(out)), axis=axis).astype(out).reshape(input.shape)


@op(inplace=True)
def cumsum(input: TensorOnly, dim: int, *, dtype: dtypes.dtype | None = None):
    """Running sums along ``dim``."""
    return _scan(lax.cumsum, input, dim, _sum_dtype(input, dtype))


@op(inplace=True)
def cumprod(input: TensorOnly, dim: int, *, dtype: dtypes.dtype | None = None):
    """Running products along ``dim``."""
    return _scan(lax.cumprod, input, dim, _sum_dtype(input, dtype))


@op()
def logcumsumexp(input: TensorOnly, dim: int):
    """``log(cumsum(exp(input)))`` without overflow."""
    return _scan(lax.cumlogsumexp, input, dim, input.dtype)


def _running(better: Any, input: jax.Array, dim: int) -> tuple[jax.Array, jax.Array]:
    """Running extremum and its last place; nan, once met, stays."""
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    fixed = lax.stop_gradient(x)

    def later(a: Any, b: Any) -> Any:
        (value_a, index_a), (value_b, index_b) = a, b
        take_b = (value_b != value_b) | ((value_a == value_a) & better(value_b, value_a))
        return jnp.where(take_b, value_b, value_a), jnp.where(take_b, index_b, index_a)

    _, index = lax.associative_scan(later, (fixed, positions(x, axis)), axis=axis)
    return take_along(x, index, axis).reshape(input.shape), index.astype(INT64).reshape(input.shape)


@op(returns=("values", "indices"))
def cummax(input: TensorOnly, dim: int):
    """Running maxima along ``dim`` and where they are."""
    not_implemented("cummax_cpu", input, kinds="c")
    return _running(jnp.greater_equal, input, dim)


@op(returns=("values", "indices"))
def cummin(input: TensorOnly, dim: int):
    """Running minima along ``dim`` and where they are."""
    not_implemented("cummin_cpu", input, kinds="c")
    return _running(jnp.less_equal, input, dim)


@op(node="SubBackward0")
def diff(
    input: TensorOnly, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None
):
    """The ``n``-th differences of neighbours along ``dim``."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    axis = wrap_dim(dim, input.ndim)
    out = jnp.concatenate([part for part in (prepend, input, append) if part is not None], axis=axis)
    for _ in range(min(n, out.shape[axis])):
        low = lax.slice_in_dim(out, 0, -1, axis=axis)
        high = lax.slice_in_dim(out, 1, None, axis=axis)
        out = high ^ low if out.dtype == BOOL else high - low
    return out


@op("trapezoid", "trapz", where="torch", node="MulBackward1")
@rounded_once
def trapezoid(y: TensorOnly, x: TensorOnly | None = None, *, dx: Scalar = 1, dim: int = -1):
    """The integral along ``dim`` by the trapezoidal rule."""
    return sum(_trapezoids(y, x, dx, dim), dim)


@op(where="torch", node="CumsumBackward0")
def cumulative_trapezoid(y: TensorOnly, x: TensorOnly | None = None, *, dx: Scalar = 1, dim: int = -1):
    """The running integral along ``dim`` by the trapezoidal rule."""
    return cumsum(_trapezoids(y, x, dx, dim), dim)


def _trapezoids(y: jax.Array, x: jax.Array | None, dx: Any, dim: int) -> jax.Array:
    """The area between each two neighbours along ``dim``."""
    axis = wrap_dim(dim, y.ndim)
    pairs = lax.slice_in_dim(y, 1, None, axis=axis) + lax.slice_in_dim(y, 0, -1, axis=axis)
    if x is None:
        return elementwise(lambda s, d: s * d / 2, *_floats(pairs, dx))
    gaps = jnp.diff(x) if x.ndim == 1 else jnp.diff(x, axis=axis)
    if x.ndim == 1:
        gaps = gaps.reshape([-1 if d == axis else 1 for d in range(y.ndim)])
    return elementwise(lambda s, d: s * d / 2, *_floats(pairs, gaps))


def _floats(x: jax.Array, other: Any) -> tuple[Any, Any]:
    return x.astype(float_dtype(x, other)), other


@op("_gradient", where="", node="AddBackward0")
def _gradient(input: TensorOnly, spacing: Arrays, dim: tuple[int, ...], edge_order: int):
    """Central differences along each of ``dim``, at coordinates or in steps; one-sided at the edges."""
    return tuple(
        _central(input, h, wrap_dim(d, input.ndim), edge_order) for h, d in zip(spacing, dim, strict=True)
    )


def _central(x: jax.Array, h: jax.Array, axis: int, edge_order: int) -> jax.Array:
    """Second-order differences for steps that may be uneven."""
    f = jnp.moveaxis(x, axis, -1).astype(float_dtype(x))
    gaps = jnp.diff(h) if h.ndim else jnp.full(f.shape[-1] - 1, 1, f.dtype) * h
    gaps = gaps.astype(f.dtype)
    slopes = jnp.diff(f) / gaps
    left, right = gaps[:-1], gaps[1:]
    inner = (slopes[..., :-1] * right + slopes[..., 1:] * left) / (left + right)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        first = first + (first - slopes[..., 1:2]) * gaps[0] / (gaps[0] + gaps[1])
        last = last + (last - slopes[..., -2:-1]) * gaps[-1] / (gaps[-1] + gaps[-2])
    return jnp.moveaxis(jnp.concatenate([first, inner, last], axis=-1), -1, axis)


@composite("gradient", where="torch")
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The numerical gradient by central differences, one tensor per dimension.

    Args:
        spacing: one step for all dimensions, or a list with a step or a vector of coordinates for each.
        dim: the dimensions; all by default.
        edge_order: 1 or 2, the order of the one-sided differences at the edges.
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(dims)
    if len(steps) != len(dims) and dim is not None:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
            f"same length, but got a spacing argument of length {len(steps)} and a dim argument of length {len(dims)}."
        )
    if len(steps) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{input.ndim}', since dim argument was not given, but got a list of length {len(steps)}"
        )
    for d in wrap_dims(dims, input.ndim) if dims else ():
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    for h in steps:
        if isinstance(h, Tensor) and h.device != input.device:
            raise RuntimeError(
                "torch.gradient expected each tensor to be on the same device, but got devices "
                f"{input.device} and {h.device}!"
            )
    tensors = [
        h if isinstance(h, Tensor) else input.new_tensor(float(h), dtype=_step_dtype(input)) for h in steps
    ]  # type: ignore[attr-defined]
    return bind.function("_gradient")(input, tensors, dims, edge_order)


def _step_dtype(input: Tensor) -> dtypes.dtype:
    return input.dtype if input.is_floating_point() else dtypes.get_default_dtype()


@composite("sum_to_size", where="method")
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions that were broadcast from ``size``."""
    target = tuple(size[0]) if len(size) == 1 and isinstance(size[0], list | tuple) else size
    shape = tuple(self.shape)
    lead = len(shape) - len(target)
    fits = lead >= 0 and builtins.all(t in (1, n) for t, n in zip(target, shape[lead:], strict=True))
    if not fits:
        raise RuntimeError(f"size {{{list(target)}}} is not expandable to size {{{list(shape)}}}.")
    dims = [*range(lead), *(lead + i for i, t in enumerate(target) if t == 1 and shape[lead + i] != 1)]
    return self.sum(dims, keepdim=True).reshape(target) if dims else self  # type: ignore[attr-defined]
