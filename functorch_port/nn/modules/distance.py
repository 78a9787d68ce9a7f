"""Distances as layers."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension.

    Args:
        p: exponent of the norm.
        eps: keeps the gradient finite where the vectors are equal.
        keepdim: keep the last dimension, with size 1.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.PairwiseDistance.html
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosine similarity of vectors along a dimension.

    Args:
        dim: the dimension of the vectors.
        eps: lower bound of the norms, to avoid division by zero.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineSimilarity.html
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
