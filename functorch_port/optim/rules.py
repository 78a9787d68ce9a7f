"""Arithmetic that the update rules share: PyTorch's rounding, on arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from ..core.tensor import Tensor

__all__ = ["axpy", "nonzero", "scaled"]


def axpy(x: Any, alpha: Any, y: Any) -> Any:
    """``x + alpha * y`` in the type of ``x``, as PyTorch's ``x.add(y, alpha=alpha)`` on the CPU.

    Half types are computed in float32 and rounded once, with ``alpha`` in the half type. The product stands first:
    then XLA makes one multiply-add of it, as PyTorch does.
    """
    wide = _wide(x.dtype)
    alpha = _factor(alpha, x.dtype).astype(jnp.finfo(wide).dtype)
    return _rounded(alpha * y.astype(wide) + x.astype(wide), x.dtype)


def scaled(x: Any, factor: Any) -> Any:
    """``x * factor`` in the type of ``x``; half types are computed in float32 and rounded once."""
    wide = _wide(x.dtype)
    return _rounded(x.astype(wide) * _factor(factor, wide), x.dtype)


def nonzero(x: Any) -> bool:
    """Whether a hyperparameter is in use: its being zero is built into a program, its value is not."""
    return isinstance(x, Tensor) or bool(x != 0)


def _wide(dtype: Any) -> Any:
    if not jnp.issubdtype(dtype, jnp.inexact):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return jnp.float32 if dtype.itemsize < 4 else dtype


def _factor(x: Any, wide: Any) -> Any:
    return jnp.asarray(x, jnp.finfo(wide).dtype)


def _rounded(x: Any, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    info = jnp.finfo(dtype)  # XLA may drop a pair of conversions, but not this
    return lax.reduce_precision(x, info.nexp, info.nmant).astype(dtype)
