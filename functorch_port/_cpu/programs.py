"""Operations that come again and again in the same order, as one program.

Operations that were put off (see `deferred`), a backward pass, or both: what they are, with the shapes of their
arguments, is a key. The third time they come they are compiled as one function; before, and wherever that does not pay,
they run one by one. Where most of them have not run before, there would be a program to compile for each, which takes
longer than one of all: these are compiled at once (the first training step of a CNN: 2 programs and 0.7 s, not 26 and
1.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from .._array import placing, tracing
from .._array.donation import on_one_cpu
from .._array.limits import Latest, tidy
from .._base import memory
from .._base.bounded import Bounded
from .._base.references import counts
from .._base.tuning import tuning
from .._tensor import once
from .._tensor.avals import avals_of
from .._tensor.plan import Plan
from .._tensor.pullback import Pullback
from . import deferred, tiers
from .compiler_options import Jitted
from .deferred import Call, Deferred, scope, unrun

__all__ = [
    "Numbered",
    "Scope",
    "asked_for",
    "forward_of",
    "found",
    "given",
    "replayed",
    "run",
    "settle",
    "taken",
]


#: key -> its program
_programs: dict[Any, Plan] = {}
#: hash of a key -> what may be lost before there is a program: a key is as long as what it stands for
_left: Bounded[int, float] = Bounded(tuning.cached_facts)
#: the programs there, with their keys
_keys: dict[Plan, Any] = {}


def _drop(program: Plan) -> None:
    """Forget a program, not that it has come before."""
    key = _keys.pop(program)
    if _programs.get(key) is program:
        del _programs[key]
        _left[hash(key)] = 0.0


_kept: Latest[Plan] = Latest(lambda: tuning.cached_passes, _drop)


@dataclass
class _Large:
    """What became of programs that are not small."""

    programs: int = 0
    calls: int = 0


_large = _Large()


def found(
    key: Any,
    make: Callable[[], Callable[..., list[Any]]],
    arguments: Sequence[Any],
    calls: Sequence[Call],
    operations: int,
) -> Plan | None:
    """The program with this key, or None if there is none yet.

    Args:
        key: what decides about it.
        make: gives its function, of arguments of any dtypes.
        arguments: of which it will be called.
        calls: the operations in it that were put off.
        operations: how many there are in it.
    """
    program = _programs.get(key)
    if program is not None:
        _kept.use(program)
        return program
    number = hash(key)
    left = _left.get(number)
    by_numpy, are_new = tiers.are_used(), left is None and _are_new(calls)
    if left is None:
        left = 0.0 if are_new else tuning.price(operations) if by_numpy else float(tuning.replay_after)
    if left > 0:
        _left[number] = left - (tiers.loss(calls, operations) if by_numpy else 1.0)
        return None
    if not _pays(arguments, calls):
        return None
    fn = make()
    program = Plan(fn, "program", "BackwardBackward0")
    is_large = _elements(arguments, calls) > tuning.program_small
    if is_large:
        _large.programs += 1
        program.jit = _OfTypes(fn)

    def there() -> None:
        _programs[key] = program
        _keys[program] = key
        _kept.add(program, operations + len(arguments))

    if are_new or not by_numpy:
        there()
        return program
    _left[number] = float("inf")
    given = [*arguments]  # the caller's list may grow
    tiers.compiled_later(lambda: run(program, given), there)
    return _programs.get(key)


def run(program: Plan, arguments: Sequence[Any], elements: int = 0) -> Any:
    """What a program gives for arguments of which some may be numpy's; ``elements`` as in `memory.run`."""
    given = [
        placing.twin(x) if x.__class__ is np.ndarray and x.size > tuning.numpy_elements else x
        for x in arguments
    ]
    with tracing.x64():
        return memory.run(program.jit, given, elements)


def _are_new(calls: Sequence[Call]) -> bool:
    """Whether to compile the operations one by one would take longer: 100 ms for each that is new, with its pullback,
    and a third of it, or less where operations are alike, for each in a program. What numpy computes is not compiled.
    """
    numpys = tiers.are_used()
    new = set()
    for call in calls:
        values = call.values
        if values is not None and not (numpys and tiers.tiered(call.plan, values)):
            key = (call.plan, avals_of(values))
            if key not in deferred.ran:
                new.add(key)
    return len(calls) < tuning.program_new * len(new)


def _pays(arguments: Sequence[Any], calls: Sequence[Call]) -> bool:
    count = _elements(arguments, calls)
    if count <= tuning.program_small:
        return True
    arrays = [value for value in arguments if isinstance(value, jax.Array)]
    if count > tuning.program_elements or not all(map(on_one_cpu, arrays)):
        return False
    return _large.programs < 3 + _large.calls // tuning.program_pays


def _elements(arguments: Sequence[Any], calls: Sequence[Call]) -> int:
    return sum([getattr(value, "size", 0) for value in arguments]) + sum([call.size for call in calls])


class _OfTypes:
    """A function for arguments of any types, for each of them as one program that XLA can do fast."""

    def __init__(self, fn: Callable[..., list[Any]]) -> None:
        self.fn = fn
        self.jits: dict[Any, Jitted] = {}

    def __call__(self, *flat: Any) -> list[Any]:
        _large.calls += 1
        types = tuple([getattr(value, "dtype", value.__class__) for value in flat])
        jitted = self.jits.get(types)
        if jitted is None:
            jitted = self.jits[types] = _jitted(self.fn, flat)
        return jitted(*flat)


def _jitted(fn: Callable[..., list[Any]], flat: Sequence[Any]) -> Jitted:
    closed, shapes = jax.make_jaxpr(fn, return_shape=True)(*flat)
    given = [shape is not None for shape in shapes]

    def whole(*flat: Any) -> list[Any]:
        results = iter(jaxpr_as_fun(closed)(*flat))
        return [next(results) if there else None for there in given]

    return Jitted(whole, closed.jaxpr)


# -------------------------------------------------- operations that were put off

#: Of each operation the plan, the arguments for which there is a gradient (None if for none), where the arguments come
#: from (see `places`), and the numbers of the results that are asked for (see `asked_for`).
Forward = tuple[tuple[Plan, Any, tuple[Any, ...], tuple[int, ...] | None], ...]


class Numbered:
    """Operations that were put off, in order, and the arguments of a program that has them.

    Attributes:
        number: which operation is which.
        arguments: arrays and numbers.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self.number = {call: i for i, call in enumerate(calls)}
        self.arguments: list[Any] = []

    def places(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """For each value None if it is the next argument, which is added; else the operation and output it is of."""
        places: list[Any] = []
        for value in values:
            if value.__class__ is Deferred:
                at = self.number.get(value.call)
                if at is not None:
                    places.append((at, value.number))
                    continue
                value = value.found()
            places.append(None)
            self.arguments.append(value)
        return tuple(places)

    def shapes(self) -> tuple[Any, ...]:
        """Of the arguments; None for numbers."""
        return tuple([getattr(value, "shape", None) for value in self.arguments])


def asked_for(
    calls: dict[Call, Sequence[Any]], holders: Iterable[Sequence[Any]]
) -> list[tuple[int, ...] | None]:
    """For each call the numbers of the results that somebody can still ask for when ``holders`` are gone.

    None for a view that somebody can ask for: it stays lazy, and holds what it is a view of.

    Args:
        calls: that have not run, with their arguments, in order.
        holders: lists of values.
    """
    known: dict[int, int] = {}
    by_id = {id(held): held for held in holders}
    for values in by_id.values():
        for value in values:
            if value.__class__ is Deferred:
                known[id(value)] = known.get(id(value), 0) + 1
    outputs = [ref() for call in calls for ref in call.handles]
    held = dict(zip(map(id, outputs), counts(outputs), strict=True))
    held[id(None)] = 0  # in place of those that are gone
    value = None
    found: list[tuple[int, ...] | None] = []
    for call in reversed(calls):  # a view holds its base, which comes before it
        keys = [id(ref()) for ref in call.handles]
        numbers: Any = tuple([i for i, key in enumerate(keys) if held.get(key, 0) > known.get(key, 0)])
        if numbers and call.plan.view:
            numbers, values = None, calls[call]
            for key in [id(v) for v in values if v.__class__ is Deferred] if id(values) in by_id else ():
                known[key] -= 1
        found.append(numbers)
    return found[::-1]


def forward_of(
    calls: Mapping[Call, Sequence[Any]],
    recorded: Callable[[Call], bool],
    asked: Sequence[tuple[int, ...] | None],
    into: Numbered,
) -> Forward:
    """What calls are, those of ``recorded`` with a pullback; their arguments are added to ``into``."""
    return tuple(
        [
            (call.plan, call.mask if recorded(call) else None, into.places(values), numbers)
            for (call, values), numbers in zip(calls.items(), asked, strict=True)
        ]
    )


def taken(places: Sequence[Any], arguments: Iterator[Any], results: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """In a program, the values at these places (see `Numbered.places`)."""
    return [next(arguments) if p is None else results[p[0]][p[1]] for p in places]


def replayed(forward: Forward, arguments: Iterator[Any]) -> tuple[list[Sequence[Any]], list[Pullback | None]]:
    """In a program, the operations again: their results and pullbacks."""
    results: list[Sequence[Any]] = []
    pullbacks: list[Pullback | None] = []
    for plan, mask, places, _ in forward:
        values = taken(places, arguments, results)
        if mask is None:
            out, pullback = once.run(plan, values), None
        else:
            out, pullback = once.run_recorded(plan, mask, values)
        results.append(out if isinstance(out, tuple | list) else (out,))
        pullbacks.append(pullback)
    return results, pullbacks


def given(forward: Forward, results: Sequence[Sequence[Any]]) -> list[Any]:
    """In a program, the results that are asked for."""
    return [outs[i] for outs, (*_, numbers) in zip(results, forward, strict=True) for i in numbers or ()]


def settle(calls: Iterable[Call], forward: Forward, results: Iterator[Any]) -> None:
    """Note what a program gave as `given`."""
    for call, (*_, numbers) in zip(calls, forward, strict=True):
        if numbers is not None:
            call.done([next(results) if i in numbers else None for i in range(len(call.handles))])


# -------------------------------------------------- an operation that runs at once


def through_views(plan: Plan, values: Sequence[Any]) -> Any:
    """The results of a plan, in one program with the lazy views among its arguments.

    None if others are lazy too, or a view was taken so before: what is used again is worth computing.
    """
    calls = unrun([v.call for v in values if v.__class__ is Deferred])
    if not calls or any([call.taken or not call.plan.view for call in calls]):  # noqa: C419 (faster)
        return None
    for call in calls:
        call.taken = True
    numbered = Numbered(list(calls))
    forward = forward_of(calls, lambda call: False, [()] * len(calls), numbered)
    places = numbered.places(values)
    key = (forward, places)
    jitted = plan.backend.get(key)
    if jitted is None:

        def look_and_run(*flat: Any) -> Any:
            arguments = iter(flat)
            results, _ = replayed(forward, arguments)
            return plan.fn(*taken(places, arguments, results))

        look_and_run.__name__ = look_and_run.__qualname__ = plan.name
        jitted = plan.backend[key] = jax.jit(look_and_run)
    with tracing.x64():
        return memory.run(jitted, numbered.arguments)


# -------------------------------------------------- a pass without gradients


class Scope:
    """A context at whose end the operations in it are computed, in one program if that has come before.

    An operation runs earlier if somebody looks at its result, and at once if what is called with such arguments is
    known to come so often before its program pays.

    Args:
        what: is called, with the shapes of its arguments.
    """

    def __init__(self, what: Any) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.calls = scope.calls = []
        times = _times.get(self.what, 0)
        scope.is_new = times > 0
        if times:
            _times[self.what] = times - 1

    def __exit__(self, kind: Any, *rest: Any) -> None:
        scope.calls = None
        if kind is None and self.calls:
            needed = _needed(self.calls)
            if not self._as_one(needed):
                calls = list(needed)
                needed.clear()  # a result is gone when the last operation that needs it has run
                deferred.run(calls)
        tidy()

    def _as_one(self, calls: dict[Call, Sequence[Any]]) -> bool:
        """Have calls computed by a program; False if there is none."""
        if not 1 < len(calls) <= tuning.program_calls or any(call.mask for call in calls):
            return False
        numbered = Numbered(list(calls))
        forward = forward_of(calls, lambda call: False, asked_for(calls, calls.values()), numbered)

        def make() -> Callable[..., list[Any]]:
            return lambda *flat: given(forward, replayed(forward, iter(flat))[0])

        key = ("forward", forward, numbered.shapes())
        program = found(key, make, numbered.arguments, list(calls), len(calls))
        if program is None:
            _times[self.what] = _times_left(key, list(calls))
            return False
        results = run(program, numbered.arguments, sum([c.size for c in calls]))
        settle(calls, forward, iter(results))
        return True


#: by what a scope is of: how often it may come before its operations are put off again
_times: Bounded[Any, int] = Bounded(tuning.cached_facts)


def _times_left(key: Any, calls: Sequence[Call]) -> int:
    """How often operations may run one by one before they become a program; they are taken to have done so."""
    number = hash(key)
    left = _left.get(number, 0.0)
    if not tiers.are_used() or left == float("inf"):  # it is on its way
        return 0
    each = max(tiers.loss(calls, len(calls)), 1.0)
    times = max(int(left / each), 0)
    _left[number] = left - times * each
    return times


def _needed(calls: list[Call]) -> dict[Call, Sequence[Any]]:
    """Those of a scope that have not run and whose results somebody holds, and what these need."""
    found = {call: values for call in calls if (values := call.values) is not None}
    calls.clear()
    asked = asked_for(found, found.values())
    return unrun([call for call, numbers in zip(found, asked, strict=True) if numbers])
