"""Normal, Uniform, Exponential, Laplace, Cauchy, GeneralizedPareto."""

from __future__ import annotations

import math
from typing import Any

from .._base import dtypes
from .._base.size import Size
from .._run.bind import function
from .._tensor.creation import full_like, zeros_like
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution, batch_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Cauchy", "Exponential", "GeneralizedPareto", "Laplace", "Normal", "Uniform"]


class Normal(ExponentialFamily):
    """The normal distribution.

    Args:
        loc: mean.
        scale: standard deviation.
        validate_args: see `Distribution`.

    Example:
        >>> import functorch_port as torch
        >>> torch.distributions.Normal(0., 1.).log_prob(torch.tensor(0.))
        tensor(-0.9189)

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#normal
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support: Any = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(batch_of(self.loc, loc, scale), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return function("normal")(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = function("randn")(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (
            -((value - self.loc) ** 2) / (2 * self.scale**2)
            - self.scale.log()
            - math.log(math.sqrt(2 * math.pi))
        )

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 0.5 * (1 + function("erf")((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * function("erfinv")(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    Args:
        low: lower bound, included.
        high: upper bound, excluded.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#uniform
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(batch_of(self.low, low, high), validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @property
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = function("rand")(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Args:
        rate: inverse of the mean.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#exponential
    """

    arg_constraints = {"rate": constraints.positive}  # type: ignore[assignment]
    support: Any = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(batch_of(self.rate, rate), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    stddev = mean

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return -self.rate.log() + 1.0


class Laplace(Distribution):
    """The Laplace distribution.

    Args:
        loc: mean.
        scale: mean absolute deviation from ``loc``.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#laplace
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support: Any = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(batch_of(self.loc, loc, scale), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return self.scale.mul(2**0.5)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        kind = dtypes.finfo(self.loc.dtype)
        drawn = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(kind.eps - 1, 1)
        return self.loc - self.scale * drawn.sign() * (-drawn.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = value - self.loc
        return -0.5 * away.sign() * (-away.abs() / self.scale).expm1() + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return (2 * self.scale).log() + 1


class Cauchy(Distribution):
    """The Cauchy (Lorentz) distribution.

    Args:
        loc: median.
        scale: half width at half maximum.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#cauchy
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support: Any = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(batch_of(self.loc, loc, scale), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        drawn = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + drawn * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution, of values above a threshold.

    Args:
        loc: threshold.
        scale: scale.
        concentration: shape; 0 gives the exponential distribution.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#generalizedpareto
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(batch_of(self.loc, loc, scale, concentration), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, function("where")(self.concentration < 0, end, math.inf))

    def _by_shape(self, at_zero: Any, elsewhere: Any) -> Tensor:
        """``at_zero`` where the concentration is 0, else ``elsewhere`` of a concentration that is not 0."""
        zero = function("isclose")(self.concentration, zeros_like(self.concentration))
        return function("where")(zero, at_zero, elsewhere(self.concentration.masked_fill(zero, 1.0)))

    def _log_survival(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return self._by_shape(-z, lambda c: -(c * z).log1p() / c)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(function("rand")(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        z = (value - self.loc) / self.scale

        def density(c: Tensor) -> Tensor:
            power = 1 / c + 1
            return function("where")(power == 0, power, power * (c * z).log1p())

        return -self.scale.log() - self._by_shape(z, density)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the survival function: of the probability of values above ``value``."""
        self._validate_sample(value)
        return self._log_survival(value)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        rest = (-value).log1p()
        return self._by_shape(
            self.loc - self.scale * rest, lambda c: self.loc + self.scale / c * (-c * rest).expm1()
        )

    @property
    def mean(self) -> Tensor:
        none = self.concentration >= 1
        mean = self.loc + self.scale / (1 - self.concentration.masked_fill(none, 0.5))
        return mean.masked_fill(none, math.nan)

    @property
    def variance(self) -> Tensor:
        none = self.concentration >= 0.5
        c = self.concentration.masked_fill(none, 0.25)
        return (self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))).masked_fill(none, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)
