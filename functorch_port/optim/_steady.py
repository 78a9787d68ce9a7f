"""An optimizer's step when it finds what the last one found, which is nearly every step of a training run.

A `Steady` remembers which parameters take part, their state, and how programs update them. A step checks that all is
still the same, and calls the programs. The state of small parameters is joined (see `_array.joint`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from .._array import executor, tracing
from .._array.donation import Donating, lent, own, whole
from .._array.joint import Joint, cut_on_host, kind_of
from .._array.offloaded import is_on_hosts
from .._array.placed import sharding_of
from .._array.storage import Storage
from .._base.tuning import tuning
from .._tensor import grad_mode
from .._tensor.tensor import Tensor
from . import _engine as engine
from ._engine import DOUBLE, Early, Rule, arrays_of, as_data, of_all, on_one_device, write
from ._scalars import host_number
from ._small import Entry, by_numbers, chunks, place_of

__all__ = ["Kind", "Steady", "settle", "step_again"]


class Kind(NamedTuple):
    """How the parameters of a group are updated.

    Attributes:
        flags: what decides the structure, as in `engine`.
        slots: names of the state entries that are like the parameter, in the rule's order; None where one is not
            in use.
        numbers: names of the 0-dim entries.
    """

    flags: Any
    slots: tuple[str | None, ...]
    numbers: tuple[str, ...] = ()

    def used(self) -> list[str]:
        """The slots in use."""
        return [k for k in self.slots if k is not None]

    def entries(self) -> list[str]:
        """Names of all state entries in use."""
        return [*self.used(), *self.numbers]


#: of a group: its kind
KindOf: TypeAlias = Callable[[dict[str, Any]], Kind]
#: of a group, the state of one of its parameters and the values of its numbers: the rule's factors, and the numbers'
#: values after the step
Factors: TypeAlias = Callable[
    [dict[str, Any], dict[str, Any], list[Any]], tuple[tuple[Any, ...], Sequence[Any]]
]


class Steady:
    """The parameters of an optimizer that take part in a step, in the parts that its programs update.

    Attributes:
        joints, numbers: of the state, and of its numbers: these are not joined again after a write, as they may differ.

    Args:
        rule: as in `engine`; it treats each element by itself.
        groups: every group with its kind and the entries that take part.
    """

    def __init__(self, rule: Rule, groups: Sequence[tuple[dict[str, Any], Kind, list[Entry]]]) -> None:
        self.groups = [Group(group, kind) for group, kind, _ in groups]
        active = {id(p) for _, _, entries in groups for p, _, _ in entries}
        self.idle = [p for known in self.groups for p in known.params if id(p) not in active]
        self.runs = [
            Run(group, kind, equal)
            for group, kind, entries in groups
            for equal in by_numbers(kind.numbers, entries)
        ]
        self.updates = [Update(rule, pieces) for pieces in _pieces(self.runs)]
        self.joints = [joint for update in self.updates for piece in update.pieces for joint in piece.joints]
        self.numbers = [number.joint for run in self.runs for number in run.numbers]
        self.everything = [*self.joints, *self.numbers]
        states = [state[k] for run in self.runs for state in run.states for k in run.kind.entries()]
        self.states, self.cells = states, list(map(_storage_of, states))
        self.epoch = tracing.epoch
        #: whether it has taken a step
        self.stepped = False

    @classmethod
    def of(cls, rule: Rule, groups: Sequence[tuple[dict[str, Any], Kind, list[Entry]]]) -> Steady | None:
        """Of what a step found; None if it found something that is not covered."""
        params: list[Tensor] = []
        grads: list[Tensor] = []
        kept: list[Any] = []
        for _, kind, entries in groups:
            for p, grad, state in entries:
                params.append(p)
                grads.append(grad)
                kept += map(state.get, kind.entries())
                if any(t is None or kind_of(t._storage)[0] for t in map(state.get, kind.numbers)):
                    return None
        if not params or not all(type(t) is Tensor for t in kept):
            return None
        written = [*params, *kept]
        if any(t._view is not None for t in written) or len({t._storage for t in written}) < len(written):
            return None
        if any(getattr(t._storage.held, "bound", False) for t in kept):  # whose memory somebody shares
            return None
        if any(is_on_hosts(sharding_of(t._storage)) for t in (*written, *grads)):
            return None
        tensors = [*written, *grads]
        if any(t._storage.version.__class__ is tracing.Untracked for t in tensors):
            return None
        if not all(isinstance(t._look(), jax.Array | np.ndarray) for t in grads):
            return None
        return cls(rule, groups) if len({frozenset(place_of(t).device_set) for t in tensors}) == 1 else None

    def step(self, optimizer: Any, kind_of: KindOf, factors: Factors) -> bool:
        """Take the step, if all is as it was; returns whether it was."""
        groups, state_of = optimizer.param_groups, optimizer.state.get
        if len(groups) != len(self.groups):
            return False
        for group, known in zip(groups, self.groups, strict=True):
            if not known.is_still(group, kind_of):
                return False
        if any(p._kept_grad is not None for p in self.idle):
            return False
        if self.epoch != tracing.epoch:  # a tensor may look at another Storage now
            if list(map(_storage_of, self.states)) != self.cells:
                return False
            self.epoch = tracing.epoch
        if not all(map(_is_whole, self.everything)):
            if not (all(map(_is_whole, self.numbers)) and all(map(Joint.join, self.joints))):
                return False
        grads, rows, after = [], [], []
        for run in self.runs:
            found = run.gradients(state_of)
            if found is None:
                return False
            row, values = factors(run.group, run.states[0], [number.value for number in run.numbers])
            if not all(map(_is_number, values)):
                return False
            grads.append(found)
            rows.append(row)
            after.append(values)
        cells = self._written()
        before = list(map(_version_of, cells)), list(map(_writes_of, self.everything))
        try:
            whole(
                partial(self._take, grads, rows, after, before[1]), partial(self._count_from, cells, *before)
            )
        except ValueError as error:
            raise on_one_device(error) from error
        return True

    def _written(self) -> list[Storage]:
        """What a step writes to, but for the members of joints."""
        found = [joint.cell for joint in self.everything]
        for update in self.updates:
            found += update.cells
            for piece in update.pieces:
                found += map(_storage_of, chain(*piece.columns))
        return found

    def _count_from(self, cells: Sequence[Storage], versions: Sequence[int], writes: Sequence[int]) -> None:
        for cell, version in zip(cells, versions, strict=True):
            cell.version = version
        for joint, count in zip(self.everything, writes, strict=True):
            joint.count(count)

    def _take(
        self,
        grads: list[list[Any]],
        rows: list[tuple[Any, ...]],
        after: list[Sequence[Any]],
        writes: Sequence[int],
    ) -> None:
        for update in self.updates:
            update.step(grads, rows)
        for run, values in zip(self.runs, after, strict=True):
            run.settle(values)
        for joint, count in zip(self.everything, writes, strict=True):
            joint.count(count + 1)
        self.stepped = True


def step_again(optimizer: Any, kind_of: KindOf, factors: Factors) -> bool:
    """Take the step as the last one was taken, if that can be; returns whether it could."""
    if optimizer._steady is None or tracing.overlay:
        return False
    if optimizer._steady.step(optimizer, kind_of, factors):
        return True
    optimizer._steady = None
    return False


def settle(optimizer: Any, rule: Rule, groups: Sequence[tuple[dict[str, Any], Kind, list[Entry]]]) -> bool:
    """Prepare for steps like this one, if it looks as if there will be more; returns whether it is prepared.

    Where compiled functions took steps, which count them on the device, or where gradients come and go, it is not
    worth it.
    """
    if tracing.overlay or grad_mode.state.enabled or optimizer._once_traced or tracing.in_jax():
        return False
    taking_part = [id(p) for _, _, entries in groups for p, _, _ in entries]
    last, optimizer._took_part = optimizer._took_part, taking_part
    if (last is None or last == taking_part) and optimizer._refusals < tuning.steady_tries:
        steady = Steady.of(rule, groups)
        optimizer._refusals += steady is None
        optimizer._steady = steady
    return optimizer._steady is not None


def _values_of(states: Iterable[dict[str, Any] | None]) -> list[Any]:
    """What is in the states; somebody's may have been taken away."""
    return list(chain.from_iterable([() if state is None else state.values() for state in states]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (float, int, np.generic))


_storage_of, _grad_of = attrgetter("_storage"), attrgetter("_kept_grad")
_version_of, _writes_of, _is_whole = map(attrgetter, ("version", "writes", "is_whole"))


class Group:
    """A group of parameters as a step found it, and its kind."""

    def __init__(self, group: dict[str, Any], kind: Kind) -> None:
        self.group, self.kind = group, kind
        self.params = list(group["params"])
        self.ids = _ids(self.params)
        self.values: list[Any] = []
        self.value_ids: list[int] = []

    def is_still(self, group: dict[str, Any], kind_of: KindOf) -> bool:
        """Whether ``group`` is the same one, with the same parameters, and of the same kind."""
        if group is not self.group or _ids(group["params"]) != self.ids:
            return False
        values = list(group.values())
        ids = _ids(values)
        if ids != self.value_ids:
            if kind_of(group) != self.kind:
                return False
            fixed = _FIXED.issuperset(map(type, values))  # a tensor may have another value the next time
            self.values, self.value_ids = values, ids if fixed else []
        return True


#: types of hyperparameters whose objects stay as they are (and of the parameters, which are looked at by themselves)
_FIXED = frozenset({bool, int, float, complex, str, tuple, list, type(None)})


class Run:
    """Parameters of a group whose numbers are equal, so that they share the rule's factors."""

    def __init__(self, group: dict[str, Any], kind: Kind, entries: Sequence[Entry]) -> None:
        self.group, self.kind, self.entries = group, kind, entries
        self.params = [p for p, _, _ in entries]
        self.states = [state for _, _, state in entries]
        self.numbers = [Number([state[k] for state in self.states]) for k in kind.numbers]
        self.values = _values_of(self.states)
        self.value_ids = _ids(self.values)
        self.cells = list(map(_storage_of, self.params))
        self.cell_ids = _ids(self.cells)
        self.kinds = list(map(kind_of, self.cells))
        self.versions = self._versions()

    def _versions(self) -> int:
        return sum(map(_version_of, self.cells))

    def gradients(self, state_of: Callable[[Tensor], Any]) -> list[Tensor] | None:
        """The gradients' tensors, if parameters and state are as they were."""
        grads: list[Any] = list(map(_grad_of, self.params))
        if set(map(type, grads)) != {Tensor}:
            grads = [p.grad for p in self.params]
            if set(map(type, grads)) != {Tensor}:
                return None
        if _ids(map(_storage_of, self.params)) != self.cell_ids:
            return None
        if self.values and _ids(_values_of(map(state_of, self.params))) != self.value_ids:
            return None
        versions = self._versions()
        if versions != self.versions:
            kinds = list(map(kind_of, self.cells))
            if kinds != self.kinds:
                return None
        self.versions = versions
        return grads

    def settle(self, values: Sequence[Any]) -> None:
        """After a step, which wrote to all once: the numbers' new values."""
        self.versions = self._versions()
        for number, value in zip(self.numbers, values, strict=True):
            number.set(value)


class Number:
    """A 0-dim entry of the state of several parameters, with one value for all, on the host."""

    def __init__(self, members: Sequence[Tensor]) -> None:
        self.value = host_number(members[0]._look())
        joint = Joint.of([t._storage for t in members], on_host=True)
        assert joint is not None  # `Steady.of` has seen that they can be joined
        self.joint = joint

    def set(self, value: Any) -> None:
        """A new value."""
        self.value = self.value.dtype.type(value)
        self.joint.cell.value = self.value.repeat(len(self.joint.members))


class Piece:
    """Parameters of one run in one program.

    Args:
        where: their places in the run, which has the number ``number``.
        joined: whether their state is joined.

    Attributes:
        columns: for every slot in use the tensors, of state that is not joined.
        joints: for every slot in use the joint.
    """

    def __init__(self, run: Run, number: int, where: Sequence[int], joined: bool) -> None:
        self.run, self.where = number, where
        slots = run.kind.slots
        columns = [[run.states[i][k] for i in where] for k in run.kind.used()]
        joints = [Joint.of([t._storage for t in column]) for column in columns] if joined else []
        joined = bool(joints) and None not in joints
        self.joints: list[Any] = joints if joined else []
        self.columns = [] if joined else columns
        self.params = [run.cells[i] for i in where]
        self.structure = (run.kind.flags, len(where), tuple([k is not None for k in slots]), joined)

    def early(
        self, rule: Rule, grads: Sequence[Tensor], numbers: np.ndarray | list[Any]
    ) -> tuple[Any, Any] | None:
        """The new parameters and state, as a program gives them, by what needs no compilation; None without a way."""
        flags, _, present, joined = self.structure
        columns = [self.params, *([joint.cell] for joint in self.joints)]
        columns += [[t._storage for t in column] for column in self.columns]
        looks = [cell.look() for column in columns for cell in column]
        found = executor.current.host_arrays([*looks, *[grads[i]._look() for i in self.where]])
        if found is None:
            return None
        values = iter(found)
        params, *state, mine = [list(islice(values, len(column))) for column in (*columns, self.where)]
        if joined:
            joint = [value for (value,) in state]
            loop = engine._of_elements(rule, flags, present, "state")
            made = executor.current.early_update(loop, [*zip(params, mine, strict=True)], 1, numbers, joint)
            if made is not None:
                return [row[0] for row in made[0]], made[1]
            whole = [np.concatenate([x.reshape(-1) for x in column]) for column in (params, mine)]
            one = self._by_rule(rule, [whole[0], *joint, whole[1]], numbers)
            return None if one is None else (cut_on_host(one[0], [p.shape for p in params]), one[1:])
        rows = [*zip(params, *state, mine, strict=True)]
        loop = engine._of_elements(rule, flags, present, "none")
        made = executor.current.early_update(loop, rows, 1 + sum(present), numbers, ())
        new = made[0] if made is not None else [self._by_rule(rule, row, numbers) for row in rows]
        if None in new:
            return None
        return [row[0] for row in new], [[row[1 + k] for row in new] for k in range(len(state))]

    def _by_rule(self, rule: Rule, row: Sequence[np.ndarray], numbers: Any) -> list[Any] | None:
        """The new parameter and state of one row, by the rule as an operation."""
        flags, _, present, _ = self.structure
        found = engine.by_operation(rule, flags, present, [x.reshape(-1) for x in row], numbers)
        return None if found is None else [x.reshape(row[0].shape) for x in found]

    def state(self) -> list[Any]:
        """The arrays of the state, to give away."""
        if self.joints:
            return own([joint.cell.array() for joint in self.joints])
        return [own(arrays_of(column)) for column in self.columns]

    def written(self) -> Iterable[Storage]:
        """The Storages of the state."""
        return chain([joint.cell for joint in self.joints], map(_storage_of, chain(*self.columns)))

    def write(self, values: Sequence[Any]) -> None:
        for joint, value in zip(self.joints, values, strict=False):
            joint.cell.value = value
        for column, some in zip(self.columns, values, strict=False):
            write(column, some)


class Update:
    """What one call of a program updates."""

    def __init__(self, rule: Rule, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.cells = [cell for piece in pieces for cell in piece.params]
        program = Donating(_program(rule, tuple([piece.structure for piece in pieces])))
        self.program = Early(program, [cell.look() for cell in self.cells])
        self.double = any(cell.look().dtype in DOUBLE for cell in self.cells)
        self.rule = rule

    def step(self, grads: Sequence[list[Tensor]], rows: Sequence[tuple[Any, ...]]) -> None:
        if not tracing.others():
            return self._step(grads, rows)
        with lent(chain(self.cells, *(piece.written() for piece in self.pieces))):
            return self._step(grads, rows)

    def _step(self, grads: Sequence[list[Tensor]], rows: Sequence[tuple[Any, ...]]) -> None:
        found = self.program.call(
            lambda: self._early(grads, rows),
            lambda: self._arguments(grads, rows),
            lambda: (self._written(), [g._aval() for g in self._gradients(grads)], self._data(rows)),
        )
        new, states = found
        for cell, value in zip(self.cells, new, strict=True):
            cell.put(value)
            cell.version += 1
        for piece, state in zip(self.pieces, states, strict=True):
            piece.write(state)

    def _early(self, grads: Sequence[list[Tensor]], rows: Sequence[tuple[Any, ...]]) -> Any:
        """What the program gives, by what needs no compilation; None without a way."""
        new: list[Any] = []
        states: list[Any] = []
        for piece in self.pieces:
            found = piece.early(self.rule, grads[piece.run], engine.at_once(rows[piece.run], self.double))
            if found is None:
                return None
            new += found[0]
            states.append(found[1])
        return new, states

    def _gradients(self, grads: Sequence[list[Tensor]]) -> list[Tensor]:
        return [grads[piece.run][i] for piece in self.pieces for i in piece.where]

    def _written(self) -> Any:
        cells = [
            [joint.cell for joint in piece.joints]
            or [[t._storage for t in column] for column in piece.columns]
            for piece in self.pieces
        ]
        return self.cells, cells

    def _data(self, rows: Sequence[tuple[Any, ...]]) -> Any:
        return as_data(tuple([rows[piece.run] for piece in self.pieces]), self.double)

    def _arguments(self, grads: Sequence[list[Tensor]], rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        data = self._data(rows)
        mine = arrays_of(self._gradients(grads))
        params = own([cell.array() for cell in self.cells])
        return (params, [piece.state() for piece in self.pieces]), mine, data


# ---------------------------------------------------------------------- programs


@lru_cache(tuning.cached_programs)
def _program(rule: Rule, structure: tuple[Any, ...]) -> Callable[..., Any]:
    def step(written: Any, grads: Any, rows: Any) -> Any:
        params, states = written
        new: list[Any] = []
        kept: list[Any] = []
        for (flags, count, present, joined), state, row in zip(structure, states, rows, strict=True):
            mine = slice(len(new), len(new) + count)
            given = iter(state)
            entries = tuple([next(given) if there else None for there in present])
            update = engine.of_joined if joined else _update_each
            values, changed = update(rule, flags, row, params[mine], grads[mine], entries)
            new += values
            kept.append([c for c in changed if c is not None])
        return new, kept

    step.__name__ = step.__qualname__ = f"{rule.__name__}_step"
    return jax.jit(step, donate_argnums=0)


def _update_each(rule: Rule, flags: Any, row: Any, params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
    entries = [tuple([None if c is None else c[i] for c in state]) for i in range(len(params))]
    results = of_all(rule, flags, True, row, params, grads, entries)
    changed = [None if c is None else [r[1][k] for r in results] for k, c in enumerate(state)]
    return [r[0] for r in results], changed


def _pieces(runs: Sequence[Run]) -> list[list[Piece]]:
    """The pieces of each program: many parameters are updated by several, which share one program if they are equal."""
    found: list[list[Piece]] = [[]]
    total = sum([len(run.params) for run in runs])
    most = tuning.update_parameters if total <= tuning.update_parameters else tuning.joint_members
    room = most
    for number, run in enumerate(runs):
        joined, loose = chunks(run.entries, run.kind.used())
        parts = [(where, True) for where in joined]
        parts += [(loose[i : i + most], False) for i in range(0, len(loose), most)]
        for where, together in parts:
            if len(where) > room and found[-1]:
                found.append([])
                room = most
            found[-1].append(Piece(run, number, where, together))
            room -= len(where)
    return found


def _ids(objects: Iterable[Any]) -> list[int]:
    """To tell whether they are the same objects; somebody must hold those that are compared with."""
    return list(map(id, objects))
