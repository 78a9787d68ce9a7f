"""Whether all processes have the same values and programs: compared where a computation takes that for granted."""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any

import jax
import numpy as np

__all__ = ["caller", "check", "compare", "digest", "everywhere", "exchange_by"]


_SIZE = 16
#: in place of the digest of what a process has not
_ABSENT = bytes(_SIZE)


def digest(values: Iterable[Any]) -> bytes:
    """A fingerprint of texts and arrays."""
    found = hashlib.blake2b(digest_size=_SIZE)
    for value in values:
        if isinstance(value, str):
            found.update(value.encode())
        else:
            array = np.asarray(value)
            found.update(f"{array.dtype}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.digest()


def _gathered(what: str, mine: bytes) -> list[bytes]:
    """By a collective of JAX's, which does not notice when a process does not come."""
    from jax.experimental.multihost_utils import process_allgather

    rows = process_allgather(np.frombuffer(mine, np.uint8))
    return [row.tobytes() for row in np.asarray(rows)]


#: brings the bytes of this process to the others, who do the same (``what``), and gives those of all
everywhere: Callable[[str, bytes], list[bytes]] = _gathered


def exchange_by(how: Callable[[str, bytes], list[bytes]] = _gathered) -> None:
    """Have `everywhere` do its work in this way from now on: a process group's."""
    global everywhere
    everywhere = how


def check(values: Mapping[str, Iterable[Any] | None]) -> None:
    """Refuse values, given by what they are, that are not the same in all processes. All of these come here.

    Args:
        values: None for what this process has not: those that have it are compared.

    Raises:
        ValueError: they are not.
    """
    if jax.process_count() == 1 or not values:
        return
    mine = [_ABSENT if value is None else digest(value) for value in values.values()]
    found = everywhere("a comparison of values", b"".join(mine))
    if len({*map(len, found)}) > 1:
        raise ValueError(f"the processes compare different things: one {', '.join(values)}")
    for k, what in enumerate(values):
        groups: dict[bytes, list[int]] = {}
        for rank, row in enumerate(found):
            groups.setdefault(row[k * _SIZE : (k + 1) * _SIZE], []).append(rank)
        groups.pop(_ABSENT, None)
        if len(groups) > 1:
            told = " and ".join(f"rank {', '.join(map(str, ranks))}" for ranks in groups.values())
            raise ValueError(f"{what} must be the same in all processes, and differs between {told}")


#: the programs that all processes were about to run, by their fingerprints
_same: set[bytes] = set()


def compare(text: str) -> None:
    """Refuse a program, given by its text, where other processes are about to run another one.

    One that all have run is not compared again: a process may trace it once more.

    Raises:
        RuntimeError: they are.
    """
    mark = digest([text])
    if jax.process_count() == 1 or mark in _same:
        return
    found = everywhere("the first call of a compiled program", mark + caller().encode())
    other = next((rank for rank, theirs in enumerate(found) if theirs[:_SIZE] != found[0][:_SIZE]), None)
    if other is None:
        _same.add(mark)
        return
    texts = everywhere("a comparison of programs that differ", zlib.compress(text.encode()))
    first, second = (zlib.decompress(texts[rank]).decode() for rank in (0, other))
    places: dict[bytes, list[str]] = {}
    for rank, theirs in enumerate(found):
        places.setdefault(theirs, []).append(str(rank))
    called = "; ".join(
        f"rank {', '.join(ranks)}: program {theirs[:4].hex()} at {theirs[_SIZE:].decode()}"
        for theirs, ranks in places.items()
    )
    raise RuntimeError(
        f"the processes compiled different programs: {called}. The first difference, in rank 0 and in rank {other}:\n"
        f"  {_difference(first, second)}\nAll processes must call the same functions in the same order, with tensors "
        "of the same shapes, dtypes and placements, and take the same branches: nothing in a compiled one may depend "
        "on the rank"
    )


def _difference(first: str, second: str) -> str:
    """What of two programs differs first, a line for each."""
    for a, b in zip_longest(first.splitlines(), second.splitlines(), fillvalue="(the program has ended)"):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            start = max(0, a.rfind(" ", 0, max(0, at - 40)) + 1)
            return "\n  ".join(line[start : at + 120].strip() for line in (a, b))
    return ""


_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def caller() -> str:
    """The line of the user's code."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return "?" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
