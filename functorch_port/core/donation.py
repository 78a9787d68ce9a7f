"""Which arrays may be donated to a program: those that nobody else can still see, nor get to see meanwhile."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import jax
import numpy as np

from . import storage
from .storage import HostStorage, Storage

__all__ = ["HELD", "lent", "on_one_cpu", "own"]

getrefcount = sys.getrefcount


def own(values: list[Any]) -> list[Any]:
    """The list, with a copy in place of every array that others hold besides this list and one owner.

    Places may be empty (None).
    """
    if max(map(getrefcount, values), default=0) <= HELD:
        return values
    for i, value in enumerate(values):
        if getrefcount(value) > _ALONE and value is not None:
            values[i] = jax.device_put(value, may_alias=False)
    return values


class lent:
    """``with lent(cells):`` their arrays are given to a program, and the new ones written, as one for other threads.

    A thread that asks for a value meanwhile waits for the new one: the reference counts that `own` looks at cannot grow
    between that look and the call. Does nothing where there are no other threads.
    """

    __slots__ = ("cells",)

    def __init__(self, cells: Iterable[Any]) -> None:
        self.cells: Any = cells

    def __enter__(self) -> None:
        if not storage.others():
            self.cells = None
            return
        storage.turn.acquire()
        try:
            self.cells = [
                cell for cell in self.cells if isinstance(cell, Storage) and cell.__class__ is not HostStorage
            ]
            deque(map(attrgetter("_value"), self.cells), 0)  # what was put off is an array then
            for cell in self.cells:
                if cell.__class__ is Storage:
                    cell.__class__ = LentStorage
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc: object) -> None:
        if self.cells is None:
            return
        for cell in self.cells:
            if cell.__class__ is LentStorage:
                cell.__class__ = Storage
        storage.turn.release()


class LentStorage(Storage):
    """A `Storage` while its array is `lent`: to the thread whose turn it is it is as ever, others wait."""

    __slots__ = ()

    @property
    def _value(self) -> Any:  # type: ignore[override]
        with storage.turn:
            return self.raw if self.__class__ is LentStorage else self._value

    @_value.setter
    def _value(self, value: Any) -> None:
        with storage.turn:
            if self.__class__ is LentStorage:
                self.__class__ = Storage  # type: ignore[assignment]
            self._value = value


def on_one_cpu(value: Any) -> bool:
    """Whether this is an array on one CPU device alone, where a call takes the time that its memory and arrays take."""
    devices = value.sharding.device_set if isinstance(value, jax.Array) else ()
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"


def _measure_alone() -> tuple[int, int]:
    """The reference counts that `own` sees, by `map` and in its loop, of an array which only its Storage holds."""
    cell = object.__new__(Storage)  # one made as usual asks JAX for its trace, which takes time at the import
    cell._value = jax.ShapeDtypeStruct((), np.float32)
    values = [c._value for c in [cell]]
    by_map = max(map(getrefcount, values))
    for _, value in enumerate(values):
        return by_map, getrefcount(value)
    return 0, 0


#: what `map` sees of an object that a list and one owner hold, and what the loop in `own` does
HELD, _ALONE = _measure_alone()
