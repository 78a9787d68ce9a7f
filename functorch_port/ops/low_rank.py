"""A few singular values or eigenvalues of large matrices."""

from __future__ import annotations

from typing import Any

from .._run import bind
from .._run.registry import composite
from .._tensor.tensor import Tensor


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """An approximate orthonormal basis of the columns of A: random directions, refined by power iteration."""
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
    """Approximately the ``q`` largest singular values S of ``A - M``, and their vectors: ``(U, S, V)``."""
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
    """Principal component analysis of samples (rows): `svd_lowrank` of the centered matrix."""
    smaller = min(A.shape[-2:])
    if q is None:
        q = min(6, smaller)
    elif not 0 <= q <= smaller:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smaller}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    data = A - A.mean(dim=(-2,), keepdim=True) if center else A  # type: ignore[attr-defined,operator]
    return svd_lowrank(data, q, niter)


@composite(where="torch")
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest or smallest eigenvalues of ``A x = e B x``, and their eigenvectors.

    They come from a complete decomposition and are exact to rounding. The parameters of PyTorch's iteration (``X``,
    ``n``, ``iK``, ``niter``, ``tol``, ``method``, ``ortho_*params``) are accepted, without effect.

    Args:
        A: symmetric, (*, m, m), dense or sparse.
        k: the number of eigenvalues. Default: the number of columns of ``X``, or 1.
        B: symmetric positive definite, (*, m, m). Default: the identity.
        largest: whether to return the largest eigenvalues instead of the smallest.

    Returns:
        The eigenvalues (*, k), the largest (or smallest) first, and the eigenvectors (*, m, k), of length 1 in the
        scalar product of ``B``.

    Raises:
        ValueError: the matrices have fewer than ``3 k`` rows.
        NotImplementedError: a ``tracker`` is passed, as there are no iterations.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.lobpcg.html
    """
    if A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if tracker is not None:
        raise NotImplementedError(
            "lobpcg(tracker=...) is not supported, as there are no iterations: leave it out"
        )
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"method must be 'basic' or 'ortho', got {method!r}")
    rows, count = A.shape[-1], k if k is not None else 1 if X is None else X.shape[-1]
    if rows < 3 * count:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x the number "
            f"of requested eigenpairs (={count})"
        )
    linalg = bind.namespaces["linalg"]
    eigh, solve = linalg["eigh"], linalg["solve_triangular"]
    matrix: Any = A.to_dense()  # type: ignore[attr-defined]
    matrix = (matrix + matrix.mH) / 2  # `eigh` reads one half, but both have gradients
    if B is None:
        values, vectors = eigh(matrix)
    else:
        root = linalg["cholesky"](B.to_dense())  # type: ignore[attr-defined]
        half = solve(root, matrix, upper=False)
        values, vectors = eigh(solve(root, half.mH, upper=False))
        vectors = solve(root.mH, vectors, upper=True)
    if largest is None or largest:
        return values[..., -count:].flip(-1), vectors[..., -count:].flip(-1)
    return values[..., :count], vectors[..., :count]
