"""Powers, roots, exponentials and logarithms: `pow`, `square`, `sqrt`, `exp`, `log`, `logaddexp`, `xlogy`, ..."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.fits import fits
from .._array.symbolic import SymNumber
from .._base import dtypes
from .._base.promotion import cast, result_dtype
from .._run import bind
from .._run.registry import Array, Scalar, TensorOnly, composite, pointwise_op
from .._tensor.tensor import Tensor
from ._common import (
    by_double,
    check_broadcast,
    compute,
    elementwise,
    elementwise_float,
    float_dtype,
    is_inexact,
    not_implemented,
    times_infinite,
)
from .arithmetic import _category

# powers


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
    """``input`` to the power of a number in `_EXACT_POWERS`."""
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
    """`pow`, computed in float64 or complex128."""
    common = result_dtype(input, exponent)
    double = dtypes.complex128 if common.is_complex else dtypes.float64
    return _pow(cast(input, double.np), cast(exponent, double.np))


@pointwise_op(inplace=True, node="PowBackward0")
def square(input: TensorOnly):
    """``input * input``."""
    return pow_exact(input, 2)


@pointwise_op(inplace=True)
def sqrt(input: TensorOnly):
    """The square root."""
    return elementwise_float(jnp.sqrt, input)


@pointwise_op(inplace=True)
def rsqrt(input: TensorOnly):
    """``1 / sqrt(input)``."""
    return elementwise_float(lax.rsqrt, input)


# exponentials and logarithms


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
    """``exp(input) - 1``, accurate near 0."""
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
    """``log(1 + input)``, accurate near 0."""
    return elementwise_float(jnp.log1p, input)


@pointwise_op()
def logaddexp(input: TensorOnly, other: TensorOnly):
    """``log(exp(input) + exp(other))``, without overflow."""
    not_implemented("logaddexp_cpu", input, other, kinds="biu")
    return elementwise(jnp.logaddexp, input, other)


@pointwise_op()
def logaddexp2(input: TensorOnly, other: TensorOnly):
    """``log2(2**input + 2**other)``, without overflow."""
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
    """``input * log(other)``; 0 where ``input`` is 0, unless ``other`` is NaN."""
    not_implemented("xlogy_cpu", input, other, kinds="c")
    return elementwise_float(lambda x, y: _xlogy(*jnp.broadcast_arrays(x, y)), input, other)


@pointwise_op(inplace=True)
def ldexp(input: TensorOnly, other: TensorOnly):
    """``input * 2**other``; exact if ``other`` has an integer dtype."""
    if other.dtype.kind not in "iu":
        return elementwise_float(lambda x, y: x * jnp.exp2(y), input, other)
    check_broadcast(input, other)
    return compute(
        lambda x: _scaled(*jnp.broadcast_arrays(x, other.astype(np.int64))), float_dtype(input), input
    )


@jax.custom_jvp
def _scaled(x: jax.Array, n: jax.Array) -> jax.Array:
    """``x * 2**n``, exact."""
    mantissa, exponent = _split(x)
    return _times_power(mantissa, exponent + n)


def _times_power(x: jax.Array, n: jax.Array) -> jax.Array:
    """``x * 2**n`` by two normal powers of two, made from their bits because XLA's `exp2` rounds."""
    info = jnp.finfo(x.dtype)
    n = jnp.clip(n, 2 * info.minexp, 2 * (info.maxexp - 1))
    for power in (n // 2, n - n // 2):
        bits = (power + (info.maxexp - 1)) << info.nmant
        x = x * lax.bitcast_convert_type(bits.astype(f"int{info.bits}"), x.dtype)
    return x


_scaled.defjvp(lambda p, t: (_scaled(*p), _times_power(t[0], p[1])))


def _split(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mantissa and the exponent. A subnormal number is read as an integer, because XLA takes it for 0."""
    info = jnp.finfo(x.dtype)
    bits = lax.bitcast_convert_type(x, np.dtype(f"uint{info.bits}"))
    fraction = bits & ((1 << info.nmant) - 1)
    small = (fraction != 0) & (bits << 1 >> info.nmant + 1 == 0)
    mantissa, exponent = jnp.frexp(jnp.where(small, jnp.copysign(fraction.astype(x.dtype), x), x))
    return mantissa, jnp.where(small, exponent + (info.minexp - info.nmant), exponent).astype(np.int32)


@jax.custom_jvp
def _mantissa(x: jax.Array) -> jax.Array:
    return _split(x)[0]


_mantissa.defjvp(lambda p, t: (_mantissa(*p), _times_power(t[0], -_split(*p)[1])))


@pointwise_op(where="torch method", returns=("mantissa", "exponent"))
def frexp(input: TensorOnly):
    """``input`` as ``mantissa * 2**exponent``, with ``0.5 <= |mantissa| < 1`` (both are 0 for 0)."""
    not_implemented("frexp", input, kinds="biuc")
    return _mantissa(input), _split(lax.stop_gradient(input))[1]
