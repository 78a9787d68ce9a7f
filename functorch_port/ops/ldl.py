"""The LDL decomposition of symmetric or Hermitian matrices, with the pivoting of Bunch and Kaufman."""

from __future__ import annotations

import functools
import math
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
from ._matrices import adjoint, check_same_type, check_square, raise_if_failed, with_out, without_derivative

_LDL_FACTOR = return_type_of("linalg_ldl_factor", ("LD", "pivots"))
_LDL_FACTOR_EX = return_type_of("linalg_ldl_factor_ex", ("LD", "pivots", "info"))

#: how large a pivot must be relative to its column: this bounds the growth of steps of one and of two rows equally
_ALPHA = (1 + math.sqrt(17)) / 8


def _size(x: jax.Array) -> jax.Array:
    """LAPACK's cheap norm of complex numbers: |real| + |imag|."""
    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)


def _choose(matrix: jax.Array, k: Any) -> tuple[Any, Any, Any]:
    """The row to swap with, whether the step takes two rows, and whether the whole column is 0."""
    place = jnp.arange(matrix.shape[0])
    own = _size(matrix[k, k])
    column = jnp.where(place > k, _size(matrix[:, k]), -1)
    best = jnp.argmax(column)
    colmax = jnp.maximum(column[best], 0)
    rowmax = jnp.max(jnp.where((place >= k) & (place != best), _size(matrix[best]), 0))
    enough = (own >= _ALPHA * colmax) | (own * rowmax >= _ALPHA * colmax * colmax)
    single = _size(matrix[best, best]) >= _ALPHA * rowmax
    return jnp.where(enough, k, best), ~enough & ~single, ~(jnp.maximum(own, colmax) > 0)


def _step(hermitian: bool, state: Any) -> Any:
    """Eliminate one or two rows. Columns before ``k`` hold L and D; the rest is yet to decompose."""
    matrix, k, pivots, info = state
    n = matrix.shape[0]
    place = jnp.arange(n)
    conj = jnp.conj if hermitian else (lambda x: x)
    row, double, empty = _choose(matrix, k)
    last = k + double
    order = place.at[last].set(row).at[row].set(last)
    todo = place >= k
    matrix = jnp.where(todo[:, None] & todo[None, :], matrix[order][:, order], matrix)
    below = place > last
    a, b = (jnp.where(below, matrix[:, jnp.minimum(i, n - 1)], 0) for i in (k, k + 1))
    after = jnp.minimum(k + 1, n - 1)
    d0, d1, off = matrix[k, k], matrix[after, after], matrix[after, k]
    whole = jnp.where(double, d0 * d1 - off * conj(off), jnp.where(empty, 1, d0))
    first = jnp.where(double, (d1 * a - off * b) / whole, a / whole)
    second = jnp.where(double, (d0 * b - conj(off) * a) / whole, 0)
    rest = jnp.outer(first, conj(a)) + jnp.outer(second, jnp.where(double, conj(b), 0))
    matrix = matrix - jnp.where(empty, 0, rest)
    columns = jnp.where(place == k, first[:, None], second[:, None])
    written = below[:, None] & ((place == k) | (double & (place == k + 1)))
    matrix = jnp.where(written, columns, matrix)
    number = jnp.where(double, -(row + 1), row + 1).astype(np.int32)
    pivots = jnp.where((place == k) | (double & (place == k + 1)), number, pivots)
    info = jnp.where((info == 0) & empty, k + 1, info).astype(np.int32)
    return matrix, last + 1, pivots, info


def _decompose(A: jax.Array, hermitian: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    n = A.shape[-1]
    other = adjoint(A) if hermitian else jnp.swapaxes(A, -2, -1)
    full = jnp.tril(A) + jnp.triu(other, 1)
    if hermitian and jnp.iscomplexobj(A):
        diagonal = jnp.eye(n, dtype=bool)
        full = jnp.where(diagonal, full.real.astype(full.dtype), full)
    state = (full, jnp.int64(0), jnp.zeros(n, np.int32), jnp.int32(0))
    matrix, _, pivots, info = lax.while_loop(lambda s: s[1] < n, functools.partial(_step, hermitian), state)
    return jnp.tril(matrix), pivots, info


def _undifferentiable(name: str) -> Exception:
    return RuntimeError(f"derivative for aten::{name} is not implemented")


@op("_ldl_factor_ex", where="", node="NotImplemented")
def _ldl_factor_ex(A: TensorOnly, hermitian: bool):
    """L and D in one matrix, the pivots, and LAPACK's ``info``."""
    check_square("torch.linalg.ldl_factor_ex", A)
    if A.size == 0:
        return A, jnp.zeros(A.shape[:-1], np.int32), jnp.zeros(A.shape[:-2], np.int32)
    fn = without_derivative(
        jnp.vectorize(functools.partial(_decompose, hermitian=hermitian), signature="(n,n)->(n,n),(n),()"),
        _undifferentiable("linalg_ldl_factor_ex"),
    )
    return fn(A)


def _raise(info: Tensor, name: str) -> None:
    def error(batch: str, at: int) -> Exception:
        return RuntimeError(f"{name}: {batch}D[{at},{at}] is zero: the matrix is singular")

    raise_if_failed(info, error)


@composite("ldl_factor", where="linalg")
@with_out
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """The decomposition ``A = L D L^T`` (or ``L D L^H``) in one matrix, and the pivots in LAPACK's form."""
    factors, pivots, info = bind.function("_ldl_factor_ex")(A, hermitian)
    _raise(info, "torch.linalg.ldl_factor")
    return _LDL_FACTOR(factors, pivots)


@composite("ldl_factor_ex", where="linalg")
@with_out
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """`ldl_factor` and LAPACK's ``info``, without an error."""
    factors, pivots, info = bind.function("_ldl_factor_ex")(A, hermitian)
    if check_errors:
        _raise(info, "torch.linalg.ldl_factor_ex")
    return _LDL_FACTOR_EX(factors, pivots, info)


def _swap(x: jax.Array, i: Any, j: Any) -> jax.Array:
    return x.at[i].set(x[j]).at[j].set(x[i])


def _solve_one(LD: jax.Array, pivots: jax.Array, B: jax.Array, hermitian: bool) -> jax.Array:
    """Solve in LAPACK's order: swaps and columns of L in turn, then D, then the same backwards."""
    n = LD.shape[0]
    place = jnp.arange(n)
    conj = jnp.conj if hermitian else (lambda x: x)

    def pairs(
        at: Any, seen: Any
    ) -> Any:  # two equal negative numbers after each other are one step of two rows
        first = (pivots[at] < 0) & ~(jnp.where(at > 0, seen[at - 1], False))
        return seen.at[at].set(first)

    opens = lax.fori_loop(0, n, pairs, jnp.zeros(n, bool))
    closes = jnp.roll(opens, 1)
    other = jnp.where(pivots < 0, -pivots, pivots) - 1
    low = jnp.tril(LD, -1)
    low = jnp.where((place[:, None] == place[None, :] + 1) & opens[None, :], 0, low)

    def exchanged(x: jax.Array, k: Any) -> jax.Array:
        i = jnp.where(closes[k], k, jnp.minimum(k + opens[k], n - 1))
        return _swap(x, i, jnp.where(closes[k], k, other[k]))

    def forward(k: Any, x: jax.Array) -> jax.Array:
        x = exchanged(x, k)
        return x - jnp.outer(low[:, k], x[k])

    def backward(step: Any, x: jax.Array) -> jax.Array:
        k = n - 1 - step
        x = x.at[k].add(-(conj(low[:, k]) @ x))
        return exchanged(x, k)

    x = lax.fori_loop(0, n, forward, B)
    x = _divide_by_blocks(jnp.diagonal(LD), jnp.append(jnp.diagonal(LD, -1), 0), opens, closes, x, hermitian)
    return lax.fori_loop(0, n, backward, x)


def _divide_by_blocks(
    d: jax.Array, below: jax.Array, opens: jax.Array, closes: jax.Array, x: jax.Array, hermitian: bool
) -> jax.Array:
    """``D^-1 x`` for a D with blocks of one or two rows."""
    d = d.real.astype(d.dtype) if hermitian and jnp.iscomplexobj(d) else d
    off = jnp.where(opens, below, 0)
    back = jnp.roll(off, 1)
    up = jnp.conj(off) if hermitian else off
    down, next_d, last_d = jnp.where(closes, back, 0), jnp.roll(d, -1), jnp.roll(d, 1)
    opened = (next_d[:, None] * x - up[:, None] * jnp.roll(x, -1, 0)) / (d * next_d - off * up)[:, None]
    closed = (last_d[:, None] * x - down[:, None] * jnp.roll(x, 1, 0)) / (
        last_d * d - down * (jnp.conj(down) if hermitian else down)
    )[:, None]
    return jnp.where(opens[:, None], opened, jnp.where(closes[:, None], closed, x / d[:, None]))


@op("ldl_solve", where="linalg", node="NotImplemented")
def ldl_solve(LD: TensorOnly, pivots: TensorOnly, B: TensorOnly, *, hermitian: bool = False):
    """The solution X of ``A X = B``, from the `ldl_factor` of A."""
    name = "torch.linalg.ldl_solve"
    check_square(name, LD)
    if B.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(B.ndim, 1)}, {max(B.ndim, 1) - 1}], but got -2)"
        )
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {LD.shape[-2]} by {LD.shape[-1]} but each b "
            f"matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    if LD.shape[:-1] != pivots.shape:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {type_name(pivots)}")
    check_same_type(name, LD, B, "LD", "B")
    batch = broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    if 0 in (*batch, *B.shape[-2:]):
        return jnp.zeros(batch + B.shape[-2:], B.dtype)
    solve = jnp.vectorize(
        functools.partial(_solve_one, hermitian=hermitian), signature="(n,n),(n),(n,k)->(n,k)"
    )
    return without_derivative(solve, _undifferentiable("linalg_ldl_solve"))(LD, pivots, B)
