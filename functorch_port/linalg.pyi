# Written by tools/stubs.py: `make stubs` writes it anew.

from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from . import return_types
from ._base.device import device as _device
from ._base.dtypes import dtype as _dtype
from ._tensor.tensor import Tensor as Tensor
from .ops._matrices import LinAlgError as LinAlgError

_Device: TypeAlias = _device | _str | _int | None
_Number: TypeAlias = _complex | np.number[Any] | np.bool
_Sizes: TypeAlias = _int | Sequence[_int]

def cholesky(A: Tensor, *, upper: _bool = False) -> Tensor:
    """The Cholesky factor of positive definite matrices."""

def cholesky_ex(A: Tensor, *, upper: _bool = False, check_errors: _bool = False) -> Any:
    """The Cholesky factor (nan if it fails) and LAPACK's ``info``, without an error."""

def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number: the norm of A times that of its inverse, by default the 2-norm."""

@overload
def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """The cross product along a dimension of size 3."""

@overload
def cross(input: Tensor, other: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinant."""

def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """A view of the diagonals of matrices, as the last dimension."""

def eig(A: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.linalg_eig:
    """The eigenvalues and eigenvectors of square matrices; not on a TPU."""

def eigh(A: Tensor, UPLO: _str = "L", *, out: Sequence[Tensor] | None = None) -> return_types.linalg_eigh:
    """The eigenvalues (ascending) and eigenvectors of Hermitian matrices; ``UPLO`` is the triangle that is read."""

def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of square matrices; not on a TPU."""

def eigvalsh(A: Tensor, UPLO: _str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues (ascending) of Hermitian matrices; ``UPLO`` is the triangle that is read."""

def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of Householder reflections, such as `geqrf` returns."""

def inv(A: Tensor) -> Tensor:
    """The inverse of (a batch of) square matrices."""

def inv_ex(A: Tensor, *, check_errors: _bool = False) -> Any:
    """The inverse and LAPACK's ``info``, without an error."""

def ldl_factor(A: Tensor, *, hermitian: _bool = False) -> Any:
    """The decomposition ``A = L D L^T`` (or ``L D L^H``) in one matrix, and the pivots in LAPACK's form."""

def ldl_factor_ex(A: Tensor, *, hermitian: _bool = False, check_errors: _bool = False) -> Any:
    """`ldl_factor` and LAPACK's ``info``, without an error."""

def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution X of ``A X = B``, from the `ldl_factor` of A."""

def lstsq(A: Tensor, B: Tensor, rcond: _float | None = None, *, driver: _str | None = None) -> Any:
    """The least-squares solution of ``A X = B``; only the drivers "gelsd" and "gelss" give singular values."""

def lu(A: Tensor, *, pivot: _bool = True) -> Any:
    """The LU decomposition with pivoting: ``A = P L U``."""

def lu_factor(A: Tensor, *, pivot: _bool = True) -> Any:
    """The LU decomposition in one matrix, and the pivots (row swaps, counted from 1)."""

def lu_factor_ex(A: Tensor, *, pivot: _bool = True, check_errors: _bool = False) -> Any:
    """`lu_factor` and LAPACK's ``info``, without an error."""

def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: _bool = True,
    adjoint: _bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The solution X of ``A X = B`` (or ``X A = B``, or with A's adjoint), from the `lu_factor` of A."""

def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product, or batches of it; a vector is a row on the left, and a column on the right."""

def matrix_exp(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix exponential."""

@overload
def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: tuple[_int, _int] = ...,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of matrices in the dimensions ``dim``; ``ord`` is "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""

@overload
def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    *,
    axis: tuple[_int, _int],
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """The ``n``-th power of square matrices; a negative ``n`` takes powers of the inverse."""

def matrix_rank(
    A: Tensor,
    tol: Tensor | _Number | None = None,
    hermitian: _bool = False,
    *,
    atol: Tensor | _Number | None = None,
    rtol: Tensor | _Number | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The number of singular values above ``max(atol, rtol * largest)``."""

def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of two or more matrices in the cheapest order."""

@overload
def norm(
    A: Tensor,
    ord: Any = None,
    dim: _Sizes | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A vector norm over one dimension or a matrix norm over two; without ``ord`` the 2-norm of all elements."""

@overload
def norm(
    A: Tensor,
    ord: Any = None,
    *,
    axis: _Sizes | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def pinv(
    A: Tensor,
    rcond: Tensor | _Number | None = None,
    hermitian: _bool = False,
    *,
    atol: Tensor | _Number | None = None,
    rtol: Tensor | _Number | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudo-inverse; singular values up to ``max(atol, rtol * largest)`` count as 0."""

def qr(A: Tensor, mode: _str = "reduced", *, out: Sequence[Tensor] | None = None) -> return_types.linalg_qr:
    """The QR decomposition ``A = Q R``; ``mode`` is "reduced", "complete", or "r" for R alone."""

def slogdet(A: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.linalg_slogdet:
    """The determinant's sign and the logarithm of its absolute value."""

def solve(A: Tensor, B: Tensor, *, left: _bool = True) -> Tensor:
    """The solution X of ``A X = B`` (or ``X A = B``)."""

def solve_ex(A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False) -> Any:
    """The solution of ``A X = B`` and LAPACK's ``info``, without an error."""

def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: _bool,
    left: _bool = True,
    unitriangular: _bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The solution X of ``A X = B`` (or ``X A = B``) with a triangular A."""

def svd(
    A: Tensor, full_matrices: _bool = True, *, driver: _str | None = None, out: Sequence[Tensor] | None = None
) -> return_types.linalg_svd:
    """The singular value decomposition ``U diag(S) Vh``."""

def svdvals(A: Tensor, *, driver: _str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values, in descending order."""

def tensorinv(A: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ``A`` as a linear map: A maps its last dimensions to its first ``ind``."""

def tensorsolve(A: Tensor, B: Tensor, dims: _Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """The solution X of ``tensordot(A, X, X.ndim) = B``."""

def vander(x: Tensor, *, N: _int | None = None) -> Tensor:
    """Vandermonde matrices of vectors with ``N`` columns; the lowest power is first."""

@overload
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """Inner products of vectors along ``dim``, the first ones conjugated."""

@overload
def vecdot(x: Tensor, y: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def vector_norm(
    x: Tensor,
    ord: _float = 2,
    dim: _Sizes | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The vector norm of order ``ord`` over ``dim``."""

@overload
def vector_norm(
    x: Tensor,
    ord: _float = 2,
    *,
    axis: _Sizes | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
