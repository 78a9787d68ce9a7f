"""Covariance and correlation."""

from __future__ import annotations

import jax.numpy as jnp

from ..core import dtypes
from ..core.registry import Array, TensorOnly, op
from ._common import (
    is_inexact,
)
from .reduction import sqrt_flat_at_zero


@op(node="SqueezeBackward0")
def cov(
    input: TensorOnly, *, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None
):
    """The covariance matrix of variables in rows and observations in columns."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if is_inexact(input.dtype) else input.astype(dtypes.get_default_dtype().np)
    return jnp.cov(x, ddof=correction, fweights=fweights, aweights=aweights).astype(x.dtype)


@op(node="ClampBackward1")
def corrcoef(input: TensorOnly):
    """The matrix of correlation coefficients of variables in rows."""
    matrix = cov(input)
    if matrix.ndim == 0:
        return matrix / matrix
    deviation = sqrt_flat_at_zero(jnp.diagonal(matrix))
    return jnp.clip(matrix / deviation[:, None] / deviation[None, :], -1, 1)
