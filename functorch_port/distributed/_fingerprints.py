"""Compiled programs are compared between processes at their first call: different ones would wait for each other."""

from __future__ import annotations

import base64
import hashlib
import zlib
from itertools import zip_longest
from typing import Any

from ._group import ProcessGroup, caller
from ._store import DistBackendError

__all__ = ["compare"]

_WHAT = "the first call of a compiled program"


def compare(world: ProcessGroup, lowered: Any) -> None:
    """Wait until all processes are about to run this program.

    One that all have run is not compared again: a process may trace it once more.

    Raises:
        DistBackendError: some process is about to run another one, or something else, or does not come.
    """
    text = lowered.as_text()
    mark = hashlib.sha256(text.encode()).hexdigest()
    if mark in world._same:
        return
    found = world.agree(_WHAT, [mark, caller()])
    other = next((rank for rank, (theirs, _) in enumerate(found) if theirs != found[0][0]), None)
    if other is None:
        world._same.add(mark)
        return
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    texts = world.agree(f"{_WHAT} (they differ)", packed)
    first, second = (zlib.decompress(base64.b64decode(texts[rank])).decode() for rank in (0, other))
    places: dict[tuple[str, str], list[str]] = {}
    for rank, (theirs, place) in zip(world._ranks, found, strict=True):
        places.setdefault((theirs, place), []).append(str(rank))
    called = "; ".join(
        f"rank {', '.join(ranks)}: program {m[:8]} at {place}" for (m, place), ranks in places.items()
    )
    raise DistBackendError(
        f"the processes compiled different programs: {called}. The first difference, in rank {world._ranks[0]} and in "
        f"rank {world._ranks[other]}:\n  {_difference(first, second)}\nAll processes must call the same functions in "
        "the same order, with tensors of the same shapes, dtypes and placements, and take the same branches: nothing "
        "in a compiled function may depend on the rank"
    )


def _difference(first: str, second: str) -> str:
    """What of two programs differs first, a line for each."""
    for a, b in zip_longest(first.splitlines(), second.splitlines(), fillvalue="(the program has ended)"):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            start = max(0, a.rfind(" ", 0, max(0, at - 40)) + 1)
            return "\n  ".join(line[start : at + 120].strip() for line in (a, b))
    return ""
