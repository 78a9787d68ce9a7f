"""Rounding: `floor`, `ceil`, `trunc`, `round`, `frac`, and the next number, `nextafter`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._run.registry import TensorOnly, pointwise_op
from ._common import compute, elementwise, is_inexact, no_complex, not_implemented


def _rounded(name: str, fn: Any, x: jax.Array) -> jax.Array:
    if name != "round":
        no_complex(f"{name} is not supported for complex inputs", x, error=NotImplementedError)
    not_implemented(f"{name}_vml_cpu", x, kinds="bc")
    return fn(x) if is_inexact(x.dtype) else x


@pointwise_op(inplace=True)
def floor(input: TensorOnly):
    """Round down."""
    return _rounded("floor", jnp.floor, input)


@pointwise_op(inplace=True)
def ceil(input: TensorOnly):
    """Round up."""
    return _rounded("ceil", jnp.ceil, input)


@pointwise_op("trunc", "fix", inplace=True)
def trunc(input: TensorOnly):
    """Round towards zero."""
    return _rounded("trunc", jnp.trunc, input)


@pointwise_op(inplace=True, where="torch method special")
def round(input: TensorOnly, *, decimals: int = 0):
    """Round to ``decimals`` places; a half goes to the even neighbour."""
    if decimals == 0:
        return _rounded("round", jnp.round, input)
    not_implemented("round_cpu", input, kinds="biuc")
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return compute(lambda x: jnp.round(x * scale) / scale, input.dtype, input)
    return compute(lambda x: jnp.round(x / scale) * scale, input.dtype, input)


@pointwise_op(inplace=True)
def frac(input: TensorOnly):
    """The fractional part, with the sign of ``input``."""
    not_implemented("frac_cpu", input, kinds="biuc")
    return input - jnp.trunc(input)


@pointwise_op(inplace=True)
def nextafter(input: TensorOnly, other: TensorOnly):
    """The next representable number from ``input`` towards ``other``."""
    not_implemented("nextafter_cpu", input, other, kinds="biuc")
    return elementwise(_nextafter, input, other)


@jax.custom_jvp
def _nextafter(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.nextafter(x, y)


@_nextafter.defjvp
def _nextafter_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, _) = primals, tangents
    return _nextafter(x, y), jnp.where(x != y, dx, 0)
