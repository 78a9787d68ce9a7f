"""Comparing and choosing: `eq`, `lt`, `isclose`, `isnan`, `where`, `clamp`, `maximum`, `nan_to_num`, ..."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from .._array.fits import COMMON, CONVERTED
from .._base import dtypes
from .._base.promotion import cast, promote, result_dtype
from .._run import bind
from .._run.registry import Array, Arrays, Scalar, TensorOnly, composite, pointwise_op
from .._tensor.tensor import Tensor
from ._common import (
    BOOL,
    check_broadcast,
    elementwise,
    is_inexact,
    no_complex,
    not_implemented,
    predicate,
    type_name,
)

# comparing


@pointwise_op("_compared", where="", node=lambda static: static["node"])
def _compared(result: Array, inputs: Arrays, node: str):
    """The result of an in-place comparison; the gradient of its inputs is 0."""
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
    """Whether `isclose` holds for all elements, as a Python bool."""
    return bool(bind.function("isclose")(input, other, rtol, atol, equal_nan).all())  # type: ignore[attr-defined]


@composite()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes and all elements are equal, as a Python bool."""
    return tuple(input.shape) == tuple(other.shape) and bool((input == other).all())  # type: ignore[attr-defined]


@pointwise_op(differentiable=False)
def isnan(input: TensorOnly):
    """Whether each element is NaN."""
    return jnp.isnan(input)


@pointwise_op(differentiable=False)
def isinf(input: TensorOnly):
    """Whether each element is infinite."""
    return jnp.isinf(input)


@pointwise_op(differentiable=False)
def isfinite(input: TensorOnly):
    """Whether each element is neither infinite nor NaN."""
    return jnp.isfinite(input)


@pointwise_op(differentiable=False)
def isposinf(input: TensorOnly):
    """Whether each element is plus infinity."""
    return jnp.isposinf(input)


@pointwise_op(differentiable=False)
def isneginf(input: TensorOnly):
    """Whether each element is minus infinity."""
    return jnp.isneginf(input)


@pointwise_op(differentiable=False)
def isreal(input: TensorOnly):
    """Whether the imaginary part of each element is 0."""
    return jnp.isreal(input)


# choosing


@pointwise_op("_where", where="", node="WhereBackward0", fits={"input": CONVERTED, "other": CONVERTED})
def where(condition: Array, input: Array, other: Array):
    """``input`` where ``condition`` is True, else ``other``."""
    if condition.dtype.kind != "b" and condition.dtype != np.uint8:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {type_name(condition)}"
        )
    check_broadcast(condition, input, other)
    return elementwise(lambda a, b: jnp.where(condition.astype(BOOL), a, b), input, other)


@composite("where", where="torch")
def where_or_nonzero(
    condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None
) -> Any:
    """``input`` where ``condition`` is True, else ``other``; without these, `nonzero` as a tuple."""
    if not isinstance(condition, Tensor):
        raise TypeError(
            f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}"
        )
    if input is None and other is None:
        return bind.function("nonzero")(condition, as_tuple=True)
    if condition.dtype is dtypes.uint8:
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead.",
            stacklevel=2,
        )
    return (
        bind.function("_where")(condition, input, other)
        if out is None
        else bind.function("_where")(condition, input, other, out=out)
    )


@composite("where", where="method")
def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where ``condition`` is True, else ``other``."""
    return bind.function("_where")(condition, self, other)


@pointwise_op("clamp", "clip", inplace=True, node="ClampBackward1", fits={"min": COMMON, "max": COMMON})
def clamp(input: TensorOnly, min: Array | None = None, max: Array | None = None):
    """``input`` limited to [``min``, ``max``], or ``max`` where ``min > max``; the gradient at a limit is 1."""
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
    """The larger of ``input`` and ``min``."""
    not_implemented("maximum_cpu", input, min, kinds="c")
    check_broadcast(input, min)
    return _at_least(*promote(input, min))


@pointwise_op(inplace=True, fits={"max": COMMON})
def clamp_max(input: TensorOnly, max: Array):
    """The smaller of ``input`` and ``max``."""
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
    """The gradient of equal values goes to the first of them; NaN has none."""
    (x, limit), (dx, dlimit) = primals, tangents
    by_x, by_limit = (lambda t, where=where: jnp.where(where(x, limit), t, 0) for where in (inside, outside))
    out = fn(x, limit)
    return out, _along(out, (by_x, dx), (by_limit, dlimit))


_at_least.defjvp(_at_least_jvp, symbolic_zeros=True)
_at_most.defjvp(_at_most_jvp, symbolic_zeros=True)


@pointwise_op()
def maximum(input: TensorOnly, other: TensorOnly):
    """The larger of two elements, NaN if one of them is; equal elements share the gradient."""
    return elementwise(jnp.maximum, *_ordered("maximum", input, other))


@pointwise_op()
def minimum(input: TensorOnly, other: TensorOnly):
    """The smaller of two elements, NaN if one of them is; equal elements share the gradient."""
    return elementwise(jnp.minimum, *_ordered("minimum", input, other))


@pointwise_op()
def fmax(input: TensorOnly, other: TensorOnly):
    """The larger of two elements; NaN only if both are."""
    no_complex("fmax not implemented for complex tensors.", input, other)
    return elementwise(lambda a, b: jnp.where((a >= b) | (b != b), a, b), input, other)


@pointwise_op()
def fmin(input: TensorOnly, other: TensorOnly):
    """The smaller of two elements; NaN only if both are."""
    no_complex("fmin not implemented for complex tensors.", input, other)
    return elementwise(lambda a, b: jnp.where((a <= b) | (b != b), a, b), input, other)


@pointwise_op(inplace=True)
def nan_to_num(
    input: TensorOnly, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
):
    """Replace NaN (by 0) and the infinities (by the dtype's largest and smallest number), or by the given numbers."""
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
    """0 where ``input`` is negative, 1 where it is positive, ``values`` where it is 0."""
    if input.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return elementwise(lambda x, v: jnp.where(x == 0, v, (x > 0).astype(x.dtype)), input, values)
