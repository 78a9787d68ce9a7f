"""``torch.distributions.constraint_registry``: transforms from the real numbers onto a constraint's region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A registry of transforms by constraint. Call it with a constraint to get the transform onto its region.

    Example:
        >>> import functorch_port as torch
        >>> to_positive = torch.distributions.transform_to(torch.distributions.constraints.positive)
        >>> to_positive(torch.zeros(1))
        tensor([1.])

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#module-torch.distributions.constraint_registry
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], transforms.Transform]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Registers a function from a constraint to its transform; without ``factory``, returns a decorator.

        Args:
            constraint: a class of constraints, or an instance of it.
            factory: the function, for all constraints of this class.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> transforms.Transform:
        if type(constraint) not in self._registry:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._registry[type(constraint)](constraint)


#: one-to-one transforms
biject_to = ConstraintRegistry()
#: transforms that need not be one-to-one
transform_to = ConstraintRegistry()


def _affine(first: transforms.Transform, loc: Any, scale: Any) -> transforms.Transform:
    return transforms.ComposeTransform([first, transforms.AffineTransform(loc, scale)])


def _interval(c: Any) -> transforms.Transform:
    numbers = not (hasattr(c.lower_bound, "dim") or hasattr(c.upper_bound, "dim"))
    if numbers and (c.lower_bound, c.upper_bound) == (0, 1):
        return transforms.SigmoidTransform()
    return _affine(transforms.SigmoidTransform(), c.lower_bound, c.upper_bound - c.lower_bound)


def _register(registries: Any, kinds: Any, factory: Callable[[Any], transforms.Transform]) -> None:
    for registry in registries:
        for kind in kinds:
            registry.register(kind, factory)


_BOTH, _C = (biject_to, transform_to), constraints
_register(_BOTH, [_C.real], lambda c: transforms.identity_transform)
_register(
    _BOTH,
    [_C.greater_than, _C.greater_than_eq],
    lambda c: _affine(transforms.ExpTransform(), c.lower_bound, 1),
)
_register(_BOTH, [_C.less_than], lambda c: _affine(transforms.ExpTransform(), c.upper_bound, -1))
_register(_BOTH, [_C.interval, _C.half_open_interval], _interval)
_register(_BOTH, [_C.corr_cholesky], lambda c: transforms.CorrCholeskyTransform())
_register([biject_to], [_C.simplex], lambda c: transforms.StickBreakingTransform())
_register([transform_to], [_C.simplex], lambda c: transforms.SoftmaxTransform())
_register([transform_to], [_C.lower_cholesky], lambda c: transforms.LowerCholeskyTransform())
_register(
    [transform_to],
    [_C.positive_definite, _C.positive_semidefinite],
    lambda c: transforms.PositiveDefiniteTransform(),
)


def _of_parts(registry: ConstraintRegistry) -> None:
    """Registers the transforms of constraints that are made of other constraints."""
    registry.register(
        _C.independent,
        lambda c: transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims),
    )
    registry.register(
        _C.cat, lambda c: transforms.CatTransform([registry(p) for p in c.cseq], c.dim, c.lengths)
    )
    registry.register(_C.stack, lambda c: transforms.StackTransform([registry(p) for p in c.cseq], c.dim))


for _registry in _BOTH:
    _of_parts(_registry)
