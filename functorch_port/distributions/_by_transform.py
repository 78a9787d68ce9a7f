"""Distributions of transformed random variables: LogNormal, HalfNormal, Gumbel, Weibull and others."""

from __future__ import annotations

import math
from typing import Any

from .._base import dtypes
from .._run.bind import function
from .._tensor.creation import as_tensor, full_like, ones_like, zeros_like
from .._tensor.tensor import Tensor
from . import constraints
from ._continuous import Cauchy, Exponential, Normal, Uniform
from ._gamma import Gamma
from ._transformed import TransformedByParameters, TransformedDistribution
from .distribution import Distribution
from .transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
    Transform,
)
from .utils import broadcast_all

__all__ = [
    "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal", "LogisticNormal", "Pareto",
    "Weibull",
]  # fmt: skip

_EULER = 0.57721566490153286060


class LogNormal(TransformedDistribution):
    """The log-normal distribution: the logarithm of the variable is normal.

    Args:
        loc: mean of the logarithm.
        scale: standard deviation of the logarithm.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#lognormal
    """

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """The logistic-normal distribution: a normal vector, mapped to the simplex by `StickBreakingTransform`.

    Args:
        loc: means of the normal vector.
        scale: its standard deviations.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#logisticnormal
    """

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base: Distribution = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale


class _Half(TransformedDistribution):
    """The absolute value of a variable with a distribution symmetric about zero."""

    arg_constraints: Any = {"scale": constraints.positive}
    support: Any = constraints.nonnegative

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        doubled = self.base_dist.log_prob(value) + math.log(2)
        return function("where")(value >= 0, doubled, -math.inf)

    def cdf(self, value: Tensor) -> Any:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Tensor:  # type: ignore[override]
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The half-normal distribution: the absolute value of a normal variable with mean 0.

    Args:
        scale: normal variable's standard deviation.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#halfnormal
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The half-Cauchy distribution: the absolute value of a Cauchy variable with median 0.

    Args:
        scale: Cauchy variable's scale.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#halfcauchy
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return super().log_prob(as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class InverseGamma(TransformedDistribution):
    """The inverse gamma distribution: the reciprocal of a gamma variable.

    Args:
        concentration: shape of the gamma variable.
        rate: its rate.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#inversegamma
    """

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return (self.rate / (self.concentration - 1)).masked_fill(self.concentration <= 1, math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return (self.rate.square() / ((a - 1).square() * (a - 2))).masked_fill(a <= 2, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Gumbel(TransformedByParameters):
    """The Gumbel distribution, of the maximum of many values.

    Args:
        loc: location.
        scale: scale.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#gumbel
    """

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        self._build(validate_args)

    def _make(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        info = dtypes.finfo(self.loc.dtype)
        low, high = full_like(self.loc, info.tiny), full_like(self.loc, 1 - info.eps)
        return Uniform(low, high, validate_args=validate_args), [
            ExpTransform().inv,
            AffineTransform(0, -ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * _EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)


class Weibull(TransformedByParameters):
    """The Weibull distribution.

    Args:
        scale: scale.
        concentration: shape.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#weibull
    """

    arg_constraints: Any = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self._build(validate_args)

    def _make(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        power = PowerTransform(self.concentration_reciprocal)
        base = Exponential(ones_like(self.scale), validate_args=validate_args)
        return base, [power, AffineTransform(0, self.scale)]

    @property
    def concentration_reciprocal(self) -> Tensor:
        return self.concentration.reciprocal()

    def _moment(self, n: int) -> Tensor:
        return (1 + n * self.concentration_reciprocal).lgamma()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1).exp()

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2).exp() - (2 * self._moment(1)).exp())

    def entropy(self) -> Tensor:
        reciprocal = self.concentration_reciprocal
        return _EULER * (1 - reciprocal) + (self.scale * reciprocal).log() + 1


class Pareto(TransformedByParameters):
    """The Pareto distribution of type 1.

    Args:
        scale: smallest value.
        alpha: shape.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#pareto
    """

    arg_constraints: Any = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        self._build(validate_args)

    def _make(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        base = Exponential(self.alpha, validate_args=validate_args)
        return base, [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedByParameters):
    """The Kumaraswamy distribution on [0, 1].

    Args:
        concentration1: first parameter (alpha).
        concentration0: second parameter (beta).
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#kumaraswamy
    """

    arg_constraints: Any = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        self._build(validate_args)

    def _make(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        zero = zeros_like(self.concentration0)
        return Uniform(zero, ones_like(zero), validate_args=validate_args), [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]

    def _moment(self, n: int) -> Tensor:
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mean_log = (b + 1).digamma() + _EULER
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * mean_log - a.log() - b.log()
