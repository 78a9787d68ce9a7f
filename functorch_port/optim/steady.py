"""An optimizer's step when it finds what the last one found, which is nearly every step of a training run.

A `Steady` remembers which parameters take part, their state, and how programs update them; a step checks that
all is still the same and calls the programs. It also keeps the state of small parameters in one array per entry,
since what a program costs grows with the number of its arrays, and a model has many small ones. The tensors in
``optimizer.state`` are then views of that array: they read and write as ever, and `release` gives them Storages
of their own again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from math import prod
from operator import attrgetter
from sys import getrefcount
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from .._array import tracing
from .._array.donation import Donating, at_once, call, lent, on_one_cpu, own, whole
from .._array.flat import flat, joined
from .._array.storage import Storage
from .._array.value import HOST
from .._base.tuning import tuning
from .._run import bind
from .._tensor import grad_mode
from .._tensor.tensor import Tensor, View
from . import engine
from .engine import DOUBLE, Rule, are_many_on_host, arrays_of, as_data, of_all, on_one_device, write
from .scalars import host_number, number_array

__all__ = [
    "Kind", "Steady", "alike", "by_numbers", "is_free", "join", "look_away", "look_into", "settle", "step_again",
    "type_of",
]  # fmt: skip


#: parameter, gradient, state
Entry: TypeAlias = tuple[Tensor, Tensor, dict[str, Any]]


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


#: of a group: its kind
KindOf: TypeAlias = Callable[[dict[str, Any]], Kind]
#: of a group, the state of one of its parameters and the values of its numbers: the rule's factors, and the numbers'
#: values after the step
Factors: TypeAlias = Callable[
    [dict[str, Any], dict[str, Any], list[Any]], tuple[tuple[Any, ...], Sequence[Any]]
]


class Steady:
    """The parameters of an optimizer that take part in a step, in the parts that its programs update.

    Args:
        rule: as in `engine`; it treats each element by itself.
        groups: every group with its kind and the entries that take part.
    """

    def __init__(self, rule: Rule, groups: Sequence[tuple[dict[str, Any], Kind, list[Entry]]]) -> None:
        self.groups = [Group(group, kind) for group, kind, _ in groups]
        active = {id(p) for _, _, entries in groups for p, _, _ in entries}
        self.idle = [p for known in self.groups for p in known.params if id(p) not in active]
        hosted = are_many_on_host([p for _, _, entries in groups for p, _, _ in entries])
        self.runs = [
            Run(group, kind, alike, hosted)
            for group, kind, entries in groups
            for alike in by_numbers(kind, entries)
        ]
        self.parts = [Part(rule, self.runs, pieces) for pieces in _pieces(self.runs) if pieces]
        self.parts += [Joined(rule, self.runs, i) for i, run in enumerate(self.runs) if run.joined]
        #: whether it has taken a step
        self.stepped = False

    @classmethod
    def of(cls, rule: Rule, groups: Sequence[tuple[dict[str, Any], Kind, list[Entry]]]) -> Steady | None:
        """Of what a step found; None if it found something that is not covered."""
        params: list[Tensor] = []
        tensors: list[Any] = []
        for _, kind, entries in groups:
            for p, grad, state in entries:
                params.append(p)
                wanted = [state.get(k) for k in (*kind.slots, *kind.numbers) if k is not None]
                tensors += [p, grad, *wanted]
                if p._view is not None or not all(map(is_free, wanted)):
                    return None
                if any(state[k]._look().shape for k in kind.numbers):
                    return None
        if not params or len(set(map(id, params))) < len(params):
            return None
        if any(t._storage.version.__class__ is tracing.Untracked for t in tensors):
            return None
        arrays = [t._look() for t in tensors]
        if not all(isinstance(a, jax.Array | np.ndarray) for a in arrays):
            return None
        return cls(rule, groups) if len({frozenset(_sharding(a).device_set) for a in arrays}) == 1 else None

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
        versions = list(map(_version_of, cells))
        try:
            whole(partial(self._take, grads, rows, after), partial(_count_from, cells, versions))
        except ValueError as error:
            raise on_one_device(error) from error
        return True

    def _written(self) -> list[Storage]:
        """What a step writes to."""
        found = [cell for run in self.runs for cell in run.cells]
        found += [number.cell for run in self.runs for number in run.numbers]
        for part in self.parts:
            for piece in part.pieces:
                found += piece.storages()
        return found

    def _take(self, grads: list[list[Any]], rows: list[tuple[Any, ...]], after: list[Sequence[Any]]) -> None:
        for part in self.parts:
            part.step(grads, rows)
        for run, values in zip(self.runs, after, strict=True):
            run.settle(values)
        self.stepped = True

    def joining(self) -> Changes:
        """What makes the tensors of the state views of what is put together."""
        return [change for whole in self._wholes() for change in whole.joining()]

    def leaving(self) -> Changes:
        """What gives every tensor of the state a Storage of its own again."""
        return [change for whole in self._wholes() for change in whole.leaving()]

    def _wholes(self) -> Iterable[Piece | Number]:
        pieces = [piece for part in self.parts for piece in part.pieces]
        return [*pieces, *(number for run in self.runs for number in run.numbers)]


def _count_from(cells: Sequence[Storage], versions: Sequence[int]) -> None:
    for cell, version in zip(cells, versions, strict=True):
        cell.version = version


def step_again(optimizer: Any, kind_of: KindOf, factors: Factors) -> bool:
    """Take the step as the last one was taken, if that can be; returns whether it could."""
    if optimizer._steady is None or tracing.overlay:
        return False
    if optimizer._steady.step(optimizer, kind_of, factors):
        return True
    optimizer._loosen()
    return False


def settle(optimizer: Any, rule: Rule, groups: Sequence[tuple[dict[str, Any], Kind, list[Entry]]]) -> bool:
    """Prepare for steps like this one, if it looks as if there will be more; returns whether it is prepared.

    An optimizer that was part of a compiled function keeps its state in Storages of their own, as the program
    knows them; and one whose gradients come and go is not worth it.
    """
    if tracing.overlay or grad_mode.state.enabled or optimizer._once_traced or tracing.in_jax():
        return False
    taking_part = [id(p) for _, _, entries in groups for p, _, _ in entries]
    last, optimizer._took_part = optimizer._took_part, taking_part
    if (last is None or last == taking_part) and optimizer._refusals < tuning.steady_tries:
        steady = Steady.of(rule, groups)
        optimizer._refusals += steady is None
        if steady is not None:
            at_once([*steady.joining(), (optimizer, "_steady", steady)])
    return optimizer._steady is not None


def _values_of(states: Iterable[dict[str, Any] | None]) -> list[Any]:
    """What is in the states; somebody's may have been taken away."""
    return list(chain.from_iterable([() if state is None else state.values() for state in states]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (float, int, np.generic))


_storage_of, _grad_of, _version_of = map(attrgetter, ("_storage", "_kept_grad", "version"))


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
    """Parameters of a group whose numbers are equal, so that they share the rule's factors.

    Args:
        hosted: whether the parameters of the optimizer are on the host and stay there.
    """

    def __init__(self, group: dict[str, Any], kind: Kind, entries: Sequence[Entry], hosted: bool) -> None:
        self.group, self.kind = group, kind
        self.params = [p for p, _, _ in entries]
        self.states = [state for _, _, state in entries]
        self.columns = [[state[k] for state in self.states] for k in kind.slots if k is not None]
        self.numbers = [Number([state[k] for state in self.states]) for k in kind.numbers]
        self.values = _values_of(self.states)
        self.value_ids = _ids(self.values)
        self.grad_types = [g._look().dtype for _, g, _ in entries]
        self.cells = list(map(_storage_of, self.params))
        self.cell_ids = _ids(self.cells)
        self.types = [type_of(c.look()) for c in self.cells]
        self.versions = self._versions()
        self.joined = hosted and self._can_be_joined()

    def _versions(self) -> int:
        return sum(map(_version_of, self.cells))

    def _can_be_joined(self) -> bool:
        """Whether their arrays, and those of their state, have one type."""
        if len(self.params) < tuning.steady_least:
            return False
        columns = [[t._look() for t in column] for column in self.columns]
        if any(a.shape != t[0] for column in columns for a, t in zip(column, self.types, strict=True)):
            return False
        dtypes = ([t[1] for t in self.types], self.grad_types, *([a.dtype for a in c] for c in columns))
        return all(len(set(column)) == 1 for column in dtypes)

    def gradients(self, state_of: Callable[[Tensor], Any]) -> list[Any] | None:
        """The gradients, if parameters and state are as they were."""
        grads: list[Any] = list(map(_grad_of, self.params))
        if set(map(type, grads)) != {Tensor}:
            grads = [p.grad for p in self.params]
            if set(map(type, grads)) != {Tensor}:
                return None
        if _ids(map(_storage_of, self.params)) != self.cell_ids:
            return None
        if self.values and _ids(_values_of(map(state_of, self.params))) != self.value_ids:
            return None
        if not all(map(Number.is_known, self.numbers)):
            return None
        versions = self._versions()
        if versions != self.versions and [type_of(c.look()) for c in self.cells] != self.types:
            return None
        found = _numpy_gradients(self.cells, grads) if self.joined else arrays_of(grads)
        self.versions = versions
        return found

    def settle(self, values: Sequence[Any]) -> None:
        """After a step, which wrote to all once: the numbers' new values."""
        self.versions = self._versions()
        for number, value in zip(self.numbers, values, strict=True):
            number.set(value)


class Number:
    """A 0-dim entry of the state of several parameters, with one value for all: views of one vector, on the host."""

    def __init__(self, members: list[Tensor]) -> None:
        self.members = members
        self.value = host_number(members[0]._value)
        self.cell = Storage(self._vector())
        self.version = self.cell.version

    def joining(self) -> Changes:
        return look_into(self.cell, self.members)

    def _vector(self) -> np.ndarray:
        return self.value.repeat(len(self.members))

    def is_known(self) -> bool:
        """Whether nobody else wrote to one."""
        return self.cell.version == self.version

    def set(self, value: Any) -> None:
        """A new value."""
        self.value = self.value.dtype.type(value)
        self.cell.value = self._vector()
        self.version = self.cell.version

    def leaving(self) -> Changes:
        if _is_shared(getrefcount(self.cell), self.cell, self.members):
            return []
        known = number_array(float(self.value), self.value.dtype) if self.is_known() else None
        return look_away(self.cell, self.members, known)


class Piece:
    """Parameters of one run in one program.

    Attributes:
        cells: for every slot in use the Storage of the whole state; None if the tensors have their own.
    """

    def __init__(self, runs: Sequence[Run], run: int, where: Sequence[int], packed: bool) -> None:
        source = runs[run]
        self.run, self.where = run, where
        self.columns = [[column[i] for i in where] for column in source.columns]
        self.cells = [Storage(join(column)) for column in self.columns] if packed else None
        self.params = [source.cells[i] for i in where]
        present = tuple([k is not None for k in source.kind.slots])
        self.structure = (source.kind.flags, len(where), present, packed)

    def storages(self) -> list[Storage]:
        """Of the state."""
        return self.cells if self.cells is not None else [t._storage for c in self.columns for t in c]

    def state(self) -> list[Any]:
        """The arrays of the state, to give away."""
        if self.cells is not None:
            return own([cell.array() for cell in self.cells])
        return [own(arrays_of(column)) for column in self.columns]

    def written(self) -> Iterable[Storage]:
        """The Storages of the state."""
        return map(_storage_of, chain(*self.columns))

    def joining(self) -> Changes:
        pairs = zip(self.cells or (), self.columns, strict=False)
        return [change for cell, column in pairs for change in look_into(cell, column)]

    def leaving(self) -> Changes:
        changes: Changes = []
        for i, column in enumerate(self.columns if self.cells is not None else ()):
            if not _is_shared(getrefcount(self.cells[i]), self.cells[i], column):
                changes += look_away(self.cells[i], column)
        return changes

    def write(self, values: Sequence[Any]) -> None:
        for i, value in enumerate(values):
            if self.cells is not None:
                self.cells[i].value = value
            else:
                write(self.columns[i], value)


class Part:
    """What one call of a program updates."""

    def __init__(
        self, rule: Rule, runs: Sequence[Run], pieces: Sequence[tuple[int, Sequence[int], bool]]
    ) -> None:
        self.pieces = [Piece(runs, *piece) for piece in pieces]
        self.cells = [cell for piece in self.pieces for cell in piece.params]
        self.program = Donating(_program(rule, tuple([piece.structure for piece in self.pieces])))
        self.double = any(cell.look().dtype in DOUBLE for cell in self.cells)

    def step(self, grads: Sequence[list[Any]], rows: Sequence[tuple[Any, ...]]) -> None:
        if not tracing.others():
            return self._step(grads, rows)
        with lent(chain(self.cells, *(piece.written() for piece in self.pieces))):
            return self._step(grads, rows)

    def _step(self, grads: Sequence[list[Any]], rows: Sequence[tuple[Any, ...]]) -> None:
        with tracing.x64():
            new, states = call(self.program, lambda: self._arguments(grads, rows))
        self.take(new)
        for piece, state in zip(self.pieces, states, strict=True):
            piece.write(state)

    def _arguments(self, grads: Sequence[list[Any]], rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        data = as_data(tuple([rows[piece.run] for piece in self.pieces]), self.double)
        params, mine = self.given([grads[piece.run][i] for piece in self.pieces for i in piece.where])
        return (params, [piece.state() for piece in self.pieces]), mine, data

    def given(self, grads: list[Any]) -> tuple[list[Any], list[Any]]:
        """The arrays of the parameters, to give away, and of the gradients."""
        return own([cell.array() for cell in self.cells]), grads

    def take(self, new: Sequence[Any]) -> None:
        """The new parameters."""
        for cell, value in zip(self.cells, new, strict=True):
            cell.put(value)
            cell.version += 1


class Joined(Part):
    """All parameters of a run, which are on the host: joined for the call of a program, and cut after it.

    An array costs a program more than its joining, which pays if there are many.
    """

    def __init__(self, rule: Rule, runs: Sequence[Run], run: int) -> None:
        shapes = [shape for shape, *_ in runs[run].types]
        super().__init__(rule, runs, [(run, range(len(shapes)), True)])
        flags, _, present, packed = self.pieces[0].structure
        self.program = Donating(_program(rule, ((flags, 1, present, packed),)))
        ends = np.cumsum(list(map(prod, shapes))).tolist()
        self.cuts = list(zip([0, *ends[:-1]], ends, shapes, strict=True))
        self.alike = (len(shapes), *shapes[0]) if len(set(shapes)) == 1 and shapes[0] else None

    def given(self, grads: list[Any]) -> tuple[list[Any], list[Any]]:
        return [flat([cell.host() for cell in self.cells])], [flat(grads)]

    def take(self, new: Sequence[Any]) -> None:
        flat = np.asarray(new[0])
        values = (
            list(flat.reshape(self.alike))
            if self.alike is not None
            else [flat[start:end].reshape(shape) for start, end, shape in self.cuts]
        )
        for cell, value in zip(self.cells, values, strict=True):
            if cell.held.__class__ in HOST:  # what assigning `value` does, in a third of the time
                cell.held = value
                cell.version += 1
            else:
                cell.value = value


# ---------------------------------------------------------------------- programs


@lru_cache(tuning.cached_programs)
def _program(rule: Rule, structure: tuple[Any, ...]) -> Callable[..., Any]:
    def step(written: Any, grads: Any, rows: Any) -> Any:
        params, states = written
        new: list[Any] = []
        kept: list[Any] = []
        for (flags, count, present, packed), state, row in zip(structure, states, rows, strict=True):
            mine = slice(len(new), len(new) + count)
            given = iter(state)
            entries = tuple([next(given) if there else None for there in present])
            update = engine.of_packed if packed else _update_each
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


# ---------------------------------------------------------------------- state in one array


def _pieces(runs: Sequence[Run]) -> list[list[tuple[int, Sequence[int], bool]]]:
    """For every part its pieces: a run, places in it, and whether their state is packed."""
    parts: list[list[tuple[int, Sequence[int], bool]]] = [[]]
    many = sum([len(run.params) for run in runs if not run.joined]) > tuning.update_parameters
    most = min(tuning.update_parameters, tuning.steady_part) if many else tuning.update_parameters
    room = most
    for run, packed, where in _alike(runs):
        while where:
            if not room:
                parts.append([])
                room = most
            parts[-1].append((run, where[:room], packed))
            taken, where = where[:room], where[room:]
            room -= len(taken)
    return parts


def _alike(runs: Sequence[Run]) -> Iterable[tuple[int, bool, list[int]]]:
    """Places in runs that can be packed together, and those that cannot be."""
    for number, run in enumerate(runs):
        if run.joined:
            continue
        packs, loose = alike(run.types, run.columns, run.grad_types)
        yield from ((number, True, where) for where in packs)
        yield number, False, loose


def alike(
    types: Sequence[Any], columns: Sequence[Sequence[Tensor]], also: Sequence[Any]
) -> tuple[list[list[int]], list[int]]:
    """Of small parameters, those whose state can be put together: their places, and those of the others.

    Args:
        types: what `type_of` says of the parameters.
        columns: for every entry of the state the tensors.
        also: what else must be equal.
    """
    places: dict[Any, list[int]] = {}
    for i, (shape, dtype, sharding) in enumerate(types):
        kept = [column[i]._value for column in columns]
        small = prod(shape) <= tuning.steady_elements and len(sharding.device_set) == 1
        fits = small and all(a.shape == shape and a.sharding == sharding for a in kept)
        key = (dtype, sharding, also[i], *(a.dtype for a in kept)) if fits else None
        places.setdefault(key, []).append(i)
    loose = places.pop(None, [])
    packs = []
    for where in places.values():
        if columns and len(where) >= tuning.steady_least:
            packs.append(where)
        else:
            loose += where
    return packs, sorted(loose)


def by_numbers(kind: Kind, entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries, those with equal numbers together."""
    found: dict[Any, list[Entry]] = {}
    for entry in entries:
        values = [host_number(entry[2][name]._value) for name in kind.numbers]
        found.setdefault(tuple([(v.dtype, v) for v in values]), []).append(entry)
    return list(found.values())


def join(members: Sequence[Tensor]) -> jax.Array:
    """The values in one array."""
    return joined([t._value for t in members])


_part: Any = bind.function("_part")


#: attributes to be set `at_once`: object, name, value
Changes: TypeAlias = list[tuple[Any, str, Any]]


def look_into(cell: Storage, members: Sequence[Tensor]) -> Changes:
    """What makes the tensors views of consecutive parts of a Storage."""
    plans: dict[Any, Any] = {}
    start = 0
    changes: Changes = []
    for t in members:
        like = jax.ShapeDtypeStruct(t._value.shape, t._value.dtype)
        plan = plans.get(like.shape)
        if plan is None:
            plan = plans[like.shape] = _part.plan(Tensor._wrap(cell.array()), like.shape, 0)
        changes += _place(t, cell, View(None, plan, (start,), None, like))
        start += like.size
    return changes


def look_away(cell: Storage, members: Sequence[Tensor], value: Any = None) -> Changes:
    """What gives the tensors that look into a Storage their own (with ``value``, if it is known)."""
    changes: Changes = []
    for t in members:
        if t._storage is cell:
            changes += _place(t, Storage(t._value if value is None else value), None)
    return changes


def _place(tensor: Tensor, cell: Storage, view: View | None) -> Changes:
    return [(tensor, "_storage", cell), (tensor, "_view", view)]


def is_free(tensor: Tensor | None) -> bool:
    """Whether a tensor is the only one that looks into its Storage, and no compiled program knows it."""
    return (
        type(tensor) is Tensor
        and tensor._view is None
        and not getattr(tensor._storage.held, "bound", False)
        and getrefcount(tensor._storage) == _HELD
        and not weakref.getweakrefcount(tensor._storage)
    )


def _is_shared(count: int, cell: Storage, members: Sequence[Tensor]) -> bool:
    """Whether a Storage, referred to ``count`` times, is seen by others than its members."""
    return count > _HELD + sum([t._storage is cell for t in members])


#: what `getrefcount` says of an attribute or an item that nobody else holds: it, and the call's argument
_HELD = 2


def type_of(array: jax.Array | np.ndarray) -> tuple[Any, Any, Any]:
    return array.shape, array.dtype, _sharding(array)


def _sharding(array: jax.Array | np.ndarray) -> Any:
    return array.sharding if isinstance(array, jax.Array) else _default_sharding()


@cache
def _default_sharding() -> Any:
    """Where JAX puts what is on the host."""
    return jax.device_put(np.zeros(())).sharding


def _numpy_gradients(cells: Sequence[Storage], grads: Sequence[Tensor]) -> list[Any] | None:
    """The gradients as numpy arrays, if the parameters are on the host and these can be."""
    if any([cell.held.__class__ not in HOST and cell.host() is None for cell in cells]):  # noqa: C419 (faster)
        return None
    found = [
        held if g._view is None and (held := g._storage.held).__class__ in HOST else _as_numpy(g)
        for g in grads
    ]
    return None if [a for a in found if a is None] else found


def _as_numpy(tensor: Tensor) -> np.ndarray | None:
    array = tensor._look()
    return np.asarray(array) if isinstance(array, np.ndarray) or on_one_cpu(array) else None


def _ids(objects: Iterable[Any]) -> list[int]:
    """To tell whether they are the same objects; somebody must hold those that are compared with."""
    return list(map(id, objects))
