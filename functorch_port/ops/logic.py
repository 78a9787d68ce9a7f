"""Logic and bits: `logical_and`, `bitwise_and`, shifts, and `gcd` and `lcm`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._base.promotion import promote
from .._run.registry import Array, TensorOnly, composite, pointwise_op
from ._common import check_broadcast, not_implemented


@pointwise_op(inplace=True, differentiable=False)
def logical_and(input: TensorOnly, other: TensorOnly):
    """Whether both elements are nonzero."""
    check_broadcast(input, other)
    return jnp.logical_and(input, other)


@pointwise_op(inplace=True, differentiable=False)
def logical_or(input: TensorOnly, other: TensorOnly):
    """Whether at least one of two elements is nonzero."""
    check_broadcast(input, other)
    return jnp.logical_or(input, other)


@pointwise_op(inplace=True, differentiable=False)
def logical_xor(input: TensorOnly, other: TensorOnly):
    """Whether exactly one of two elements is nonzero."""
    check_broadcast(input, other)
    return jnp.logical_xor(input, other)


@pointwise_op(inplace=True, differentiable=False)
def logical_not(input: TensorOnly):
    """Whether each element is zero."""
    return jnp.logical_not(input)


def _bits(fn: Any, kernel: str, *args: Any) -> jax.Array:
    check_broadcast(*args)
    arrays = promote(*args)
    not_implemented(kernel, *arrays, kinds="fVc")
    return fn(*arrays)


@pointwise_op(inplace=True, differentiable=False, dunder=("__and__",), rdunder=("__rand__",))
def bitwise_and(input: Array, other: Array):
    """The bits that are set in both."""
    return _bits(jnp.bitwise_and, "bitwise_and_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False, dunder=("__or__",), rdunder=("__ror__",))
def bitwise_or(input: Array, other: Array):
    """The bits that are set in at least one."""
    return _bits(jnp.bitwise_or, "bitwise_or_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False, dunder=("__xor__",), rdunder=("__rxor__",))
def bitwise_xor(input: Array, other: Array):
    """The bits that are set in exactly one."""
    return _bits(jnp.bitwise_xor, "bitwise_xor_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False)
def bitwise_not(input: TensorOnly):
    """Invert all bits; for bools, the negation."""
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
    """``input >> other``; the sign stays."""
    return _bits(jnp.right_shift, "rshift_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False)
def gcd(input: TensorOnly, other: TensorOnly):
    """The greatest common divisor."""
    return _bits(_divisor, "gcd_cpu", input, other)


@pointwise_op(inplace=True, differentiable=False)
def lcm(input: TensorOnly, other: TensorOnly):
    """The least common multiple."""
    return _bits(_multiple, "lcm_cpu", input, other)


def _divisor(a: jax.Array, b: jax.Array) -> jax.Array:
    """By PyTorch's steps: the least integer has no absolute value, and is its own divisor."""

    def step(pair: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        a, b = pair
        return jnp.where(a == 0, 0, lax.rem(b, a)), jnp.where(a == 0, b, a)

    pair = jnp.broadcast_arrays(jnp.abs(a), jnp.abs(b))
    return lax.while_loop(lambda pair: jnp.any(pair[0] != 0), step, tuple(pair))[1]


def _multiple(a: jax.Array, b: jax.Array) -> jax.Array:
    divisor = _divisor(a, b)
    wide = jnp.promote_types(divisor.dtype, jnp.int32)  # as C computes it
    a, b, by = (x.astype(wide) for x in jnp.broadcast_arrays(a, b, divisor))
    return jnp.where(by == 0, 0, jnp.abs(lax.div(a, by) * b)).astype(divisor.dtype)
