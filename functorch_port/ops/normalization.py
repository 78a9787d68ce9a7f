"""Normalization: batch, layer, group and root-mean-square norm."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._base.layout import format_order, joint_order
from functorch_port._base.promotion import cast
from functorch_port._run.registry import Array, Scalar, op
from functorch_port.ops._common import not_implemented, numel, wide

# batch norm: one mean and variance per channel (dimension 1)


def _check_per_channel(input: Any, **params: Any) -> None:
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, value in params.items():
        if value is not None and value.size != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {value.size}")
    if not input.size:
        return
    for value in params.values():
        if value is not None and value.dtype != input.dtype:
            if value.dtype != np.float32:
                raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
            if input.dtype.itemsize >= 4:  # half precision data may have float32 parameters
                raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def _per_channel(value: Any, ndim: int, dtype: Any) -> Any:
    return value.astype(dtype).reshape(1, -1, *(1,) * (ndim - 2))


def _normalized(x: jax.Array, dims: tuple[int, ...], eps: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    from ._normalized import normalized

    return normalized(x, dims, eps)


def _scale_and_shift(x: jax.Array, weight: Any, bias: Any) -> jax.Array:
    if weight is not None:
        x = x * _per_channel(weight, x.ndim, x.dtype)
    return x if bias is None else x + _per_channel(bias, x.ndim, x.dtype)


def _by_batch(input: Any, weight: Any, bias: Any, eps: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the input normalized by the batch statistics, the means, the unbiased variances), per channel."""
    not_implemented("batch_norm", input, kinds="biu")
    x = input.astype(wide(input.dtype))
    out, mean, var = _normalized(x, (0, *range(2, x.ndim)), eps)
    out = _scale_and_shift(out, weight, bias)
    count = numel(x.shape) // max(x.shape[1], 1)
    return out.astype(input.dtype), mean.reshape(-1), var.reshape(-1) * (count / max(count - 1, 1))


@op(
    "_batch_norm",
    where="",
    node="NativeBatchNormBackward0",
    edges=("input", "weight", "bias"),
    order=format_order,
)
def batch_norm(input: Array, weight: Array | None, bias: Array | None, eps: float):
    """Batch normalization by the mean and variance of the batch, per channel."""
    _check_per_channel(input, weight=weight, bias=bias)
    return _by_batch(input, weight, bias, eps)[0]


@op(
    "_batch_norm_tracked",
    where="",
    node="NativeBatchNormBackward0",
    edges=("input", "weight", "bias"),
    order=format_order,
)
def batch_norm_tracked(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: Scalar,
    eps: float,
):
    """`batch_norm`, and the running statistics updated with this batch."""
    _check_per_channel(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    out, mean, var = _by_batch(input, weight, bias, eps)
    if not input.size:  # an empty batch has no statistics
        return out, jnp.asarray(running_mean), jnp.asarray(running_var)
    return out, _moved(running_mean, mean, momentum), _moved(running_var, var, momentum)


def _moved(running: Any, batch: jax.Array, momentum: Any) -> jax.Array:
    batch = lax.stop_gradient(batch).astype(running.dtype)
    momentum = cast(momentum, running.dtype)
    return running * (1 - momentum) + batch * momentum


@op(
    "_batch_norm_eval",
    where="",
    node="NativeBatchNormBackward0",
    edges=("input", "weight", "bias"),
    order=format_order,
)
def batch_norm_eval(
    input: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
):
    """Batch normalization by the running statistics."""
    not_implemented("batch_norm", input, kinds="biu")
    _check_per_channel(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if input.ndim < 2 and not input.size:  # no channels
        return jnp.asarray(input)
    dtype = wide(input.dtype)
    x = input.astype(dtype)
    mean = lax.stop_gradient(_per_channel(running_mean, x.ndim, dtype))
    scale = lax.rsqrt(lax.stop_gradient(_per_channel(running_var, x.ndim, dtype)) + eps)
    return _scale_and_shift((x - mean) * scale, weight, bias).astype(input.dtype)


# instance norm: one mean and variance per example and channel


def _check_per_instance(input: Any, **params: Any) -> None:
    """Check sizes with PyTorch's counts, which treat the examples as more channels."""
    batch, channels = input.shape[:2]
    for name, value in params.items():
        if value is not None and value.size != channels:
            raise RuntimeError(f"{name} should contain {batch * channels} elements not {batch * value.size}")
    _check_per_channel(input, **params)


def _by_instance(input: Any, weight: Any, bias: Any, eps: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the input normalized per example and channel, the means, the biased variances), with kept dimensions."""
    not_implemented("batch_norm", input, kinds="biu")
    x = input.astype(wide(input.dtype))
    out, mean, var = _normalized(x, tuple(range(2, x.ndim)), eps)
    out = _scale_and_shift(out, weight, bias)
    return out.astype(input.dtype), mean, var


@op("_instance_norm", where="", node="ViewBackward0", edges=("input", "weight", "bias"))
def instance_norm(input: Array, weight: Array | None, bias: Array | None, eps: float):
    """Instance normalization by the mean and variance of each example and channel."""
    _check_per_instance(input, weight=weight, bias=bias)
    return _by_instance(input, weight, bias, eps)[0]


@op("_instance_norm_tracked", where="", node="ViewBackward0", edges=("input", "weight", "bias"))
def instance_norm_tracked(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: Scalar,
    eps: float,
):
    """`instance_norm`, and the running statistics updated with the mean over this batch's examples."""
    _check_per_instance(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    out, mean, var = _by_instance(input, weight, bias, eps)
    if not input.size:
        return out, jnp.asarray(running_mean), jnp.asarray(running_var)
    count = numel(input.shape[2:])
    mean, var = (jnp.mean(v, 0).reshape(-1) for v in (mean, var))
    var = var * (count / max(count - 1, 1))
    return out, _moved(running_mean, mean, momentum), _moved(running_var, var, momentum)


# local response norm: over neighbouring channels

#: Windows of more channels than this are left to XLA's windowed sum: the programs would grow too long.
_MANY_CHANNELS = 20


@op("_local_response_norm", where="", node="DivBackward0", order=joint_order)
def local_response_norm(input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
    """``input`` divided by ``(k + alpha * mean square over size neighbouring channels) ** beta``."""
    if size <= 0:
        rest = "kH: 1 kW: 1" if input.ndim > 3 else "kW: 1"
        raise RuntimeError(
            f"kernel size should be greater than zero, but got {'kT' if input.ndim > 3 else 'kH'}: {size} {rest}"
        )
    not_implemented("avg_pool3d_out_frame" if input.ndim > 3 else "avg_pool2d", input, kinds="bc")
    dtype = input.dtype
    x = input.astype(wide(dtype))
    square = x * x
    around = [(0, 0)] * x.ndim
    around[1] = (size // 2, (size - 1) // 2)
    if size <= _MANY_CHANNELS:
        square, channels = jnp.pad(square, around), x.shape[1]
        total = sum(lax.slice_in_dim(square, i, i + channels, axis=1) for i in range(size))
    else:
        window = tuple(size if d == 1 else 1 for d in range(x.ndim))
        total = lax.reduce_window(square, np.zeros((), x.dtype), lax.add, window, (1,) * x.ndim, around)
    return (x / (k + alpha / size * total) ** beta).astype(dtype)


# layer norm and RMS norm: over the last dimensions


def _check_normalized(
    name: str, input: Any, shape: tuple[int, ...], weight: Any, bias: Any = None
) -> tuple[int, ...]:
    """Check the shapes; returns the dimensions to normalize over."""
    listed = list(shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            f"but got normalized_shape = {listed}"
        )
    for what, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.shape != shape:
            raise RuntimeError(
                f"Expected {what} to be of same shape as normalized_shape, but got {what} of shape {list(value.shape)} "
                f"and normalized_shape = {listed}"
            )
    if input.shape[-len(shape) :] != shape:
        star = "*, " if name == "layer_norm" else "*"
        raise RuntimeError(
            f"Given normalized_shape={listed}, expected input with shape [{star}{', '.join(map(str, shape))}], "
            f"but got input of size{list(input.shape)}"
        )
    return tuple(range(input.ndim - len(shape), input.ndim))


@op("layer_norm", where="torch", node="NativeLayerNormBackward0")
def layer_norm(
    input: Array,
    normalized_shape: tuple[int, ...],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
):
    """Normalize to mean 0 and variance 1 over the last dimensions, then scale and shift elementwise."""
    dims = _check_normalized("layer_norm", input, tuple(normalized_shape), weight, bias)
    not_implemented("LayerNormKernelImpl", input, kinds="biu")
    for value in (weight, bias):
        if value is not None and value.dtype != input.dtype:
            if input.dtype.itemsize >= 4:
                raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
            if value.dtype != np.float32:
                raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    dtype = wide(input.dtype)
    x = input.astype(dtype)
    out = _normalized(x, dims, eps)[0]
    out = out if weight is None else out * weight.astype(dtype)
    return (out if bias is None else out + bias.astype(dtype)).astype(input.dtype)


@op("rms_norm", where="torch F", node="MulBackward0")
def rms_norm(
    input: Array, normalized_shape: tuple[int, ...], weight: Array | None = None, eps: float | None = None
):
    """``input`` divided by its root mean square over the last dimensions; the default ``eps`` is that of the dtype."""
    dims = _check_normalized("rms_norm", input, tuple(normalized_shape), weight)
    not_implemented("rms_norm", input, kinds="biu")
    dtype = wide(input.dtype)
    x = input.astype(dtype)
    eps = float(jnp.finfo(dtype).eps) if eps is None else eps
    out = x * lax.rsqrt(jnp.mean(x * x, dims, keepdims=True) + eps)
    return (out if weight is None else out * weight.astype(dtype)).astype(input.dtype)


# group norm


@op(
    "group_norm",
    where="torch",
    node="NativeGroupNormBackward0",
    edges=("input", "weight", "bias"),
    order=format_order,
)
def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
):
    """Normalize to mean 0 and variance 1 per example and group of channels, then scale and shift per channel."""
    shape = list(input.shape)
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{shape} and num_groups={num_groups}"
        )
    for what, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.shape != (shape[1],):
            raise RuntimeError(
                f"Expected {what} to be a vector of size equal to the number of channels in input, but got {what} of "
                f"shape {list(value.shape)} and input of shape {shape}"
            )
    not_implemented("GroupNormKernelImpl", input, kinds="biu")
    x = input.astype(wide(input.dtype)).reshape(
        shape[0], num_groups, numel(shape[1:]) // num_groups
    )  # (N, G, C/G * ...)
    out = _normalized(x, (2,), eps)[0].reshape(input.shape)
    return _scale_and_shift(out, weight, bias).astype(input.dtype)
