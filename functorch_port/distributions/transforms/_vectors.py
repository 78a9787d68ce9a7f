"""Transforms of vectors and matrices, to the simplex, to Cholesky factors and to positive definite matrices."""

from __future__ import annotations

import math
from typing import Any

from ..._base import dtypes
from ..._base.size import Size
from ..._run.bind import function
from ..._tensor.creation import eye
from ..._tensor.tensor import Tensor
from ...linalg import cholesky
from ...nn import functional as F
from .. import constraints
from ._base import Transform
from ._elementwise import _clipped_sigmoid


class CorrCholeskyTransform(Transform):
    """Maps vectors of length ``n * (n - 1) / 2`` to the Cholesky factors (n, n) of correlation matrices."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True
    _arguments = None

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else CorrCholeskyTransform(cache_size)

    def _call(self, x: Tensor) -> Tensor:
        x = x.tanh()
        eps = dtypes.finfo(x.dtype).eps
        partial = _to_triangle(x.clamp(min=-1 + eps, max=1 - eps))
        left = (1 - partial**2).sqrt().cumprod(-1)
        partial = partial + eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return partial * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad((1 - (y * y).cumsum(dim=-1))[..., :-1], [1, 0], value=1)
        t = _from_triangle(y, -1) / _from_triangle(left, -1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = _from_triangle(1 - (y * y).cumsum(dim=-1), -2)
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * left.log().sum(-1) + tanh

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        size = _triangle_size(shape[-1])
        if size * (size - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _triangle_size(count: int) -> int:
    """The size of a square matrix with ``count`` elements below its diagonal."""
    return round((0.25 + 2 * count) ** 0.5 + 0.5)


def _below(size: int, diagonal: int) -> Any:
    return function("tril_indices")(size, size, diagonal)


def _to_triangle(vector: Tensor) -> Tensor:
    size = _triangle_size(vector.shape[-1])
    if size * (size - 1) // 2 != vector.shape[-1]:
        raise ValueError(
            f"The size of last dimension is {vector.shape[-1]} which cannot be expressed as the lower triangular part "
            "of a square D x D matrix."
        )
    rows, columns = _below(size, -1)
    matrix = vector.new_zeros((*vector.shape[:-1], size * size))
    return matrix.index_copy(-1, rows * size + columns, vector).unflatten(-1, (size, size))


def _from_triangle(matrix: Tensor, diagonal: int) -> Tensor:
    rows, columns = _below(matrix.shape[-1], diagonal)
    return matrix[..., rows, columns]


class _OfVectors(Transform):
    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex
    _longer = 0

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + self._longer))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - self._longer))


class SoftmaxTransform(_OfVectors):
    """Maps vectors to the simplex by softmax. It is not one-to-one: the inverse is the logarithm."""

    def _call(self, x: Tensor) -> Tensor:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(_OfVectors):
    """Maps vectors of length n to the simplex in n + 1 dimensions by stick breaking.

    Each number determines which fraction of the rest of the stick its output takes.
    """

    bijective = True
    _longer = 1

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        """The logarithms of n, n - 1, ..., 1."""
        return (x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)).log()

    def _call(self, x: Tensor) -> Tensor:
        z = _clipped_sigmoid(x - self._offset(x))
        return F.pad(z, [0, 1], value=1) * F.pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        rest = (1 - taken.cumsum(-1)).clamp(min=dtypes.finfo(y.dtype).tiny)
        return taken.log() - rest.log() + self._offset(taken)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)


class LowerCholeskyTransform(Transform):
    """Maps square matrices to lower triangular ones with a positive diagonal, the exponential of the given one."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Maps square matrices to positive definite ones: ``L @ L.T`` with ``L`` from `LowerCholeskyTransform`."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))
