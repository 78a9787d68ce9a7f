"""Base of the optimizers: from one pure rule to the class and its functional forms.

An optimizer is a `Method`: the rule and the functions that compute its factors. `RuledOptimizer` is the base of the
class, `step_lists` of the function on lists of tensors, `functional` of the optax transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax.numpy as jnp

from .._array import placing, tracing
from .._array.donation import Before, whole
from .._array.storage import Storage
from .._tensor import grad_mode
from .._tensor.tensor import Tensor
from ._engine import Batch, Rule, State, arrays_of, update, write
from ._scalars import host_number, number_tensor, replaced
from ._small import Entry
from ._sparse_rules import SparseStep
from ._steady import Kind, settle, step_again
from .optimizer import (
    Optimizer,
    check_fused,
    filled_state,
    settled_step,
    switch_grad,
    take_premade,
    to_scalar,
)

__all__ = [
    "Method", "RuledOptimizer", "check_at_least_zero", "check_betas", "check_fused_options", "check_lr",
    "check_no_scaling", "check_should_be", "step_lists",
]  # fmt: skip

#: hyperparameters by their names in a group; in a trace, arrays in place of numbers
Hyper: TypeAlias = dict[str, Any]


def _same_shape(slot: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape


class Method(NamedTuple):
    """An update rule, with the functions that compute its state and factors.

    Attributes:
        rule: the pure rule, with the signature of `engine`.
        flags: ``flags(group)``: the static settings of the update (hashable: whether a number is zero, not its value).
        slots: ``slots(flags)``: names of the state entries that are like the parameter, in the rule's order; None
            for unused ones.
        scalars: ``scalars(hyper, count, *numbers)``: the rule's factors in step ``count`` (from 1; None if the state
            has no ``step``).
        numbers: names of the 0-dim state entries, ``step`` first; `scalars` receives the others' values before the
            step.
        advance: ``advance(hyper, count, *numbers)``: those values after the step.
        start: ``start(hyper)``: the initial values of entries that do not start as zeros.
        shape: ``shape(slot, shape)``: the shape of an entry of a parameter, or None if there is no such entry.
        lazy: whether the rule makes the entries that a state lacks, which it then gets as None.
        sparse: the step of a parameter with a sparse gradient, see `sparse_rules`; None if that is not supported.
    """

    rule: Rule
    flags: Callable[[Hyper], Any]
    slots: Callable[[Any], tuple[str | None, ...]]
    scalars: Callable[..., tuple[Any, ...]]
    numbers: tuple[str, ...] = ("step",)
    advance: Callable[..., tuple[Any, ...]] = lambda hyper, count: ()
    start: Callable[[Hyper], dict[str, Any]] = lambda hyper: {}
    shape: Callable[[str, tuple[int, ...]], tuple[int, ...] | None] = _same_shape
    lazy: bool = False
    sparse: SparseStep | None = None

    @property
    def elementwise(self) -> bool:
        """Whether every state entry has the shape of its parameter, so that the rule works for any shape."""
        return self.shape is _same_shape

    def entries(self, hyper: Hyper) -> tuple[str, ...]:
        """Names of the entries of a parameter's state."""
        return (*self.numbers, *filter(None, self.slots(self.flags(hyper))))

    def factors(self, hyper: Hyper, numbers: Sequence[Any]) -> tuple[tuple[Any, ...], Sequence[Any]]:
        """The rule's factors in the step after these ``numbers``, and the new numbers."""
        if not numbers:
            return self.scalars(hyper, None), ()
        steps, *rest = numbers
        count = _counted(steps) if tracing.overlay else float(steps + 1)
        return self.scalars(hyper, count, *rest), [steps + 1, *self.advance(hyper, count, *rest)]


class RuledOptimizer(Optimizer):
    """Base of the optimizers whose step is a `Method`. A subclass defines a constructor and the attributes below.

    Attributes:
        method: the method.
        old_groups: hyperparameters that old checkpoints lack, with their values.
    """

    method: ClassVar[Method]
    old_groups: ClassVar[dict[str, Any]] = {
        "foreach": None, "maximize": False, "differentiable": False, "capturable": False,
    }  # fmt: skip

    @property
    def _numbers(self) -> Sequence[str]:  # type: ignore[override]
        return self.method.numbers

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.old_groups.items():
                group.setdefault(name, value)
            for p in group["params"]:
                mine = self.state.get(p) or {}
                for name in self.method.numbers if mine else ():
                    if not isinstance(mine[name], Tensor):
                        mine[name] = number_tensor(float(mine[name]), group.get("fused"))

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The initial state."""
        start = self.method.start(_hyper(group))
        slots = self.method.slots(self.method.flags(group))
        state = {k: number_tensor(start.get(k, 0.0), group.get("fused")) for k in self.method.numbers}
        for k in filter(None, slots):
            shape = self.method.shape(k, param._aval().shape)
            if shape is not None:
                state[k] = filled_state(param, start.get(k, 0.0), shape)
        return state

    def _count_cells(self) -> list[list[tuple[Storage, ...]]]:
        names = self.method.numbers
        cells = []
        for group in self.param_groups:
            states = [self.state.get(p) or self._premade.get(p) or {} for p in group["params"]]
            rows: list[list[Any]] = [[state.get(name) for name in names] for state in states]
            whole = [row for row in rows if all(isinstance(t, Tensor) and t._view is None for t in row)]
            cells.append([tuple([t._storage for t in row]) for row in whole])
        return cells

    @switch_grad
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the loss of the closure, if there is one."""
        loss = None
        if closure is not None:
            with grad_mode.enable_grad():
                loss = closure()
        if step_again(self, self._kind_of, self._factors):
            return loss
        settled_step(self, self._found, self._settles, self._take)
        return loss

    def _found(self) -> list[tuple[Hyper, list[Entry]]]:
        """For each group, the gradients with their parameters and state."""
        found = []
        for group in self.param_groups:
            has_state = bool(self.method.entries(group))
            entries: list[Entry] = []
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                self._check_grad(grad, group)
                state = take_premade(self, p) if has_state else {}
                if not state:
                    if group.get("fused"):
                        check_fused(p)
                    if not self.method.lazy:
                        state.update(self._init_state(p, group))
                self._check_state(state, group)
                entries.append((p, grad, state))
            found.append((group, entries))
        return found

    def _take(self, found: Sequence[tuple[Hyper, list[Entry]]]) -> None:
        take(self.method, [(self._resolved(group, entries), entries) for group, entries in found])

    def _settles(self, found: Sequence[tuple[Hyper, list[Entry]]]) -> bool:
        """Whether the step was done in a way that the next steps can repeat."""
        groups = [(group, self._kind_of(group), entries) for group, entries in found]
        if _occur_twice(found) or any(
            kind is None or any(grad._sparse for _, grad, _ in entries) for _, kind, entries in groups
        ):
            return False
        return settle(self, self.method.rule, groups) and step_again(self, self._kind_of, self._factors)

    def _kind_of(self, group: Hyper) -> Any:
        if not self.method.elementwise:
            return None
        flags = self.method.flags(group)
        return Kind(flags, self.method.slots(flags), self.method.numbers)

    def _factors(self, group: Hyper, state: dict[str, Any], numbers: list[Any]) -> tuple[Any, Sequence[Any]]:
        self._check_state(state, group)
        return self.method.factors(_hyper(group), numbers)

    def _check_grad(self, grad: Tensor, group: dict[str, Any]) -> None:
        if grad._sparse and self.method.sparse is None:
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _check_state(self, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Check the state of a parameter before a step; a hook for subclasses."""

    def _resolved(self, group: Hyper, entries: Sequence[Entry]) -> Hyper:
        """The hyperparameters of a step; a hook for those that depend on the parameters."""
        return group


def step_lists(
    method: Method,
    group: Hyper,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    state_steps: Sequence[Tensor] = (),
    **lists: Sequence[Tensor | None],
) -> None:
    """One step on lists of tensors, in place.

    Args:
        group: the hyperparameters.
        params, grads, state_steps: parameters, their gradients, their ``step`` entries.
        lists: the other state entries by name; unused ones may be empty.
    """
    columns: dict[str, Any] = {"step": state_steps, **lists}
    for kind in method.numbers:
        if not all(isinstance(t, Tensor) for t in columns[kind]):
            name = "state_steps" if kind == "step" else f"{kind}s"
            raise RuntimeError(f"API has changed, `{name}` argument must contain a list of singleton tensors")
    used = method.entries(group)
    entries: list[Entry] = [
        (p, grad, {k: columns[k][i] for k in used})
        for i, (p, grad) in enumerate(zip(params, grads, strict=True))
    ]

    def work() -> None:
        take(method, [(group, entries)])
        for i, (_, _, state) in enumerate(entries if method.lazy else ()):
            for k in used:
                columns[k][i] = state[k]

    if tracing.overlay or grad_mode.state.enabled:
        work()
        return
    tensors = [t for column in (params, *(columns[k] for k in used)) for t in column if t is not None]
    numbers = [t for k in method.numbers for t in columns[k]]
    whole(work, Before([t for t in tensors if not t._sparse], numbers).undo)


def _occur_twice(found: Sequence[tuple[Hyper, Sequence[Entry]]]) -> bool:
    params = [id(p) for _, entries in found for p, _, _ in entries]
    return len(set(params)) < len(params)


def take(method: Method, found: Sequence[tuple[Hyper, Sequence[Entry]]]) -> None:
    """One step of the parameters of each group; one that occurs twice takes two, one after the other."""
    if _occur_twice(found):
        # what a state lacks, it lacks in both
        each = [
            (group, p, grad, state, dict(state)) for group, entries in found for p, grad, state in entries
        ]
        for group, p, grad, state, own in each:
            take(method, [(group, [(p, grad, own)])])
            state.update(own)
        return
    batch = Batch()
    for group, entries in found:
        collect(batch, method, group, entries)
    states = iter(_update(method, batch))
    for group, entries in found if method.lazy else ():
        slots = method.slots(method.flags(group))
        for (_, _, state), new in zip(entries, states, strict=False):
            state.update({k: t for k, t in zip(slots, new, strict=True) if k is not None})


def _update(method: Method, batch: Batch) -> list[State]:
    """Update the parameters of a batch, those with dense gradients in one call; returns their new states."""
    sparse = [_is_sparse(grad, state) for grad, state in zip(batch.grads, batch.states, strict=True)]
    if not any(sparse):
        return update(method.rule, batch, method.elementwise)
    if method.sparse is None:
        raise RuntimeError("this optimizer does not support sparse gradients")
    dense = [i for i, yes in enumerate(sparse) if not yes]
    states = dict(zip(dense, update(method.rule, batch.part(dense), method.elementwise), strict=True))
    for i, group in enumerate(batch.group_of):
        if sparse[i]:
            row = batch.params[i], batch.grads[i], batch.states[i], batch.scalars[group], batch.flags[group]
            states[i] = method.sparse(*row)
    return [states[i] for i in range(len(sparse))]


def _is_sparse(grad: Tensor, state: State) -> bool:
    return any(t is not None and t._sparse for t in (grad, *state))


def collect(batch: Batch, method: Method, group: Hyper, entries: Sequence[Entry]) -> None:
    """Count a step for the parameters of a group, and add them to the batch with their factors.

    Parameters whose ``step`` and other numbers are equal share the factors. The numbers are computed on the host,
    except in a trace.
    """
    if not entries:
        return
    traced = bool(tracing.overlay)
    hyper = _hyper(group)
    flags = method.flags(group)
    slots = method.slots(flags)
    numbers = [[state[name] for _, _, state in entries] for name in method.numbers]
    arrays = [arrays_of(column) for column in numbers]
    places = list(zip(*[map(id, column) for column in arrays], strict=True)) or [()] * len(entries)
    made: dict[Any, tuple[int, list[Any]]] = {}  # numbers -> their group in the batch, and what they become
    new: list[list[Any]] = []
    for i, place in enumerate(places):
        if place not in made:
            before = [column[i] for column in arrays]
            known = (
                before
                if traced
                else [_known(column[i], a) for column, a in zip(numbers, before, strict=True)]
            )
            same = place if traced else tuple([(v.dtype, v) for v in known])
            if same not in made:
                row, moved = method.factors(hyper, known)
                batch.add_group(row, flags)
                after = [_after(*entry) for entry in zip(before, known, moved, strict=True)]
                made[same] = len(batch.flags) - 1, after
            made[place] = made[same]
        index, after = made[place]
        batch.group_of.append(index)
        new.append(after)
    for column, changed in zip(numbers, zip(*new, strict=True), strict=True):
        write(column, changed)
    entry = dict.__getitem__ if method.elementwise and not method.lazy else dict.get
    batch.params += [p for p, _, _ in entries]
    batch.grads += [grad for _, grad, _ in entries]
    batch.states += [
        tuple([None if k is None else entry(state, k) for k in slots]) for _, _, state in entries
    ]


def _known(entry: Tensor, array: Any) -> Any:
    """A number of the state; the entry itself if a recorded step is differentiated with respect to it."""
    return entry if grad_mode.state.enabled and entry.requires_grad else host_number(array)


def _after(array: Any, known: Any, moved: Any) -> Any:
    """The new value of a number of the state, with its autograd history if it had one."""
    return moved if isinstance(moved, Tensor) and isinstance(known, Tensor) else replaced(array, moved)


def _hyper(group: Hyper) -> Hyper:
    """The hyperparameters as numbers or 0-dim tensors; in a trace, as arrays."""
    if not tracing.overlay and _are_plain(group.values()):
        return group
    return {
        k: v if type(v) in _NUMBERS else _plain(v)
        for k, v in group.items()
        if k not in ("params", "param_names")
    }


_NUMBERS = frozenset({bool, int, float, type(None)})
_PLAIN = _NUMBERS | {list, tuple}


def _are_plain(values: Collection[Any]) -> bool:
    """Whether these are numbers, lists, and tuples of such."""
    kinds = set(map(type, values))
    return kinds <= _PLAIN and (tuple not in kinds or all(_are_plain(v) for v in values if type(v) is tuple))


def _plain(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_plain, value))
    return to_scalar(value) if not tracing.overlay else placing.as_array(to_scalar(value))


def _counted(array: Any) -> Any:
    """The step count of a trace, in the dtype in which its powers are computed."""
    return (array + 1).astype(jnp.float64 if tracing.X64 else jnp.float32)


# ---------------------------------------------------------------------- checks of constructors


def check_lr(lr: Any) -> None:
    """PyTorch's checks of a learning rate."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check_at_least_zero("learning rate", lr)


def check_at_least_zero(name: str, value: Any) -> None:
    if not 0.0 <= value:  # noqa: SIM300  (as here, a string gives PyTorch's TypeError)
        raise ValueError(f"Invalid {name}: {value}")


def check_betas(betas: Any) -> None:
    for i in (0, 1):
        if not 0.0 <= betas[i] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")


def check_fused_options(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_no_scaling(grad_scale: Any, found_inf: Any) -> None:
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Expected grad_scale and found_inf to be None")


def check_should_be(name: str, value: Any, relation: str = ">=", bound: int = 0) -> None:
    """Check one number, with the message of PyTorch's newer optimizers."""
    good = float(bound) <= value if relation == ">=" else float(bound) >= value
    if not good:
        raise ValueError(f"{name} should be {relation} {bound} but is: {value}")
