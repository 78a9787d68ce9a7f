"""``torch.distributions.utils``: what distributions have in common."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from .._array import tracing
from .._array.symbolic import SymNumber
from .._base import dtypes
from .._run.bind import function
from .._tensor.creation import tensor
from .._tensor.grad_mode import enable_grad
from .._tensor.tensor import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Broadcasts numbers and tensors to tensors of one shape; numbers take the dtype of the first tensor."""
    if not all(
        isinstance(v, (Tensor, int, float, SymNumber)) or hasattr(v, "__torch_function__") for v in values
    ):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    like = next((v for v in values if isinstance(v, Tensor)), None)
    kind: dict[str, Any] = {} if like is None else {"dtype": like.dtype, "device": like.device}
    if like is None:
        values = tuple(float(v) if isinstance(v, (int, bool)) else v for v in values)
    tensors = [tensor(v, **kind) if isinstance(v, (int, float, SymNumber)) else v for v in values]
    return tuple(function("broadcast_tensors")(*tensors))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return function("randn")(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """Sums over the last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape((*value.shape[: value.dim() - dim], -1)).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamps probabilities away from 0 and 1 by the dtype's eps."""
    eps = dtypes.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: log-odds if ``is_binary``, else unnormalized log-probabilities of the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of `logits_to_probs`."""
    probs = clamp_probs(probs)
    return probs.log() - (-probs).log1p() if is_binary else probs.log()


class lazy_property:
    """A property that is computed once, with gradients on, and then an attribute of the object.

    Inside a JAX transform it is computed each time, so that the object never keeps a tracer.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        if not tracing.in_jax():
            setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class has for a `lazy_property`: a property, for tools that ask for one."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of the lower triangles of matrices (..., n, n) by rows, (..., elements).

    Args:
        mat: the matrices.
        diag: the last diagonal that belongs to the triangle.

    Raises:
        ValueError: there is no such diagonal.
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = function("tril_indices")(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def _elements(n: int, diag: int) -> int:
    """How many elements a triangle has."""
    return sum(min(max(row + 1 + diag, 0), n) for row in range(n))


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of `tril_matrix_to_vec`, with zeros elsewhere.

    Raises:
        ValueError: no triangle has so many elements.
    """
    size = next(n for n in itertools.count(max(1, -diag)) if _elements(n, diag) >= vec.shape[-1])
    if _elements(size, diag) != vec.shape[-1]:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of "
            "a square D x D matrix."
        )
    rows, columns = function("tril_indices")(size, size, diag, device=vec.device)
    matrix = function("zeros")((*vec.shape[:-1], size, size), dtype=vec.dtype, device=vec.device)
    matrix[..., rows, columns] = vec
    return matrix
