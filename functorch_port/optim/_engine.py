"""Runs an update rule over all parameters of an optimizer in one jitted call.

An optimizer's step fills a `Batch` and calls `update`. A rule is a pure function of one parameter,

    rule(param, grad, state, scalars, flags) -> (new param, new state)

with ``state`` a tuple of arrays (None: not there yet), ``scalars`` the tuple of numbers of its group, and
``flags`` whatever decides the structure (hashable). Numbers are data, so changing one never compiles anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from .._array import executor, loops, offloaded, placed, placing, tracing
from .._array.donation import Before, Donating, call, is_whole, lent, own, whole
from .._array.joint import Part, cut, join
from .._array.storage import Storage
from .._base.meshes import INCOMPATIBLE
from .._base.tuning import tuning
from .._run.run import run
from .._tensor import grad_mode, kept
from .._tensor.family import Family
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor

__all__ = [
    "DOUBLE",
    "MANY",
    "Batch",
    "Early",
    "Rule",
    "arrays_of",
    "as_data",
    "at_once",
    "by_operation",
    "of_all",
    "of_one",
    "of_joined",
    "on_one_device",
    "rule_plan",
    "update",
    "write",
]

Rule: TypeAlias = Callable[[Any, Any, tuple[Any, ...], tuple[Any, ...], Any], tuple[Any, tuple[Any, ...]]]
State: TypeAlias = tuple[Tensor | None, ...]
Structure: TypeAlias = tuple[
    tuple[Any, ...], tuple[int, ...]
]  # flags of every group, group of every parameter


#: Last dimension below which XLA's loops on a CPU are slow, as over a convolution's weight, and the size from which
#: that matters.
NARROW, LONG = 32, 4096


_DEVICES = "Expected all tensors to be on the same device: a gradient or the state of a parameter is not"
#: operations of an update that is no loop over elements, as of Muon
MANY = 10
DOUBLE = frozenset({np.dtype(np.float64), np.dtype(np.complex128)})


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

    def part(self, where: slice | Sequence[int]) -> Batch:
        """The batch of some of the parameters."""
        new = Batch()
        new.scalars, new.flags = self.scalars, self.flags
        for name in ("params", "grads", "states", "group_of"):
            old = getattr(self, name)
            setattr(new, name, old[where] if isinstance(where, slice) else [old[i] for i in where])
        return new


class Early:
    """A program, and what needs no compilation in its place until compiling it pays.

    Attributes:
        left: microseconds that steps may lose before.

    Args:
        program: of what it writes, other arrays, and numbers.
        params: that it updates: what has their ``size``.
        operations: that an update of one of them is without the program; all loops of updates are one.
    """

    __slots__ = ("left", "loss", "program")

    def __init__(self, program: Donating, params: Sequence[Any], operations: int = 1) -> None:
        self.program = program
        self.left = executor.current.patience(len(params))
        elements = sum([p.size for p in params])
        self.loss = tuning.operation_time * operations * len(params) + tuning.update_time * elements

    def call(
        self, early: Callable[[], Any], give: Callable[[], tuple[Any, ...]], like: Callable[[], Any]
    ) -> Any:
        """The results.

        Args:
            early: gives them by what needs no compilation; None if there is no such way.
            give: makes the arguments of the program.
            like: gives what has their shapes and dtypes, and the numbers.
        """
        if self.left:
            return call(self, lambda: (early, give, like))
        with tracing.x64():
            return call(self.program, give)

    def into(self, results: list[Any], args: tuple[Any, ...], kind: Any) -> None:
        """As `Donating.into`; ``args`` are those of `call`."""
        early, give, like = args
        found = early() if self.left > 0 else None
        if found is None:
            self.left = 0.0
            with tracing.x64():
                given = give()
                self.program.into(results, given, tuple(map(type, jax.tree.leaves(given[-1]))))
            return
        results.append(found)
        self.left -= self.loss
        if self.left <= 0:
            self.left = float("inf")
            *arrays, data = like()
            executor.current.compiled_later(
                partial(self._tried, jax.tree.map(_blank, arrays), data), self._over
            )

    def _over(self) -> None:
        self.left = 0.0

    def _tried(self, zeros: Sequence[Any], data: Any) -> None:
        """Run the program with arrays of zeros."""
        with tracing.x64():
            kind = tuple(map(type, jax.tree.leaves(data)))
            self.program.into([], (*jax.device_put(zeros), data), kind)


def _blank(x: Any) -> Any:
    """Zeros like an array, or what a Storage has."""
    value = x.look() if isinstance(x, Storage) else x
    return np.zeros(value.shape, value.dtype)


def update(rule: Rule, batch: Batch, elementwise: bool = False) -> list[State]:
    """Apply ``rule`` once to every parameter, in place.

    Args:
        elementwise: whether the rule treats each element by itself, so that the parameter's shape does not matter.

    Returns:
        the new state of every parameter: the given tensors, written to, and new ones where there were none.
    """
    if not batch.params:
        return []
    tensors = [t for t in (*batch.params, *chain.from_iterable(batch.states)) if t is not None]
    for t in tensors:
        if t._storage.version.__class__ is tracing.Untracked:
            t._check_inference()
    recorded = grad_mode.state.enabled and _wants_recording(batch)
    if recorded or tracing.overlay or is_whole():
        return _update(rule, batch, elementwise)
    before = Before(tensors)
    return whole(lambda: _update(rule, batch, elementwise), before.undo)


def _update(rule: Rule, batch: Batch, elementwise: bool) -> list[State]:
    count = len(batch.params)
    if grad_mode.state.enabled and _wants_recording(batch):
        return [_update_recorded(rule, batch, i) for i in range(count)]
    owners = {placed.is_shared(p._storage) for p in batch.params} if placed.several else ()
    if len(owners) > 1 and not tracing.overlay:  # a process's own parameters are no others' business
        return _update_by_device(rule, batch, elementwise)
    if count > tuning.update_parameters and not tracing.overlay:
        parts = [
            batch.part(slice(i, i + tuning.update_parameters))
            for i in range(0, count, tuning.update_parameters)
        ]
        return [state for part in parts for state in _update(rule, part, elementwise)]
    if elementwise and tracing.overlay and tracing.is_local():
        joined = _joined_parts(batch)
        if joined:
            return _update_joined(rule, batch, joined)
    columns = list(zip(*batch.states, strict=True))  # one per entry of the state
    with lent([t._storage for column in (batch.params, *columns) for t in column if t is not None]):
        return _update_all(rule, batch, columns, elementwise)


def _update_all(rule: Rule, batch: Batch, columns: Sequence[Sequence[Any]], elementwise: bool) -> list[State]:
    """`update` in one call of a program."""
    count, structure = len(batch.params), (tuple(batch.flags), tuple(batch.group_of))
    if tracing.overlay:
        params, grads, states = arrays_of(batch.params), arrays_of(batch.grads), map(arrays_of, columns)
        scalars = [tuple(map(placing.as_array, row)) for row in batch.scalars]
        out = _apply(rule, structure, elementwise, params, grads, [*states], scalars)
    else:
        written: list[Sequence[Any]] = [batch.params, *columns]
        avals = [None if t is None else t._aval() for t in chain(*written, batch.grads)]
        double = any(p.dtype.np in DOUBLE for p in batch.params)
        types = tuple([None if a is None else (a.shape, a.dtype) for a in avals])
        program = _program(rule, structure, elementwise, types)
        data = partial(as_data, tuple(batch.scalars), double)
        try:
            out = [
                *program.call(
                    partial(_each_at_once, rule, batch, elementwise, double),
                    lambda: ([own(_kept(c)) for c in written], _kept(batch.grads), data()),
                    lambda: ([arrays_of(c) for c in written], arrays_of(batch.grads), data()),
                )
            ]
        except ValueError as error:
            if INCOMPATIBLE not in str(error):
                raise
            return _update_by_device(rule, batch, elementwise)
    write(batch.params, out[0])
    new = [write(column, values, batch.params) for column, values in zip(columns, out[1:], strict=True)]
    return list(zip(*new, strict=True)) if columns else [()] * count


def _each_at_once(rule: Rule, batch: Batch, elementwise: bool, double: bool) -> list[list[Any]] | None:
    """What the program gives, by what needs no compilation for each parameter; None without a way."""
    found = []
    for i, (param, grad, state) in enumerate(zip(batch.params, batch.grads, batch.states, strict=True)):
        flags, present = batch.flags[batch.group_of[i]], tuple([t is not None for t in state])
        numbers = at_once(batch.scalars[batch.group_of[i]], double)
        row = executor.current.host_arrays([t._look() for t in (param, *state, grad) if t is not None])
        if row is None:
            return None
        if elementwise:
            loop = _of_elements(rule, flags, present, "none")
            made = executor.current.early_update(loop, [row], 1 + sum(present), numbers, ())
            if made is not None:
                new_param, *entries = made[0][0]
                found.append([new_param, *_in_order(entries, present)])
                continue
        new = by_operation(rule, flags, present, row, numbers)
        if new is None:
            return None
        if len(new) == 1 + sum(present):  # else all of the state was made
            given = iter(new[1:])
            new[1:] = [next(given) if there else None for there in present]
        elif len(new) <= len(state):
            return None
        found.append(new)
    return [*map(list, zip(*found, strict=True))]


def by_operation(
    rule: Rule, flags: Any, present: tuple[bool, ...], row: Sequence[Any], numbers: Any
) -> list[Any] | None:
    """The new parameter and state by the rule as an operation that needs no compilation; None without a way.

    Args:
        row: the parameter, the state that is ``present``, and the gradient.
    """
    param, *state, grad = row
    found = executor.current.early(rule_plan(rule, flags, present), [param, grad, *state, *numbers])
    return None if found is None else [*found]


def at_once(row: Sequence[Any], double: bool) -> np.ndarray | list[Any]:
    """The factors of a rule in numpy, of the types that `as_data` gives them."""
    if any(isinstance(x, Tensor) for x in row):
        return [np.asarray(x._look() if isinstance(x, Tensor) else np.float64(x)) for x in row]
    return np.array(row, np.float64 if double else np.float32)


class _Joined(NamedTuple):
    """Parameters of a batch whose state is joined.

    Attributes:
        where: their places in the batch.
        everything: whether the parameters are joined, too.
    """

    where: list[int]
    everything: bool


def _joined_parts(batch: Batch) -> list[_Joined]:
    """The parameters of which all members of some `Joint`s take part, in the members' order."""
    found: dict[Any, dict[int, int]] = {}
    for i, (param, state) in enumerate(zip(batch.params, batch.states, strict=True)):
        tensors = [param, *(t for t in state if t is not None)]
        parts = [t._storage.held if t._view is None else None for t in tensors]
        everything = parts[0].__class__ is Part
        mine: list[Any] = parts if everything else parts[1:]
        if not mine or not all(part.__class__ is Part and part.number == mine[0].number for part in mine):
            continue
        if all(t.shape == param.shape for t in tensors):
            types = batch.grads[i]._aval().dtype, *(t._aval().dtype for t in tensors)
            key = (tuple([part.joint for part in mine]), everything, batch.group_of[i], types)
            found.setdefault(key, {})[mine[0].number] = i
    return [
        _Joined([at[k] for k in sorted(at)], everything)
        for (joints, everything, _, _), at in found.items()
        if all(len(at) == len(joint.members) for joint in joints)
    ]


def _update_joined(rule: Rule, batch: Batch, parts: Sequence[_Joined]) -> list[State]:
    """`update` in a trace, where some of the state is joined."""
    for where, everything in parts:
        group = batch.group_of[where[0]]
        row = tuple(map(placing.as_array, batch.scalars[group]))
        params, grads = (arrays_of([column[i] for i in where]) for column in (batch.params, batch.grads))
        columns = list(zip(*[batch.states[i] for i in where], strict=True))
        state = tuple([None if c[0] is None else join(arrays_of(c)) for c in columns])
        shapes = tuple([p.shape for p in params])
        new, changed = of_joined(
            rule, batch.flags[group], row, join(params) if everything else params, grads, state
        )
        write([batch.params[i] for i in where], cut(new, shapes) if everything else new)
        for column, value in zip(columns, changed, strict=True):
            if value is not None:
                write(column, cut(value, shapes))
    done = {i for where, _ in parts for i in where}
    rest = [i for i in range(len(batch.params)) if i not in done]
    states = list(batch.states)
    for i, state in zip(rest, update(rule, batch.part(rest), True), strict=True):
        states[i] = state
    return states


def _wants_recording(batch: Batch) -> bool:
    numbers = (x for row in batch.scalars for x in row if isinstance(x, Tensor))
    return any(t.requires_grad for t in (*batch.params, *batch.grads, *numbers))


def _apply(
    rule: Rule,
    structure: Structure,
    elementwise: bool,
    params: Any,
    grads: Any,
    states: Sequence[Any],
    scalars: Any,
) -> list[list[Any]]:
    """The rule over lists of arrays: the new parameters, and a list per entry of the state."""
    flags, group_of = structure
    given = list(zip(*states, strict=True)) if states else [()] * len(params)
    results: list[Any] = [None] * len(params)
    for group, (f, row) in enumerate(zip(flags, scalars, strict=True)):
        where = [i for i, g in enumerate(group_of) if g == group]
        mine = ([column[i] for i in where] for column in (params, grads, given))
        for i, result in zip(where, of_all(rule, f, elementwise, row, *mine), strict=True):
            results[i] = result
    return [[r[0] for r in results], *([r[1][k] for r in results] for k in range(len(states)))]


def of_all(
    rule: Rule,
    flags: Any,
    elementwise: bool,
    row: Any,
    params: Sequence[Any],
    grads: Sequence[Any],
    states: Sequence[Any],
) -> list[tuple[Any, tuple[Any, ...]]]:
    """The rule for every parameter of a group: the new ones with their new states.

    ``row`` has the group's numbers: a tuple, or an array of one dimension.
    """
    if not (elementwise and tracing.is_local()):
        return _each(rule, flags, elementwise, row, params, grads, states)
    results: list[Any] = [None] * len(params)
    for where in _calls(params, grads, states):
        mine = [[column[i] for i in where] for column in (params, grads, states)]
        new = _in_one_call(rule, flags, row, *mine) or _each(rule, flags, True, row, *mine)
        for i, result in zip(where, new, strict=True):
            results[i] = result
    return results


def _each(
    rule: Rule, flags: Any, elementwise: bool, row: Any, params: Any, grads: Any, states: Any
) -> list[tuple[Any, tuple[Any, ...]]]:
    one, scalars = of_one(rule, flags, elementwise), tuple(row)
    return [one(p, g, state, scalars) for p, g, state in zip(params, grads, states, strict=True)]


def _in_one_call(
    rule: Rule, flags: Any, row: Any, params: Any, grads: Any, states: Any
) -> list[tuple[Any, tuple[Any, ...]]] | None:
    there = tuple([x is not None for x in states[0]])
    rows = [(p, *(x for x in s if x is not None), g) for p, g, s in zip(params, grads, states, strict=True)]
    new = loops.update_or_none(_of_elements(rule, flags, there, "none"), rows, 1 + sum(there), row)
    return new and [(param, _in_order(entries, there)) for param, *entries in new[0]]


def _calls(params: Sequence[Any], grads: Sequence[Any], states: Sequence[Any]) -> list[list[int]]:
    """Places of parameters that one loop can update: their arrays have the same types."""
    found: dict[Any, list[int]] = {}
    for i, (param, grad, state) in enumerate(zip(params, grads, states, strict=True)):
        found.setdefault(tuple([None if x is None else x.dtype for x in (param, grad, *state)]), []).append(i)
    return [
        where[i : i + tuning.kernel_parameters]
        for where in found.values()
        for i in range(0, len(where), tuning.kernel_parameters)
    ]


@lru_cache(tuning.cached_programs)
def _of_elements(rule: Rule, flags: Any, there: tuple[bool, ...], joined: str) -> Callable[..., Any]:
    """The rule as `loops` has it, with the state that is ``there``.

    ``joined`` is "none", "state", or "all" for the parameter and its state.
    """

    def update(row: Any, together: Any, numbers: Any) -> tuple[list[Any], list[Any]]:
        param, *mine = {"none": row[:-1], "state": [row[0], *together], "all": together}[joined]
        state = iter(mine)
        new, entries = rule(
            param, row[-1], tuple([next(state) if x else None for x in there]), tuple(numbers), flags
        )
        old = [x for x, was in zip(entries, there, strict=True) if was]
        made = [x for x, was in zip(entries, there, strict=True) if not was]
        if joined == "none":
            return [new, *old, *made], []
        return ([new], old) if joined == "state" else ([], [new, *old])

    update.__name__ = update.__qualname__ = rule.__name__
    update.exact = _exact(rule, flags, there, joined)  # type: ignore[attr-defined]
    return update


def _exact(rule: Rule, *static: Any) -> str | None:
    """What says exactly which rule with which static arguments this is (see `kept`); None if nothing does."""
    try:
        return f"{kept.own(rule)} {kept.text(static)}"
    except kept.Unwritten:
        return None


def _in_order(entries: Sequence[Any], there: tuple[bool, ...]) -> tuple[Any, ...]:
    """A new state, of which those entries come first that were there before; None for what is missing."""
    count = sum(there)
    old, made = iter(entries[:count]), iter(entries[count:])
    return tuple([next(old) if was else next(made, None) for was in there])


@lru_cache(tuning.cached_programs)
def of_one(rule: Rule, flags: Any, elementwise: bool) -> Callable[..., Any]:
    """The rule for one parameter: traced once for all of one shape and type."""

    def one(param: Any, grad: Any, state: Any, scalars: Any) -> Any:
        return rule(param, grad, state, scalars, flags)

    one.__name__ = one.__qualname__ = rule.__name__
    traced_once = jax.jit(one)

    def inside(*args: Any) -> Any:
        with set_xla_metadata(inlineable="true"):  # what is around is meant for the call alone
            return one(*args)

    inside.__name__ = inside.__qualname__ = rule.__name__
    call = jax.jit(inside)

    def in_a_row(param: Any, grad: Any, state: Any, scalars: Any) -> Any:
        # Not inlined, or XLA moves the reshapes into the loops and copies what they were to overwrite.
        with set_xla_metadata(inlineable="false"):
            out = call(*jax.tree.map(jnp.ravel, (param, grad, state)), scalars)
        return jax.tree.map(lambda x: x.reshape(param.shape), out)

    def choose(param: Any, grad: Any, state: Any, scalars: Any) -> Any:
        if not _is_narrow(param, (grad, *state)):
            return traced_once(param, grad, state, scalars)
        return lax.platform_dependent(param, grad, state, scalars, cpu=in_a_row, default=traced_once)

    return choose if elementwise else traced_once


def of_joined(rule: Rule, flags: Any, row: Any, params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
    """The rule once, over all elements of parameters whose state is joined; ``params`` is a list, or joined, too."""
    there = tuple([x is not None for x in state])
    present = [x for x in state if x is not None]
    if isinstance(params, list):
        rows = list(zip(params, grads, strict=True))
        new, joined = loops.update(_of_elements(rule, flags, there, "state"), rows, 1, row, present)
        made: Any = [param for param, *_ in new]
    else:
        rows = [(grad,) for grad in grads]
        made, *joined = loops.update(
            _of_elements(rule, flags, there, "all"), rows, 0, row, [params, *present]
        )[1]
    return made, _in_order(joined, there)


def _is_narrow(param: Any, others: Sequence[Any]) -> bool:
    """Whether to update a parameter in the shape of one row, on a CPU. Of one that is split, XLA would gather it."""
    return (
        jax.device_count() == 1
        and param.ndim > 1
        and param.shape[-1] < NARROW
        and param.size >= LONG
        and all(x is None or x.shape == param.shape for x in others)
    )


@lru_cache(tuning.cached_programs)
def _program(rule: Rule, structure: Structure, elementwise: bool, types: Any) -> Early:
    """The program for parameters, state and gradients of these shapes and dtypes."""
    params = [jax.ShapeDtypeStruct(*kind) for kind in types[: len(structure[1])]]
    return Early(Donating(_compiled(rule, structure, elementwise)), params, 1 if elementwise else MANY)


@lru_cache(tuning.cached_programs)
def _compiled(rule: Rule, structure: Structure, elementwise: bool) -> Callable[..., Any]:
    def step(written: Any, grads: Any, scalars: Any) -> Any:
        params, *states = offloaded.to_devices(written)
        grads = offloaded.to_devices(grads)
        out = _apply(rule, structure, elementwise, params, grads, states, scalars)
        return [
            [offloaded.back(new, old) for new, old in zip(column, given, strict=True)]
            for column, given in zip(out, written, strict=True)
        ]

    step.__name__ = step.__qualname__ = f"{rule.__name__}_step"
    return jax.jit(step, donate_argnums=0)


def write(
    tensors: Sequence[Tensor | None], values: Sequence[Any], like: Sequence[Tensor] | None = None
) -> list[Tensor | None]:
    """Write to the tensors; returns them, and new ones where there were none, which are placed as those of ``like``."""
    traced = bool(tracing.overlay)
    written = list(tensors)
    for i, value in enumerate(values):
        tensor = tensors[i]
        if value is None:
            continue
        if tensor is None:
            written[i] = Tensor._wrap(value if like is None else placed.like(like[i]._storage, value))
        elif isinstance(value, Tensor):
            tensor.copy_(value)
        elif traced or tensor._view is not None:
            tensor._set_value(value)
        else:
            tensor._storage.value = value
    return written


def arrays_of(tensors: Sequence[Tensor | None]) -> list[Any]:
    """Their values; None for None."""
    if tracing.overlay:
        return [None if t is None else t._value for t in tensors]
    return [None if t is None else t._storage.array() if t._view is None else t._value for t in tensors]


def _kept(tensors: Sequence[Tensor | None]) -> list[Any]:
    """Their values where they are kept, for a program; None for None."""
    return [None if t is None else offloaded.kept(t) for t in tensors]


def as_data(rows: tuple[tuple[Any, ...], ...], double: bool) -> Any:
    """The groups' numbers as arguments of the jitted call: one small array, unless some are tensors."""
    if any(isinstance(x, Tensor) for row in rows if not _FLOATS.issuperset(map(type, row)) for x in row):
        return [tuple(x._value if isinstance(x, Tensor) else np.float64(x) for x in row) for row in rows]
    held = _held(rows, double)
    held.uses += 1
    if held.uses == 2:  # numbers that stay are worth a transfer: a call takes them faster from then on
        with jax.ensure_compile_time_eval():  # kept: it must not belong to a trace
            held.data = jax.device_put(held.data)
    return held.data


_FLOATS = frozenset({float, int})


class _Held:
    """Numbers for a call, and how often they were used."""

    def __init__(self, data: np.ndarray) -> None:
        self.data: Any = data
        self.uses = 0


@lru_cache(tuning.cached_arrays)
def _held(rows: tuple[tuple[Any, ...], ...], double: bool) -> _Held:
    return _Held(np.array(rows, np.float64 if double else np.float32))


def _update_by_device(rule: Rule, batch: Batch, elementwise: bool) -> list[State]:
    """The same with one call per device, for a model whose parts live on different ones."""
    places: dict[Any, list[int]] = {}
    for i, p in enumerate(batch.params):
        places.setdefault(frozenset(p._value.sharding.device_set), []).append(i)
    if len(places) < 2:
        raise RuntimeError(_DEVICES)
    written: dict[int, State] = {}
    for indices in places.values():
        written.update(zip(indices, _update(rule, batch.part(indices), elementwise), strict=True))
    return [written[i] for i in range(len(batch.params))]


def on_one_device(error: ValueError) -> Exception:
    """The error to raise where tensors that are on one device should all be."""
    return RuntimeError(_DEVICES) if INCOMPATIBLE in str(error) else error


# ---------------------------------------------------------------------- differentiable=True


@lru_cache(tuning.cached_programs)
def rule_plan(rule: Rule, flags: Any, present: tuple[bool, ...]) -> Plan:
    """The rule for one parameter as an operation of the tape; state that is None is no argument of it."""

    def pure(param: Any, grad: Any, *rest: Any) -> tuple[Any, ...]:
        values = iter(rest)
        state = tuple(next(values) if there else None for there in present)
        new_param, new_state = rule(param, grad, state, tuple(values), flags)
        return (new_param, *(s for s in new_state if s is not None))

    family = Family(lambda numbers: pure, _exact(rule, flags, present))
    return Plan(pure, rule.__name__, f"{rule.__name__.title().replace('_', '')}Backward0", family=family)


def _update_recorded(rule: Rule, batch: Batch, i: int) -> State:
    param, state, group = batch.params[i], batch.states[i], batch.group_of[i]
    plan = rule_plan(rule, batch.flags[group], tuple(s is not None for s in state))
    given = [s for s in state if s is not None]
    new, *values = run(plan, [param, batch.grads[i], *given, *batch.scalars[group]])
    param.copy_(new)
    if not given:  # made in this step, from the gradient's value: PyTorch detaches it
        return tuple(v._alias() for v in values) if values else (None,) * len(state)
    for tensor, value in zip(given, values, strict=True):
        tensor.copy_(value)
    return state
