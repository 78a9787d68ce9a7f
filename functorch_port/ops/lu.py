"""The LU decomposition with pivoting, and linear systems solved with it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.refusal import outside, refuse
from .._base import dtypes
from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._run.return_types import return_type_of
from .._tensor.tensor import Tensor
from ._common import broadcast_shapes
from ._matrices import adjoint, check_matrix, check_same_type, check_system, raise_if_failed, with_out

_LU_FACTOR = return_type_of("linalg_lu_factor", ("LU", "pivots"))
_LU_FACTOR_EX = return_type_of("linalg_lu_factor_ex", ("LU", "pivots", "info"))
_LU_WITH_INFO = return_type_of("_lu_with_info", ("LU", "pivots", "info"))
_LU = return_type_of("linalg_lu", ("P", "L", "U"))
_LU_UNPACK = return_type_of("lu_unpack", ("P", "L", "U"))


def zero_pivot(factors: jax.Array) -> jax.Array:
    """LAPACK's ``info``: the first zero on the diagonal of U, counted from 1; 0 if there is none."""
    zero = jnp.diagonal(lax.stop_gradient(factors), axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return jnp.zeros(zero.shape[:-1], np.int32)
    return jnp.where(zero.any(-1), jnp.argmax(zero, -1) + 1, 0).astype(np.int32)


def substitute(factors: jax.Array, order: jax.Array, B: jax.Array, transpose: bool = False) -> jax.Array:
    """The X of ``A X = B`` (or ``A^T X = B``), from A's LU decomposition and its order of rows."""
    solve = functools.partial(lax.linalg.triangular_solve, factors, left_side=True)
    places = jnp.broadcast_to(order[..., None], (*B.shape[:-2], order.shape[-1], 1))
    if transpose:
        half = solve(B, lower=False, transpose_a=True)
        full = solve(half, lower=True, unit_diagonal=True, transpose_a=True)
        return jnp.take_along_axis(full, jnp.argsort(places, axis=-2), axis=-2)
    exchanged = jnp.take_along_axis(B, places, axis=-2)
    return solve(solve(exchanged, lower=True, unit_diagonal=True), lower=False)


def _check(A: jax.Array, pivot: bool, name: str) -> None:
    if A.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    check_matrix(name, A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def _triangles(factors: jax.Array) -> tuple[jax.Array, jax.Array]:
    """L and U of an LU decomposition in one matrix."""
    m, n = factors.shape[-2:]
    k = min(m, n)
    return jnp.tril(factors[..., :k], -1) + jnp.eye(m, k, dtype=factors.dtype), jnp.triu(factors[..., :k, :])


@op("_lu_factor_ex", where="", node="LinalgLuFactorExBackward0")
def _lu_factor_ex(A: TensorOnly, pivot: bool):
    """L and U in one matrix, the pivots (row swaps, counted from 1), and LAPACK's ``info``."""
    _check(A, pivot, "torch.lu_factor")
    factors, pivots, _ = lax.linalg.lu(A)
    return factors, (pivots + 1).astype(np.int32), zero_pivot(factors)


def _raise(info: Tensor, name: str) -> None:
    def error(batch: str, at: int) -> Exception:
        return RuntimeError(
            f"{name}: {batch}U[{at},{at}] is zero and using it on lu_solve would result in a division by zero. If you "
            "still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, "
            "pivot)"
        )

    raise_if_failed(info, error)


@composite("lu_factor", where="linalg")
@with_out
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """The LU decomposition in one matrix, and the pivots (row swaps, counted from 1)."""
    factors, pivots, info = bind.function("_lu_factor_ex")(A, pivot)
    _raise(info, "torch.linalg.lu_factor")
    return _LU_FACTOR(factors, pivots)


@composite("lu_factor_ex", where="linalg")
@with_out
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`lu_factor` and LAPACK's ``info``, without an error."""
    factors, pivots, info = bind.function("_lu_factor_ex")(A, pivot)
    if check_errors:
        _raise(info, "torch.linalg.lu_factor_ex")
    return _LU_FACTOR_EX(factors, pivots, info)


@composite("lu")
@with_out
def torch_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """`lu_factor`; with ``get_infos`` also ``info`` instead of an error."""
    factors, pivots, info = bind.function("_lu_factor_ex")(A, pivot)
    if get_infos:
        return _LU_WITH_INFO(factors, pivots, info)
    _raise(info, "torch.linalg.lu_factor")
    return factors, pivots


@op("_lu", where="", node="LinalgLuBackward0")
def _lu(A: TensorOnly, pivot: bool):
    """The pivots, L and U."""
    _check(A, pivot, "linalg.lu")
    factors, pivots, _ = lax.linalg.lu(A)
    return (pivots + 1).astype(np.int32), *_triangles(factors)


@op("_lu_permutation", where="", differentiable=False)
def _lu_permutation(pivots: TensorOnly, rows: int, dtype: dtypes.dtype):
    """The permutation matrix P of ``A = P L U``, from the pivots."""
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)
    return (jnp.arange(rows)[:, None] == order[..., None, :]).astype(dtype.np)


@composite("lu", where="linalg")
@with_out
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """The LU decomposition with pivoting: ``A = P L U``."""
    pivots, lower, upper = bind.function("_lu")(A, pivot)
    exchanges = bind.function("_lu_permutation")(pivots, A.shape[-2], A.dtype)
    return _LU(exchanges, lower, upper)


@op("_lu_unpack", where="", node="LuUnpackBackward0")
def _lu_unpack(LU_data: TensorOnly):
    """L and U from one matrix."""
    return _triangles(LU_data)


@composite("lu_unpack", where="torch")
@with_out
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """P, L and U from the result of `linalg.lu_factor`; parts that are not unpacked are empty."""
    if unpack_pivots:
        _check_pivots(LU_data, LU_pivots)
    nothing = LU_data.new_empty((0,))  # type: ignore[attr-defined]
    exchanges = lower = upper = nothing
    if unpack_pivots:
        exchanges = bind.function("_lu_permutation")(LU_pivots, LU_data.shape[-2], LU_data.dtype)
    if unpack_data:
        lower, upper = bind.function("_lu_unpack")(LU_data)
    return _LU_UNPACK(exchanges, lower, upper)


def _check_pivots(LU_data: Tensor, LU_pivots: Tensor) -> None:
    if LU_pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    text = (
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result "
        "of lu_factor?"
    )
    within = functools.partial(outside, low=1, high=LU_data.shape[-2] + 1)
    refuse(within, lambda pivots: RuntimeError(text), LU_pivots._look())


def _lu_solve(LU: jax.Array, pivots: jax.Array, B: jax.Array, left: bool, adjoined: bool) -> jax.Array:
    if pivots.dtype != np.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    if LU.ndim < 2:
        raise RuntimeError("torch.linalg.lu_solve: The input tensor A must have at least 2 dimensions.")
    if LU.shape[-1] != LU.shape[-2]:
        raise RuntimeError(
            "torch.linalg.lu_solve: A must be batches of square matrices, but they are "
            f"{LU.shape[-2]} by {LU.shape[-1]} matrices"
        )
    check_same_type("linalg.lu_solve", LU, B, "LU", "B")
    check_system("linalg.lu_solve", LU, B, left)
    if LU.shape[-1] != pivots.shape[-1]:
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix"
        )
    if LU.shape[:-2] != pivots.shape[:-1]:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if not left:  # X A = B is the adjoint system
        return adjoint(_lu_solve(LU, pivots, adjoint(B), True, not adjoined))
    batch = broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, LU.shape[-1])
    factors, right = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (LU, B))
    order = jnp.broadcast_to(order, (*batch, LU.shape[-1]))
    return substitute(jnp.conj(factors) if adjoined else factors, order, right, adjoined)


@op("lu_solve", where="linalg", node="LinalgLuSolveBackward0")
def lu_solve(LU: TensorOnly, pivots: TensorOnly, B: TensorOnly, *, left: bool = True, adjoint: bool = False):
    """The solution X of ``A X = B`` (or ``X A = B``, or with A's adjoint), from the `lu_factor` of A."""
    return _lu_solve(LU, pivots, B, left, adjoint)


@op("lu_solve", node="LinalgLuSolveBackward0")
def torch_lu_solve(input: TensorOnly, LU_data: TensorOnly, LU_pivots: TensorOnly):
    """The solution X of ``A X = input``, from the `lu_factor` of A."""
    return _lu_solve(LU_data, LU_pivots, input, True, False)
