"""The objects of a class that are alive: from a `Roll`, or found by the garbage collector."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from .references import instances

__all__ = ["Roll", "alive", "generators", "optimizers", "pendings"]


class Roll:
    """The living instances of a class that has few: each is entered as it is made."""

    def __init__(self) -> None:
        self._entries: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def enter(self, instance: Any) -> None:
        self._entries[id(instance)] = instance

    def __iter__(self) -> Iterator[Any]:
        for ref in self._entries.valuerefs():  # a list: other threads may enter some meanwhile
            instance = ref()
            if instance is not None:
                yield instance


#: what a trace takes in, beside the Storages
generators, optimizers, pendings = Roll(), Roll(), Roll()


def alive(base: type) -> list[Any]:
    """The instances of a class and of its subclasses (see `instances`)."""
    kinds, stack = {base}, [base]
    while stack:
        new: set[type] = set(type.__subclasses__(stack.pop())) - kinds
        kinds |= new
        stack += new
    return instances(kinds)
