"""Elementwise operations: arithmetic, comparison, logic, bits and the mathematical functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from .._array.fits import ALPHA, COMMON, COMMON_FACTOR, CONVERTED, FACTOR, fits
from .._array.refusal import refuse
from .._array.symbolic import SymNumber
from .._base import dtypes
from .._base.division import divide
from .._base.promotion import cast, promote, result_dtype, scalar_type
from .._run import bind
from .._run.registry import Array, Arrays, Scalar, TensorOnly, composite, op, pointwise_op
from .._tensor.tensor import Tensor
from ._common import (
    BOOL,
    absolute,
    by_double,
    check_broadcast,
    compute,
    elementwise,
    elementwise_float,
    float_dtype,
    is_inexact,
    no_complex,
    not_implemented,
    predicate,
    times_infinite,
    type_name,
)

# arithmetic


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
    """Refuse a factor that the common type of ``args`` is not multiplied by."""
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


def _floor_quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """Floor of the exact quotient, which the floor of the rounded quotient is not."""
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
    """``number / tensor``, which PyTorch makes of the reciprocal."""
    return mul(input, reciprocal(other))


def _not_bool(*args: Any) -> np.dtype[Any]:
    """The common type, where bools are counted as integers of 8 bits is not what PyTorch does: it refuses them."""
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
    """``input / other`` rounded down."""
    check_broadcast(input, other)
    return compute(_floor_quotient, _not_bool(input, other), input, other)


@pointwise_op(inplace=True, dunder=("__mod__",), rdunder=("__rmod__",), check=_check_zero_divisor)
def remainder(input: Array, other: Array):
    """The remainder of division rounded down: it has the sign of ``other``."""
    return elementwise(jnp.remainder, input, other)


@pointwise_op(inplace=True, check=_check_zero_divisor)
def fmod(input: TensorOnly, other: Array):
    """The remainder of division rounded towards zero: it has the sign of ``input``."""
    return elementwise(jnp.fmod, input, other)


def _integer_power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    positive = jnp.power(base, jnp.maximum(exponent, 0))
    if exponent.dtype.kind == "u":
        return positive
    odd_sign = jnp.where(exponent % 2 == 0, 1, -1).astype(base.dtype)
    inverse = jnp.where(base == 1, 1, jnp.where(base == -1, odd_sign, 0)).astype(base.dtype)
    return jnp.where(exponent < 0, inverse, positive)


@jax.custom_jvp
def _float_power(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.pow(x, y)


@_float_power.defjvp
def _float_power_jvp(primals: Any, tangents: Any) -> Any:
    """PyTorch's derivatives: 0 for a zero exponent, and no logarithm of a zero base."""
    (x, y), (dx, dy) = primals, tangents
    out = _float_power(x, y)
    to_base = jnp.where(y == 0, 0, y * _float_power(x, jnp.where(y == 0, 1, y - 1)))
    flat = (x == 0) & ((y >= 0) if y.dtype.kind != "c" else (jnp.real(y) >= 0))
    to_exponent = jnp.where(flat, 0, out * jnp.log(jnp.where(flat, 1, x)))
    return out, to_base.astype(x.dtype) * dx + to_exponent.astype(x.dtype) * dy


def _power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    if not is_inexact(base.dtype):
        return _integer_power(base, exponent)
    return _float_power(*jnp.broadcast_arrays(base, exponent))


#: exponents that have an exact formula, faster than the general power; each makes a program of its own
_EXACT_POWERS = {
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    1: lambda x: x,
    0.5: jnp.sqrt,
    -0.5: lax.rsqrt,
    -1: lambda x: 1 / x,
    -2: lambda x: 1 / (x * x),
}


@pointwise_op("_pow", where="", node="PowBackward1")
def _pow(input: Array, exponent: Array):
    """``input`` to the power of ``exponent``."""
    if result_dtype(input, exponent) is dtypes.bool_:
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")
    return elementwise(_power, input, exponent)


def _check_exponent(input: Any, exponent: Any) -> None:
    common = result_dtype(input, exponent)
    if common is not dtypes.float32:  # that one is computed with a double
        fits(exponent, common.np)


@pointwise_op("_pow_number", where="", node="PowBackward0", check=_check_exponent)
def _pow_number(input: Array, exponent: Scalar):
    """``input`` to the power of a number."""
    return _pow(input, exponent)


@pointwise_op("_pow_exact", where="", node="PowBackward0")
def pow_exact(input: Array, exponent: float):
    """``input`` to the power of a number that has a formula of its own."""
    common = result_dtype(input, exponent)
    if not (common.is_floating_point or common.is_complex or exponent > 0):
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return compute(_EXACT_POWERS[exponent], common.np, input)


@pointwise_op("_number_pow", where="", node="PowBackward2")
def _number_pow(input: Scalar, exponent: Array):
    """A number to the power of ``exponent``."""
    return _pow(input, exponent)


def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input`` to the power of ``exponent``; either may be a number."""
    kwargs = {} if out is None else {"out": out}
    if isinstance(exponent, Tensor):
        name = "_pow" if isinstance(input, Tensor) else "_number_pow"
        return bind.function(name)(input, exponent, **kwargs)
    if not isinstance(input, Tensor) or not isinstance(exponent, int | float | complex | SymNumber):
        if isinstance(input, int | float | complex) and isinstance(exponent, int | float | complex):
            found = f"{type(input).__name__}, {type(exponent).__name__}"
            raise TypeError(f"pow() received an invalid combination of arguments - got ({found})")
        wrong, position = ("self", 1) if not isinstance(input, Tensor) else ("exponent", 2)
        found = type(exponent if position == 2 else input).__name__
        raise TypeError(f"pow(): argument '{wrong}' (position {position}) must be Tensor, not {found}")
    if not isinstance(exponent, SymNumber):
        if isinstance(exponent, int) and exponent < 0 and _category(input._aval()) in "bi":
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if isinstance(exponent, bool) and _category(input._aval()) == "b":
            return bind.function("bitwise_or")(input, not exponent, **kwargs)
        if exponent in _EXACT_POWERS and not isinstance(exponent, bool | complex):
            return bind.function("_pow_exact")(input, exponent, **kwargs)
    return bind.function("_pow_number")(input, exponent, **kwargs)


def _pow_dunder(self: Tensor, exponent: Any) -> Any:
    return (
        pow(self, exponent)
        if isinstance(exponent, Tensor | int | float | complex | SymNumber)
        else NotImplemented
    )


def _rpow_dunder(self: Tensor, base: Any) -> Any:
    return pow(base, self) if isinstance(base, Tensor | int | float | complex | SymNumber) else NotImplemented


def pow_(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of `pow`."""
    self._check_inplace(exponent)
    return self._take(pow(self, exponent))


composite("pow", where="torch method")(pow)
composite("pow_", "__ipow__", where="method")(pow_)
composite("__pow__", where="method")(_pow_dunder)
composite("__rpow__", where="method")(_rpow_dunder)


@pointwise_op(inplace=True, node="PowBackward0")
def float_power(input: Array, exponent: Array):
    """`pow` computed in double precision."""
    common = result_dtype(input, exponent)
    double = dtypes.complex128 if common.is_complex else dtypes.float64
    return _pow(cast(input, double.np), cast(exponent, double.np))


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
    """-1, 0 or 1."""
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
    """`sign`; for complex numbers the number divided by its absolute value, 0 at 0."""
    if input.dtype.kind != "c":
        return sign(input)
    size = jnp.abs(lax.stop_gradient(input))
    nonzero = jnp.where(input == 0, 1, input)
    return jnp.where(size == 0, 0, nonzero / jnp.abs(nonzero)).astype(input.dtype)


@pointwise_op(differentiable=False)
def signbit(input: TensorOnly):
    """Whether the sign bit is set."""
    return jnp.signbit(input) if is_inexact(input.dtype) else input < 0


@pointwise_op(inplace=True)
def copysign(input: TensorOnly, other: Array):
    """The size of ``input`` with the sign of ``other``."""
    return elementwise_float(
        lambda a, b: jnp.where(a == 0, 0.0, a * sign(a)).astype(a.dtype) * _plus_minus(b), input, other
    )


def _plus_minus(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.signbit(x), jnp.asarray(-1, x.dtype), jnp.asarray(1, x.dtype))


@pointwise_op(inplace=True)
def reciprocal(input: TensorOnly):
    """``1 / input``."""
    return elementwise_float(lambda x: 1 / x, input)


@pointwise_op(inplace=True, node="PowBackward0")
def square(input: TensorOnly):
    """``input * input``."""
    return pow_exact(input, 2)


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
            "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as "
            "(input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes."
        )
    np_dtype = _common(input, tensor1, tensor2)
    return compute(lambda a, b, c: a + _scaled(b, value) / c, np_dtype, input, tensor1, tensor2)


def _common(*args: Any) -> np.dtype[Any]:
    check_broadcast(*args)
    return result_dtype(*args).np


# comparison


@pointwise_op("_compared", where="", node=lambda static: static["node"])
def _compared(result: Array, inputs: Arrays, node: str):
    """What a comparison put in the place of an input: it does not depend on the inputs as far as gradients go."""
    return result


@pointwise_op("eq", inplace=True, differentiable=False, dunder=("__eq__",))
def eq(input: TensorOnly, other: Array):
    """``input == other``."""
    return predicate(jnp.equal, input, other)


@pointwise_op("ne", "not_equal", inplace=True, differentiable=False, dunder=("__ne__",))
def ne(input: TensorOnly, other: Array):
    """``input != other``."""
    return predicate(jnp.not_equal, input, other)


@pointwise_op("lt", "less", inplace=True, differentiable=False, dunder=("__lt__",))
def lt(input: TensorOnly, other: Array):
    """``input < other``."""
    return predicate(jnp.less, *_ordered("lt", input, other))


@pointwise_op("le", "less_equal", inplace=True, differentiable=False, dunder=("__le__",))
def le(input: TensorOnly, other: Array):
    """``input <= other``."""
    return predicate(jnp.less_equal, *_ordered("le", input, other))


@pointwise_op("gt", "greater", inplace=True, differentiable=False, dunder=("__gt__",))
def gt(input: TensorOnly, other: Array):
    """``input > other``."""
    return predicate(jnp.greater, *_ordered("gt", input, other))


@pointwise_op("ge", "greater_equal", inplace=True, differentiable=False, dunder=("__ge__",))
def ge(input: TensorOnly, other: Array):
    """``input >= other``."""
    return predicate(jnp.greater_equal, *_ordered("ge", input, other))


def _ordered(name: str, *args: Any) -> tuple[Any, ...]:
    common = result_dtype(*args)
    if common.is_complex:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{common.scalar_name}'")
    return args


def _check_tolerances(input: Any, other: Any, rtol: Any = 0, atol: Any = 0, equal_nan: bool = False) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not hasattr(value, "dtype") and value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")


@pointwise_op(differentiable=False, check=_check_tolerances)
def isclose(
    input: TensorOnly, other: TensorOnly, rtol: Scalar = 1e-05, atol: Scalar = 1e-08, equal_nan: bool = False
):
    """Whether ``|input - other| <= atol + rtol * |other|``."""
    if input.dtype != other.dtype:
        raise RuntimeError(f"{type_name(input)} did not match {type_name(other)}")
    check_broadcast(input, other)
    close = input == other
    if equal_nan and is_inexact(input.dtype):
        close |= jnp.isnan(input) & jnp.isnan(other)
    a, b = (x if is_inexact(x.dtype) else x.astype(dtypes.get_default_dtype().np) for x in (input, other))
    error, allowed = jnp.abs(a - b), cast(atol, jnp.abs(b).dtype) + jnp.abs(cast(rtol, jnp.abs(b).dtype) * b)
    return close | (jnp.isfinite(error) & (error <= allowed))


@composite()
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all values are close; a Python bool."""
    return bool(bind.function("isclose")(input, other, rtol, atol, equal_nan).all())  # type: ignore[attr-defined]


@composite()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all values are equal; a Python bool."""
    return tuple(input.shape) == tuple(other.shape) and bool((input == other).all())  # type: ignore[attr-defined]


@pointwise_op(differentiable=False)
def isnan(input: TensorOnly):
    """Whether a value is not a number."""
    return jnp.isnan(input)


@pointwise_op(differentiable=False)
def isinf(input: TensorOnly):
    """Whether a value is infinite."""
    return jnp.isinf(input)


@pointwise_op(differentiable=False)
def isfinite(input: TensorOnly):
    """Whether a value is neither infinite nor nan."""
    return jnp.isfinite(input)


@pointwise_op(differentiable=False)
def isposinf(input: TensorOnly):
    """Whether a value is plus infinity."""
    return jnp.isposinf(input)


@pointwise_op(differentiable=False)
def isneginf(input: TensorOnly):
    """Whether a value is minus infinity."""
    return jnp.isneginf(input)


@pointwise_op(differentiable=False)
def isreal(input: TensorOnly):
    """Whether a value has no imaginary part."""
    return jnp.isreal(input)


# logic and bits


@pointwise_op(inplace=True, differentiable=False)
def logical_and(input: TensorOnly, other: TensorOnly):
    """Whether both are nonzero."""
    check_broadcast(input, other)
    return jnp.logical_and(input, other)


@pointwise_op(inplace=True, differentiable=False)
def logical_or(input: TensorOnly, other: TensorOnly):
    """Whether one of both is nonzero."""
    check_broadcast(input, other)
    return jnp.logical_or(input, other)


@pointwise_op(inplace=True, differentiable=False)
def logical_xor(input: TensorOnly, other: TensorOnly):
    """Whether exactly one of both is nonzero."""
    check_broadcast(input, other)
    return jnp.logical_xor(input, other)


@pointwise_op(inplace=True, differentiable=False)
def logical_not(input: TensorOnly):
    """Whether a value is zero."""
    return jnp.logical_not(input)


def _bits(fn: Any, kernel: str, *args: Any) -> jax.Array:
    check_broadcast(*args)
    arrays = promote(*args)
    not_implemented(kernel, *arrays, kinds="fVc")
    return fn(*arrays)


@pointwise_op(inplace=True, differentiable=False, dunder=("__and__",), rdunder=("__rand__",))
def bitwise_and(input: Array, other: Array):
    """Bits set in both."""
    return _bits(jnp.bitwise_and, "bitwise_and_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False, dunder=("__or__",), rdunder=("__ror__",))
def bitwise_or(input: Array, other: Array):
    """Bits set in one of both."""
    return _bits(jnp.bitwise_or, "bitwise_or_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False, dunder=("__xor__",), rdunder=("__rxor__",))
def bitwise_xor(input: Array, other: Array):
    """Bits set in exactly one of both."""
    return _bits(jnp.bitwise_xor, "bitwise_xor_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False)
def bitwise_not(input: TensorOnly):
    """All bits flipped; for bools, the negation."""
    return _bits(jnp.bitwise_not, "bitwise_not_cpu", input)


@composite("__invert__", where="", dunder=("__invert__",))
def invert(input: Any) -> Any:
    """``~input``."""
    if input.is_floating_point() or input.is_complex():
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return input.bitwise_not()


@pointwise_op(inplace=True, differentiable=False, dunder=("__lshift__",), rdunder=("__rlshift__",))
def bitwise_left_shift(input: Array, other: Array):
    """``input << other``."""
    return _bits(jnp.left_shift, "lshift_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False, dunder=("__rshift__",), rdunder=("__rrshift__",))
def bitwise_right_shift(input: Array, other: Array):
    """``input >> other``, keeping the sign."""
    return _bits(jnp.right_shift, "rshift_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False)
def gcd(input: TensorOnly, other: TensorOnly):
    """The greatest common divisor."""
    return _bits(jnp.gcd, "gcd_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False)
def lcm(input: TensorOnly, other: TensorOnly):
    """The least common multiple."""
    return _bits(jnp.lcm, "lcm_cpu", input, other)


# choosing


@pointwise_op("_where", where="", node="WhereBackward0", fits={"input": CONVERTED, "other": CONVERTED})
def where(condition: Array, input: Array, other: Array):
    """``input`` where the condition holds, else ``other``."""
    if condition.dtype.kind != "b" and condition.dtype != np.uint8:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {type_name(condition)}"
        )
    check_broadcast(condition, input, other)
    return elementwise(lambda a, b: jnp.where(condition.astype(BOOL), a, b), input, other)


@pointwise_op("clamp", "clip", inplace=True, node="ClampBackward1", fits={"min": COMMON, "max": COMMON})
def clamp(input: TensorOnly, min: Array | None = None, max: Array | None = None):
    """``input`` brought between ``min`` and ``max``; at the edges the gradient passes."""
    bounds = [b for b in (min, max) if b is not None]
    if not bounds:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    no_complex("clamp is not supported for complex types", input, error=NotImplementedError)
    kernel = "clamp_cpu" if len(bounds) > 1 else "maximum_cpu" if max is None else "minimum_cpu"
    not_implemented(kernel, min, max, kinds="c")
    check_broadcast(input, *bounds)
    x, *limits = promote(input, *bounds)
    if min is not None:
        low = limits[0]
        # PyTorch passes no gradient to a minimum that is not below the maximum
        if max is not None and not getattr(min, "weak_type", False):
            low = jnp.where(low < limits[1], low, lax.stop_gradient(low))
        x = _at_least(x, low)
    return x if max is None else _at_most(x, limits[-1])


@pointwise_op(inplace=True, fits={"min": COMMON})
def clamp_min(input: TensorOnly, min: Array):
    """``input``, at least ``min``."""
    not_implemented("maximum_cpu", input, min, kinds="c")
    check_broadcast(input, min)
    return _at_least(*promote(input, min))


@pointwise_op(inplace=True, fits={"max": COMMON})
def clamp_max(input: TensorOnly, max: Array):
    """``input``, at most ``max``."""
    not_implemented("minimum_cpu", input, max, kinds="c")
    check_broadcast(input, max)
    return _at_most(*promote(input, max))


@jax.custom_jvp
def _at_least(x: jax.Array, low: jax.Array) -> jax.Array:
    return jnp.maximum(x, low)


@jax.custom_jvp
def _at_most(x: jax.Array, high: jax.Array) -> jax.Array:
    return jnp.minimum(x, high)


def _at_least_jvp(primals: Any, tangents: Any) -> Any:
    return _limited(_at_least, primals, tangents, operator.ge, operator.lt)


def _at_most_jvp(primals: Any, tangents: Any) -> Any:
    return _limited(_at_most, primals, tangents, operator.le, operator.gt)


def _along(out: jax.Array, *parts: tuple[Callable[[jax.Array], jax.Array], Any]) -> jax.Array:
    """The derivative that is the sum of ``part(tangent)``, of the inputs that have a tangent."""
    terms = [part(tangent) for part, tangent in parts if not isinstance(tangent, SymbolicZero)]
    return jnp.broadcast_to(sum(terms[1:], terms[0]) if terms else jnp.zeros_like(out), out.shape)


def _limited(fn: Any, primals: Any, tangents: Any, inside: Any, outside: Any) -> Any:
    """Where both are equal the gradient is that of the first; a nan has none."""
    (x, limit), (dx, dlimit) = primals, tangents
    by_x, by_limit = (lambda t, where=where: jnp.where(where(x, limit), t, 0) for where in (inside, outside))
    out = fn(x, limit)
    return out, _along(out, (by_x, dx), (by_limit, dlimit))


_at_least.defjvp(_at_least_jvp, symbolic_zeros=True)
_at_most.defjvp(_at_most_jvp, symbolic_zeros=True)


@pointwise_op()
def maximum(input: TensorOnly, other: TensorOnly):
    """The larger of both, nan if one is; at ties the gradient is shared."""
    return elementwise(jnp.maximum, *_ordered("maximum", input, other))


@pointwise_op()
def minimum(input: TensorOnly, other: TensorOnly):
    """The smaller of both, nan if one is; at ties the gradient is shared."""
    return elementwise(jnp.minimum, *_ordered("minimum", input, other))


@pointwise_op()
def fmax(input: TensorOnly, other: TensorOnly):
    """The larger of both, ignoring nan."""
    no_complex("fmax not implemented for complex tensors.", input, other)
    return elementwise(lambda a, b: jnp.where((a >= b) | (b != b), a, b), input, other)


@pointwise_op()
def fmin(input: TensorOnly, other: TensorOnly):
    """The smaller of both, ignoring nan."""
    no_complex("fmin not implemented for complex tensors.", input, other)
    return elementwise(lambda a, b: jnp.where((a <= b) | (b != b), a, b), input, other)


@pointwise_op(inplace=True)
def nan_to_num(
    input: TensorOnly, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
):
    """Numbers in the place of nan and of the infinities."""
    if not is_inexact(input.dtype):
        return input
    if input.dtype.kind == "c":
        return lax.complex(
            *(nan_to_num(part, nan, posinf, neginf) for part in (jnp.real(input), jnp.imag(input)))
        )
    limits = jnp.finfo(input.dtype)
    out = jnp.where(jnp.isnan(input), 0.0 if nan is None else nan, input)
    out = jnp.where(jnp.isposinf(input), limits.max if posinf is None else posinf, out)
    return jnp.where(jnp.isneginf(input), limits.min if neginf is None else neginf, out).astype(input.dtype)


@pointwise_op(inplace=True, differentiable=False)
def heaviside(input: TensorOnly, values: TensorOnly):
    """0 below zero, 1 above, ``values`` at zero."""
    if input.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return elementwise(lambda x, v: jnp.where(x == 0, v, (x > 0).astype(x.dtype)), input, values)


# rounding


def _rounded(fn: Any, kernel: str, x: jax.Array) -> jax.Array:
    not_implemented(kernel, x, kinds="b")
    return fn(x) if is_inexact(x.dtype) else x


@pointwise_op(inplace=True)
def floor(input: TensorOnly):
    """Rounded down."""
    return _rounded(jnp.floor, "floor_vml_cpu", input)


@pointwise_op(inplace=True)
def ceil(input: TensorOnly):
    """Rounded up."""
    return _rounded(jnp.ceil, "ceil_vml_cpu", input)


@pointwise_op("trunc", "fix", inplace=True)
def trunc(input: TensorOnly):
    """Rounded towards zero."""
    return _rounded(jnp.trunc, "trunc_vml_cpu", input)


@pointwise_op(inplace=True, where="torch method special")
def round(input: TensorOnly, *, decimals: int = 0):
    """Rounded to ``decimals`` places, halves to the even neighbour."""
    if decimals == 0 or not is_inexact(input.dtype):
        return _rounded(jnp.round, "round_vml_cpu", input)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return compute(lambda x: jnp.round(x * scale) / scale, input.dtype, input)
    return compute(lambda x: jnp.round(x / scale) * scale, input.dtype, input)


@pointwise_op(inplace=True)
def frac(input: TensorOnly):
    """The part behind the point, with the sign of ``input``."""
    not_implemented("frac_cpu", input, kinds="biu")
    return input - jnp.trunc(input)


# powers, logarithms, exponentials


@pointwise_op(inplace=True)
def sqrt(input: TensorOnly):
    """The square root."""
    return elementwise_float(jnp.sqrt, input)


@pointwise_op(inplace=True)
def rsqrt(input: TensorOnly):
    """``1 / sqrt(input)``."""
    return elementwise_float(lax.rsqrt, input)


@pointwise_op(inplace=True)
def exp(input: TensorOnly):
    """e to the power of ``input``."""
    return elementwise_float(jnp.exp, input)


@pointwise_op(inplace=True, where="torch method special")
def exp2(input: TensorOnly):
    """2 to the power of ``input``."""
    return elementwise_float(by_double(jnp.exp2), input)


@pointwise_op(inplace=True, where="torch method special")
def expm1(input: TensorOnly):
    """``exp(input) - 1``, exact near 0."""
    return elementwise_float(jnp.expm1, input)


@pointwise_op(inplace=True)
def log(input: TensorOnly):
    """The natural logarithm."""
    return elementwise_float(jnp.log, input)


@pointwise_op(inplace=True)
def log2(input: TensorOnly):
    """The logarithm to base 2."""
    return elementwise_float(
        lambda x: jnp.log(x) * (1 / math.log(2)) if x.dtype.kind == "c" else jnp.log2(x), input
    )


@pointwise_op(inplace=True)
def log10(input: TensorOnly):
    """The logarithm to base 10."""
    return elementwise_float(jnp.log10, input)


@pointwise_op(inplace=True, where="torch method special")
def log1p(input: TensorOnly):
    """``log(1 + input)``, exact near 0."""
    return elementwise_float(jnp.log1p, input)


@pointwise_op()
def logaddexp(input: TensorOnly, other: TensorOnly):
    """``log(exp(input) + exp(other))``."""
    not_implemented("logaddexp_cpu", input, other, kinds="biu")
    return elementwise(jnp.logaddexp, input, other)


@pointwise_op()
def logaddexp2(input: TensorOnly, other: TensorOnly):
    """``log2(2**input + 2**other)``."""
    not_implemented("logaddexp2_cpu", input, other, kinds="biu")
    return elementwise(jnp.logaddexp2, input, other)


@jax.custom_jvp
def _xlogy(x: jax.Array, y: jax.Array) -> jax.Array:
    zero = (x == 0) & (y == y)
    return jnp.where(zero, 0, x * jnp.log(jnp.where(zero, 1, y))).astype(x.dtype)


@_xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    log_y = jnp.where((x == 0) & (y <= 0), 0, jnp.log(jnp.where((x == 0) & (y <= 0), 1, y))).astype(x.dtype)
    return _xlogy(x, y), times_infinite(log_y, dx) + x / y * dy


@pointwise_op(inplace=True, where="torch method special")
def xlogy(input: Array, other: Array):
    """``input * log(other)``, 0 where ``input`` is 0."""
    not_implemented("xlogy_cpu", input, other, kinds="c")
    return elementwise_float(lambda x, y: _xlogy(*jnp.broadcast_arrays(x, y)), input, other)


@pointwise_op(inplace=True)
def ldexp(input: TensorOnly, other: TensorOnly):
    """``input * 2**other``."""
    return elementwise_float(lambda x, y: x * jnp.exp2(y), input, other)


@pointwise_op(where="torch method", returns=("mantissa", "exponent"))
def frexp(input: TensorOnly):
    """Mantissas in [0.5, 1) and the powers of two they are multiplied by."""
    not_implemented("frexp", input, kinds="biuc")
    _, exponent = jnp.frexp(lax.stop_gradient(input))
    return (input * jnp.exp2(-exponent.astype(input.dtype))).astype(input.dtype), exponent.astype(np.int32)


@pointwise_op(inplace=True)
def nextafter(input: TensorOnly, other: TensorOnly):
    """The next number that can be represented, in the direction of ``other``."""
    not_implemented("nextafter_cpu", input, other, kinds="biuc")
    return elementwise(_nextafter, input, other)


@jax.custom_jvp
def _nextafter(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.nextafter(x, y)


@_nextafter.defjvp
def _nextafter_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, _) = primals, tangents
    return _nextafter(x, y), jnp.where(x != y, dx, 0)


# trigonometry


@pointwise_op(inplace=True)
def sin(input: TensorOnly):
    """Sine."""
    return elementwise_float(jnp.sin, input)


@pointwise_op(inplace=True)
def cos(input: TensorOnly):
    """Cosine."""
    return elementwise_float(jnp.cos, input)


@pointwise_op(inplace=True)
def tan(input: TensorOnly):
    """Tangent."""
    return elementwise_float(jnp.tan, input)


@pointwise_op("asin", "arcsin", inplace=True)
def asin(input: TensorOnly):
    """Arc sine."""
    return elementwise_float(jnp.arcsin, input)


@pointwise_op("acos", "arccos", inplace=True)
def acos(input: TensorOnly):
    """Arc cosine."""
    return elementwise_float(jnp.arccos, input)


@pointwise_op("atan", "arctan", inplace=True)
def atan(input: TensorOnly):
    """Arc tangent."""
    return elementwise_float(jnp.arctan, input)


@pointwise_op(inplace=True)
def sinh(input: TensorOnly):
    """Hyperbolic sine."""
    return elementwise_float(by_double(jnp.sinh), input)


@pointwise_op(inplace=True)
def cosh(input: TensorOnly):
    """Hyperbolic cosine."""
    return elementwise_float(by_double(jnp.cosh), input)


@pointwise_op("asinh", "arcsinh", inplace=True)
def asinh(input: TensorOnly):
    """Inverse hyperbolic sine."""
    return elementwise_float(jnp.arcsinh, input)


@pointwise_op("acosh", "arccosh", inplace=True)
def acosh(input: TensorOnly):
    """Inverse hyperbolic cosine."""
    return elementwise_float(jnp.arccosh, input)


@pointwise_op("atanh", "arctanh", inplace=True)
def atanh(input: TensorOnly):
    """Inverse hyperbolic tangent."""
    return elementwise_float(jnp.arctanh, input)


@jax.custom_jvp
def _atan2(y: jax.Array, x: jax.Array) -> jax.Array:
    return lax.atan2(y, x)


@_atan2.defjvp
def _atan2_jvp(primals: Any, tangents: Any) -> Any:
    (y, x), (dy, dx) = primals, tangents
    square = y * y + x * x
    safe = jnp.where(
        square == 0, 1, square
    )  # at the origin the numerators are 0, and so is PyTorch's gradient
    return _atan2(y, x), x / safe * dy - y / safe * dx


@pointwise_op("atan2", "arctan2", inplace=True)
def atan2(input: TensorOnly, other: TensorOnly):
    """The angle of the point (``other``, ``input``)."""
    not_implemented("atan2_cpu", input, other, kinds="c")
    return elementwise_float(lambda y, x: _atan2(*jnp.broadcast_arrays(y, x)), input, other)


@jax.custom_jvp
def _hypot(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.hypot(x, y)


@_hypot.defjvp
def _hypot_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    out = _hypot(x, y)
    return out, x / out * dx + y / out * dy


@pointwise_op(inplace=True)
def hypot(input: TensorOnly, other: TensorOnly):
    """``sqrt(input**2 + other**2)``."""
    not_implemented("hypot_cpu", input, other, kinds="biu")
    return elementwise(lambda x, y: _hypot(*jnp.broadcast_arrays(x, y)), input, other)


@pointwise_op(inplace=True, where="torch method special")
def sinc(input: TensorOnly):
    """``sin(pi x) / (pi x)``, 1 at 0."""
    return elementwise_float(_sinc, input)


def _sinc(x: jax.Array) -> jax.Array:
    z = math.pi * x
    small = jnp.abs(z) < 0.1
    square = jnp.where(small, z * z, 0)
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    large = jnp.where(small, 1, z)
    return jnp.where(small, series, jnp.sin(large) / large).astype(x.dtype)


@pointwise_op(inplace=True)
def deg2rad(input: TensorOnly):
    """Degrees to radians."""
    no_complex("deg2rad is not supported for complex tensors.", input)
    return elementwise_float(lambda x: x * (math.pi / 180), input)


@pointwise_op(inplace=True)
def rad2deg(input: TensorOnly):
    """Radians to degrees."""
    no_complex("rad2deg is not supported for complex tensors.", input)
    return elementwise_float(lambda x: x * (180 / math.pi), input)


# special functions


@pointwise_op(inplace=True, where="torch method special")
def erf(input: TensorOnly):
    """The error function."""
    not_implemented("erf_vml_cpu", input, kinds="c")
    return elementwise_float(lax.erf, input)


@pointwise_op(inplace=True, where="torch method special")
def erfc(input: TensorOnly):
    """``1 - erf(input)``."""
    not_implemented("erfc_vml_cpu", input, kinds="c")
    return elementwise_float(by_double(lax.erfc), input)


@pointwise_op(inplace=True, where="torch method special")
def erfinv(input: TensorOnly):
    """The inverse of `erf`."""
    not_implemented("erfinv_vml_cpu", input, kinds="c")
    return elementwise_float(by_double(lax.erf_inv), input)


@pointwise_op(inplace=True, where="torch method special")
def logit(input: TensorOnly, eps: float | None = None):
    """``log(x / (1 - x))``, with ``x`` brought into ``[eps, 1 - eps]`` first."""
    not_implemented("logit_cpu", input, kinds="c")

    def formula(x: jax.Array) -> jax.Array:
        if eps is not None:
            inside = (x >= eps) & (x <= 1 - eps)
            x = jnp.where(inside, x, lax.stop_gradient(jnp.where(x < eps, eps, jnp.minimum(x, 1 - eps))))
        return _logit(x)

    return elementwise_float(formula, input)


@jax.custom_jvp
def _logit(x: jax.Array) -> jax.Array:
    return jnp.log(x / (1 - x))


@_logit.defjvp
def _logit_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return _logit(x), jnp.where((x < 0) | (x > 1), jnp.nan, 1 / (x * (1 - x))).astype(x.dtype) * dx


# complex numbers


@pointwise_op()
def angle(input: TensorOnly):
    """The angle of a complex number; pi for negative real numbers."""
    if input.dtype.kind == "c":
        return jnp.angle(input)
    return elementwise_float(_real_angle, input)


def _real_angle(x: jax.Array) -> jax.Array:
    side = jnp.where(x < 0, jnp.asarray(math.pi, x.dtype), jnp.zeros((), x.dtype))
    return lax.stop_gradient(jnp.where(x != x, x, side))


@pointwise_op(inplace=True)
def conj_physical(input: TensorOnly):
    """The complex conjugate."""
    return jnp.conj(input) if input.dtype.kind == "c" else input


op("_conj", view=True, node="ConjBackward0")(conj_physical)


@op("_neg_view", view=True)
def _neg_view(input: TensorOnly):
    """The negative, as a view."""
    return -input


@composite()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, as a view; real tensors as they are."""
    if not isinstance(input, Tensor):
        raise TypeError(f"conj(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return bind.function("_conj")(input) if input.is_complex() else input


@pointwise_op(where="torch")
def polar(abs: TensorOnly, angle: TensorOnly):
    """The complex numbers of these absolute values and angles."""
    check_broadcast(abs, angle)
    return lax.complex(*jnp.broadcast_arrays(abs * jnp.cos(angle), abs * jnp.sin(angle)))


@pointwise_op("complex", where="torch")
def complex_(real: TensorOnly, imag: TensorOnly):
    """The complex numbers of these parts."""
    if any(x.dtype.kind != "f" for x in (real, imag)):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {type_name(real)} and {type_name(imag)}"
        )
    if real.dtype != imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {type_name(real)} but got scalar type {type_name(imag)} for "
            "second argument"
        )
    check_broadcast(real, imag)
    return lax.complex(*jnp.broadcast_arrays(real, imag))
