"""Norms of matrices."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .._base import dtypes
from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    Dims,
    is_inexact,
    type_name,
    wrap_dim,
)
from ._matrices import check_matrix, check_square
from .solvers import solve_square
from .vector_norms import vector_norm, vector_norm_of


def _matrix_norm(x: jax.Array, ord: float | str, dim: tuple[int, int], keepdim: bool) -> jax.Array:
    a, b = (wrap_dim(d, x.ndim) for d in dim)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector_norm_of(x, 2, (a, b), keepdim)
    if ord == "nuc" or ord in (2, -2):
        values = jnp.linalg.svd(jnp.moveaxis(x, (a, b), (-2, -1)), compute_uv=False)
        out = (
            jnp.sum(values, -1) if ord == "nuc" else _largest(values, -1) if ord == 2 else jnp.min(values, -1)
        )
        return jnp.expand_dims(out, tuple(sorted((a, b)))) if keepdim else out
    if ord not in (1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, other = (a, b) if abs(ord) == 1 else (b, a)
    sums = vector_norm_of(x, 1, (summed,), True)
    out = (_largest if ord > 0 else jnp.min)(sums, axis=other, keepdims=True)
    return out if keepdim else jnp.squeeze(out, (a, b))


def _largest(x: jax.Array, axis: int, keepdims: bool = False) -> jax.Array:
    """The largest of numbers that are none of them negative; 0 if there are none."""
    return jnp.max(x, axis=axis, keepdims=keepdims, initial=0 if x.shape[axis] == 0 else None)


def _check_matrix_norm(A: jax.Array, name: str = "linalg.matrix_norm") -> None:
    if not is_inexact(A.dtype):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {type_name(A)}"
        )
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")


@op(where="linalg", node="LinalgVectorNormBackward0")
def matrix_norm(
    A: TensorOnly,
    ord: Any = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
):
    """The norm of matrices in the dimensions ``dim``; ``ord`` is "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
    _check_matrix_norm(A)
    return _matrix_norm(A if dtype is None else A.astype(dtype.np), ord, dim, keepdim)


@op("norm", where="linalg", node="LinalgVectorNormBackward0")
def linalg_norm(
    A: TensorOnly,
    ord: Any = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
):
    """A vector norm over one dimension or a matrix norm over two; without ``ord`` the 2-norm of all elements."""
    dims = (dim,) if isinstance(dim, int) else dim
    as_matrix = isinstance(ord, str) or (
        ord is not None and (len(dims) == 2 if dims is not None else A.ndim == 2)
    )
    if isinstance(ord, str) and not (len(dims) == 2 if dims is not None else A.ndim == 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
            if dims is None
            else f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}"
        )
    if ord is not None and dims is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if as_matrix:
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@op(node="LinalgVectorNormBackward0")
def norm(
    input: TensorOnly,
    p: Any = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
):
    """The p-norm over ``dim``, or the nuclear norm of a matrix."""
    if p == "nuc":
        return matrix_norm(input, "nuc", (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@op("cond", where="linalg", node="DivBackward0")
def linalg_cond(A: TensorOnly, p: Any = None):
    """The condition number: the norm of A times that of its inverse, by default the 2-norm."""
    if p in (None, 2, -2):
        check_matrix("linalg.cond", A)
        if A.size == 0:
            return jnp.sum(A.real, (-2, -1))
        values = jnp.linalg.svd(A, compute_uv=False)
        high, low = values[..., 0], values[..., -1]
        return low / high if p == -2 else high / low
    if p not in ("fro", "nuc", math.inf, -math.inf, 1, -1):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    name = f"linalg.cond(ord={p})"
    check_square(name, A)
    inverse, info = solve_square(A, jnp.broadcast_to(jnp.eye(A.shape[-1], dtype=A.dtype), A.shape))
    if A.size == 0:
        return jnp.zeros(A.shape[:-2], A.real.dtype)
    out = _matrix_norm(A, p, (-2, -1), False) * _matrix_norm(inverse, p, (-2, -1), False)
    return jnp.where(info == 0, out, math.inf)


@composite("nuclear_norm", where="torch")
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices in the dimensions ``dim``."""
    return bind.function("matrix_norm")(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


@composite("frobenius_norm", where="torch")
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The square root of the sum of the squares over ``dim``."""
    return bind.function("vector_norm")(input, 2, dim, keepdim)
