"""ContinuousBernoulli: values in [0, 1] with a density proportional to the Bernoulli likelihood."""

from __future__ import annotations

import math
from typing import Any

from .._array.refusal import refuse
from .._base.size import Size
from .._run.bind import function
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from ..nn import functional as F
from . import constraints
from ._discrete import ByProbability
from .distribution import Distribution, batch_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ByProbability, ExponentialFamily):
    """The continuous Bernoulli distribution on [0, 1].

    Args:
        probs: the parameter, in (0, 1); or
        logits: its log-odds.
        lims: for ``probs`` between these bounds Taylor series are used, since the formulas are 0 / 0 at 1/2.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#continuousbernoulli
    """

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._give(probs, logits)
        value = probs if logits is None else logits
        (given,) = broadcast_all(value)
        if logits is None:
            if validate_args is not None:
                ok = constraints.unit_interval.check(given)._look()
                refuse(lambda ok: ~ok, lambda ok: ValueError("The parameter probs has invalid values"), ok)
            given = clamp_probs(given)
        self.__dict__[self._is_given], self._lims = given, lims
        Distribution.__init__(self, batch_of(given, value), validate_args=validate_args)

    def _to_probs(self, logits: Tensor) -> Tensor:
        return clamp_probs(logits_to_probs(logits, is_binary=True))

    def _away(self, formula: Tensor, series: Any) -> Tensor:
        """``formula`` where the parameter is outside of ``lims``, ``series`` elsewhere."""
        far = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return function("where")(far, formula, series)

    def _cut(self) -> Tensor:
        """The parameter, where values between ``lims`` are replaced by the lower one."""
        return self._away(self.probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        p, x = self._cut(), (self.probs - 0.5).pow(2)
        low = function("where")(p <= 0.5, p, 0.0)
        high = function("where")(p >= 0.5, p, 1.0)
        span = function("where")(p <= 0.5, (-2.0 * low).log1p(), (2.0 * high - 1.0).log())
        exact = ((-p).log1p() - p.log()).abs().log() - span
        return self._away(exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        p, x = self._cut(), self.probs - 0.5
        exact = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        return self._away(exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self) -> Tensor:
        p, x = self._cut(), (self.probs - 0.5).pow(2)
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / ((-p).log1p() - p.log()).pow(2)
        return self._away(exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(function("rand")(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        p = self._cut()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        return self._away(exact, value).masked_fill(value <= 0.0, 0.0).masked_fill(value >= 1.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        p = self._cut()
        miss = (-p).log1p()
        return self._away(((-p + value * (2.0 * p - 1.0)).log1p() - miss) / (p.log() - miss), value)

    def entropy(self) -> Tensor:
        no, yes = (-self.probs).log1p(), self.probs.log()
        return self.mean * (no - yes) - self._log_norm() - no
