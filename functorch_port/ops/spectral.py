"""Singular values and eigenvalues."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from .._run.registry import TensorOnly, op
from ._matrices import LinAlgError, adjoint, check_finite, check_matrix, check_square


def _reciprocal(x: jax.Array) -> jax.Array:
    """``1 / x``, and 0 at 0, as the contribution of equal values is undetermined."""
    return jnp.where(x == 0, 0, 1 / jnp.where(x == 0, 1, x))


def _diagonal(x: jax.Array) -> jax.Array:
    return jnp.diagonal(x, axis1=-2, axis2=-1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _svd(A: jax.Array, full: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    u, s, vh = jnp.linalg.svd(A, full_matrices=full)
    return u, s, vh


@_svd.defjvp
def _svd_jvp(full: bool, primals: Any, tangents: Any) -> Any:
    """The columns of full matrices beyond the singular values are undetermined and have no derivative."""
    (A,), (dA,) = primals, tangents
    u_all, s, vh_all = _svd(A, full)
    k = s.shape[-1]
    u, v = u_all[..., :k], adjoint(vh_all[..., :k, :])
    inner = adjoint(u) @ dA @ v
    row = s[..., None, :].astype(A.dtype)
    gap = _reciprocal((row - jnp.swapaxes(row, -2, -1)) * (row + jnp.swapaxes(row, -2, -1)))
    left, right = row * inner, jnp.swapaxes(row, -2, -1) * inner
    phase = (inner - adjoint(inner)) / 2 * (jnp.eye(k, dtype=A.dtype) * _reciprocal(row))
    du = u @ (gap * (left + adjoint(left)) + phase)
    dv = v @ (gap * (right + adjoint(right)))
    if A.shape[-2] > k:
        outside = dA @ v
        du = du + (outside - u @ (adjoint(u) @ outside)) * _reciprocal(row)
    if A.shape[-1] > k:
        outside = adjoint(dA) @ u
        dv = dv + (outside - v @ (adjoint(v) @ outside)) * _reciprocal(row)
    du_all = jnp.zeros_like(u_all).at[..., :k].set(du)
    dvh_all = jnp.zeros_like(vh_all).at[..., :k, :].set(adjoint(dv))
    return (u_all, s, vh_all), (du_all, jnp.real(_diagonal(inner)).astype(s.dtype), dvh_all)


_not_converged = check_finite(
    "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.",
    LinAlgError,
)


@op(
    "svd",
    where="linalg",
    return_type="linalg_svd",
    returns=("U", "S", "Vh"),
    node="LinalgSvdBackward0",
    check=_not_converged,
)
def linalg_svd(A: TensorOnly, full_matrices: bool = True, *, driver: str | None = None):
    """The singular value decomposition ``U diag(S) Vh``."""
    check_matrix("linalg.svd", A)
    _no_driver(driver)
    return _svd(A, full_matrices)


def _no_driver(driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@op(returns=("U", "S", "V"), node="LinalgSvdBackward0")
def svd(input: TensorOnly, some: bool = True, compute_uv: bool = True):
    """The singular value decomposition ``U diag(S) V^H``."""
    if not compute_uv:
        check_matrix("linalg.svd", input)
        m, n = input.shape[-2:]
        values = jnp.linalg.svd(input, compute_uv=False)
        u, v = (jnp.zeros((*input.shape[:-2], size, size), input.dtype) for size in (m, n))
        return u, values, v
    u, s, vh = linalg_svd(input, not some)
    return u, s, adjoint(vh)


@op(where="linalg", node="LinalgSvdBackward0", check=_not_converged)
def svdvals(A: TensorOnly, *, driver: str | None = None):
    """The singular values, in descending order."""
    check_matrix("linalg.svdvals", A)
    _no_driver(driver)
    return jnp.linalg.svd(A, compute_uv=False)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _eigh(A: jax.Array, lower: bool) -> tuple[jax.Array, jax.Array]:
    triangle = jnp.tril(A) if lower else adjoint(jnp.triu(A))
    full = triangle + adjoint(jnp.tril(triangle, -1))
    values, vectors = jnp.linalg.eigh(full, symmetrize_input=False)
    return values, vectors


@_eigh.defjvp
def _eigh_jvp(lower: bool, primals: Any, tangents: Any) -> Any:
    (A,), (dA,) = primals, tangents
    values, vectors = _eigh(A, lower)
    inner = adjoint(vectors) @ ((dA + adjoint(dA)) / 2) @ vectors
    gap = _reciprocal(values[..., None, :] - values[..., :, None]).astype(A.dtype)
    return (values, vectors), (jnp.real(_diagonal(inner)).astype(values.dtype), vectors @ (inner * gap))


def _check_triangle(UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "L"


@op(
    where="linalg",
    return_type="linalg_eigh",
    returns=("eigenvalues", "eigenvectors"),
    node="LinalgEighBackward0",
)
def eigh(A: TensorOnly, UPLO: str = "L"):
    """The eigenvalues (ascending) and eigenvectors of Hermitian matrices; ``UPLO`` is the triangle that is read."""
    check_square("linalg.eigh", A)
    return _eigh(A, _check_triangle(UPLO))


@op(where="linalg", node="LinalgEighBackward0")
def eigvalsh(A: TensorOnly, UPLO: str = "L"):
    """The eigenvalues (ascending) of Hermitian matrices; ``UPLO`` is the triangle that is read."""
    check_square("linalg.eigvalsh", A)
    return _eigh(A, _check_triangle(UPLO))[0]


@jax.custom_jvp
def _eig(A: jax.Array) -> tuple[jax.Array, jax.Array]:
    values, vectors = jnp.linalg.eig(A)
    return values, vectors


@_eig.defjvp
def _eig_jvp(primals: Any, tangents: Any) -> Any:
    (A,), (dA,) = primals, tangents
    values, vectors = _eig(A)
    inner = jnp.linalg.solve(vectors, dA.astype(vectors.dtype) @ vectors)
    change = vectors @ (inner * _reciprocal(values[..., None, :] - values[..., :, None]))
    # the vectors keep their length 1
    along = jnp.sum(jnp.real(jnp.conj(vectors) * change), -2, keepdims=True)
    return (values, vectors), (_diagonal(inner), change - vectors * along)


@jax.custom_jvp
def _eigvals(A: jax.Array) -> jax.Array:
    """The eigenvalues alone, which is faster; their derivative needs the vectors."""
    return jnp.linalg.eigvals(A)


@_eigvals.defjvp
def _eigvals_jvp(primals: Any, tangents: Any) -> Any:
    (values, _), (change, _) = jax.jvp(_eig, primals, tangents)
    return values, change


_not_finite = check_finite("torch.linalg.eig: input tensor should not contain infs or NaNs.", RuntimeError)


@op(
    where="linalg",
    return_type="linalg_eig",
    returns=("eigenvalues", "eigenvectors"),
    node="LinalgEigBackward0",
    check=_not_finite,
)
def eig(A: TensorOnly):
    """The eigenvalues and eigenvectors of square matrices; not on a TPU."""
    check_square("linalg.eig", A)
    return _eig(A)


@op(where="linalg", node="LinalgEigBackward0", check=_not_finite)
def eigvals(A: TensorOnly):
    """The eigenvalues of square matrices; not on a TPU."""
    check_square("linalg.eigvals", A)
    return _eigvals(A)
