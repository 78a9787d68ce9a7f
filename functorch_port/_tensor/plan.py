"""A plan: an operation with its static arguments bound, as a pure function of arrays and numbers.

There is one for each signature of an operation, which `_run/call.py` finds. It keeps what follows from the function:
the jitted form and, made when it is first asked for, the plan of the pullback and the shapes of the results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax

from .._base import config, memory
from .._base.bounded import Bounded
from .._base.tuning import tuning
from .avals import avals_of, looks_at
from .family import Family
from .pullback import Residuals, forward_and_pullback, pull_kept

if TYPE_CHECKING:
    from .._run.registry import OpSpec

__all__ = ["Plan", "Saved"]

Mask = tuple[bool, ...]


@dataclass(eq=False)
class Plan:
    """One operation with its static arguments bound: a pure function of a flat list of arrays and numbers.

    Where an argument is a ``mask`` it marks the inputs that need a gradient; ``holes`` marks the outputs for which none
    arrives.
    """

    #: None for that of its family
    pure: Callable[..., Any] | None
    name: str
    #: the name of its autograd node
    node: str
    spec: OpSpec | None = None
    #: of the operation (see `op`)
    eager: str = ""
    view: bool = False
    differentiable: bool = True
    returns: Any = None
    keeps: Callable[..., bool] | None = None
    #: whether it is an operation whose results are new arrays, of shapes that do not depend on values, and may be lazy
    fresh: bool = False
    #: raises on bad values
    check: Callable[..., None] | None = None
    #: positions of the arguments by name, and from flat arguments to all arguments by name
    slots: dict[str, Any] = field(default_factory=dict)
    named: Callable[[Sequence[Any]], dict[str, Any]] | None = None
    #: the node's ``next_functions``: for each an argument, and whether a transpose stands between
    edge_order: tuple[tuple[int, bool], ...] | None = None
    #: positions of the arguments that PyTorch would save as tensors, numbers among them; None: all
    tensors: frozenset[int] | None = None
    #: by mask what PyTorch saves (`saved.positions`); None if that is nothing
    saves: dict[Mask, tuple[int, ...]] | None = None
    #: whether it is itself a pullback
    pulls: bool = False
    #: the plans that differ in ``numbers`` only, which are whole numbers among the static arguments
    family: Family = None  # type: ignore[assignment] # by default its own
    numbers: tuple[int, ...] = ()
    #: by masks what was derived from it
    derived: dict[Any, Any] = field(default_factory=dict)
    #: by shapes those of the results, and what a backend remembers
    _shapes: Bounded[Any, Any] = field(default_factory=lambda: Bounded(tuning.cached_kinds))
    backend: Bounded[Any, Any] = field(default_factory=lambda: Bounded(tuning.cached_kinds))

    def __post_init__(self) -> None:
        if (pure := self.pure) is not None and self.family is None:
            self.family = Family(lambda numbers: pure)
        spec = self.spec
        if spec is not None:
            self.eager, self.view, self.differentiable = spec.eager, spec.view, spec.differentiable
            self.returns, self.keeps = spec.tuple_type, spec.keeps
            self.fresh = not (spec.view or spec.eager or spec.lays)

    @functools.cached_property
    def fn(self) -> Callable[..., Any]:
        """The function, for whoever traces it."""
        return config.by_our_rules(self.pure or self.family.of(self.numbers))

    @functools.cached_property
    def jit(self) -> Callable[..., Any]:
        """Its jitted form."""
        return self.fn if self.eager else jax.jit(self.fn)

    def backward(self, mask: Mask, holes: Mask) -> Plan:
        """The plan of the pullback: ``fn(*inputs, *gradients of the outputs but holes) -> gradients in mask``."""
        plan = self.derived.get((mask, holes))
        if plan is None:
            names = f"{self.name}_backward", f"{self.node[:-1]}Backward0"
            family = self.family.backward(mask, holes)
            plan = Plan(None, *names, pulls=True, family=family, numbers=self.numbers)
            self.derived[mask, holes] = plan
        return plan

    def run_recorded(self, mask: Mask, values: Sequence[Any]) -> tuple[Any, Saved | None]:
        """The results, and from where to take the pullback if not from these values alone."""
        if not mask or self.keeps is None or not self.keeps(*values):
            return memory.run(self.jit, values), None
        found = self.derived.get(("keeping", mask))
        if found is None:
            fn = functools.partial(forward_and_pullback, self.fn, mask)
            found = self.derived["keeping", mask] = jax.jit(fn)
        out, kept = memory.run(found, values)
        return out, (_kept_plan(kept.residuals), [*values, *kept.arrays])

    def shapes(self, values: Sequence[Any], kind: Any = None) -> Any:
        """Shapes and dtypes of the results for such values, or of this ``kind``; numbers among them do not matter."""
        if self.eager:
            raise NotImplementedError(
                f"{self.name}: the shape of the result depends on values, which tensors on the meta device have not"
            )
        key = avals_of(values) if kind is None else kind
        found = self._shapes.get(key)
        if found is None:
            traced, sizes = self.family.find(values, self.numbers)
            traced.tell()
            found = self._shapes[key] = traced.shapes(sizes)
        return found

    def reads(self, mask: Mask, holes: Mask, args: Sequence[Any]) -> list[bool]:
        """Which inputs the pullback looks at, other than at their shapes. ``args`` are arrays, shapes or numbers."""
        found = self.derived.get(("reads", mask, holes))
        if found is None:
            found = looks_at(self.backward(mask, holes).fn, args)[: len(mask)]
            self.derived["reads", mask, holes] = found
        return found

    def reached(self, mask: Mask, holes: Mask, args: Sequence[Any]) -> Mask:
        """Which of the inputs in ``mask`` get a gradient. Each gradient that a pullback gives depends on some only."""
        if not self.pulls or True not in holes:
            return mask
        found = self.derived.get(("reached", holes))
        if found is None:
            found = self.derived["reached", holes] = looks_at(self.fn, args, holes)
        return tuple([m and f for m, f in zip(mask, found, strict=True)])


class KeptPlan:
    """What stands for a `Plan` in a node whose forward pass kept what the pullback needs.

    The saved values are the inputs and what was kept.
    """

    def __init__(self, residuals: Residuals) -> None:
        self.residuals = residuals
        self._backward: dict[Mask, Plan] = {}

    def backward(self, mask: Mask, holes: Mask) -> Plan:
        """As of a `Plan`; ``mask`` is that of the forward pass."""
        plan = self._backward.get(holes)
        if plan is None:
            fn = functools.partial(pull_kept, self.residuals, holes)
            plan = self._backward[holes] = Plan(fn, "kept_backward", "KeptBackward0")
        return plan

    def reached(self, mask: Mask, holes: Mask, args: Sequence[Any]) -> Mask:
        """As of a `Plan`: no pullback keeps anything."""
        return mask


_kept_plan = functools.lru_cache(tuning.cached_programs)(KeptPlan)

#: a plan whose `backward` is that of a node, and what it is to be given
Saved = tuple[Plan | KeptPlan, Sequence[Any]]
