"""The Cholesky decomposition, and solvers with its factor."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._run.return_types import return_type_of
from .._tensor.tensor import Tensor
from ._common import broadcast_shapes, type_name
from ._matrices import LinAlgError, adjoint, check_square, raise_if_failed, with_out

_CHOLESKY_EX = return_type_of("linalg_cholesky_ex", ("L", "info"))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _hermitian(A: jax.Array, lower: bool) -> jax.Array:
    """The Hermitian matrix of one triangle; its gradient is spread over both, as in PyTorch."""
    low = A if lower else adjoint(A)
    return jnp.tril(low) + adjoint(jnp.tril(low, -1))


@_hermitian.defjvp
def _hermitian_jvp(lower: bool, primals: Any, tangents: Any) -> Any:
    (A,), (dA,) = primals, tangents
    return _hermitian(A, lower), (dA + adjoint(dA)) / 2


def _first_bad_minor(A: jax.Array) -> jax.Array:
    """The order of the first leading minor that is not positive definite, 0 if there is none."""

    def eliminate(k: Any, state: Any) -> Any:
        rest, found = state
        pivot = jnp.real(lax.dynamic_index_in_dim(jnp.diagonal(rest, axis1=-2, axis2=-1), k, -1))
        found = jnp.where((found == 0) & ~(pivot[..., 0] > 0), k + 1, found).astype(np.int32)
        column = lax.dynamic_index_in_dim(rest, k, -1)
        return rest - column * adjoint(column) / pivot[..., None], found

    start = jnp.zeros(A.shape[:-2], np.int32)
    return lax.fori_loop(0, A.shape[-1], eliminate, (A, start))[1]


@op("_cholesky_ex", where="", node="LinalgCholeskyExBackward0")
def _cholesky_ex(A: TensorOnly, upper: bool = False):
    """The Cholesky factor, and LAPACK's ``info``: 0, or the order of the failed minor."""
    check_square("linalg.cholesky", A)
    full = _hermitian(A, True)
    lower = lax.linalg.cholesky(full, symmetrize_input=False)
    if A.size == 0:
        return lower, jnp.zeros(A.shape[:-2], np.int32)
    failed = ~jnp.isfinite(lax.stop_gradient(lower)).all((-2, -1))
    fine = jnp.zeros(failed.shape, np.int32)
    search = functools.partial(_first_bad_minor, lax.stop_gradient(full))
    info = jnp.where(failed, lax.cond(failed.any(), search, lambda: fine), fine)
    return adjoint(lower) if upper else lower, info


def _raise(info: Tensor, name: str) -> None:
    def error(batch: str, minor: int) -> Exception:
        return LinAlgError(
            f"{name}: {batch}The factorization could not be completed because the input is not positive-definite "
            f"(the leading minor of order {minor} is not positive-definite)."
        )

    raise_if_failed(info, error)


def _checked_cholesky(A: Tensor, upper: bool) -> Tensor:
    lower, info = bind.function("_cholesky_ex")(A, upper)
    _raise(info, "linalg.cholesky")
    return lower


@composite("cholesky", where="linalg")
@with_out
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of positive definite matrices."""
    return _checked_cholesky(A, upper)


@composite("cholesky")
@with_out
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor of positive definite matrices."""
    return _checked_cholesky(input, upper)


@composite("cholesky_ex", where="linalg")
@with_out
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor (nan if it fails) and LAPACK's ``info``, without an error."""
    lower, info = bind.function("_cholesky_ex")(A, upper)
    if check_errors:
        _raise(info, "linalg.cholesky_ex")
    return _CHOLESKY_EX(lower, info)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _solve_factored(B: jax.Array, L: jax.Array, upper: bool) -> jax.Array:
    """The X of ``L L^H X = B``. As in PyTorch, both triangles of L have a gradient, though one is read."""
    solve = functools.partial(lax.linalg.triangular_solve, L, left_side=True, lower=not upper)
    half = solve(B, transpose_a=upper, conjugate_a=upper)
    return solve(half, transpose_a=not upper, conjugate_a=not upper)


@_solve_factored.defjvp
def _solve_factored_jvp(upper: bool, primals: Any, tangents: Any) -> Any:
    (B, L), (dB, dL) = primals, tangents
    X = _solve_factored(B, L, upper)
    change = adjoint(dL) @ L if upper else dL @ adjoint(L)
    return X, _solve_factored(dB - (change + adjoint(change)) @ X, L, upper)


@op()
def cholesky_solve(input: TensorOnly, L: TensorOnly, upper: bool = False):
    """The solution X of ``A X = input``, given A's Cholesky factor."""
    for name, x in (("b", input), ("u", L)):
        if x.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead"
            )
    rows, columns = L.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if input.shape[-2] != rows:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {rows} by {rows} but each b matrix is "
            f"{input.shape[-2]} by {input.shape[-1]}"
        )
    if input.dtype != L.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {type_name(input)} and A of type "
            f"{type_name(L)} instead."
        )
    batch = broadcast_shapes(input.shape[:-2], L.shape[:-2])
    B, factor = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (input, L))
    return _solve_factored(B, factor, upper)


@op("cholesky_inverse")
def cholesky_inverse(input: TensorOnly, upper: bool = False):
    """The inverse of A, given its Cholesky factor."""
    check_square("cholesky_inverse", input)
    identity = jnp.broadcast_to(jnp.eye(input.shape[-1], dtype=input.dtype), input.shape)
    return _solve_factored(identity, input, upper)
