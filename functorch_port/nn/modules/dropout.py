"""Dropout layers."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """The base of the dropout layers."""

    __constants__ = ["p", "inplace"]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, set elements to zero with probability `p` and divide the rest by ``1 - p``.

    Args:
        p: probability that an element is dropped.
        inplace: change the input itself.

    Raises:
        ValueError: if `p` is outside [0, 1].

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Dropout(0.2).eval()(torch.ones(3))
        tensor([1., 1., 1.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels of (N, C, L) or (C, L).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout1d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels of (N, C, H, W).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout3d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """`Dropout` that keeps the mean and variance of `SELU` activations.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AlphaDropout.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.FeatureAlphaDropout.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
