"""Elementwise transforms: `ExpTransform`, `SigmoidTransform`, `PowerTransform`, `AffineTransform`, ..."""

from __future__ import annotations

import math
from typing import Any

from ..._base import dtypes
from ..._run.bind import function
from ..._tensor.creation import full_like
from ..._tensor.tensor import Tensor
from ...nn import functional as F
from .. import constraints
from ..utils import broadcast_all
from ._base import Transform


class _Increasing(Transform):
    """The base of increasing functions of a number."""

    domain: Any = constraints.real
    codomain: Any = constraints.positive
    bijective = True
    sign = +1


class ExpTransform(_Increasing):
    """``y = exp(x)``."""

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SoftplusTransform(_Increasing):
    """``y = log(1 + exp(x))``."""

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class SigmoidTransform(_Increasing):
    """``y = 1 / (1 + exp(-x))``, clamped away from 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        y = _clamped(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


def _clamped(x: Tensor) -> Tensor:
    info = dtypes.finfo(x.dtype)
    return x.clamp(min=info.tiny, max=1.0 - info.eps)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    return _clamped(x.sigmoid())


class TanhTransform(_Increasing):
    """``y = tanh(x)``."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """``y = |x|``. It is not one-to-one: the inverse returns the positive number ``y``."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def _broadcast(shape: Any, *others: Any) -> Any:
    return function("broadcast_shapes")(shape, *(getattr(other, "shape", ()) for other in others))


class PowerTransform(Transform):
    """``y = x ** exponent`` for positive numbers.

    Args:
        exponent: a number or Tensor.
        cache_size: see `Transform`.
    """

    domain = codomain = constraints.positive
    bijective = True
    _arguments = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.exponent)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """``y = loc + scale * x``.

    Args:
        loc, scale: numbers or Tensors.
        event_dim: the number of event dimensions. Default: 0, for numbers.
        cache_size: see `Transform`.
    """

    bijective = True
    _arguments = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return (
            constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real
        )

    codomain = domain  # type: ignore[assignment]

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            result = self.scale.abs().log()
        else:
            result = full_like(x, math.log(abs(self.scale)))
        shape = x.shape
        if self.event_dim:
            result = result.reshape((*result.shape[: -self.event_dim], -1)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.loc, self.scale)

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution, as a map to [0, 1].

    Args:
        distribution: a distribution with ``cdf`` and ``icdf``.
        cache_size: see `Transform`.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1
    _arguments = ("distribution",)
    _by_value = False

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
