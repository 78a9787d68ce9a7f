"""Who else holds an object, as CPython counts references. Every use of these counts is in this file.

An answer is a hint about what is worth doing. Too high a count costs time or memory, which is why each is rounded up: a
debugger, a profiler or another thread that holds an object only adds to it. Too low a count would need an interpreter
that counts otherwise than when this module was imported (`_PASSED` is measured then), such as a free-threaded Python,
which the library does not support. What asks, and what a wrong answer does:

- `_array.donation` (`are_alone`, `counts`): an array that nobody else holds is given to a program. Too high: it is
  copied first. Too low: whoever holds it gets JAX's error about a deleted array.
- `_cpu.programs` (`counts`): a program gives those results that somebody can still ask for. Too high: it gives more.
  Too low: who asks gets PyTorch's error about values that were freed.
- `_cpu.shared` (`counts`): memory that no numpy array shares any more is an ordinary value again. Too high: reading it
  compares bytes, as before. Too low: what numpy writes later is not seen.
- `_tensor.cells` (`are_alone`): a tensor whose memory nobody else has may tell its address. Too high: it is copied
  first. Too low: two tensors tell the same address.
- `_trace.slots`, `_trace.places` (`others`, `owners`): after a trace, containers that hold tensors which it made. Too
  high: a search through all objects finds nothing. Too low: a container keeps the tensor of the first call.
- `_base.alive` (`instances`): objects of a class that has no list of them. Nothing is counted.
"""

from __future__ import annotations

import gc
import types
from collections import Counter
from collections.abc import Iterable
from sys import getrefcount
from typing import Any

__all__ = ["are_alone", "counts", "instances", "others", "owners"]


def _measure() -> int:
    """What `map` adds to the count of an object in a list."""
    probe = object()
    return max(map(getrefcount, [probe])) - 2  # the list and the variable


_PASSED = _measure()
_ALONE = 2 + _PASSED


def are_alone(values: list[Any]) -> bool:
    """Whether nobody holds any of the objects but this list and one owner each."""
    return max(map(getrefcount, values), default=0) <= _ALONE


def counts(values: list[Any]) -> list[int]:
    """How many references there are to each of the objects besides that of this list."""
    return [count - _PASSED - 1 for count in map(getrefcount, values)]


def others(values: list[Any], ours: Iterable[Any]) -> list[int]:
    """How many references there are to each of the objects, but for those of ``ours``: containers, with this list."""
    total = counts(values)
    different = {id(x): x for x in ours}.values()
    expected = Counter([id(x) for container in different for x in gc.get_referents(container)])
    return [count + 1 - expected[id(value)] for value, count in zip(values, total, strict=True)]


# The search must not find itself: what it makes is hidden, and none of its variables is in a closure, whose cell would
# be an owner.


def owners(
    values: list[Any], hidden: dict[int, Any], ignored: tuple[type, ...] = ()
) -> tuple[list[Any], list[Any]]:
    """Who refers to which of the objects: two lists side by side. It takes one pass over all objects.

    Args:
        hidden: by id what does not count as an owner; what this makes is added.
        ignored: classes whose instances do not count either. Frames never do.
    """
    by_id = {id(value): value for value in values}
    found: list[Any] = []
    held: list[Any] = []
    # Python hands a tuple on as it is; one that it made would count as an owner from 3.13 on
    given = tuple(values)
    referrers = gc.get_referrers(*given) if given else []
    hidden |= {id(x): x for x in (values, given, by_id, found, held, referrers)}
    for owner in referrers:
        if id(owner) in hidden or isinstance(owner, (types.FrameType, *ignored)):
            continue
        for i in set(map(id, gc.get_referents(owner))) & by_id.keys():
            found.append(owner)
            held.append(by_id[i])
    return found, held


def instances(kinds: set[type]) -> list[Any]:
    """The objects of just these classes.

    An instance refers to its class, so this is one pass in C over what the collector tracks, which only hands out what
    was asked for. `gc.get_objects` would hold every object there is, among them tuples that other threads are still
    building: CPython then refuses to finish those. Millions of objects take a second, and more with many classes.
    """
    return [o for o in gc.get_referrers(*kinds) if type(o) in kinds]
