"""Vandermonde matrices."""

from __future__ import annotations

import jax.numpy as jnp

from .._base import dtypes
from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor.tensor import Tensor


@op("_vander", where="", node="CatBackward0")
def _vander(x: TensorOnly, columns: int, increasing: bool):
    """Powers of a vector as columns."""
    exponents = jnp.arange(columns, dtype=x.dtype)
    powers = jnp.where(exponents == 0, jnp.ones((), x.dtype), x[..., None] ** exponents)
    return powers if increasing else powers[..., ::-1]


@composite("vander", where="torch")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix of a vector with ``N`` columns; the highest power is first unless ``increasing``."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    return bind.function("_vander")(_wide(x), x.shape[0] if N is None else N, increasing)


@composite("vander", where="linalg")
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Vandermonde matrices of vectors with ``N`` columns; the lowest power is first."""
    if x.dtype is dtypes.bool_:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
        )
    columns = (x.shape[-1] if x.ndim else 1) if N is None else N
    if columns <= 1:
        raise RuntimeError("N must be greater than 1.")
    return bind.function("_vander")(_wide(x if x.ndim else x.reshape(1)), columns, True)  # type: ignore[attr-defined]


def _wide(x: Tensor) -> Tensor:
    """Whole numbers as int64, which holds their powers."""
    return x if x.is_floating_point() or x.is_complex() else x.to(dtypes.int64)  # type: ignore[attr-defined]
