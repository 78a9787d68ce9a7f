"""The base class of probability distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax

from .._array.refusal import refuse
from .._base.size import Size
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor, wrap
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]

_PACKAGE = __name__.rpartition(".")[0]


def batch_of(shaped: Tensor, *given: Any) -> Any:
    """The batch shape: that of ``shaped``, or () if all parameters were numbers."""
    return Size() if all(isinstance(v, (int, float)) for v in given) else shaped.size()


class Distribution:
    """A probability distribution, or a batch of them.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one event.
        validate_args: whether to check parameters and values. Default: the value of `set_default_validate_args`, at
            first True. A compiled function checks them at every call if its checks are on (see `compile`).

    Raises:
        ValueError: a parameter, or a value in `log_prob`, is invalid.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions check parameters and values by default."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = Size(), event_shape: Any = Size(), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                f"initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        for name, constraint in wanted.items():
            of_class = getattr(type(self), name, None)
            kept = isinstance(of_class, property) and not isinstance(of_class, lazy_property)
            if constraints.is_dependent(constraint) or not (kept or name in self.__dict__):
                continue
            value = getattr(self, name)
            what = f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
            why = f" to satisfy the constraint {constraint!r}, but found invalid values:\n"
            self._refuse_unless(constraint.check(value), what, why, value)

    def _refuse_unless(
        self, ok: Tensor, before: str, after: str, value: Tensor, shown: Callable[[Tensor], str] | None = None
    ) -> None:
        """Raises ValueError unless ``ok``: ``before``, this distribution, ``after``, ``shown(value)``."""
        shown = shown or _shown
        if not isinstance(ok._look(), jax.core.Tracer):
            if not bool(ok.all()):
                raise ValueError(f"{before}{self!r}{after}{shown(value)}")
            return
        name = type(self).__name__
        fixed = None if type(self).__repr__ is Distribution.__repr__ else repr(self)
        given = {k: self.__dict__[k] for k in self.arg_constraints if k in self.__dict__}
        names = list(given)

        def error(ok: Any, value: Any, *arrays: Any) -> Exception:
            tensors = dict(zip(names, map(wrap, arrays), strict=True))
            return ValueError(f"{before}{fixed or _described(name, tensors)}{after}{shown(wrap(value))}")

        refuse(lambda ok, *_: ~ok, error, ok._look(), value._look(), *(t._look() for t in given.values()))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Returns the distribution with a larger batch shape, to which its own must broadcast."""
        batch_shape = Size(batch_shape)
        new = self._twin(batch_shape, _instance)
        event = {"probs", "logits"} if len(self._event_shape) or hasattr(self, "_num_events") else set()
        declared = self._ours().__dict__.get("arg_constraints")
        for name in declared if isinstance(declared, dict) else self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                tail = value.shape[-1:] if name in event and hasattr(self, "_num_events") else Size()
                new.__dict__[name] = value.expand((*batch_shape, *tail))
        return new

    def _twin(self, batch_shape: Any, instance: Any) -> Any:
        """A copy with another batch shape, whose parameters the caller replaces: ``instance``, if it is one."""
        ours = self._ours()
        if ours is Distribution and instance is None:
            raise NotImplementedError
        new = self._get_checked_instance(ours, instance)
        kept = {k: v for k, v in self.__dict__.items() if not self._is_derived(k)}
        new.__dict__ = kept | new.__dict__
        new._batch_shape = Size(batch_shape)
        return new

    def _ours(self) -> type[Distribution]:
        """The class of this package that this is, or that a program's class is made from."""
        return next(c for c in type(self).__mro__ if c.__module__.startswith(_PACKAGE))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """``_instance``, or a new object whose attributes are to be set, for an `expand` of ``cls``.

        Raises:
            NotImplementedError: there is none, and the class of this distribution has an ``__init__`` of its own.
        """
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _is_derived(self, name: str) -> bool:
        """Whether an attribute is a `lazy_property`."""
        return isinstance(getattr(type(self), name, None), lazy_property)

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> constraints.Constraint | None:
        """The constraint that values must satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        """Draws samples of shape ``sample_shape + batch_shape + event_shape``, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        """Draws reparameterized samples, which are differentiable in the parameters."""
        raise NotImplementedError

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability density or mass at ``value``."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The cumulative distribution function at ``value``."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of the cumulative distribution function `cdf`."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = Size()) -> Size:
        return Size((*Size(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.dim() - len(self._event_shape)
        if value.shape[start:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        whole = Size((*self._batch_shape, *self._event_shape))
        for i, j in zip(reversed(value.shape), reversed(whole), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {whole}."
                )
        support = self.support
        if support is None:
            return
        what = (
            f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
            f"support ({support!r}) of the distribution "
        )
        self._refuse_unless(support.check(value), what, ", but found invalid values:\n", value)

    def __repr__(self) -> str:
        given = {k: self.__dict__[k] for k in self.arg_constraints if k in self.__dict__}
        return _described(self.__class__.__name__, given)


def _described(name: str, parameters: dict[str, Any]) -> str:
    """A distribution's name and parameters: values of one-element tensors, sizes of others and of tracers."""
    args = [
        f"{k}: {v if v.numel() == 1 and not isinstance(v._look(), jax.core.Tracer) else v.size()}"
        for k, v in parameters.items()
    ]
    return f"{name}({', '.join(args)})"


def _shown(value: Tensor) -> str:
    return str(value.item()) if value.dim() == 0 else str(value)
