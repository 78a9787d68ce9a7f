"""Programs that are given arrays for good, so that none is lost, nor seen by another thread meanwhile.

A jitted function that donates its inputs leaves the only copy of a model in its result. Between the execution and the
moment when the result is in the Storages an exception loses it: Ctrl-C, a signal handler that raises, an asynchronous
exception. CPython looks for those after every call of a function, before the result is kept. So

- a program that has run before is called and its result put into a list by one C function (`list.extend` of a
  `starmap`), with no moment between (`Donating.into`); the list outlives the exception;
- whoever donates does so in a piece of work that can be done again: what was written is put back, the work is
  repeated, and programs that have run give the results they gave (`whole`). If none has run, putting back is all;
- the first time JAX runs Python of its own after the execution, and what a program needs is seen to be there or not:
  then copies are donated, and awaited (`Donating._first`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any, Protocol, TypeVar

import jax

from .._base import memory, meshes
from .._base.references import are_alone, counts
from .._base.tuning import tuning
from . import tracing
from .placed import Placed, copied
from .storage import Storage
from .value import HOST, MADE, VALUES, Twin, Value

__all__ = [
    "Before", "Donating", "Lent", "at_once", "call", "is_one_cpu", "is_whole", "lent", "on_one_cpu", "own", "whole",
]  # fmt: skip

T = TypeVar("T")


class _Thread(threading.local):
    """
    Attributes:
        results: what the programs gave that the work in progress has run; None outside of `whole`.
        at: how many of them it has asked for.
    """

    results: list[Any] | None = None
    at = 0


_thread = _Thread()


class Donating:
    """A jitted function for arguments of certain shapes and dtypes, which is given the arrays of some for good.

    Args:
        jit: what `jax.jit` made.
        given: the numbers of those arguments: its ``donate_argnums``.
        often: gives what takes the place of ``jit`` when that has run often and needs much memory, or None.

    Attributes:
        warm: the kinds of calls that it has run, and `cleared` then. JAX keeps what it needs for the arguments' types.
        needs: bytes that a call takes beside its arguments, if they are many (see `memory`).
    """

    __slots__ = ("calls", "given", "jit", "needs", "often", "warm")
    #: how often `_clear` was called for some program
    cleared = 0

    def __init__(
        self, jit: Any, given: Sequence[int] = (0,), often: Callable[[], Any] = lambda: None
    ) -> None:
        self.jit, self.given, self.often = jit, given, often
        self.calls = 0
        self.warm: dict[Any, int] = {}
        self.needs = 0

    def into(self, results: list[Any], args: tuple[Any, ...], kind: Any) -> None:
        """Call it, and add what it gives to ``results``. No exception comes between the two.

        Args:
            kind: of which types those arguments are that may be arrays of JAX, of numpy, or numbers.
        """
        try:
            if self.warm.get(kind) != Donating.cleared:
                results.append(self._first(args, kind))
                return
            if self.needs:
                memory.require(self.needs, args)
            results.extend(starmap(self.jit, (args,)))  # in C, one call of each
            if memory.in_order:
                jax.block_until_ready(results[-1])
            if self.needs:
                memory.started(results[-1])
                self._count()
        except Exception as error:
            if (wider := meshes.joined(error, args)) is not None:
                self.into(results, wider, kind)
                return
            memory.explain(error, args)
            raise

    def _first(self, args: Sequence[Any], kind: Any) -> Any:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args)):
            return self.jit(*args)  # part of the user's own trace
        needs, takes = memory.of(self.jit.lower(*args).compile())
        memory.require(takes, args)
        args = [self._spared(arg, takes) if i in self.given else arg for i, arg in enumerate(args)]
        cleared = Donating.cleared
        try:
            out = jax.block_until_ready(self.jit(*args))
        except BaseException:
            self._clear()
            raise
        self.needs, self.warm[kind] = needs, cleared
        return out

    def _count(self) -> None:
        """Count a call of a large program."""
        self.calls += 1
        if self.calls == tuning.parts_after and (jit := self.often()) is not None:
            self.warm.clear()  # its first call is to come
            self.jit = jit

    def _clear(self) -> None:
        """JAX runs Python in every later call of a program whose first one failed: have it forget that.

        Others may be of the same function: the next call of each is a first one again.
        """
        Donating.cleared += 1
        self.jit.clear_cache()

    def _spared(self, given: Any, takes: int) -> Any:
        """Copies of the arrays, if there is room for them beside what the program takes."""
        arrays = [leaf for leaf in jax.tree.leaves(given) if isinstance(leaf, jax.Array)]
        size = sum([a.nbytes for a in arrays])
        if any(map(meshes.is_global, arrays)) or not memory.fits(takes + size, given):
            return given
        return jax.tree.map(_copy, given)


def _copy(leaf: Any) -> Any:
    return copied(leaf) if isinstance(leaf, jax.Array) else leaf


# ---------------------------------------------------------------------- work that is done whole


class Program(Protocol):
    """What `call` calls."""

    def into(self, results: list[Any], args: tuple[Any, ...], kind: Any) -> None:
        """As `Donating.into`."""


def call(program: Program, give: Callable[[], tuple[Any, ...]]) -> Any:
    """What a program returns for the arguments that ``give`` makes, in `whole`: when that is repeated, what it
    returned. Numbers are in the last argument.
    """
    results, at = _thread.results, _thread.at
    if results is None:
        raise RuntimeError("a program that takes arrays for good is called in `whole` only")
    if at == len(results):
        args = give()
        program.into(results, args, tuple(map(type, jax.tree.leaves(args[-1]))))
    _thread.at = at + 1
    return results[at]


def is_whole() -> bool:
    """Whether work that is done whole is in progress in this thread."""
    return _thread.results is not None


def whole(work: Callable[[], T], undo: Callable[[], None]) -> T:
    """Do ``work``, all or nothing.

    If an exception comes while it is done, what it has written is undone. If it has run no program by `call`, that is
    the end. If it has, the arrays that these were given are gone: the work is done again, with their results, and
    then the exception goes on.

    Args:
        work: that does the same when it is done again. In work that is being done whole it is part of that.
        undo: puts back what the work writes, but results of programs. Done twice it is as done once.
    """
    if _thread.results is not None:
        return work()
    results: list[Any] = []
    try:
        return _done(work, results)
    except BaseException:
        try:
            _repeated(work, undo, results)
        except BaseException:
            _repeated(work, undo, results)
        raise


def _done(work: Callable[[], T], results: list[Any]) -> T:
    try:
        _thread.results, _thread.at = results, 0
        return work()
    finally:
        _thread.results = None


def _repeated(work: Callable[[], Any], undo: Callable[[], None], results: list[Any]) -> None:
    undo()
    if results:
        _done(work, results)


class Before:
    """What tensors were before a piece of work, for its ``undo``: how often they were written, and some of the values.

    Values are not kept of those that may be given to a program: who holds an array has it copied (see `own`).

    Args:
        tensors: all that the work writes.
        kept: those among them whose values are put back.
    """

    __slots__ = ("kept", "tensors", "values", "versions")

    def __init__(self, tensors: Sequence[Any], kept: Sequence[Any] = ()) -> None:
        self.tensors, self.kept = tensors, kept
        self.versions = [t._storage.version for t in tensors]
        self.values = [(t._view, _settled(t._storage)) for t in kept]

    def undo(self) -> None:
        for tensor, (view, held) in zip(self.kept, self.values, strict=True):
            cell = tensor._storage
            if tensor._view is view and cell.held is not held:
                cell.put(held)
            if held.__class__ in VALUES:
                held.restore()
        for tensor, version in zip(self.tensors, self.versions, strict=True):
            tensor._storage.version = version


def _settled(cell: Storage) -> Any:
    """What a Storage holds. To ask for the host's value makes one that nobody shares an ordinary one."""
    cell.host()
    return cell.held


def at_once(changes: list[tuple[Any, str, Any]]) -> None:
    """Set attributes, of (object, name, value) each, all or none: one call of a C function, with no moment between."""
    deque(starmap(object.__setattr__, changes), 0)


# ---------------------------------------------------------------------- which arrays may be given


def own(values: list[Any]) -> list[Any]:
    """The list, with a copy in place of every array that others hold besides this list and one owner.

    Places may be empty (None).
    """
    if are_alone(values):
        return values
    for i, count in enumerate(counts(values)):
        if count > 1 and values[i] is not None:
            values[i] = copied(values[i])
    return values


@contextmanager
def lent(cells: Iterable[Storage]) -> Iterator[None]:
    """``with lent(cells):`` their arrays are given to a program, and the new ones written, as one for other threads.

    A thread that asks for a value meanwhile waits for the new one: the reference counts that `own` looks at cannot grow
    between that look and the call. Does nothing where there are no other threads.
    """
    if not tracing.others():
        yield
        return
    with tracing.turn:
        taken: list[Storage] = []
        try:
            for cell in cells:
                _lend(cell, taken)
            yield
        finally:
            for cell in taken:
                held = cell.held
                if held.__class__ is Lent:
                    cell.held = held.lent


def _lend(cell: Storage, taken: list[Storage]) -> None:
    """Have a Storage hold a `Lent` value, if it holds an array. No frame is to hold the array when `own` counts."""
    if cell.held.__class__ in HOST:
        return
    array, held = cell.kept(), cell.held  # what was lazy is an array then
    if held is array or held.__class__ in MADE:
        taken.append(cell)
        cell.held = Lent(held)


class Lent(Value):
    """An array that is `lent`: to the thread whose turn it is it is as ever, others wait for what takes its place.

    Attributes:
        lent: what the Storage held: the array, or a `Twin` or `Placed` value that has it.
    """

    __slots__ = ("lent", "on_cpu")

    def __init__(self, lent: Any) -> None:
        self.lent = lent
        self.on_cpu = lent.__class__ is Placed and lent.on_cpu

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lent.shape

    @property
    def dtype(self) -> Any:
        return self.lent.dtype

    @property
    def sharding(self) -> Any:  # type: ignore[override]
        return self.lent.sharding if self.lent.__class__ is Placed else None

    def array(self, cell: Storage) -> Any:
        with tracing.turn:
            if cell.held is not self:
                return cell.array()
            return self.lent.array(cell) if self.lent.__class__ in MADE else self.lent

    def kept(self, cell: Storage) -> Any:
        with tracing.turn:
            if cell.held is not self:
                return cell.kept()
            return self.lent.kept(cell) if self.lent.__class__ in MADE else self.lent

    def host(self, cell: Storage) -> Any:
        with tracing.turn:
            if cell.held is not self:
                return cell.host()
            return self.lent.host(cell) if self.lent.__class__ is Twin else None

    def write(self, cell: Storage, value: Any) -> None:
        with tracing.turn:
            if cell.held is self:
                new = self.lent.new(value) if self.lent.__class__ is Placed else value
                cell.held, cell.form = new, None
            else:
                cell.put(value)


def on_one_cpu(value: Any) -> bool:
    """Whether this is an array on one CPU device alone, where a call takes the time that its memory and arrays take."""
    return isinstance(value, jax.Array) and is_one_cpu(value.sharding)


def is_one_cpu(sharding: Any) -> bool:
    """Whether this is one CPU device alone."""
    devices = sharding.device_set
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"
