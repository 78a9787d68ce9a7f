"""The pseudo-inverse, the matrix rank, and least squares."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._run import bind
from .._run.registry import Array, TensorOnly, composite, op
from .._run.return_types import return_type_of
from .._tensor.tensor import Tensor
from ._common import type_name
from ._matrices import adjoint, check_matrix, check_square, with_out
from .products import product


def _cutoff(A: jax.Array, largest: jax.Array, atol: Any, rtol: Any) -> jax.Array:
    """The cutoff below which singular values count as 0: ``max(atol, rtol * largest)``, with PyTorch's defaults."""
    if rtol is None:
        usual = max(A.shape[-2:]) * float(jnp.finfo(A.dtype).eps)
        rtol = usual if atol is None else jnp.where(jnp.asarray(atol) > 0, 0, usual)
    atol = 0 if atol is None else atol
    return jnp.maximum(jnp.asarray(atol).astype(largest.dtype), rtol * largest)


def _magnitudes(A: jax.Array, hermitian: bool) -> jax.Array:
    if hermitian:
        return jnp.abs(jnp.linalg.eigh(A, symmetrize_input=False)[0])
    return jnp.linalg.svd(A, compute_uv=False)


@jax.custom_jvp
def _pinv(A: jax.Array, cutoff: jax.Array, factors: Any) -> jax.Array:
    """The pseudo-inverse from ``factors``, the singular values and vectors; differentiated without them."""
    u, s, v = factors
    kept = jnp.abs(s) > cutoff[..., None]
    inverse = jnp.where(kept, 1 / jnp.where(kept, s, 1), 0).astype(A.dtype)
    return jnp.matmul(v * inverse[..., None, :], adjoint(u))


@_pinv.defjvp
def _pinv_jvp(primals: Any, tangents: Any) -> Any:
    A, dA = primals[0], tangents[0]
    P = _pinv(*primals)
    Ph, dAh = adjoint(P), adjoint(dA)
    beyond_rows = dAh - (dAh @ A) @ P
    beyond_columns = dAh - P @ (A @ dAh)
    return P, P @ (Ph @ beyond_rows) + (beyond_columns @ Ph) @ P - P @ dA @ P


def _pseudo_inverse(A: jax.Array, atol: Any, rtol: Any, hermitian: bool) -> jax.Array:
    check_square("linalg.pinv", A) if hermitian else check_matrix("linalg.pinv", A)
    if A.size == 0:
        return jnp.swapaxes(A, -2, -1)
    still = jax.lax.stop_gradient(A)
    if hermitian:
        s, u = jnp.linalg.eigh(still, symmetrize_input=False)
        factors = (u, s, u)
    else:
        u, s, vh = jnp.linalg.svd(still, full_matrices=False)
        factors = (u, s, adjoint(vh))
    cutoff = _cutoff(A, jnp.max(jnp.abs(s), -1), atol, rtol)
    return _pinv(A, jnp.broadcast_to(cutoff, s.shape[:-1]), factors)


@op("pinv", where="linalg", node="LinalgPinvBackward0")
def pinv(
    A: TensorOnly,
    rcond: Array | None = None,
    hermitian: bool = False,
    *,
    atol: Array | None = None,
    rtol: Array | None = None,
):
    """The pseudo-inverse; singular values up to ``max(atol, rtol * largest)`` count as 0."""
    return _pseudo_inverse(A, atol, rcond if rtol is None else rtol, hermitian)


@op("pinverse", node="LinalgPinvBackward0")
def pinverse(input: TensorOnly, rcond: float = 1e-15):
    """The pseudo-inverse; singular values up to ``rcond * largest`` count as 0."""
    return _pseudo_inverse(input, None, rcond, False)


@op(where="linalg", differentiable=False)
def matrix_rank(
    A: TensorOnly,
    tol: Array | None = None,
    hermitian: bool = False,
    *,
    atol: Array | None = None,
    rtol: Array | None = None,
):
    """The number of singular values above ``max(atol, rtol * largest)``."""
    check_square("linalg.matrix_rank", A) if hermitian else check_matrix("linalg.matrix_rank", A)
    if A.size == 0:
        return jnp.zeros(A.shape[:-2], np.int64)
    values = _magnitudes(A, hermitian)
    if tol is not None:
        atol, rtol = tol, 0
    cutoff = _cutoff(A, jnp.max(values, -1), atol, rtol)
    return jnp.sum(values > cutoff[..., None], -1).astype(np.int64)


_LSTSQ = return_type_of("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))


@composite("lstsq", where="linalg")
@with_out
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The least-squares solution of ``A X = B``; only the drivers "gelsd" and "gelss" give singular values.

    Residuals are returned for any rank of A; PyTorch has none if the rank is not full.
    """
    solution, residuals = bind.function("_lstsq")(A, B, rcond, driver)
    rank, values = bind.function("_lstsq_rank")(A, rcond, driver)
    return _LSTSQ(solution, residuals, rank, values)


@op("_lstsq", where="", node="LinalgLstsqBackward0")
def _lstsq(A: TensorOnly, B: TensorOnly, rcond: float | None, driver: str | None):
    """The solution, and its residuals if the driver has them."""
    _check_lstsq(A, B, driver)
    vector = B.ndim == A.ndim - 1
    columns = B[..., None] if vector else B
    solution = product(_pseudo_inverse(A, None, rcond, False), columns)
    rows, unknowns = A.shape[-2:]
    residuals = jnp.zeros((0,), A.real.dtype)
    if rows > unknowns and driver not in (None, "gelsy"):
        residuals = jnp.sum(jnp.abs(product(A, solution) - columns) ** 2, -2)
    return solution[..., 0] if vector else solution, residuals


@op("_lstsq_rank", where="", differentiable=False)
def _lstsq_rank(A: TensorOnly, rcond: float | None, driver: str | None):
    """The rank and the singular values, if the driver has them."""
    rank = jnp.zeros((0,), np.int64) if driver == "gels" else matrix_rank(A, rtol=rcond)
    if driver in ("gelsd", "gelss"):
        return rank, jnp.linalg.svd(A, compute_uv=False)
    return rank, jnp.zeros((0,), A.real.dtype)


def _check_lstsq(A: jax.Array, B: jax.Array, driver: str | None) -> None:
    name = "torch.linalg.lstsq"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype {type_name(A)} and "
            f"other's dtype {type_name(B)}"
        )
    vector = A.ndim - 1 == B.ndim
    if A.shape[-2] != B.shape[-1 if vector else -2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({-1 if vector else -2})")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    check_matrix(name, A)
