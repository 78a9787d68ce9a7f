"""The objects of some classes that are alive, found by the garbage collector."""

from __future__ import annotations

import gc
from typing import Any

__all__ = ["alive"]


def alive(*classes: type) -> tuple[list[Any], ...]:
    """For each of the classes, none of which is another's subclass, its instances and those of its subclasses.

    An instance refers to its class, so this is one pass in C over what the collector tracks, which only hands out what
    was asked for. `gc.get_objects` would hold every object there is, among them tuples that other threads are still
    building: CPython then refuses to finish those. The time grows with the number of subclasses.
    """
    kinds = {kind: i for i, base in enumerate(classes) for kind in _with_subclasses(base)}
    found: tuple[list[Any], ...] = tuple([[] for _ in classes])
    for o in gc.get_referrers(*kinds):
        if type(o) in kinds:
            found[kinds[type(o)]].append(o)
    return found


def _with_subclasses(base: type) -> set[type]:
    kinds, stack = {base}, [base]
    while stack:
        new: set[type] = set(type.__subclasses__(stack.pop())) - kinds
        kinds |= new
        stack += new
    return kinds
