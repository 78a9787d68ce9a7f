"""The QR decomposition, and products of Householder reflections."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._run.registry import TensorOnly, op
from ._common import type_name
from ._matrices import adjoint, check_matrix, without_derivative


def _qr_complete(A: jax.Array) -> Any:
    if A.shape[-2] <= A.shape[-1]:
        return jnp.linalg.qr(A, mode="reduced")
    error = RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    return without_derivative(lambda x: tuple(jnp.linalg.qr(x, mode="complete")), error)(A)


def _qr_without_q(A: jax.Array) -> jax.Array:
    error = RuntimeError(
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to require gradients."
    )
    return without_derivative(lambda x: jnp.linalg.qr(x, mode="r"), error)(A)


@op("qr", where="linalg", return_type="linalg_qr", returns=("Q", "R"), node="LinalgQrBackward0")
def linalg_qr(A: TensorOnly, mode: str = "reduced"):
    """The QR decomposition ``A = Q R``; ``mode`` is "reduced", "complete", or "r" for R alone."""
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    if mode == "r":
        return jnp.zeros((0,), A.dtype), _qr_without_q(A)
    q, r = jnp.linalg.qr(A, mode=mode) if mode == "reduced" else _qr_complete(A)
    return q, r


@op(returns=("Q", "R"), node="LinalgQrBackward0")
def qr(input: TensorOnly, some: bool = True):
    """The QR decomposition ``input = Q R``: the reduced one, or with ``some=False`` the complete one."""
    return linalg_qr(input, "reduced" if some else "complete")


@op(returns=("a", "tau"))
def geqrf(input: TensorOnly):
    """The QR decomposition in LAPACK's form: R with the Householder vectors below it, and their factors tau."""
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    error = NotImplementedError("the derivative for 'geqrf' is not implemented.")

    def raw(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        transposed, tau = jnp.linalg.qr(x, mode="raw")
        return jnp.swapaxes(transposed, -2, -1), tau

    return without_derivative(raw, error)(input)


def _reflect(vectors: jax.Array, tau: jax.Array, X: jax.Array, adjoined: bool) -> jax.Array:
    """``Q X`` (or ``Q^H X``), where Q is the product of the reflections ``1 - tau v v^H`` of the columns v."""
    rows, count = X.shape[-2], tau.shape[-1]
    v = jnp.tril(vectors[..., :count], -1) + jnp.eye(rows, count, dtype=vectors.dtype)
    factors = jnp.conj(tau) if adjoined else tau

    def apply(x: jax.Array, one: Any) -> tuple[jax.Array, None]:
        vector, factor = one
        along = jnp.einsum("...i,...ij->...j", jnp.conj(vector), x)
        return x - factor[..., None, None] * vector[..., :, None] * along[..., None, :], None

    each = (jnp.moveaxis(v, -1, 0), jnp.moveaxis(factors, -1, 0))
    return lax.scan(apply, X, each, reverse=not adjoined)[0]


def _check_factors(name: str, input: jax.Array, tau: jax.Array) -> None:
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if tau.dtype != input.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {type_name(tau)} does not match input dtype {type_name(input)}"
        )


def _householder_product(input: jax.Array, tau: jax.Array) -> jax.Array:
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_factors(name, input, tau)
    identity = jnp.broadcast_to(jnp.eye(input.shape[-2], input.shape[-1], dtype=input.dtype), input.shape)
    return _reflect(input, tau, identity, adjoined=False)


@op("householder_product", where="linalg", node="LinalgHouseholderProductBackward0")
def householder_product(input: TensorOnly, tau: TensorOnly):
    """The first columns of the product of Householder reflections, such as `geqrf` returns."""
    return _householder_product(input, tau)


@op("orgqr", node="LinalgHouseholderProductBackward0")
def orgqr(input: TensorOnly, input2: TensorOnly):
    """The first columns of the product of Householder reflections, such as `geqrf` returns."""
    return _householder_product(input, input2)


@op()
def ormqr(
    input: TensorOnly, input2: TensorOnly, input3: TensorOnly, left: bool = True, transpose: bool = False
):
    """Multiply a matrix by the Q of `geqrf` (or its adjoint) from the left or the right."""
    tau, other = input2, input3
    for name, x in (("input", input), ("other", other)):
        if x.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {name} must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] != min(other.shape[side], input.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    _check_factors("torch.ormqr", input, tau)
    if other.dtype != input.dtype:
        raise RuntimeError(
            f"torch.ormqr: Expected input and other to have the same dtype, but input has dtype {type_name(input)} "
            f"and other has dtype {type_name(other)}"
        )
    if left:
        return _reflect(input, tau, other, adjoined=transpose)
    return adjoint(_reflect(input, tau, adjoint(other), adjoined=not transpose))
