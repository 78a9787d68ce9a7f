"""Recorded operations that have not run: the backward pass has them in its program.

On a CPU every program that is handed to XLA takes 15 us, and the threads that compute wait for each. So an eager
operation that is recorded for a gradient is put off there: its result has a shape and a dtype, and a `Call` that can
compute it. If nobody looks at a value before `backward`, and the graph has come before, forward and backward pass are
one program (see `_cpu.replay`). Whoever looks earlier has what the value needs computed operation by operation, as
if nothing had been put off. Values depend on immutable arrays only, so it makes no difference when they are computed.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import jax
import numpy as np

from .._array import storage
from .._array.storage import HOST, HostStorage, Storage
from .._base import inside
from .._base.modes import OfThread
from .._base.tuning import tuning
from .._tensor.node import FREED
from .._tensor.node import _sequence as _sequence
from . import numpy_programs as host

__all__ = [
    "Call",
    "Deferred",
    "DeferredStorage",
    "avals_of",
    "computed",
    "may_wait",
    "put",
    "run",
    "scope",
    "source_of",
    "unrun",
]

#: Whether they always do, so that a result does not depend on how often something was computed before.
one_by_one = not tuning.replay_after


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


class Call:
    """An operation that was put off, and what it gave once it has run.

    Attributes:
        plan: the operation, a `Plan`.
        values: its arguments: arrays, numbers, looks through views and `Deferred` values; None when it has run.
        mask: for which arguments a gradient is recorded; empty for none at all.
        number: in the order of recording.
        results: None before it has run; then for each output the array, or None if nobody can ask for it.
        kept: what `Plan.run_recorded` kept for the pullback, as the plan and the values of a node.
        handles: weak references to the outputs' `Deferred`.
    """

    __slots__ = ("__weakref__", "handles", "kept", "mask", "number", "plan", "results", "size", "values")

    def __init__(self, plan: Any, values: Sequence[Any]) -> None:
        self.plan = plan
        self.values: Sequence[Any] | None = values
        self.mask: tuple[bool, ...] = ()
        self.number = 0
        self.results: Sequence[Any] | None = None
        self.kept: Any = None
        self.handles: list[weakref.ref[Deferred]] = []
        self.size = 0

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

    def run(self) -> None:
        """Compute it, unless another thread has. What it needs must be there."""
        values = self.values
        if values is None:
            return
        if not storage.overlay:
            with storage.x64():
                out = self._of(values)
            if not any(isinstance(v, jax.core.Tracer) for v in out):
                self.done(out)
                return
        with storage.outside():  # whose trace this is has no part in it
            self.done(self._of(values))

    def _of(self, values: Sequence[Any]) -> Sequence[Any]:
        self.plan.ran[avals_of(values)] = True
        out, self.kept = self.plan.run_recorded(self.mask, values)
        return out if type(out) is tuple or type(out) is list else (out,)


class Deferred:
    """The value of an output of a `Call`.

    Attributes:
        call, number: whose output, and which.
        shape, dtype: of the value.
    """

    __slots__ = ("__weakref__", "call", "dtype", "number", "shape")

    def __init__(self, call: Call, number: int, kind: jax.ShapeDtypeStruct) -> None:
        self.call, self.number = call, number
        self.shape, self.dtype = kind.shape, kind.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    def array(self) -> jax.Array:
        """The value, computed now if it was not before."""
        if self.call.results is None:
            run([self.call])
        found = self.call.results[self.number]  # type: ignore[index]
        if found is None:  # a backward pass of another thread has used it up
            raise RuntimeError(FREED)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array(), dtype)


class _Scope(OfThread):
    """
    Attributes:
        calls: where operations of the calling thread are noted that are put off without being recorded for a gradient;
            None if these run at once. See `programs.together`.
    """

    calls: list[Call] | None = None


scope = _Scope()


_NUMBERS = frozenset({bool, int, float, complex})


def avals_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """Shapes and dtypes of those that are no numbers."""
    kinds = [getattr(v, "aval", v) for v in values if v.__class__ not in _NUMBERS]
    return tuple([(kind.shape, kind.dtype) for kind in kinds if hasattr(kind, "dtype")])


def source_of(value: Any) -> Any:
    """What a look through views looks at; any other value itself."""
    return getattr(value, "base", value)


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
            source = source_of(value)
            if source.__class__ is Deferred and source.call not in found:
                todo.append(source.call)
    return {call: found[call] for call in sorted(found, key=_number)} if len(found) > 1 else found


def run(calls: Iterable[Call]) -> None:
    """Have calls and what they need computed, one operation after the other."""
    todo = list(unrun(calls))[::-1]
    while todo:  # a result is gone when the last operation that needs it has run
        todo.pop().run()


def computed(values: Sequence[Any]) -> Sequence[Any]:
    """The values with arrays in place of what was put off."""
    return [v.array() if v.__class__ is Deferred else v for v in values]


def may_wait(values: Sequence[Any]) -> bool:
    """Whether an operation on these values may be put off: where the CPU is what JAX computes on, and arrays are there.

    An array that was put on one of several devices decides where the result is, which a `Deferred` does not know.
    """
    if one_by_one or not host.on_cpu() or waiting.are_too_many():
        return False
    for value in values:
        cls = value.__class__
        if cls is Deferred or cls in _NUMBERS:
            continue
        if cls not in _arrays:
            value = source_of(value)
            if value.__class__ is Deferred:
                continue
            if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
                return False
            _arrays.add(value.__class__)
        if value.committed and not host.is_only_cpu(value.devices()):
            return False
    return True


#: the classes of arrays that are no tracers, as far as they were seen
_arrays: set[type] = set()


def put_off(plan: Any, value: Any) -> Deferred:
    """What stands for the result of an operation on an array, or on what was put off, that nobody may ever need."""
    call = Call(plan, (value,))
    call.number = next(_sequence)
    out = Deferred(call, 0, plan.kinds((value,)))
    call.handles = [weakref.ref(out)]
    return out


class DeferredStorage(Storage):
    """A `Storage` whose value was put off: whoever asks for the `jax.Array` has it computed and kept."""

    __slots__ = ()

    @property
    def _value(self) -> Any:  # type: ignore[override]
        put_off = self.raw
        if put_off.__class__ is not Deferred:  # another thread was faster
            return self._value
        value = put_off.array()
        if self.raw is put_off:  # else another thread has written (see `Storage.raw`)
            self.raw, self.__class__ = value, Storage  # type: ignore[assignment]
        return value

    @_value.setter
    def _value(self, value: Any) -> None:
        self.raw, self.__class__ = value, Storage  # type: ignore[assignment]  # at once: see `HostStorage`

    def peek(self) -> Any:
        if not storage.overlay:
            value = self.raw
            if value.__class__ is Deferred and value.call.results is None:
                return value
        return self.look()

    aval = peek


def put(cell: Storage, value: Deferred) -> None:
    """Write a value that was put off, as assigning ``cell.value`` writes an array."""
    if cell.__class__ not in _PLAIN or storage.overlay:
        cell.value = value.array()
        return
    if inside.top_trace(None) is not inside.NO_TRACE:
        inside.may_write(cell, value)
    cell.version += 1
    cell.host = None
    cell.raw, cell.__class__ = value, DeferredStorage  # type: ignore[assignment]


def fill(cell: Storage, value: Any) -> None:
    """Put an array, or what was put off, into a Storage that nobody else has seen; this does not count as a write."""
    kind: type[Storage] = Storage
    if value.__class__ in HOST:
        cell.host, cell.form, kind = value, None, HostStorage
    else:
        cell.host, cell.raw = None, value
        if value.__class__ is Deferred:
            kind = DeferredStorage
    cell.__class__ = kind


_PLAIN = frozenset({Storage, HostStorage, DeferredStorage})
