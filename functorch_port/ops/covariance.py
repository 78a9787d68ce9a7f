"""Covariance and correlation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._array.refusal import refuse
from .._base import dtypes
from .._run.registry import Array, TensorOnly, op
from ._common import is_inexact, type_name
from .reduction import sqrt_flat_at_zero


def _check_weights(input: jax.Array, name: str, weights: jax.Array, kind: str, kinds: str) -> None:
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
        )
    if weights.dtype.kind not in kinds:
        raise RuntimeError(
            f"cov(): expected {name} to have {kind} dtype but got {name} with {type_name(weights)} dtype"
        )
    observations = input.shape[1] if input.ndim > 1 else input.size
    if weights.size != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.size} != {observations}"
        )


def _check_signs(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> None:
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None:
            refuse(
                lambda w: w < 0,
                lambda w, name=name: RuntimeError(f"cov(): {name} cannot be negative"),
                weights,
            )


@op(node="SqueezeBackward0", check=_check_signs)
def cov(
    input: TensorOnly, *, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None
):
    """The covariance matrix of the variables (rows) over the observations (columns)."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    if fweights is not None:
        _check_weights(input, "fweights", fweights, "integral", "iu")
    if aweights is not None:
        _check_weights(input, "aweights", aweights, "floating point", "fV")
    x = input if is_inexact(input.dtype) else input.astype(dtypes.get_default_dtype().np)
    return jnp.cov(x, ddof=correction, fweights=fweights, aweights=aweights).astype(x.dtype)


@op(node="ClampBackward1")
def corrcoef(input: TensorOnly):
    """The correlation coefficients of variables (rows) over observations (columns)."""
    matrix = cov(input)
    if matrix.ndim == 0:
        return matrix / matrix
    deviation = sqrt_flat_at_zero(jnp.diagonal(matrix))
    return jnp.clip(matrix / deviation[:, None] / deviation[None, :], -1, 1)
