"""Bernoulli, Categorical, OneHotCategorical, Poisson."""

from __future__ import annotations

from typing import Any

from .._base import dtypes
from .._base.size import Size
from .._run.bind import function
from .._tensor.creation import arange, eye
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from ..nn import functional as F
from . import constraints
from .distribution import Distribution, batch_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all, logits_to_probs, probs_to_logits

__all__ = ["Bernoulli", "Categorical", "OneHotCategorical", "Poisson"]


class ByProbability(Distribution):
    """The base of distributions with ``probs`` or ``logits``; the one not given is computed on first access."""

    _is_given: str

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._give(probs, logits)
        value = probs if logits is None else logits
        (self.__dict__[self._is_given],) = broadcast_all(value)
        super().__init__(batch_of(self._given, value), validate_args=validate_args)

    @property
    def param_shape(self) -> Size:
        return self._given.size()

    def _give(self, probs: Any, logits: Any) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._is_given = "probs" if logits is None else "logits"

    @property
    def _given(self) -> Tensor:
        return self.__dict__[self._is_given]

    def __getattr__(self, name: str) -> Any:
        if name == "probs" and "logits" in self.__dict__:
            return self._to_probs(self.__dict__["logits"])
        if name == "logits" and "probs" in self.__dict__:
            return self._to_logits(self.__dict__["probs"])
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _to_probs(self, logits: Tensor) -> Tensor:
        return logits_to_probs(logits, is_binary=True)

    def _to_logits(self, probs: Tensor) -> Tensor:
        return probs_to_logits(probs, is_binary=True)


class Bernoulli(ByProbability, ExponentialFamily):
    """The Bernoulli distribution: 1 with probability ``probs``, else 0.

    Args:
        probs: the probability of 1; or
        logits: its log-odds.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#bernoulli
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support: Any = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return mode.masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with no_grad():
            return function("bernoulli")(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self._given.dtype, device=self._given.device)
        values = values.view((-1, *(1 for _ in self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Categorical(ByProbability):
    """The categorical distribution over the class indices 0 to K - 1.

    Args:
        probs: the classes' probabilities along the last dimension, of size K; need not sum to 1; or
        logits: the unnormalized log-probabilities.
        validate_args: see `Distribution`.

    Example:
        >>> import functorch_port as torch
        >>> torch.distributions.Categorical(probs=torch.tensor([1., 1.])).entropy()
        tensor(0.6931)

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#categorical
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._give(probs, logits)
        given = probs if logits is None else logits
        if given.dim() < 1:
            raise ValueError(f"`{self._is_given}` parameter must be at least one-dimensional.")
        if logits is None:
            self.__dict__["probs"] = given / given.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = given - given.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.size(-1)
        Distribution.__init__(self, given.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self._num_events - 1)

    def _to_probs(self, logits: Tensor) -> Tensor:
        return logits_to_probs(logits)

    def _to_logits(self, probs: Tensor) -> Tensor:
        return probs_to_logits(probs)

    @property
    def mean(self) -> Tensor:
        return self._given.new_full(self._extended_shape(), float("nan"))

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        shape = Size(sample_shape)
        with no_grad():
            flat = self.probs.reshape(-1, self._num_events)
            return flat.multinomial(shape.numel(), True).T.reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        value, logits = function("broadcast_tensors")(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        least = dtypes.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, dtype=dtypes.int64, device=self._given.device)
        values = values.view((-1, *(1 for _ in self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OneHotCategorical(Categorical):
    """A `Categorical` distribution whose values are one-hot vectors.

    Args:
        probs: the classes' probabilities; or
        logits: the unnormalized log-probabilities.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#onehotcategorical
    """

    support: Any = constraints.one_hot

    def __repr__(self) -> str:
        return "OneHotCategorical()"  # PyTorch's repr shows no parameters

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self._event_shape = self._given.size()[-1:]

    def _classes(self) -> Categorical:
        return Categorical(**{self._is_given: self._given}, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(dim=-1), self._num_events).to(self.probs.dtype)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        return F.one_hot(self._classes().sample(sample_shape), self._num_events).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._classes().log_prob(value.max(-1).indices)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._num_events
        values = eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view((n, *(1 for _ in self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OverCategorical(Distribution):
    """The base of distributions over a `Categorical`'s classes whose values are vectors, one entry per class."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shapes = self._categorical.batch_shape, self._categorical.param_shape[-1:]
        super().__init__(*shapes, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._twin(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape


class Poisson(ExponentialFamily):
    """The Poisson distribution.

    Args:
        rate: mean.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#poisson
    """

    arg_constraints = {"rate": constraints.nonnegative}  # type: ignore[assignment]
    support: Any = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(batch_of(self.rate, rate), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with no_grad():
            return function("poisson")(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()
