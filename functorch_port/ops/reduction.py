"""Reductions: sums, means, products, variances, `all` and `any`, `logsumexp`."""

from __future__ import annotations

import builtins
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._base import dtypes
from .._base.division import divide
from .._run.registry import Array, TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    INT64,
    Dims,
    elementwise,
    float_dtype,
    index_dtype,
    is_inexact,
    no_complex,
    type_name,
    wide,
    wrap_dims,
)
from .cast import cast_array

# sums and products


def _node(name: str) -> Any:
    """PyTorch numbers the nodes: ``SumBackward0`` reduces everything, ``SumBackward1`` over dimensions."""
    return lambda static: f"{name}Backward{int(static.get('dim') is not None)}"


def _sum_dtype(input: jax.Array, dtype: dtypes.dtype | None) -> np.dtype[Any]:
    """The result type of a sum or product: integers and bools are summed as int64."""
    if dtype is not None:
        return dtype.np
    return input.dtype if is_inexact(input.dtype) else INT64


def _reduce(fn: Any, input: jax.Array, dim: Dims, keepdim: bool, out: np.dtype[Any]) -> jax.Array:
    """A reduction that accumulates half precision in float32 and rounds once."""
    dims = wrap_dims(dim, input.ndim)
    return fn(cast_array(input, wide(out)), axis=dims, keepdims=keepdim).astype(out)


@op(node=_node("Sum"))
def sum(input: TensorOnly, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None):
    """The sum over ``dim`` (all dimensions by default)."""
    return _reduce(jnp.sum, input, dim, keepdim, _sum_dtype(input, dtype))


@op()
def nansum(input: TensorOnly, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None):
    """The sum over ``dim``, with NaN counted as 0."""
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
    """The number of elements that are reduced to one."""
    return math.prod(input.shape[d] for d in wrap_dims(dim, input.ndim))


@op()
def nanmean(input: TensorOnly, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None):
    """The mean over ``dim`` of the values that are not NaN."""
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
    """The number of values over ``dim`` that are not 0."""
    return jnp.sum(input != 0, axis=wrap_dims(dim, input.ndim), dtype=INT64)


@op(where="torch method special")
def logsumexp(input: TensorOnly, dim: Dims, keepdim: bool = False):
    """``log(sum(exp(input)))`` over ``dim``, without overflow."""
    out = float_dtype(input)
    x = input.astype(wide(out))
    dims = wrap_dims(dim, x.ndim)
    if x.size == 0:
        return jnp.log(jnp.sum(jnp.exp(x), axis=dims, keepdims=keepdim)).astype(out)
    top = jnp.max(lax.stop_gradient(x.real), axis=dims, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0).astype(x.dtype)
    total = jnp.log(jnp.sum(jnp.exp(x - top), axis=dims, keepdims=keepdim))
    return (total + top.reshape(total.shape)).astype(out)


@composite("sum_to_size", where="method")
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Sum over the dimensions that a tensor of ``size`` would be broadcast along."""
    target = tuple(size[0]) if len(size) == 1 and isinstance(size[0], list | tuple) else size
    shape = tuple(self.shape)
    lead = len(shape) - len(target)
    fits = lead >= 0 and builtins.all(t in (1, n) for t, n in zip(target, shape[lead:], strict=True))
    if not fits:
        raise RuntimeError(f"size {{{list(target)}}} is not expandable to size {{{list(shape)}}}.")
    dims = [*range(lead), *(lead + i for i, t in enumerate(target) if t == 1 and shape[lead + i] != 1)]
    return self.sum(dims, keepdim=True).reshape(target) if dims else self  # type: ignore[attr-defined]


# truth


@op("all", differentiable=False)
def all_(input: TensorOnly, dim: Dims = None, keepdim: bool = False):
    """Whether all values over ``dim`` are nonzero."""
    out = jnp.all(input != 0, axis=wrap_dims(dim, input.ndim), keepdims=keepdim)
    return out.astype(input.dtype) if input.dtype == np.uint8 else out


@op("any", differentiable=False)
def any_(input: TensorOnly, dim: Dims = None, keepdim: bool = False):
    """Whether any value over ``dim`` is nonzero."""
    out = jnp.any(input != 0, axis=wrap_dims(dim, input.ndim), keepdims=keepdim)
    return out.astype(input.dtype) if input.dtype == np.uint8 else out


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
    """The variance and the mean, in the wide dtype."""
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
    # relative to one element, so that the variance of equal numbers is exactly 0
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
    """The variance over ``dim``; its divisor is ``count - correction``, and ``correction`` is 1 by default."""
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
    """The square root of `var`; its gradient is 0 where it is 0."""
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
    """`var` and `mean`."""
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
    """`std` and `mean`."""
    dim, correction = _correction(dim, unbiased, correction)
    variance, average = _variance("std_mean", input, dim, correction, keepdim)
    return sqrt_flat_at_zero(variance).astype(_real_of(input.dtype)), average.astype(input.dtype)
