"""Factorizations of matrices and Fourier transforms, by LAPACK and numpy.

Of vectors that are determined up to a sign XLA must find the same: the backward pass may be compiled where the forward
pass was not, and it factorizes again. So these are by the LAPACK that XLA calls, which is scipy's, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .values import Unsupported, Value

if TYPE_CHECKING:
    from .writer import Writer

__all__ = ["FACTORS"]


def _lapack(name: str, x: np.ndarray) -> Callable[..., Any]:
    from scipy.linalg import lapack

    return lapack.get_lapack_funcs(name, (x,))


def _with_room(name: str, x: np.ndarray, *sizes: int, **how: Any) -> Callable[..., Any]:
    """LAPACK's function with the room to work in that it asks for, which decides how it rounds."""
    asked = _lapack(f"{name}_lwork", x)(*sizes, **how)[:-1]
    room = zip(("lwork", "liwork", "lrwork"), [int(number.real) for number in asked])
    return partial(_lapack(name, x), **how, **dict(room))


def _each(
    fn: Callable[..., tuple[Any, ...]], *arrays: np.ndarray, last: Sequence[int] = ()
) -> tuple[Any, ...]:
    """The results of ``fn`` for each matrix of some batches. ``last``: dimensions of each, if it is not 2."""
    last = last or (2,) * len(arrays)
    lead = arrays[0].shape[: arrays[0].ndim - last[0]]
    if not lead:
        return fn(*arrays)
    flat = [x.reshape(-1, *x.shape[x.ndim - n :]) for x, n in zip(arrays, last, strict=True)]
    found = [fn(*part) for part in zip(*flat, strict=True)]
    parts = [np.stack(part) for part in zip(*found, strict=True)]
    return tuple([part.reshape(*lead, *part.shape[1:]) for part in parts])


def _cholesky(x: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return _each(_cholesky_or_nan, x)[0]


def _cholesky_or_nan(x: np.ndarray) -> tuple[np.ndarray]:
    try:
        return (np.linalg.cholesky(x),)
    except np.linalg.LinAlgError:
        return (np.full(x.shape, np.nan, x.dtype),)


def _solved(
    a: np.ndarray, b: np.ndarray, *, left: bool, lower: bool, transposed: bool, conjugate: bool, unit: bool
) -> np.ndarray:
    from scipy.linalg import blas

    solve = blas.get_blas_funcs("trsm", (a, b))
    if conjugate and not transposed:
        a = a.conj()
    kind = 2 if transposed and conjugate else int(transposed)
    how = {"side": int(not left), "lower": int(lower), "trans_a": kind, "diag": int(unit)}
    return _each(lambda a, b: (solve(1.0, a, b, **how),), a, b)[0]


def _lu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    factor = _lapack("getrf", x)

    def one(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        factors, pivots, _ = factor(x)
        pivots = pivots.astype(np.int32)
        return factors, pivots, _permutation(pivots, size=len(x))

    return _each(one, x)  # type: ignore[return-value]


def _permutation(pivots: np.ndarray, *, size: int) -> np.ndarray:
    """The order of the rows after they were swapped as LAPACK says."""
    order = np.empty((*pivots.shape[:-1], size), np.int32)
    order[...] = np.arange(size, dtype=np.int32)
    for k in range(pivots.shape[-1]):
        other = pivots[..., k : k + 1].astype(np.int64)
        first, second = order[..., k : k + 1].copy(), np.take_along_axis(order, other, -1)
        order[..., k : k + 1] = second
        np.put_along_axis(order, other, first, -1)
    return order


def _geqrf(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    factor = _with_room("geqrf", x, *x.shape[-2:])
    return _each(lambda x: factor(x)[:2], x)  # type: ignore[return-value]


def _householder(x: np.ndarray, tau: np.ndarray) -> np.ndarray:
    product = _lapack("ungqr" if x.dtype.kind == "c" else "orgqr", x)
    return _each(lambda x, tau: (product(x, tau)[0],), x, tau, last=(2, 1))[0]


def _qr(x: np.ndarray, *, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    factors, tau = _geqrf(x)
    rows, columns = x.shape[-2:]
    inner = rows if complete else min(rows, columns)
    below = np.zeros((*x.shape[:-1], inner), x.dtype)
    below[..., : min(inner, columns)] = factors[..., : min(inner, columns)]
    return _householder(below, tau), np.triu(factors[..., :inner, :])


def _eigh(x: np.ndarray, *, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    factor = _with_room("heevd" if x.dtype.kind == "c" else "syevd", x, x.shape[-1], lower=lower)

    def one(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors, failed = factor(x)
        return _unless(failed, vectors, values)  # type: ignore[return-value]

    return _each(one, x)  # type: ignore[return-value]


def _svd(x: np.ndarray, *, vectors: bool, complete: bool) -> tuple[np.ndarray, ...]:
    factor = _with_room("gesdd", x, *x.shape[-2:], compute_uv=vectors, full_matrices=complete)

    def one(x: np.ndarray) -> tuple[np.ndarray, ...]:
        u, s, vh, failed = factor(x)
        return _unless(failed, *((s, u, vh) if vectors else (s,)))

    return _each(one, x)


def _unless(failed: int, *found: np.ndarray) -> tuple[np.ndarray, ...]:
    if failed:
        raise np.linalg.LinAlgError("no eigenvalues, or no singular values")
    return found


def _eig(x: np.ndarray, *, left: bool, right: bool) -> tuple[np.ndarray, ...]:
    factor = _with_room("geev", x, x.shape[-1], compute_vl=left, compute_vr=right)

    def one(x: np.ndarray) -> tuple[np.ndarray, ...]:
        *values, of_left, of_right, failed = factor(x)
        _unless(failed)
        found = values[0] if len(values) == 1 else values[0] + 1j * values[1]
        vectors = [v for v, wanted in ((of_left, left), (of_right, right)) if wanted]
        return found, *([v if len(values) == 1 else _paired(v, values[1]) for v in vectors])

    return _each(one, x)


def _paired(vectors: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Eigenvectors, from the real and imaginary parts that LAPACK has beside each other for a conjugate pair."""
    out = vectors + 0j
    (first,) = np.nonzero(imaginary > 0)
    out[:, first] += 1j * vectors[:, first + 1]
    out[:, first + 1] = out[:, first].conj()
    return out


def _fourier(x: np.ndarray, *, kind: str, sizes: tuple[int, ...]) -> np.ndarray:
    axes = tuple(range(x.ndim - len(sizes), x.ndim))
    if kind == "IRFFT":
        return np.fft.irfftn(x, sizes, axes)
    return {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}[kind](x, axes=axes)


# ------------------------------------------------------------------ rules


def _rule(fn: Callable[..., Any], **names: str) -> Callable[..., Any]:
    """The rule of a function. ``names``: its arguments, and what the primitive calls them."""

    def rule(w: Writer, eqn: Any, ins: list[Value]) -> Any:
        p = eqn.params
        if p.get("subset_by_index") is not None or p.get("pivoting") or p.get("select_callable"):
            raise Unsupported(eqn.primitive.name)
        if any(getattr(p.get(name), "name", "DEFAULT") not in ("DEFAULT", "LAPACK") for name in _WAYS):
            raise Unsupported(eqn.primitive.name)
        shape = tuple(ins[-1].aval.shape)
        work = (*shape, *ins[0].aval.shape[-1:])
        return w._call(fn, eqn, ins, 30.0, (work, 2e-3), **{name: p[key] for name, key in names.items()})

    return rule


#: parameters that choose an algorithm
_WAYS = ("algorithm", "implementation")


def _transform(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    kind, shape = eqn.params["fft_type"].name, ins[0].aval.shape
    return w._call(_fourier, eqn, ins, 20.0, (shape, 0.02), kind=kind, sizes=tuple(eqn.params["fft_lengths"]))


FACTORS: dict[str, Callable[..., Any]] = {
    "cholesky": _rule(_cholesky),
    "eig": _rule(_eig, left="compute_left_eigenvectors", right="compute_right_eigenvectors"),
    "eigh": _rule(_eigh, lower="lower"),
    "fft": _transform,
    "geqrf": _rule(_geqrf),
    "householder_product": _rule(_householder),
    "lu": _rule(_lu),
    "lu_pivots_to_permutation": _rule(_permutation, size="permutation_size"),
    "qr": _rule(_qr, complete="full_matrices"),
    "svd": _rule(_svd, vectors="compute_uv", complete="full_matrices"),
    "triangular_solve": _rule(
        _solved, left="left_side", lower="lower", transposed="transpose_a", conjugate="conjugate_a",
        unit="unit_diagonal",
    ),
}  # fmt: skip
