"""Exponential families of distributions."""

from __future__ import annotations

from typing import Any

from .. import autograd
from .._tensor.tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with a density ``exp(<t(x), theta> - F(theta) + k(x))``.

    The entropy, and the KL divergence between two distributions of one class, follow from F.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#exponentialfamily
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """theta"""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """F"""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        """The mean of k."""
        raise NotImplementedError

    def entropy(self) -> Any:
        params = [p.detach().requires_grad_() for p in self._natural_params]
        level = self._log_normalizer(*params)
        slopes = autograd.grad(level.sum(), params, create_graph=True)
        result = level - self._mean_carrier_measure
        for param, slope in zip(params, slopes, strict=True):
            result = result - (param * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result
