"""Arithmetic of the update rules, on arrays, with PyTorch's rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._base.division import divide
from .._tensor.tensor import Tensor

__all__ = [
    "addcdiv", "addcmul", "averaged", "axpy", "decayed", "divided", "lerp", "minus", "nonzero", "over", "partwise",
    "penalized", "plus", "quotient", "root", "scaled", "times",
]  # fmt: skip


def axpy(x: Any, alpha: Any, y: Any) -> Any:
    """``x + alpha * y`` in the dtype of ``x``, like PyTorch's ``x.add(y, alpha=alpha)`` on the CPU.

    Half types are computed in float32 and rounded once, with ``alpha`` in the half type. With the product as the
    first operand XLA emits one fused multiply-add, as PyTorch does.
    """
    wide = _wide(x.dtype)
    alpha = _factor(alpha, x.dtype).astype(jnp.finfo(wide).dtype)
    return _rounded(alpha * y.astype(wide) + x.astype(wide), x.dtype)


def scaled(x: Any, factor: Any) -> Any:
    """``x * factor`` in the dtype of ``x``; half types are computed in float32 and rounded once."""
    wide = _wide(x.dtype)
    return _rounded(x.astype(wide) * _factor(factor, wide), x.dtype)


def divided(x: Any, factor: Any) -> Any:
    """``x / factor``, rounded like `scaled`."""
    wide = _wide(x.dtype)
    return _rounded(divide(x.astype(wide), _factor(factor, wide)), x.dtype)


def plus(x: Any, number: Any) -> Any:
    """``x + number``, with the number in the dtype of ``x``, rounded like `scaled`."""
    wide = _wide(x.dtype)
    return _rounded(x.astype(wide) + _factor(number, x.dtype).astype(jnp.finfo(wide).dtype), x.dtype)


def over(number: Any, x: Any) -> Any:
    """``number / x`` as in PyTorch: the rounded reciprocal of ``x``, times the number."""
    wide = _wide(x.dtype)
    return scaled(_rounded(1 / x.astype(wide), x.dtype), number)


def times(x: Any, y: Any) -> Any:
    """``x * y`` of two arrays, rounded like `scaled`."""
    wide = _wide(x.dtype)
    return _rounded(x.astype(wide) * y.astype(wide), x.dtype)


def root(x: Any) -> Any:
    """The square root, rounded like `scaled`."""
    return _rounded(jnp.sqrt(x.astype(_wide(x.dtype))), x.dtype)


def minus(x: Any, y: Any) -> Any:
    """``x - y`` of two arrays, rounded like `scaled`."""
    wide = _wide(x.dtype)
    return _rounded(x.astype(wide) - y.astype(wide), x.dtype)


def quotient(x: Any, y: Any) -> Any:
    """``x / y`` of two arrays, rounded like `scaled`."""
    wide = _wide(x.dtype)
    return _rounded(x.astype(wide) / y.astype(wide), x.dtype)


def lerp(x: Any, y: Any, weight: Any) -> Any:
    """Linear interpolation from ``x`` to ``y``, computed from the nearer end as in PyTorch."""
    wide = _wide(x.dtype)
    a, b, w = x.astype(wide), y.astype(wide), _factor(weight, wide)
    near = jnp.abs(w) < 0.5
    return _rounded(jnp.where(near, w, w - 1) * (b - a) + jnp.where(near, a, b), x.dtype)


def addcmul(x: Any, value: Any, y: Any, z: Any) -> Any:
    """``x + value * y * z``, rounded once."""
    wide = _wide(x.dtype)
    return _rounded(_factor(value, wide) * y.astype(wide) * z.astype(wide) + x.astype(wide), x.dtype)


def addcdiv(x: Any, value: Any, y: Any, z: Any) -> Any:
    """``x + value * y / z``, rounded once."""
    wide = _wide(x.dtype)
    return _rounded(_factor(value, wide) * y.astype(wide) / z.astype(wide) + x.astype(wide), x.dtype)


def partwise(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a rule to complex parameters: it is applied to their real and imaginary parts."""

    @wraps(rule)
    def either(param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Any) -> Any:
        if not jnp.iscomplexobj(param):
            return rule(param, grad, state, scalars, flags)
        new, new_state = rule(_parts(param), _parts(grad), tuple(map(_parts, state)), scalars, flags)
        return _whole(new), tuple(map(_whole, new_state))

    return either


def penalized(grad: Any, param: Any, weight_decay: Any, flags: Any) -> Any:
    """The gradient, negated if ``flags.maximize``, plus that of the L2 penalty if ``flags.weight_decay``."""
    grad = -grad if flags.maximize else grad
    return axpy(grad, weight_decay, param) if flags.weight_decay else grad


def decayed(param: Any, grad: Any, decay: Any, flags: Any) -> tuple[Any, Any]:
    """Parameter, and gradient negated if ``flags.maximize``, with weight decay if ``flags.weight_decay``.

    ``decay`` is the factor of the L2 penalty; if ``flags.decoupled``, the factor of the parameter.
    """
    if flags.weight_decay and flags.decoupled:
        return scaled(param, decay), -grad if flags.maximize else grad
    return param, penalized(grad, param, decay, flags)


def averaged(mean: Any, square: Any, grad: Any, s: Any) -> tuple[Any, Any]:
    """The running averages of the gradient and of its square, for Adam and its variants."""
    return (
        lerp(mean, grad, s.one_minus_beta1),
        addcmul(scaled(square, s.beta2), s.one_minus_beta2, grad, grad),
    )


def _parts(x: Any) -> Any:
    return None if x is None else jnp.stack([x.real, x.imag], -1)  # (...) -> (..., 2)


def _whole(x: Any) -> Any:
    return None if x is None else lax.complex(x[..., 0], x[..., 1])


def nonzero(x: Any) -> bool:
    """Whether a hyperparameter is in use. A program is specialized on this, not on the value."""
    return isinstance(x, (Tensor, jax.Array)) or bool(x != 0)


def _wide(dtype: Any) -> Any:
    if not jnp.issubdtype(dtype, jnp.inexact):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return jnp.float32 if dtype.itemsize < 4 else dtype


def _factor(x: Any, wide: Any) -> Any:
    return jnp.asarray(x, jnp.finfo(wide).dtype)


def _rounded(x: Any, dtype: Any) -> Any:
    if dtype == jnp.bfloat16:  # XLA would leave out a rounding that is only converted back
        x = lax.reduce_precision(x, 8, 7)
    return x if x.dtype == dtype else x.astype(dtype)
