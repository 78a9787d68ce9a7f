"""Inverses, linear systems, determinants, and matrix functions."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._run.return_types import return_type_of
from .._tensor.tensor import Tensor
from ._common import broadcast_shapes
from ._matrices import (
    LinAlgError,
    check_same_type,
    check_square,
    check_system,
    raise_if_failed,
    with_out,
)
from .lu import substitute, zero_pivot

_INV_EX = return_type_of("linalg_inv_ex", ("inverse", "info"))
_SOLVE_EX = return_type_of("linalg_solve_ex", ("result", "info"))

# inverses and systems


def solve_square(A: jax.Array, B: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The X of ``A X = B``, and LAPACK's ``info``; its derivative solves again instead of differentiating the LU."""
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    factors, _, order = lax.linalg.lu(lax.stop_gradient(A))
    info = zero_pivot(factors)
    A, B, factors = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (A, B, factors))
    order = jnp.broadcast_to(order, (*batch, order.shape[-1]))
    X = lax.custom_linear_solve(
        lambda x: jnp.matmul(A, x, precision=lax.Precision.HIGHEST),
        B,
        solve=lambda _, b: substitute(factors, order, b),
        transpose_solve=lambda _, b: substitute(factors, order, b, transpose=True),
    )
    return X, info


@op("_inv_ex", where="", node="LinalgInvExBackward0")
def _inv_ex(A: TensorOnly):
    """The inverse, and LAPACK's ``info``."""
    check_square("linalg.inv", A)
    return solve_square(A, jnp.broadcast_to(jnp.eye(A.shape[-1], dtype=A.dtype), A.shape))


def _raise_singular(info: Tensor, name: str) -> None:
    def error(batch: str, at: int) -> Exception:
        return LinAlgError(
            f"{name}: {batch}The diagonal element {at} is zero, the inversion could not be completed because the "
            "input matrix is singular."
        )

    raise_if_failed(info, error)


def _inverse(A: Tensor) -> Tensor:
    """The inverse of (a batch of) square matrices."""
    out, info = bind.function("_inv_ex")(A)
    _raise_singular(info, "linalg.inv")
    return out


@composite("inverse")
@with_out
def inverse(input: Tensor) -> Tensor:
    """The inverse of (a batch of) square matrices."""
    return _inverse(input)


@composite("inv", where="linalg")
@with_out
def inv(A: Tensor) -> Tensor:
    """The inverse of (a batch of) square matrices."""
    return _inverse(A)


@composite("inv_ex", where="linalg")
@with_out
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """The inverse and LAPACK's ``info``, without an error."""
    out, info = bind.function("_inv_ex")(A)
    if check_errors:
        _raise_singular(info, "linalg.inv_ex")
    return _INV_EX(out, info)


@op("_solve_ex", where="", node="LinalgSolveExBackward0")
def _solve_ex(A: TensorOnly, B: TensorOnly, left: bool):
    """The X of ``A X = B`` or ``X A = B``, and LAPACK's ``info``."""
    name = "linalg.solve"
    check_same_type(name, A, B)
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    columns = B[..., None] if vector else B
    check_system(name, A, columns, left)
    if not left:
        X, info = solve_square(jnp.swapaxes(A, -2, -1), jnp.swapaxes(columns, -2, -1))
        return (jnp.swapaxes(X, -2, -1)[..., 0] if vector else jnp.swapaxes(X, -2, -1)), info
    X, info = solve_square(A, columns)
    return (X[..., 0] if vector else X), info


def _raise_unsolved(info: Tensor, name: str) -> None:
    def error(batch: str, at: int) -> Exception:
        return LinAlgError(f"{name}: {batch}The solver failed because the input matrix is singular.")

    raise_if_failed(info, error)


@composite(where="linalg")
@with_out
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The solution X of ``A X = B`` (or ``X A = B``)."""
    X, info = bind.function("_solve_ex")(A, B, left)
    _raise_unsolved(info, "torch.linalg.solve")
    return X


@composite("solve_ex", where="linalg")
@with_out
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution of ``A X = B`` and LAPACK's ``info``, without an error."""
    X, info = bind.function("_solve_ex")(A, B, left)
    if check_errors:
        _raise_unsolved(info, "torch.linalg.solve_ex")
    return _SOLVE_EX(X, info)


@op(where="linalg", node="LinalgSolveTriangularBackward0")
def solve_triangular(
    A: TensorOnly, B: TensorOnly, *, upper: bool, left: bool = True, unitriangular: bool = False
):
    """The solution X of ``A X = B`` (or ``X A = B``) with a triangular A."""
    name = "linalg.solve_triangular"
    check_same_type(name, A, B)
    check_system(name, A, B, left)
    A, B = _matched(A, B)
    return lax.linalg.triangular_solve(A, B, left_side=left, lower=not upper, unit_diagonal=unitriangular)


def _matched(A: jax.Array, B: jax.Array) -> tuple[jax.Array, jax.Array]:
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    return jnp.broadcast_to(A, batch + A.shape[-2:]), jnp.broadcast_to(B, batch + B.shape[-2:])


@op(returns=("solution", "cloned_coefficient"))
def triangular_solve(
    input: TensorOnly, A: TensorOnly, upper: bool = True, transpose: bool = False, unitriangular: bool = False
):
    """The solution X of ``A X = input`` with a triangular A, and a copy of A."""
    for name, x in (("b", input), ("A", A)):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {x.ndim} "
                "dimensions instead"
            )
    rows, columns = A.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if input.shape[-2] != rows:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {rows} by {rows} but each b matrix is "
            f"{input.shape[-2]} by {input.shape[-1]}"
        )
    matrix, right = _matched(A, input)
    solution = lax.linalg.triangular_solve(
        matrix, right, left_side=True, lower=not upper, transpose_a=transpose, unit_diagonal=unitriangular
    )
    return solution, matrix


@op("tensorinv", where="linalg", node="ViewBackward0")
def tensorinv(A: TensorOnly, ind: int = 2):
    """The inverse of ``A`` as a linear map: A maps its last dimensions to its first ``ind``."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{columns} != {rows}"
        )
    return _inv_ex(A.reshape(rows, columns))[0].reshape(A.shape[ind:] + A.shape[:ind])


@op("tensorsolve", where="linalg", node="ViewBackward0")
def tensorsolve(A: TensorOnly, B: TensorOnly, dims: tuple[int, ...] | None = None):
    """The solution X of ``tensordot(A, X, X.ndim) = B``."""
    moved = A if dims is None else jnp.moveaxis(A, dims, range(A.ndim - len(dims), A.ndim))
    shape = moved.shape[B.ndim :]
    rows, columns = B.size, math.prod(shape)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {columns} != {rows}"
        )
    return _solve_ex(moved.reshape(rows, columns), B.reshape(-1), True)[0].reshape(shape)


# determinants


@op(where="torch method linalg", node="LinalgDetBackward0")
def det(A: TensorOnly):
    """The determinant."""
    check_square("linalg.det", A)
    if A.size == 0:
        return jnp.prod(jnp.diagonal(A, axis1=-2, axis2=-1), -1)
    return jnp.linalg.det(A)


def _slogdet(A: jax.Array) -> tuple[jax.Array, jax.Array]:
    check_square("linalg.slogdet", A)
    sign, logdet = jnp.linalg.slogdet(A)
    return sign, logdet


@op(returns=("sign", "logabsdet"), node="LinalgSlogdetBackward0")
def slogdet(input: TensorOnly):
    """The determinant's sign and the logarithm of its absolute value."""
    return _slogdet(input)


@op(
    "slogdet",
    where="linalg",
    return_type="linalg_slogdet",
    returns=("sign", "logabsdet"),
    node="LinalgSlogdetBackward0",
)
def linalg_slogdet(A: TensorOnly):
    """The determinant's sign and the logarithm of its absolute value."""
    return _slogdet(A)


@op(node="AddBackward0")
def logdet(input: TensorOnly):
    """The logarithm of the determinant; NaN if that is negative."""
    sign, logabsdet = _slogdet(input)
    if jnp.iscomplexobj(sign):
        return logabsdet + jnp.log(sign)
    return jnp.where(sign == -1, math.nan, logabsdet).astype(logabsdet.dtype)


# functions of matrices


@op("matrix_power", where="torch method linalg", node="MmBackward0")
def matrix_power(A: TensorOnly, n: int):
    """The ``n``-th power of square matrices; a negative ``n`` takes powers of the inverse."""
    check_square("linalg.matrix_power", A)
    return jnp.linalg.matrix_power(A, n)


@op("matrix_exp", where="torch method linalg", node="LinalgMatrixExpBackward0")
def matrix_exp(A: TensorOnly):
    """The matrix exponential."""
    check_square("linalg.matrix_exp", A)
    return jax.scipy.linalg.expm(A)
