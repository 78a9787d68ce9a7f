"""The objects of some classes that are alive, from the garbage collector's list."""

from __future__ import annotations

import gc
from itertools import compress
from typing import Any

__all__ = ["alive"]


def alive(*classes: type) -> tuple[list[Any], ...]:
    """For each of the classes, none of which is another's subclass, its instances and those of its subclasses.

    One pass, without Python code per object: a process with JAX's caches in it has millions of them.
    """
    kinds = {kind: i for i, base in enumerate(classes) for kind in _with_subclasses(base)}
    found: tuple[list[Any], ...] = tuple([[] for _ in classes])
    objects = gc.get_objects()
    for o in compress(objects, map(kinds.__contains__, map(type, objects))):
        found[kinds[type(o)]].append(o)
    return found


def _with_subclasses(base: type) -> set[type]:
    kinds, stack = {base}, [base]
    while stack:
        new: set[type] = set(type.__subclasses__(stack.pop())) - kinds
        kinds |= new
        stack += new
    return kinds
