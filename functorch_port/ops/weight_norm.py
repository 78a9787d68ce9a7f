"""Weight and spectral normalization."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from functorch_port._run.registry import Array, Scalar, op
from functorch_port.ops._common import compute
from functorch_port.ops.vector_norms import vector_norm_of


@op(where="torch")
def norm_except_dim(v: Array, pow: int = 2, dim: int = 0):
    """The norms of the slices along ``dim``, broadcastable to ``v``; the norm of all elements for -1."""
    if not -1 <= dim < v.ndim:
        raise RuntimeError(f"dim must be between 0 and {v.ndim - 1} inclusive, or -1, got {dim}")
    others = tuple(d for d in range(v.ndim) if d != dim)
    if v.dtype.kind == "c":
        return vector_norm_of(v, float(pow), others, dim != -1)
    return compute(lambda x: vector_norm_of(x, float(pow), others, dim != -1), v.dtype, v)


@op("_weight_norm", where="torch")
def weight_norm(v: Array, g: Array, dim: int = 0):
    """``v`` with its slices along ``dim`` scaled to the norms ``g``."""
    return compute(lambda x, size: x * (size / _length(x, dim)), v.dtype, v, g)


def _length(x: jax.Array, dim: int) -> jax.Array:
    """The norms that `weight_norm` divides by. Their gradient is NaN where they are 0, as in PyTorch."""
    length = norm_except_dim(x, 2, dim)
    others = tuple(d for d in range(x.ndim) if d != dim)
    squares = jnp.square(jnp.abs(x)) if x.dtype.kind == "c" else jnp.square(x)
    plain = jnp.sqrt(squares.sum(others, keepdims=dim != -1))
    return jnp.where(length == 0, plain.astype(length.dtype), length)


@op("_power_method", where="", differentiable=False)
def power_method(matrix: Array, u: Array, v: Array, steps: int, eps: Scalar, right_first: bool):
    """The singular vectors ``u`` and ``v`` after power iterations, which update ``v`` first if ``right_first``."""

    def unit(x: jax.Array) -> jax.Array:
        size = vector_norm_of(x, 2, (0,), False)
        return (x / jnp.maximum(size, jnp.asarray(eps, size.dtype))).astype(matrix.dtype)

    def step(_: int, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        left, right = pair
        if right_first:
            right = unit(matrix.conj().T @ left)
            return unit(matrix @ right), right
        left = unit(matrix @ right)
        return left, unit(matrix.conj().T @ left)

    return step(0, (u, v)) if steps == 1 else lax.fori_loop(0, steps, step, (u, v))
