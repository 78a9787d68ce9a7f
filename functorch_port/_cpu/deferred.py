"""Recorded operations that have not run: the backward pass has them in its program.

On a CPU every program that is handed to XLA takes 15 us, and the threads that compute wait for each. So an eager
operation that is recorded for a gradient is put off there: its result has a shape and a dtype, and a `Call` that can
compute it. If nobody looks at a value before `backward`, and the graph has come before, forward and backward pass are
one program (see `_cpu.replay`). Whoever looks earlier has what the value needs computed operation by operation, as
if nothing had been put off. Values depend on immutable arrays only, so it makes no difference when they are computed.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import jax

from .._array import executor, placing, tracing
from .._array.storage import Storage
from .._array.value import HOST, LAZY, Lazy, Twin
from .._base import determinism
from .._base.bounded import Bounded
from .._base.modes import OfThread
from .._base.tuning import tuning
from .._tensor.avals import NUMBERS
from .._tensor.node import FREED
from .._tensor.node import _sequence as _sequence
from . import numpy_programs as host

__all__ = [
    "NEW",
    "Call",
    "Deferred",
    "may_wait",
    "ran",
    "run",
    "scope",
    "unrun",
    "view",
    "waiting",
]


def one_by_one() -> bool:
    """Whether operations always run by themselves: what is computed does not depend on how often it came before."""
    return determinism.state["on"] or not tuning.replay_after


class _Waiting:
    """Counts the elements of values that wait.

    Calls are referred to weakly, and counted again now and then: a `__del__` swallows a Ctrl-C that comes in it.
    """

    __slots__ = ("calls", "elements", "patience")

    def __init__(self) -> None:
        self.elements = 0
        self.calls: list[weakref.ref[Call]] = []
        #: how many calls there are when they are counted again
        self.patience = 4096

    def are_too_many(self) -> bool:
        """Whether no more may wait."""
        if self.elements <= tuning.waiting_elements and len(self.calls) <= self.patience:
            return False
        return self.count() > tuning.waiting_elements

    def count(self) -> int:
        """The elements of those that are alive."""
        self.calls = [ref for ref in self.calls if (call := ref()) is not None and call.size]
        self.elements = sum([call.size for ref in self.calls if (call := ref()) is not None])
        self.patience = max(4096, 2 * len(self.calls))
        return self.elements


waiting = _Waiting()
#: plans with the shapes and dtypes with which a compiled program of them ran by itself
ran: Bounded[Any, bool] = Bounded(tuning.cached_facts)


class Call:
    """An operation that was put off, and what it gave once it has run.

    Attributes:
        plan: the operation, a `Plan`.
        values: its arguments: arrays, numbers and `Deferred` values; None when it has run.
        mask: for which arguments a gradient is recorded; empty for none at all.
        number: in the order of recording.
        results: None before it has run; then for each output the array, or None if nobody can ask for it.
        kept: what `Plan.run_recorded` kept for the pullback, as the plan and the values of a node.
        handles: weak references to the outputs' `Deferred`.
        taken: of a view, whether an operation had it in its own program.
    """

    __slots__ = (
        "__weakref__",
        "handles",
        "kept",
        "mask",
        "number",
        "plan",
        "results",
        "size",
        "taken",
        "values",
    )

    def __init__(self, plan: Any, values: Sequence[Any]) -> None:
        self.plan = plan
        self.values: Sequence[Any] | None = values
        self.mask: tuple[bool, ...] = ()
        self.number = 0
        self.results: Sequence[Any] | None = None
        self.kept: Any = None
        self.handles: list[weakref.ref[Deferred]] = []
        self.size = 0
        self.taken = False

    def outputs(self, kinds: Any) -> Any:
        """What stands for the results, which will be of these shapes and dtypes: one, or a tuple of several."""
        many = kinds.__class__ is not jax.ShapeDtypeStruct
        outs = tuple([Deferred(self, i, kind) for i, kind in enumerate(kinds if many else (kinds,))])
        self.handles = [weakref.ref(out) for out in outs]
        self.size = size = sum([out.size for out in outs])
        waiting.elements += size
        waiting.calls.append(weakref.ref(self))
        return outs if many else outs[0]

    def done(self, results: Sequence[Any]) -> None:
        """Note the results, unless another thread has; in this order, as others look at ``values`` first."""
        if self.results is None:
            self.results = results
        self.values = None
        waiting.elements -= self.size
        self.size = 0

    def recorded(self, node: Any) -> None:
        """As `executor.Pending`."""
        self.mask, self.number = node.mask, node.seq

    def compute(self) -> None:
        """As `executor.Pending`."""
        run([self])

    def run(self) -> None:
        """Compute it, unless another thread has. What it needs must be there."""
        values = self.values
        if values is None:
            return
        if not tracing.overlay:
            with tracing.x64():
                out = self._of(values)
            if not any(isinstance(v, jax.core.Tracer) for v in out):
                self.done(out)
                return
        with tracing.outside():  # whose trace this is has no part in it
            self.done(self._of(values))

    def _of(self, values: Sequence[Any]) -> Sequence[Any]:
        _, out, self.kept = executor.current.run_at_once(self.plan, values, self.mask)
        return [*out] if type(out) is tuple or type(out) is list else [out]


#: what a node keeps of an operation that ran at once, as nothing made of it can be in a program that has come before
NEW = Call(None, ())
NEW.done(())


class Deferred(Lazy):
    """The value of an output of a `Call`.

    Attributes:
        call, number: whose output, and which.
        shape, dtype: of the value.
    """

    __slots__ = ("__weakref__", "call", "dtype", "number", "shape")

    def __init__(self, call: Call, number: int, kind: jax.ShapeDtypeStruct) -> None:
        self.call, self.number = call, number
        self.shape, self.dtype = kind.shape, kind.dtype

    def array(self, cell: Storage | None = None) -> jax.Array:
        """The value, computed now if it was not before."""
        found = self.found()
        if found.__class__ in HOST:
            made = placing.apart(found)
            self.call.results[self.number] = made  # type: ignore[index]
            if cell is not None and cell.held is self:
                cell.held = Twin.of(found, made)
            return made
        if cell is not None and cell.held is self:
            cell.held = found
        return found

    def found(self) -> Any:
        """The value where it was computed: a numpy array, or JAX's."""
        if self.call.results is None:
            run([self.call])
        found = self.call.results[self.number]  # type: ignore[index]
        if found is None:  # a backward pass of another thread has used it up
            raise RuntimeError(FREED)
        return found

    def look(self, cell: Storage) -> Any:
        found = self.found()
        if cell.held is self:
            cell.held = found
        return found

    def host(self, cell: Storage) -> Any:
        results = self.call.results
        found = None if results is None else results[self.number]
        return found if found.__class__ in HOST else None

    def peek(self, cell: Storage) -> Any:
        return self if self.call.results is None else self.array(cell)

    def gave(self, array: Any) -> bool:
        results = self.call.results
        return results is not None and results[self.number] is array


class _Scope(OfThread):
    """
    Attributes:
        calls: where operations of the calling thread are noted that are put off without being recorded for a gradient;
            None if these run at once. See `programs.Scope`.
        is_new: whether there is no program of them, as one of them has not come before, and none will be made.
    """

    calls: list[Call] | None = None
    is_new = False


scope = _Scope()


_number = attrgetter("number")


def unrun(calls: Iterable[Call]) -> dict[Call, Sequence[Any]]:
    """Of these calls and those whose results they need the ones that have not run, first things first, with their
    arguments: they are gone from a call once another thread has run it.
    """
    found: dict[Call, Sequence[Any]] = {}
    todo = list(calls)
    for call in todo:  # the list grows while it is read
        values = call.values
        if values is None or call in found:
            continue
        found[call] = values
        for value in values:
            if value.__class__ is Deferred and value.call not in found:
                todo.append(value.call)
    return {call: found[call] for call in sorted(found, key=_number)} if len(found) > 1 else found


def run(calls: Iterable[Call]) -> None:
    """Have calls and what they need computed, one operation after the other."""
    todo = list(unrun(calls))[::-1]
    while todo:  # a result is gone when the last operation that needs it has run
        todo.pop().run()


def may_wait(values: Sequence[Any]) -> bool:
    """Whether an operation on these values may be lazy: where the CPU is what JAX computes on, and arrays are there.

    An array that was put on one of several devices decides where the result is, which a `Deferred` does not know.
    """
    if one_by_one() or not host.on_cpu():
        return False
    for value in values:
        cls = value.__class__
        if cls in LAZY or cls in NUMBERS or cls in HOST:
            continue
        if cls not in _arrays:
            if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
                return False
            _arrays.add(cls)
        if value.committed and not host.is_only_cpu(value.devices()):
            return False
    return True


#: the classes of arrays that are no tracers, as far as they were seen
_arrays: set[type] = set()


def view(plan: Any, values: Sequence[Any]) -> Deferred:
    """The value of a view, which nobody may ever need. It takes no memory of its own, and does not count as waiting."""
    call = Call(plan, values)
    call.number = next(_sequence)
    out = Deferred(call, 0, plan.shapes(values))
    call.handles = [weakref.ref(out)]
    return out
