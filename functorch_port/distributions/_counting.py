"""Distributions of counts: Geometric, Binomial, NegativeBinomial, Multinomial."""

from __future__ import annotations

import math
from typing import Any

from .._base import dtypes
from .._base.size import Size
from .._run.bind import function
from .._tensor.creation import arange, ones_like, zeros_like
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from ..nn import functional as F
from . import constraints
from ._discrete import ByProbability, OverCategorical
from ._gamma import Gamma
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Binomial", "Geometric", "Multinomial", "NegativeBinomial"]


class Geometric(ByProbability):
    """The geometric distribution: the number of failures before the first success.

    Args:
        probs: the probability of success; or
        logits: its log-odds.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#geometric
    """

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None:
            before = (
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                "distribution "
            )
            after = " to be positive but found invalid values:\n"
            self._refuse_unless(
                self.probs > 0, before, after, self.probs, lambda probs: str(probs.detach()[~(probs > 0)])
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        tiny = dtypes.finfo(self.probs.dtype).tiny
        with no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failing = (-probs.masked_fill((probs == 1) & (value == 0), 0)).log1p()
        return value * failing + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class _Trials(ByProbability):
    """The base of distributions with a number of trials and a probability."""

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._give(probs, logits)
        count, given = broadcast_all(total_count, probs if logits is None else logits)
        self.__dict__[self._is_given] = given
        self.total_count = count.type_as(given)
        Distribution.__init__(self, given.size(), validate_args=validate_args)


class NegativeBinomial(_Trials):
    """The negative binomial distribution: the number of successes before ``total_count`` failures.

    Args:
        total_count: number of failures; need not be an integer.
        probs: the probability of success, below 1; or
        logits: its log-odds.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#negativebinomial
    """

    arg_constraints: Any = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Any = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return function("poisson")(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count = self.total_count
        weight = count * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = (count + value).lgamma() - (1.0 + value).lgamma() - count.lgamma()
        return weight + ways.masked_fill(count + value == 0.0, 0.0)


class Binomial(_Trials):
    """The binomial distribution: the number of successes in ``total_count`` trials.

    Args:
        total_count: number of trials.
        probs: the probability of success; or
        logits: its log-odds.
        validate_args: see `Distribution`.

    Example:
        >>> import functorch_port as torch
        >>> torch.distributions.Binomial(2, torch.tensor(0.5)).log_prob(torch.tensor(1.0)).exp()
        tensor(0.5000)

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#binomial
    """

    arg_constraints: Any = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return function("binomial")(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        # softplus of the logits, with PyTorch's gradient of one half at zero
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        log_total = n * positive + n * (-logits.abs()).exp().log1p() - (n + 1).lgamma()
        return value * logits - (value + 1).lgamma() - (n - value + 1).lgamma() - log_total

    def _one_count(self, what: str) -> int:
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return count

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._one_count("enumerate_support")
        values = arange(1 + count, dtype=self._given.dtype, device=self._given.device)
        values = values.view((-1, *(1 for _ in self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Multinomial(OverCategorical):
    """The multinomial distribution: how often each class occurs in ``total_count`` draws.

    Args:
        total_count: number of draws, an int.
        probs: the classes' probabilities along the last dimension; or
        logits: the unnormalized log-probabilities.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#multinomial
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        shape = Size(sample_shape)
        drawn = self._categorical.sample((self.total_count, *shape)).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(shape))
        return counts.scatter_add(-1, drawn, ones_like(drawn)).type_as(self.probs)

    def entropy(self) -> Tensor:
        n = self.total_count
        counts = Binomial(self.total_count, self.probs, validate_args=False)
        values = counts.enumerate_support(expand=False)[1:]
        repeated = (counts.log_prob(values).exp() * (values + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - math.lgamma(n + 1) + repeated

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)
