"""Continuous relaxations of discrete distributions, and straight-through samples."""

from __future__ import annotations

from typing import Any

from .._base.size import Size
from .._run.bind import function
from .._tensor.creation import full_like
from .._tensor.tensor import Tensor
from . import constraints
from ._discrete import ByProbability, OneHotCategorical, OverCategorical
from ._transformed import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform
from .utils import broadcast_all, clamp_probs

__all__ = [
    "ExpRelaxedCategorical", "LogitRelaxedBernoulli", "OneHotCategoricalStraightThrough", "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]  # fmt: skip


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A `OneHotCategorical` whose samples have the gradient of ``probs`` (the straight-through estimator).

    Args:
        probs: the classes' probabilities; or
        logits: the unnormalized log-probabilities.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#onehotcategoricalstraightthrough
    """

    has_rsample = True

    def __repr__(self) -> str:
        return "OneHotCategoricalStraightThrough()"

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class LogitRelaxedBernoulli(ByProbability):
    """The log-odds of a `RelaxedBernoulli` variable.

    Args:
        temperature: a positive Tensor.
        probs: the probability of 1; or
        logits: its log-odds.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#logitrelaxedbernoulli
    """

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(function("rand")(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value.mul(self.temperature)
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class _Relaxed(TransformedDistribution):
    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A relaxation of `Bernoulli` to (0, 1), which it approaches as the temperature falls.

    Args:
        temperature: a positive Tensor.
        probs: the probability of 1; or
        logits: its log-odds.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#relaxedbernoulli
    """

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(OverCategorical):
    """The logarithm of a `RelaxedOneHotCategorical` variable.

    Args:
        temperature: a positive Tensor.
        probs: the classes' probabilities; or
        logits: the unnormalized log-probabilities.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#relaxedonehotcategorical
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape, like = self._extended_shape(sample_shape), self.logits
        u = clamp_probs(function("rand")(shape, dtype=like.dtype, device=like.device))
        scores = (like - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        constant = full_like(self.temperature, float(count)).lgamma() + self.temperature.log() * (count - 1)
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + constant


class RelaxedOneHotCategorical(_Relaxed):
    """A relaxation of `OneHotCategorical` to the simplex, which it approaches as the temperature falls.

    Args:
        temperature: a positive Tensor.
        probs: the classes' probabilities; or
        logits: the unnormalized log-probabilities.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#relaxedonehotcategorical
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
