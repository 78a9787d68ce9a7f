"""Arithmetic element by element: `add`, `mul`, `div`, `remainder`, `abs`, `sign`, `lerp`, `addcmul`, ..."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.fits import ALPHA, COMMON_FACTOR, FACTOR
from .._array.refusal import refuse
from .._base import dtypes
from .._base.division import divide
from .._base.promotion import cast, result_dtype, scalar_type
from .._run.registry import Array, Scalar, TensorOnly, composite, pointwise_op
from ._common import (
    BOOL,
    absolute,
    check_broadcast,
    compute,
    elementwise,
    elementwise_float,
    float_dtype,
    is_inexact,
    not_implemented,
    type_name,
)

# sums and products


def _category(value: Any) -> str:
    """The numpy kind of an array's or a number's PyTorch type, with bfloat16 as a float: one of ``b i f c``."""
    kind = (value.dtype if getattr(value, "shape", ()) else scalar_or_dtype(value)).kind
    return {"u": "i", "V": "f"}.get(kind, kind)


def scalar_or_dtype(value: Any) -> np.dtype[Any]:
    """The numpy type of an array, a tracer or a Python number."""
    return value.dtype if hasattr(value, "dtype") else scalar_type(value).np


def _scaled(other: jax.Array, alpha: Any) -> jax.Array:
    """``alpha * other``; a plain 1, the default, costs nothing."""
    if isinstance(alpha, int) and alpha == 1:
        return other
    return other & cast(alpha, BOOL) if other.dtype == BOOL else other * cast(alpha, other.dtype)


def check_factor(alpha: Any, *args: Any, name: str = "alpha") -> None:
    """Refuse a factor that does not fit the common type of ``args``."""
    kind, result = _category(alpha), result_dtype(*args)
    if kind == "b" and result is not dtypes.bool_:
        raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    if kind in "fc" and not (result.is_floating_point or result.is_complex):
        raise RuntimeError(
            f"For integral input tensors, argument {name} must not be a floating point number."
        )
    if kind == "c" and not result.is_complex:
        raise RuntimeError(f"For non-complex input tensors, argument {name} must not be a complex number.")


@pointwise_op(
    inplace=True,
    dunder=("__add__",),
    rdunder=("__radd__",),
    legacy="alpha",
    numbers=True,
    fits={"alpha": ALPHA},
)
def add(input: Array, other: Array, *, alpha: Scalar = 1):
    """``input + alpha * other``."""
    check_factor(alpha, input, other)
    return elementwise(lambda a, b: a + _scaled(b, alpha), input, other)


@pointwise_op(
    "sub",
    "subtract",
    inplace=True,
    dunder=("__sub__",),
    rdunder=("__rsub__",),
    legacy="alpha",
    numbers=True,
    fits={"alpha": ALPHA},
)
def sub(input: Array, other: Array, *, alpha: Scalar = 1):
    """``input - alpha * other``."""
    kinds = _category(input) + _category(other)
    if kinds == "bb":
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if "b" in kinds:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )
    check_factor(alpha, input, other)
    return elementwise(lambda a, b: a - _scaled(b, alpha), input, other)


@pointwise_op(where="torch", node="RsubBackward1", fits={"alpha": ALPHA})
def rsub(input: TensorOnly, other: Array, *, alpha: Scalar = 1):
    """``other - alpha * input``."""
    return sub(other, input, alpha=alpha)


@pointwise_op("mul", "multiply", inplace=True, dunder=("__mul__",), rdunder=("__rmul__",), numbers=True)
def mul(input: Array, other: Array):
    """``input * other``."""
    check_broadcast(input, other)
    # a number is not rounded to half precision first: PyTorch multiplies by its float32 value
    return compute(lambda a, b: a * b, result_dtype(input, other).np, input, other)


# division


def _floor_quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """The floor of the exact quotient; that of the rounded quotient may be 1 more."""
    if not is_inexact(a.dtype):
        return jnp.floor_divide(a, b)
    a, b = jnp.broadcast_arrays(a, b)
    rest = lax.rem(a, b)
    whole = divide(a - rest, b)
    whole = jnp.where((rest != 0) & ((b < 0) != (rest < 0)), whole - 1, whole)
    floor = lax.floor(whole)
    floor = jnp.where(whole - floor > 0.5, floor + 1, floor)
    rounded = divide(a, b)
    floor = jnp.where(whole == 0, jnp.copysign(0, rounded).astype(a.dtype), floor)
    return lax.stop_gradient(jnp.where(b == 0, rounded, floor))


def _trunc_quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    return (
        lax.stop_gradient(jnp.trunc(divide(a, b)))
        if is_inexact(a.dtype)
        else lax.div(*jnp.broadcast_arrays(a, b))
    )


def _check_zero_divisor(input: Any, other: Any, **_: Any) -> None:
    """Integer division by zero is an error; a float divisor or dividend makes it inf or nan."""
    if _category(input) not in "fc" and _category(other) not in "fc":
        refuse(lambda other: other == 0, lambda other: RuntimeError("ZeroDivisionError"), other)


def _check_div(input: Any, other: Any, *, rounding_mode: str | None = None) -> None:
    if rounding_mode is not None:
        _check_zero_divisor(input, other)


@pointwise_op("div", "divide", inplace=True, check=_check_div, numbers=True)
def div(input: Array, other: Array, *, rounding_mode: str | None = None):
    """``input / other``, optionally rounded towards zero ("trunc") or down ("floor")."""
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    check_broadcast(input, other)
    rounded = _trunc_quotient if rounding_mode == "trunc" else _floor_quotient
    return compute(rounded, _not_bool(input, other), input, other)


@pointwise_op(inplace=True, dunder=("__truediv__", "__div__"), node="DivBackward0", numbers=True)
def true_divide(input: Array, other: Array):
    """``input / other`` as a float."""
    check_broadcast(input, other)
    return compute(divide, float_dtype(input, other), input, other)


@pointwise_op("_reflected_divide", where="", rdunder=("__rtruediv__", "__rdiv__"), node="MulBackward0")
def _reflected_divide(input: Array, other: Array):
    """``number / tensor``, as PyTorch computes it: by the reciprocal."""
    return mul(input, reciprocal(other))


def _not_bool(*args: Any) -> np.dtype[Any]:
    """The common type; two bools are refused."""
    common = result_dtype(*args)
    if common is dtypes.bool_:
        raise NotImplementedError("\"div_floor_cpu\" not implemented for 'Bool'")
    return common.np


@pointwise_op(
    inplace=True,
    differentiable=False,
    dunder=("__floordiv__",),
    rdunder=("__rfloordiv__",),
    check=_check_zero_divisor,
    numbers=True,
)
def floor_divide(input: Array, other: Array):
    """``input / other``, rounded down."""
    check_broadcast(input, other)
    return compute(_floor_quotient, _not_bool(input, other), input, other)


@pointwise_op(inplace=True, dunder=("__mod__",), rdunder=("__rmod__",), check=_check_zero_divisor)
def remainder(input: Array, other: Array):
    """The remainder of `floor_divide`; it has the sign of ``other``."""
    return elementwise(jnp.remainder, input, other)


@pointwise_op(inplace=True, check=_check_zero_divisor)
def fmod(input: TensorOnly, other: Array):
    """The remainder of division rounded towards zero; it has the sign of ``input``."""
    return elementwise(jnp.fmod, input, other)


@pointwise_op(inplace=True)
def reciprocal(input: TensorOnly):
    """``1 / input``."""
    return elementwise_float(lambda x: 1 / x, input)


# signs


@pointwise_op("neg", "negative", inplace=True, dunder=("__neg__",))
def neg(input: TensorOnly):
    """``-input``."""
    if _category(input) == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )
    return -input


@pointwise_op("abs", "absolute", inplace=True, dunder=("__abs__",))
def abs_(input: TensorOnly):
    """The absolute value; its gradient at 0 is 0."""
    not_implemented("abs_cpu", input, kinds="b")
    return _complex_abs(input) if input.dtype.kind == "c" else absolute(input)


@jax.custom_jvp
def _complex_abs(z: jax.Array) -> jax.Array:
    return jnp.abs(z)


@_complex_abs.defjvp
def _complex_abs_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (dz,) = primals, tangents
    return _complex_abs(z), jnp.real(jnp.conj(sgn(z)) * dz)


@pointwise_op(inplace=True)
def sign(input: TensorOnly):
    """-1, 0 or 1, by the sign of each element."""
    if input.dtype.kind == "c":
        raise RuntimeError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    if input.dtype.kind == "b":
        return input
    return (
        jnp.where(input == input, jnp.sign(input), 0).astype(input.dtype)
        if is_inexact(input.dtype)
        else jnp.sign(input)
    )


@pointwise_op(inplace=True)
def sgn(input: TensorOnly):
    """`sign`; a complex number is divided by its absolute value, and 0 stays 0."""
    if input.dtype.kind != "c":
        return sign(input)
    size = jnp.abs(lax.stop_gradient(input))
    nonzero = jnp.where(input == 0, 1, input)
    return jnp.where(size == 0, 0, nonzero / jnp.abs(nonzero)).astype(input.dtype)


@pointwise_op(differentiable=False)
def signbit(input: TensorOnly):
    """Whether the sign bit is set: for negative numbers and -0.0."""
    return jnp.signbit(input) if is_inexact(input.dtype) else input < 0


@pointwise_op(inplace=True)
def copysign(input: TensorOnly, other: Array):
    """The magnitude of ``input`` with the sign of ``other``."""
    return elementwise_float(
        lambda a, b: jnp.where(a == 0, 0.0, a * sign(a)).astype(a.dtype) * _plus_minus(b), input, other
    )


def _plus_minus(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.signbit(x), jnp.asarray(-1, x.dtype), jnp.asarray(1, x.dtype))


@composite("positive", dunder=("__pos__",))
def positive(input: Any) -> Any:
    """The tensor itself.

    Raises:
        RuntimeError: for a bool tensor.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.positive.html
    """
    if input.dtype is dtypes.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


# several at once


@pointwise_op(inplace=True, fits={"weight": FACTOR})
def lerp(input: TensorOnly, end: TensorOnly, weight: Array):
    """``input + weight * (end - input)``."""
    not_implemented("lerp_kernel_scalar", input, kinds="biu")
    for name, value in (("end", end), ("weight", weight)):
        if name == "weight" and not getattr(value, "ndim", 0):
            continue  # a number
        if hasattr(value, "dtype") and not getattr(value, "weak_type", False) and value.dtype != input.dtype:
            raise RuntimeError(f"expected dtype {_c(input)} for `{name}` but got dtype {_c(value)}")
    check_broadcast(input, end, weight)
    return compute(_lerp, input.dtype, input, end, weight)


def _c(value: Any) -> str:
    return {"float32": "float", "float64": "double"}.get(dtypes.from_np(value.dtype).name, type_name(value))


def _lerp(start: jax.Array, end: jax.Array, weight: jax.Array) -> jax.Array:
    # from the nearer end, so that weight 1 gives `end` exactly
    return jnp.where(
        jnp.abs(weight) < 0.5, start + weight * (end - start), end - (end - start) * (1 - weight)
    )


@pointwise_op(inplace=True, legacy="value", fits={"value": COMMON_FACTOR})
def addcmul(input: TensorOnly, tensor1: TensorOnly, tensor2: TensorOnly, *, value: Scalar = 1):
    """``input + value * tensor1 * tensor2``."""
    np_dtype = _common(input, tensor1, tensor2)
    return compute(lambda a, b, c: a + _scaled(b, value) * c, np_dtype, input, tensor1, tensor2)


@pointwise_op(inplace=True, legacy="value", fits={"value": COMMON_FACTOR})
def addcdiv(input: TensorOnly, tensor1: TensorOnly, tensor2: TensorOnly, *, value: Scalar = 1):
    """``input + value * tensor1 / tensor2``."""
    if not any(is_inexact(x.dtype) for x in (tensor1, tensor2)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
            "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value "
            "* torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes."
        )
    np_dtype = _common(input, tensor1, tensor2)
    return compute(lambda a, b, c: a + _scaled(b, value) / c, np_dtype, input, tensor1, tensor2)


def _common(*args: Any) -> np.dtype[Any]:
    check_broadcast(*args)
    return result_dtype(*args).np
