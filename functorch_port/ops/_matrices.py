"""Helpers of the decompositions and solvers: checks, adjoints, and the error for singular matrices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array.refusal import refuse, xp_of
from .._run.out import write_out
from .._tensor.tensor import Tensor
from ._common import is_inexact, type_name

LinAlgError = type(
    "LinAlgError", (RuntimeError,), {"__doc__": "A matrix is singular, or a decomposition failed."}
)


def adjoint(x: jax.Array) -> jax.Array:
    """The conjugate transpose of matrices."""
    return jnp.conj(jnp.swapaxes(x, -2, -1))


def shape_text(x: jax.Array) -> str:
    """The shape of matrices in error texts: "3x2"."""
    return f"{x.shape[-2]}x{x.shape[-1]}"


def check_matrix(name: str, A: jax.Array) -> None:
    """Require matrices of a floating point or complex dtype of full precision."""
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if not is_inexact(A.dtype):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {type_name(A)}"
        )
    if A.dtype.itemsize < 4:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_name(A)}")


def check_square(name: str, A: jax.Array) -> None:
    """Require square matrices; see `check_matrix`."""
    check_matrix(name, A)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


def check_system(name: str, A: jax.Array, B: jax.Array, left: bool) -> None:
    """Require a square A and a B that fit ``A X = B`` (or ``X A = B``)."""
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    check_square(name, A)
    if A.shape[-1] != B.shape[-2 if left else -1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} ({shape_text(A)} and {shape_text(B)})"
        )


def check_same_type(name: str, A: jax.Array, B: jax.Array, first: str = "A", second: str = "B") -> None:
    """Require equal dtypes."""
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of type {type_name(A)} "
            f"and {second} of type {type_name(B)} instead"
        )


def check_finite(message: str, error: type[Exception]) -> Callable[..., None]:
    """A check that the matrices of an operation have no inf or nan."""

    def check(A: Any, *rest: Any, **options: Any) -> None:
        if A.dtype.kind in "fc":
            refuse(lambda A: ~xp_of(A).isfinite(A), lambda A: error(message), A)

    return check


def raise_if_failed(info: Tensor, error: Callable[[str, int], Exception]) -> None:
    """Raise ``error(batch, info)`` for the first matrix with a nonzero ``info``."""

    def first(info: Any) -> Exception:
        at = int(np.flatnonzero(info)[0])
        return error(f"(Batch element {at}): " if info.ndim else "", int(info.flat[at]))

    refuse(lambda info: info != 0, first, info._look())


def with_out(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Add the keyword ``out`` to a function made of operations."""

    @functools.wraps(fn)
    def wrapper(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        return result if out is None else write_out(out, result, fn.__name__)

    return wrapper


def without_derivative(fn: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """Wrap a function of arrays so that its derivative raises ``error``."""
    function = jax.custom_jvp(fn)

    def refuse(primals: Any, tangents: Any) -> Any:
        raise error

    function.defjvp(refuse)
    return function
