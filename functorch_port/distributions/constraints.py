"""``torch.distributions.constraints``: the values that parameters and samples may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from .._base import dtypes
from .._run.bind import function
from .._tensor.creation import ones_like
from .._tensor.tensor import Tensor
from ..linalg import cholesky_ex, eigvalsh

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
    "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region of valid values.

    Attributes:
        is_discrete: whether the region is discrete.
        event_dim: the number of event dimensions, which are the last ones.
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Any:
        """Whether each event is valid: a bool tensor of the batch shape."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"


class _Dependent(Constraint):
    """A constraint that depends on other variables, so it cannot be checked alone."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Constraint) -> bool:
    """Whether a constraint depends on other variables."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of a distribution that is a constraint. On the class itself it is a dependent constraint."""

    def __init__(
        self, fn: Callable[..., Any] | None = None, *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Independent(Constraint):
    """The base constraint for all elements along the last ``reinterpreted_batch_ndims`` dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Any:
        result = self.base_constraint.check(value)
        kept = result.dim() - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape((*result.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """An interval; either bound may be missing."""

    _bounds: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)}" for name, _ in self._bounds)
        return f"{self.__class__.__name__[1:]}({shown})"

    def check(self, value: Tensor) -> Any:
        out = value % 1 == 0 if self.is_discrete else None
        for name, test in self._bounds:
            inside = getattr(value, test)(getattr(self, name))
            out = inside if out is None else out & inside
        assert out is not None
        return out


class _IntegerInterval(_Bounded):
    is_discrete = True
    _bounds = (("lower_bound", "ge"), ("upper_bound", "le"))

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _IntegerGreaterThan(_Bounded):
    is_discrete = True
    _bounds = (("lower_bound", "ge"),)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _GreaterThan(_Bounded):
    _bounds: tuple[tuple[str, str], ...] = (("lower_bound", "gt"),)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _GreaterThanEq(_GreaterThan):
    _bounds = (("lower_bound", "ge"),)


class _LessThan(_Bounded):
    _bounds = (("upper_bound", "lt"),)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Interval(_Bounded):
    _bounds: tuple[tuple[str, str], ...] = (("lower_bound", "ge"), ("upper_bound", "le"))

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _HalfOpenInterval(_Interval):
    _bounds = (("lower_bound", "ge"), ("upper_bound", "lt"))


class _Real(Constraint):
    def check(self, value: Tensor) -> Any:
        return value == value  # not nan


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Any:
        fits = value.shape[-2] == value.shape[-1]
        return ones_like(value[..., 0, 0]).bool() if fits else ones_like(value[..., 0, 0]) != 1


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Any:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return function("isclose")(value, value.mT, atol=1e-6).all(-2).all(-1)


def _and(symmetric: Tensor, value: Tensor, more: Callable[[], Tensor]) -> Tensor:
    """``more()`` if all matrices are symmetric, else ``symmetric``."""
    if not isinstance(symmetric._look(), jax.core.Tracer):
        return more() if bool(symmetric.all()) else symmetric
    return symmetric & more() if value.shape[-2] == value.shape[-1] else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Any:
        symmetric = super().check(value)
        return _and(symmetric, value, lambda: cholesky_ex(value).info.eq(0))


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Any:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Any:
        slack = dtypes.finfo(value.dtype).eps * value.size(-1) * 10  # rows are unit vectors up to rounding
        length = value.detach().square().sum(-1).sqrt()
        return super().check(value) & (length - 1.0).abs().le(slack).all(dim=-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Any:
        symmetric = super().check(value)
        return _and(symmetric, value, lambda: eigvalsh(value).ge(0).all(-1))


class _Parts(Constraint):
    """The base of constraints that have one constraint for each part of a tensor along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        assert all(isinstance(c, Constraint) for c in cseq)
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Parts):
    """One constraint for each of several consecutive slices along a dimension."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Any:
        assert -value.dim() <= self.dim < value.dim()
        parts = value.split(self.lengths, self.dim)
        return function("cat")([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Parts):
    """One constraint for each index along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Any:
        assert -value.dim() <= self.dim < value.dim()
        parts = value.unbind(self.dim)
        return function("stack")([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: a value must be in the support of every component."""

    def __init__(self, base_constraint: Constraint) -> None:
        assert isinstance(base_constraint, Constraint)
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Any:
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        kept = value.dim() - self.event_dim
        return result.reshape((*result.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _Independent
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
square = _Square()
symmetric = _Symmetric()
positive_definite = _PositiveDefinite()
positive_semidefinite = _PositiveSemidefinite()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
cat = _Cat
stack = _Stack
