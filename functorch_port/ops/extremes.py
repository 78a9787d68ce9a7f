"""Maxima and minima, and their indices: `max`, `amax`, `argmax`, `aminmax`, ..."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    BOOL,
    INT64,
    Dims,
    at_least_1d,
    index_dtype,
    not_implemented,
    take_along,
    wrap_dim,
    wrap_dims,
)


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
    """An extremum along one dimension, and its index; the whole gradient goes to that element."""
    _check_not_empty(name, input, dim)
    index = _arg(name, lax.stop_gradient(input), dim, True)
    values = take_along(input, index, wrap_dim(dim, input.ndim))
    if not keepdim and input.ndim:
        values, index = values.squeeze(dim), index.squeeze(dim)
    return values, index.astype(INT64)


@op("_max_dim", where="", node="MaxBackward0", return_type="max", returns=("values", "indices"))
def max_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The maximum along ``dim``, and its index."""
    return _pick("max", input, dim, keepdim)


@op("_min_dim", where="", node="MinBackward0", return_type="min", returns=("values", "indices"))
def min_dim(input: TensorOnly, dim: int, keepdim: bool = False):
    """The minimum along ``dim``, and its index."""
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
        f"The {name}imum of all elements, or along ``dim`` with its indices; or `{name}imum` of two tensors."
    )
    return composite(name)(fn)


_extremum("max", "maximum")
_extremum("min", "minimum")


@op()
def amax(input: TensorOnly, dim: Dims = (), keepdim: bool = False):
    """The maximum over ``dim``; ties share the gradient."""
    not_implemented("max_values_cpu", input, kinds="c")
    _check_not_empty("amax", input, dim)
    from ._extremes import largest

    return largest(input, wrap_dims(dim, input.ndim), keepdim)


@op()
def amin(input: TensorOnly, dim: Dims = (), keepdim: bool = False):
    """The minimum over ``dim``; ties share the gradient."""
    not_implemented("min_values_cpu", input, kinds="c")
    _check_not_empty("amin", input, dim)
    from ._extremes import smallest

    return smallest(input, wrap_dims(dim, input.ndim), keepdim)


@op(returns=("min", "max"))
def aminmax(input: TensorOnly, *, dim: int | None = None, keepdim: bool = False):
    """The minimum and the maximum along ``dim``; ties share the gradient."""
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
    """The index of the first maximum along ``dim``, or in the flattened tensor."""
    _check_arg("argmax", input, dim)
    return _arg("max", input, dim, keepdim).astype(INT64)


@op(differentiable=False)
def argmin(input: TensorOnly, dim: int | None = None, keepdim: bool = False):
    """The index of the first minimum along ``dim``, or in the flattened tensor."""
    _check_arg("argmin", input, dim)
    return _arg("min", input, dim, keepdim).astype(INT64)


def _check_arg(name: str, input: jax.Array, dim: int | None) -> None:
    if input.dtype == BOOL:
        raise RuntimeError(f"{name}(): does not support bool input")
    _check_not_empty(name, input, dim, IndexError)
