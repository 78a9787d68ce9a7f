"""PyTorch's ``native_*`` normalizations, which also return the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from ._common import wide


@op("_mean_and_rstd", where="", differentiable=False)
def _mean_and_rstd(input: TensorOnly, shape: tuple[int, ...], dims: tuple[int, ...], eps: float, keep: bool):
    """The mean and ``1 / sqrt(variance + eps)`` over ``dims`` of the reshaped input."""
    return _moments(input, shape, dims, eps, keep)


@op("_group_moments", where="", node="NativeGroupNormBackward0")
def _group_moments(input: TensorOnly, shape: tuple[int, ...], eps: float):
    """The same over the last of three dimensions; differentiable, as in PyTorch."""
    return _moments(input, shape, (2,), eps, False)


def _moments(
    input: jax.Array, shape: tuple[int, ...], dims: tuple[int, ...], eps: float, keep: bool
) -> tuple[jax.Array, jax.Array]:
    x = input.reshape(shape).astype(wide(input.dtype))
    mean, var = jnp.mean(x, dims, keepdims=keep), jnp.var(x, dims, keepdims=keep)
    return mean.astype(input.dtype), lax.rsqrt(var + eps).astype(input.dtype)


def _statistics(
    input: Tensor, shape: Sequence[int], dims: Sequence[int], eps: float, keep: bool
) -> tuple[Tensor, Tensor]:
    return bind.function("_mean_and_rstd")(input, tuple(shape), tuple(dims), eps, keep)


@composite(where="torch")
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm`, with its mean and its reciprocal standard deviation."""
    out = bind.function("layer_norm")(input, tuple(normalized_shape), weight, bias, eps)
    dims = range(input.ndim - len(normalized_shape), input.ndim)
    return out, *_statistics(input, input.shape, tuple(dims), eps, True)


@composite(where="torch")
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm`, with its mean and its reciprocal standard deviation."""
    out = bind.function("group_norm")(input, group, weight, bias, eps)
    return out, *bind.function("_group_moments")(input, (N, group, C // group * HxW), eps)


@composite(where="torch")
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalization, with its mean and reciprocal standard deviation (empty in evaluation mode)."""
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
        out = bind.function("_batch_norm_eval")(input, running_mean, running_var, weight, bias, eps)
        return out, input.new_empty((0,)), input.new_empty((0,))  # type: ignore[attr-defined]
    if running_mean is None or running_var is None:
        out = bind.function("_batch_norm")(input, weight, bias, eps)
    else:
        moved: Any
        out, *moved = bind.function("_batch_norm_tracked")(
            input, weight, bias, running_mean, running_var, momentum, eps
        )
        with no_grad():
            running_mean._set_value(moved[0]._peek())
            running_var._set_value(moved[1]._peek())
    dims = (0, *range(2, input.ndim))
    return out, *_statistics(input, input.shape, dims, eps, False)
