"""The guards under which a program may be run again: what has to be as it was when the function was traced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter, is_not, methodcaller
from typing import Any

from .._array import tracing
from .._array.joint import Joint
from .._array.storage import Storage
from .._tensor.tensor import Tensor
from .._tensor.view import View
from .overlay import same_table
from .places import Places
from .stages import hooks_of
from .stateful import Stepping
from .tree import by_identity, cell_of
from .value_guards import ValueGuards

__all__ = ["Guards"]

_held, _array = attrgetter("held"), methodcaller("array")


@dataclass
class Guards:
    """What a program depends on besides the signature of its arguments and `Numbers`.

    Those of the second group are structure: they are compared only after something structural changed somewhere, which
    counts in `tracing.epoch`.

    Attributes:
        values: Python values that the function read.
        gradients: tensors, and whether their gradient was missing.
        joints: those that the program takes as one array.
        twins: the first of Storages that are one input -> the others.
        places: places whose tensors are inputs.
        argument_hooks: positions of arguments (or of what is in places), and the hooks on their gradients.
        states: the Storages that the program reads or writes by themselves.

        tensors: tensors, with ``requires_grad``, and Storage and view, or None where that does not matter.
        tables: modules and optimizers, with ``training`` and copies of their tables (see `stateful`).
        shared: classes, with tables that all instances have in common, and copies of these.
        hooks: tensors, and the hooks on their gradients.
        optimizers: with the `id` of the parameters of each group, the groups, and the items of the state.

        bound: positions of arguments, with the Storage of one that is also a variable of the function; see `bind`.
        epoch: `tracing.epoch` when structure was last compared.
    """

    values: ValueGuards
    gradients: Sequence[tuple[Any, bool]]
    joints: Sequence[Joint]
    twins: dict[Storage, list[Storage]]
    places: Places | None
    argument_hooks: Sequence[tuple[int, tuple[Any, ...]]]
    states: set[Storage]
    tensors: Sequence[tuple[Tensor, bool | None, tuple[Storage, View | None] | None]]
    tables: Sequence[tuple[Any, Any, dict[str, dict[Any, Any]]]]
    shared: Sequence[tuple[type, dict[Any, Any], dict[Any, Any]]]
    hooks: Sequence[tuple[Tensor, tuple[Any, ...]]]
    optimizers: Sequence[tuple[Stepping, Any, Any]]
    bound: Sequence[tuple[int, Storage | None]] = ()
    epoch: int = field(default_factory=lambda: tracing.epoch)

    def bind(self, leaves: Sequence[Any], variables: Collection[Storage]) -> None:
        """Note which arguments are variables of the function too: the program is for these very tensors only."""
        cells = [(i, cell_of(leaf)) for i, leaf in enumerate(leaves)]
        plain = [(i, cell) for i, cell in cells if cell is not None and not by_identity(leaves[i])]
        self.bound = [(i, cell if cell in variables else None) for i, cell in plain]

    def _changed_sharing(self, leaves: Sequence[Any]) -> str:
        """Empty, or which argument is a variable of the function as it was not when that was traced."""
        for i, cell in self.bound:
            given = leaves[i]._storage
            if given is not cell and (cell is not None or given in self.states):
                return f"argument {i} {'was' if cell is not None else 'is'} also a variable of the function"
        return ""

    def allow_pass(self, leaves: Sequence[Any]) -> bool:
        """As `check`, for a program that only computes: it needs no further guard."""
        return self.epoch == tracing.epoch and not self._changed_sharing(leaves) and self.values.match()

    def check(self, leaves: Sequence[Any]) -> str:
        """Empty if the program may be run now, else the reason why not."""
        why = self._changed_sharing(leaves)
        if why:
            return why
        values = self.values
        if not values.holds() or (values.epoch != tracing.attributes and not values.match()):
            return values.reason()
        for tensor, missing in self.gradients:
            if (tensor._kept_grad is None) is not missing:
                return f"a gradient {'appeared' if missing else 'is gone'}"
        for joint in self.joints:
            if not joint.join():
                return "small state has another shape, dtype or place, or shares its memory"
        for first, others in self.twins.items():
            if _differ(_held, first, others) and _differ(_array, first, others):
                return "the step counts of an optimizer's parameters, equal so far, are not any more"
        if self.places is not None:
            why = self.places.matches(leaves, self.states)
            if why:
                return why
        if self.argument_hooks:
            given = leaves if self.places is None else [*leaves, *self.places.tensors]
            if not _have_hooks((given[i], hooks) for i, hooks in self.argument_hooks):
                return "the hooks of a tensor changed"
        if self.epoch != tracing.epoch:
            why = self._changed_structure()
            if why:
                return why
            self.epoch = tracing.epoch
        return ""

    def _changed_structure(self) -> str:
        for instance, training, tables in self.tables:
            if getattr(instance, "training", None) is not training:
                return f"{type(instance).__name__}.training changed to {instance.training}"
            for key, table in tables.items():
                if not same_table(instance.__dict__[key], table):
                    return f"{type(instance).__name__}{key} changed"
        for cls, table, before in self.shared:
            if not same_table(table, before):
                return f"a hook of all {cls.__name__.lower()}s was added or removed"
        for tensor, flag, place in self.tensors:
            if flag is not None and tensor._requires_grad is not flag:
                return f"requires_grad of a tensor of shape {tuple(tensor.shape)} changed to {tensor._requires_grad}"
            if place is None:
                continue
            if tensor._storage is not place[0] or tensor._view is not place[1]:
                return (
                    f"the data of a tensor of shape {tuple(tensor.shape)} was replaced, or its shape changed"
                )
        if not _have_hooks(self.hooks):
            return "the hooks of a tensor changed"
        for optimizer, params, (groups, state) in self.optimizers:
            if [[id(p) for p in g["params"]] for g in optimizer.param_groups] != params or any(
                a is not b for a, b in zip(optimizer.param_groups, groups, strict=False)
            ):
                return f"the parameter groups of {type(optimizer).__name__} changed"
            if any(optimizer.state.get(p) is not t for p, t in state):
                return f"the state of {type(optimizer).__name__} was replaced"
        return ""


def _differ(what: Callable[[Storage], Any], first: Storage, others: Sequence[Storage]) -> bool:
    return any(map(is_not, map(what, others), repeat(what(first))))


def _have_hooks(pairs: Iterable[tuple[Tensor, tuple[Any, ...]]]) -> bool:
    """Whether tensors have these hooks on their gradients, and no others."""
    for tensor, hooks in pairs:
        now = hooks_of(tensor)
        if len(now) != len(hooks) or any(map(is_not, now, hooks)):
            return False
    return True
