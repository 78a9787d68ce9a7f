"""Trigonometric and hyperbolic functions: `sin`, `asin`, `sinh`, `atan2`, `hypot`, `sinc`, ..."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._run.registry import TensorOnly, pointwise_op
from ._common import by_double, elementwise, elementwise_float, no_complex, not_implemented


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


@jax.custom_jvp
def _complex_acosh(z: jax.Array) -> jax.Array:
    return jnp.arccosh(z)


@_complex_acosh.defjvp
def _complex_acosh_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (dz,) = primals, tangents
    # JAX takes one root, of the product, which has the other sign where the real part is negative
    return _complex_acosh(z), dz / (jnp.sqrt(z - 1) * jnp.sqrt(z + 1))


@pointwise_op("acosh", "arccosh", inplace=True)
def acosh(input: TensorOnly):
    """Inverse hyperbolic cosine."""
    return elementwise_float(_complex_acosh if input.dtype.kind == "c" else jnp.arccosh, input)


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
    """The angle of the point (``other``, ``input``), in radians."""
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
    """Convert degrees to radians."""
    no_complex("deg2rad is not supported for complex tensors.", input)
    return elementwise_float(lambda x: x * (math.pi / 180), input)


@pointwise_op(inplace=True)
def rad2deg(input: TensorOnly):
    """Convert radians to degrees."""
    no_complex("rad2deg is not supported for complex tensors.", input)
    return elementwise_float(lambda x: x * (180 / math.pi), input)
