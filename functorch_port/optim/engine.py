"""Runs an update rule over all parameters of an optimizer in one jitted call.

An optimizer's step fills a `Batch` and calls `update`. A rule is a pure function of one parameter,

    rule(param, grad, state, scalars, flags) -> (new param, new state)

with ``state`` a tuple of arrays (None: not there yet), ``scalars`` the tuple of numbers of its group, and
``flags`` whatever decides the structure (hashable). Numbers are data, so changing one never compiles anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from sys import getrefcount
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..autograd import grad_mode
from ..core import dispatch, storage
from ..core.tensor import Tensor

__all__ = ["Batch", "Rule", "update"]

Rule: TypeAlias = Callable[[Any, Any, tuple[Any, ...], tuple[Any, ...], Any], tuple[Any, tuple[Any, ...]]]
State: TypeAlias = tuple[Tensor | None, ...]
Structure: TypeAlias = tuple[
    tuple[Any, ...], tuple[int, ...]
]  # flags of every group, group of every parameter

_DOUBLE = frozenset({np.dtype(np.float64), np.dtype(np.complex128)})


class Batch:
    """What one step works on: parameters, gradients and state, and the numbers and flags of the groups."""

    __slots__ = ("flags", "grads", "group_of", "params", "scalars", "states")

    def __init__(self) -> None:
        self.params: list[Tensor] = []
        self.grads: list[Tensor] = []
        self.states: list[State] = []
        self.group_of: list[int] = []
        self.scalars: list[tuple[Any, ...]] = []
        self.flags: list[Any] = []

    def add_group(self, scalars: tuple[Any, ...], flags: Any) -> None:
        """Parameters added from now on have these numbers and flags."""
        self.scalars.append(scalars)
        self.flags.append(flags)

    def add(self, param: Tensor, grad: Tensor, state: State) -> None:
        self.params.append(param)
        self.grads.append(grad)
        self.states.append(state)
        self.group_of.append(len(self.flags) - 1)

    def part(self, indices: Sequence[int]) -> Batch:
        """The batch of some of the parameters."""
        new = Batch()
        new.scalars, new.flags = self.scalars, self.flags
        for name in ("params", "grads", "states", "group_of"):
            setattr(new, name, [getattr(self, name)[i] for i in indices])
        return new


def update(rule: Rule, batch: Batch) -> list[State]:
    """Apply ``rule`` once to every parameter, in place.

    Returns:
        the new state of every parameter: the given tensors, written to, and new ones where there were none.
    """
    count = len(batch.params)
    if not count:
        return []
    if grad_mode.state.enabled and _wants_recording(batch):
        return [_update_recorded(rule, batch, i) for i in range(count)]
    if (
        len(set(map(id, batch.params))) < count
    ):  # a parameter that occurs twice takes two steps, one after the other
        return [update(rule, batch.part([i]))[0] for i in range(count)]
    structure = (tuple(batch.flags), tuple(batch.group_of))
    params, grads = _arrays(batch.params), _arrays(batch.grads)
    if storage.overlay is not None:
        scalars = [tuple(map(storage.as_array, row)) for row in batch.scalars]
        states = [tuple(_arrays(state)) for state in batch.states]
        return _write(batch, *_apply(rule, structure, params, grads, states, scalars))
    donate = not any(map(_is_shared, batch.states))
    states = [tuple(_arrays(state)) for state in batch.states]
    try:
        with storage.x64():
            out = _compiled(rule, structure, donate)(params, grads, states, _as_data(batch, params))
    except ValueError as error:
        if "incompatible devices" not in str(error):
            raise
        del states
        return _update_by_device(rule, batch)
    return _write(batch, *out)


def _wants_recording(batch: Batch) -> bool:
    numbers = (x for row in batch.scalars for x in row if isinstance(x, Tensor))
    return any(t.requires_grad for t in (*batch.params, *batch.grads, *numbers))


def _apply(
    rule: Rule, structure: Structure, params: Any, grads: Any, states: Any, scalars: Any
) -> tuple[Any, Any]:
    """The rule over lists of arrays."""
    flags, group_of = structure
    rows = [tuple(row) for row in scalars]
    results = [
        rule(p, g, s, rows[i], flags[i]) for p, g, s, i in zip(params, grads, states, group_of, strict=True)
    ]
    return [r[0] for r in results], [r[1] for r in results]


@cache
def _compiled(rule: Rule, structure: Structure, donate: bool) -> Callable[..., Any]:
    def step(params: Any, grads: Any, states: Any, scalars: Any) -> Any:
        return _apply(rule, structure, params, grads, states, scalars)

    step.__name__ = step.__qualname__ = f"{rule.__name__}_step"
    return jax.jit(step, donate_argnums=(2,) if donate else ())


def _write(batch: Batch, params: Sequence[Any], states: Sequence[tuple[Any, ...]]) -> list[State]:
    for p, value in zip(batch.params, params, strict=True):
        p._set_value(value)
    return [_written(old, new) for old, new in zip(batch.states, states, strict=True)]


def _written(old: State, new: tuple[Any, ...]) -> State:
    """The state with its new values: the tensors there were, and new ones."""
    state = list(old)
    for i, value in enumerate(new):
        if value is not None:
            tensor = old[i]
            if tensor is None:
                state[i] = Tensor._wrap(value)
            else:
                tensor._set_value(value)
    return tuple(state)


def _arrays(tensors: Sequence[Tensor | None]) -> list[Any]:
    return [None if t is None else t._storage.value if t._view is None else t._value for t in tensors]


def _is_shared(state: State) -> bool:
    """Whether someone else may hold an array of the state, so that its memory must not be reused."""
    for tensor in state:
        # two references: the Storage's, and the one this expression makes
        if tensor is not None and (tensor._view is not None or getrefcount(tensor._storage._value) > 2):
            return True
    return False


def _as_data(batch: Batch, params: Sequence[Any]) -> Any:
    """The groups' numbers as arguments of the jitted call: one small array, unless some are tensors."""
    rows = tuple(batch.scalars)
    for row in rows:
        for x in row:
            if isinstance(x, Tensor):
                return [
                    tuple(x._value if isinstance(x, Tensor) else np.float64(x) for x in row) for row in rows
                ]
    for p in params:
        if p.dtype in _DOUBLE:
            return _as_array(rows, True)
    return _as_array(rows, False)


@lru_cache(maxsize=64)
def _as_array(rows: tuple[tuple[Any, ...], ...], double: bool) -> jax.Array:
    return jnp.asarray(np.array(rows, np.float64 if double else np.float32))


def _update_by_device(rule: Rule, batch: Batch) -> list[State]:
    """The same with one call per device, for a model whose parts live on different ones."""
    places: dict[Any, list[int]] = {}
    for i, p in enumerate(batch.params):
        places.setdefault(frozenset(p._value.sharding.device_set), []).append(i)
    if len(places) < 2:
        raise RuntimeError(
            "Expected all tensors to be on the same device: a gradient or the state of a parameter is not"
        )
    written: dict[int, State] = {}
    for indices in places.values():
        written.update(zip(indices, update(rule, batch.part(indices)), strict=True))
    return [written[i] for i in range(len(batch.params))]


# ---------------------------------------------------------------------- differentiable=True


@cache
def _recorded_plan(rule: Rule, flags: Any, present: tuple[bool, ...]) -> dispatch.Plan:
    """The rule for one parameter as an operation of the tape; state that is None is no argument of it."""

    def pure(param: Any, grad: Any, *rest: Any) -> tuple[Any, ...]:
        values = iter(rest)
        state = tuple(next(values) if there else None for there in present)
        new_param, new_state = rule(param, grad, state, tuple(values), flags)
        return (new_param, *(s for s in new_state if s is not None))

    return dispatch.Plan(pure, rule.__name__, f"{rule.__name__.title().replace('_', '')}Backward0")


def _update_recorded(rule: Rule, batch: Batch, i: int) -> State:
    param, state, group = batch.params[i], batch.states[i], batch.group_of[i]
    plan = _recorded_plan(rule, batch.flags[group], tuple(s is not None for s in state))
    given = [s for s in state if s is not None]
    new, *values = dispatch.run(plan, [param, batch.grads[i], *given, *batch.scalars[group]])
    param.copy_(new)
    if not given:  # made in this step, from the gradient's value: PyTorch detaches it
        return tuple(v.detach() for v in values) if values else (None,) * len(state)
    for tensor, value in zip(given, values, strict=True):
        tensor.copy_(value)
    return state
