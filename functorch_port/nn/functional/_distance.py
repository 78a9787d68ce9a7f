"""Normalization to unit length; re-exports the distances and similarities."""

from __future__ import annotations

from ..._run.bind import function
from ..._tensor.tensor import Tensor

cosine_similarity, pairwise_distance = function("cosine_similarity"), function("pairwise_distance")
pdist = function("pdist")
_unit_vectors = function("_unit_vectors")


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input`` divided by its p-norm along ``dim``.

    Args:
        input: the vectors.
        p: exponent of the norm.
        dim: the dimension of the vectors.
        eps: lower bound of the norm, to avoid division by zero.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.normalize.html
    """
    dim = tuple(dim) if isinstance(dim, list) else dim
    if out is None:
        return _unit_vectors(input, p, dim, eps)
    return _unit_vectors(input, p, dim, eps, out=out)
