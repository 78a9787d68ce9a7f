"""Activation functions, elementwise except `glu` and `prelu`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._array.fits import fits
from functorch_port._base.division import divide
from functorch_port._base.promotion import cast
from functorch_port._run.registry import Array, TensorOnly, op, pointwise_op
from functorch_port.ops._common import (
    choose,
    compute,
    elementwise_float,
    not_implemented,
    type_name,
    wide,
    wrap_dim,
)

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def _floating(
    kernel: str,
    fn: Callable[..., Any],
    x: Any,
    *more: Any,
    kinds: str = "biuc",
    numbers: Sequence[float] = (),
) -> jax.Array:
    """Compute ``fn`` in a wider dtype, which must hold ``numbers``; refuse integers, as PyTorch's kernels do."""
    not_implemented(kernel, x, kinds=kinds)
    for number in numbers:
        fits(number, wide(x.dtype))
    return compute(fn, x.dtype, x, *more)


def _real(x: Any) -> None:
    if x.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")


@pointwise_op(where="torch method F", inplace=True)
def sigmoid(input: TensorOnly):
    """``1 / (1 + exp(-input))``."""
    return elementwise_float(lax.logistic, input)


@pointwise_op(where="torch method F", inplace=True)
def tanh(input: TensorOnly):
    """Hyperbolic tangent."""
    return elementwise_float(jnp.tanh, input)


@pointwise_op(where="torch method F", inplace=True)
def relu(input: Array):
    """``max(input, 0)``; the gradient at 0 is 0."""
    if input.dtype == np.bool_:
        raise RuntimeError("Boolean inputs not supported for relu")
    _real(input)
    return choose(input <= 0, 0, input)


@pointwise_op(where="F", inplace=True)
def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0):
    """``input`` clamped to ``[min_val, max_val]``; the gradient at the bounds is 0."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype == np.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    _real(input)
    if input.dtype.kind == "u" and min_val < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    for limit in (min_val, max_val):
        fits(limit, input.dtype)
    low, high = cast(min_val, input.dtype), cast(max_val, input.dtype)
    return jnp.where(input <= low, low, jnp.where(input >= high, high, input))


@pointwise_op(where="F", inplace=True, node="HardtanhBackward0")
def relu6(input: Array):
    """``input`` clamped to ``[0, 6]``."""
    return hardtanh(input, 0, 6)


@pointwise_op(where="F", inplace=True)
def leaky_relu(input: Array, negative_slope: float = 0.01):
    """``input`` where it is positive, else ``negative_slope * input``."""
    return _floating(
        "leaky_relu_cpu", lambda x: jnp.where(x > 0, x, x * negative_slope), input, numbers=(negative_slope,)
    )


def _prelu_weight(input: Any, weight: Any) -> jax.Array:
    """The weight, reshaped to broadcast along dimension 1 of the input."""
    if input.dtype != weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {type_name(input)} and {type_name(weight)}"
        )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.size == 1:
        return weight.reshape(())
    if input.ndim == 0:
        raise RuntimeError("Not allow zero-dim input tensor.")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.size != channels:
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. "
            f"Found parameter numbers = {weight.size} and channel size = {channels}."
        )
    return weight.reshape(-1, *(1,) * (input.ndim - 2))


@pointwise_op(where="torch method F", node="PreluKernelBackward0")
def prelu(input: Array, weight: Array):
    """``input`` where it is positive, else ``weight * input``, with one weight for all or for each channel."""
    weight = _prelu_weight(input, weight)
    return _floating("prelu_cpu", lambda x, w: jnp.where(x > 0, x, w * x), input, weight)


def _elu(x: jax.Array, alpha: float, scale: float, input_scale: float) -> jax.Array:
    negative = jnp.where(x > 0, jnp.zeros((), x.dtype), x)  # keeps expm1, and its gradient, from overflowing
    return jnp.where(x > 0, x * scale, jnp.expm1(negative * input_scale) * (alpha * scale))


@pointwise_op(where="F", inplace=True)
def elu(input: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0):
    """``scale * x`` where ``x`` is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    numbers = (alpha, scale, input_scale)
    return _floating("elu_cpu", lambda x: _elu(x, *numbers), input, numbers=numbers)


@pointwise_op(where="torch F", inplace=True, node="EluBackward0")
def selu(input: Array):
    """`elu` with constants that preserve mean 0 and variance 1."""
    return elu(input, _SELU_ALPHA, _SELU_SCALE)


@pointwise_op(where="torch F", inplace=True)
def celu(input: Array, alpha: float = 1.0):
    """``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return elu(input, alpha, 1.0, 1.0 / alpha)


def _gelu(x: jax.Array) -> jax.Array:
    return 0.5 * x * (1 + lax.erf(x * math.sqrt(0.5)))


def _gelu_tanh(x: jax.Array) -> jax.Array:
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@pointwise_op(where="F")
def gelu(input: Array, approximate: str = "none"):
    """``input`` times the normal CDF of ``input``, exact or approximated (``approximate="tanh"``)."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return _floating("GeluKernelImpl", _gelu if approximate == "none" else _gelu_tanh, input)


@pointwise_op(where="F", inplace=True)
def silu(input: Array):
    """``input * sigmoid(input)``."""
    return _floating("silu_cpu", lambda x: x * lax.logistic(x), input, kinds="biu")


@pointwise_op(where="F", inplace=True)
def mish(input: Array):
    """``input * tanh(softplus(input))``."""
    return _floating("mish_cpu", lambda x: x * jnp.tanh(jax.nn.softplus(x)), input)


@pointwise_op(where="F")
def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0):
    """``log(1 + exp(beta * input)) / beta``, or ``input`` where ``beta * input`` is above ``threshold``."""
    return _floating(
        "softplus_cpu",
        lambda x: jnp.where(x * beta > threshold, x, divide(jax.nn.softplus(x * beta), beta)),
        input,
        numbers=(beta, threshold),
    )


@pointwise_op(where="F", node="DivBackward0")
def softsign(input: Array):
    """``input / (1 + |input|)``."""
    not_implemented("abs_cpu", input, kinds="b")
    return elementwise_float(lambda x: x / (1 + jnp.abs(x)), input)


@pointwise_op(where="F", inplace=True)
def hardswish(input: Array):
    """``input * relu6(input + 3) / 6``."""

    def fn(x: jax.Array) -> jax.Array:
        return jnp.where(x <= -3, jnp.zeros((), x.dtype), jnp.where(x < 3, x * (x + 3) / 6, x))

    return _floating("hardswish_cpu", fn, input)


@pointwise_op(where="F", inplace=True)
def hardsigmoid(input: Array):
    """``relu6(input + 3) / 6``."""

    def fn(x: jax.Array) -> jax.Array:
        zero, one = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
        return jnp.where(x <= -3, zero, jnp.where(x >= 3, one, (x + 3) / 6))

    return _floating("hardsigmoid_cpu", fn, input)


@pointwise_op(where="F", node="LogSigmoidBackward0")
def logsigmoid(input: Array):
    """``log(sigmoid(input))``."""
    return _floating("log_sigmoid_cpu", lambda x: -jax.nn.softplus(-x), input)


@pointwise_op(where="F", node="SubBackward0")
def tanhshrink(input: Array):
    """``input - tanh(input)``."""
    if input.dtype == np.bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )
    return elementwise_float(lambda x: x - jnp.tanh(x), input)


def _inside(x: jax.Array, limit: float) -> jax.Array:
    return (x >= -limit) & (x <= limit)


@pointwise_op(where="torch method F")
def hardshrink(input: Array, lambd: float = 0.5):
    """``input`` where ``|input| > lambd``, else 0."""
    not_implemented("hardshrink_cpu", input, kinds="biuc")
    fits(lambd, input.dtype)
    return _floating(
        "hardshrink_cpu", lambda x: jnp.where(_inside(x, lambd), jnp.zeros((), x.dtype), x), input
    )


@pointwise_op(where="F")
def softshrink(input: Array, lambd: float = 0.5):
    """``input`` moved towards 0 by ``lambd``; 0 where ``|input| <= lambd``."""
    not_implemented("softshrink_check", input, kinds="biuc")
    largest = float(jnp.finfo(input.dtype).max)
    if not 0 <= lambd <= largest:
        raise RuntimeError(
            f"lambda must be in range [0, {largest:g}] for input dtype {type_name(input)}, but found {lambd:g}"
        )

    def fn(x: jax.Array) -> jax.Array:
        return jnp.where(_inside(x, lambd), jnp.zeros((), x.dtype), x - lambd * jnp.sign(x))

    return compute(fn, input.dtype, input)


@pointwise_op(where="torch F", inplace=True)
def threshold(input: Array, threshold: float, value: float):
    """``input`` where it is above ``threshold``, else ``value``."""
    not_implemented("threshold_cpu", input, kinds="b")
    fits(threshold, wide(input.dtype))
    fits(value, input.dtype)
    below = input.astype(wide(input.dtype)) <= threshold  # a number is not rounded to half precision
    return jnp.where(below, cast(value, input.dtype), input)


@pointwise_op(where="F")
def glu(input: Array, dim: int = -1):
    """The first half along ``dim`` times the sigmoid of the second half."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dim(dim, input.ndim)
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    value, gate = jnp.split(input.astype(wide(input.dtype)), 2, dim)
    return (value * lax.logistic(gate)).astype(input.dtype)


@op(where="", node="RreluWithNoiseBackward0")
def rrelu_with_noise(input: Array, noise: Array):
    """``input`` where it is positive, else ``input * noise``."""
    return _floating("rrelu_with_noise_out_cpu", lambda x, n: jnp.where(x > 0, x, x * n), input, noise)


@pointwise_op("_dropped", where="", node="MulBackward0")
def dropped(input: Array, mask: Array, p: float):
    """``input`` times a mask of zeros and ones, divided by ``1 - p``."""
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return input * (mask * np.asarray(scale, mask.dtype))


@pointwise_op("_alpha_dropped", where="", node="AddBackward0")
def alpha_dropped(input: Array, mask: Array, scale: float, low: float, shift: float):
    """``scale * input`` where the mask is 1 and ``low`` where it is 0, plus ``shift``."""
    return input * mask * scale + (low * (1 - mask) + shift)
