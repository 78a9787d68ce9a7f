"""Singular values of large matrices of low rank, found from a few random directions."""

from __future__ import annotations

from typing import Any

from ..core import bind
from ..core.registry import composite
from ..core.tensor import Tensor


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """An orthonormal basis of nearly what the columns of A span: random directions, sharpened by power iteration."""
    matmul, qr = bind.function("matmul"), bind.function("qr")
    start = bind.function("randn")(A.shape[-1], q, dtype=A.dtype, device=A.device)
    found = qr(matmul(A, start))[0]
    for _ in range(niter):
        found = qr(matmul(A, qr(matmul(A.mH, found))[0]))[0]  # type: ignore[attr-defined]
    return found


@composite(where="torch")
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The ``q`` largest singular values of ``A - M`` and their vectors: ``U diag(S) V^H`` is nearly ``A - M``."""
    matmul = bind.function("matmul")
    matrix: Any = A if M is None else A - M.broadcast_to(A.shape)  # type: ignore[attr-defined,operator]
    wide = A.shape[-2] < A.shape[-1]
    if wide:
        matrix = matrix.mH
    basis = _basis(matrix, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = bind.function("svd")(matmul(basis.mH, matrix), full_matrices=False)  # type: ignore[attr-defined]
    left, right = matmul(basis, u), vh.mH
    return (right, s, left) if wide else (left, s, right)


@composite(where="torch")
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of data with samples in rows: `svd_lowrank` of the centred matrix."""
    smaller = min(A.shape[-2:])
    if q is None:
        q = min(6, smaller)
    elif not 0 <= q <= smaller:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smaller}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    data = A - A.mean(dim=(-2,), keepdim=True) if center else A  # type: ignore[attr-defined,operator]
    return svd_lowrank(data, q, niter)
