"""Differences and integrals: `diff`, `gradient`, `trapezoid`, `cumulative_trapezoid`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._base import dtypes
from .._run import bind
from .._run.registry import Array, Arrays, Scalar, TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import BOOL, elementwise, float_dtype, rounded_once, wrap_dim, wrap_dims
from .cumulative import cumsum
from .reduction import sum


@op(node="SubBackward0")
def diff(
    input: TensorOnly, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None
):
    """The ``n``-th difference along ``dim`` of ``prepend``, ``input`` and ``append``, joined."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    axis = wrap_dim(dim, input.ndim)
    parts = [part for part in (prepend, input, append) if part is not None]
    for part in parts:
        _check_joined(part.shape, input.shape, axis)
    out = jnp.concatenate(parts, axis=axis)
    for _ in range(min(n, out.shape[axis])):
        low = lax.slice_in_dim(out, 0, -1, axis=axis)
        high = lax.slice_in_dim(out, 1, None, axis=axis)
        out = high ^ low if out.dtype == BOOL else high - low
    return out


def _check_joined(shape: tuple[int, ...], wanted: tuple[int, ...], axis: int) -> None:
    if len(shape) != len(wanted):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for d, (n, m) in enumerate(zip(shape, wanted, strict=True)):
        if d != axis and n != m:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({d}) = {m}, but got tensor.size({d}) = {n}"
            )


@op("trapezoid", "trapz", where="torch", node="MulBackward1")
@rounded_once
def trapezoid(y: TensorOnly, x: TensorOnly | None = None, *, dx: Scalar = 1, dim: int = -1):
    """The integral along ``dim`` by the trapezoidal rule, at the points ``x`` or at points ``dx`` apart."""
    return sum(_trapezoids("trapezoid", y, x, dx, dim), dim)


@op(where="torch", node="CumsumBackward0")
def cumulative_trapezoid(y: TensorOnly, x: TensorOnly | None = None, *, dx: Scalar = 1, dim: int = -1):
    """The cumulative `trapezoid` along ``dim``."""
    return cumsum(_trapezoids("cumulative_trapezoid", y, x, dx, dim), dim)


def _trapezoids(name: str, y: jax.Array, x: jax.Array | None, dx: Any, dim: int) -> jax.Array:
    """The area between each two neighbours along ``dim``."""
    axis = wrap_dim(dim, y.ndim)
    if not y.shape[axis]:
        return y.astype(float_dtype(y))
    pairs = lax.slice_in_dim(y, 1, None, axis=axis) + lax.slice_in_dim(y, 0, -1, axis=axis)
    if x is None:
        return elementwise(lambda s, d: s * d / 2, *_floats(pairs, dx))
    if x.ndim == 1:
        if x.size != y.shape[axis]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = x.reshape([-1 if d == axis else 1 for d in range(y.ndim)])
    gaps = jnp.diff(x.reshape((1,) * (y.ndim - x.ndim) + x.shape), axis=axis)
    return elementwise(lambda s, d: s * d / 2, *_floats(pairs, gaps))


def _floats(x: jax.Array, other: Any) -> tuple[Any, Any]:
    return x.astype(float_dtype(x, other)), other


@op("_gradient", where="", node="AddBackward0")
def _gradient(input: TensorOnly, spacing: Arrays, dim: tuple[int, ...], edge_order: int):
    """Central differences along each of ``dim``, one-sided at the edges; ``spacing`` has coordinates or steps."""
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
        spacing: one step for all dimensions, or a list with a step or a vector of coordinates for each dimension.
        dim: the dimensions. Default: all.
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
