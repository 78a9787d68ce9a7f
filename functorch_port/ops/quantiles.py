"""Medians, modes and quantiles: `median`, `nanmedian`, `mode`, `quantile`, `nanquantile`."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.refusal import refuse
from .._run import bind
from .._run.registry import Array, TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    BOOL,
    INT64,
    at_least_1d,
    index_dtype,
    is_inexact,
    not_implemented,
    positions,
    stable_order,
    take_along,
    wrap_dim,
)

# medians


def _rank_with_nan(x: jax.Array, axis: int, skip_nan: bool) -> jax.Array:
    """The rank of the lower median among sorted values; NaN comes last."""
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


def _not_empty(name: str, input: jax.Array, dim: int) -> int:
    """The dimension as a non-negative number; refuses one of size 0."""
    axis = wrap_dim(dim, input.ndim)
    if input.ndim and input.shape[axis] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
    return axis


def _median_dim(
    name: str, input: jax.Array, dim: int, keepdim: bool, skip_nan: bool
) -> tuple[jax.Array, jax.Array]:
    axis = _not_empty(name, input, dim)
    x = at_least_1d(input)
    index = _median_index(lax.stop_gradient(x), axis, skip_nan)
    values = take_along(x, index, axis)
    if keepdim and input.ndim:
        return values, index
    return values.squeeze(axis), index.squeeze(axis)


@op("_median", where="", node="MedianBackward0")
def median_all(input: TensorOnly):
    """The lower median of all elements; NaN if one element is."""
    return _median_all(input, False)


@op("_median_dim", where="", node="MedianBackward1", return_type="median", returns=("values", "indices"))
def median_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The lower median along ``dim``, and its index."""
    return _median_dim("median", input, dim, keepdim, False)


@op("_nanmedian", where="", node="NanmedianBackward0")
def nanmedian_all(input: TensorOnly):
    """The lower median of the elements that are not NaN."""
    return _median_all(input, True)


@op(
    "_nanmedian_dim",
    where="",
    node="NanmedianBackward1",
    return_type="nanmedian",
    returns=("values", "indices"),
)
def nanmedian_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The lower median along ``dim`` of the elements that are not NaN, and its index."""
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


_median("median", "The lower median of all elements, or along ``dim`` with its index; NaN if one element is.")
_median("nanmedian", "`median` of the elements that are not NaN.")


@op(returns=("values", "indices"))
def mode(input: TensorOnly, dim: int = -1, keepdim: bool = False):
    """The most frequent value along ``dim`` (the smallest of several), and its last index."""
    not_implemented("mode_cpu", input, kinds="c")
    axis = _not_empty("mode", input, dim)
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


# quantiles


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
    def error(found: Any) -> Exception:
        text = "values must be in the range [0, 1]"
        if not hasattr(q, "dtype"):
            text = f"must be in the range [0, 1] but got {float(found):g}"
        return RuntimeError(f"quantile() q {text}")

    refuse(lambda q: ~((q >= 0) & (q <= 1)), error, q)


@op(check=lambda input, q, *_, **__: _check_q(input, q))
def quantile(
    input: TensorOnly,
    q: Array,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
):
    """The quantiles ``q`` (between 0 and 1) along ``dim``, or of all elements."""
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
    """`quantile` of the elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
