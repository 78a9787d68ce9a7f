"""Whether all processes have the same: compared where a program takes that for granted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

__all__ = ["check", "digest", "everywhere"]


_SIZE = 16


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


#: brings the bytes of this process to the others, who do the same (``what``), and gives those of all;
#: `distributed` puts its store here
everywhere: Callable[[str, bytes], list[bytes]] = _gathered


def check(values: Mapping[str, Iterable[Any]]) -> None:
    """Refuse values, given by what they are, that are not the same in all processes. All of these come here.

    Raises:
        ValueError: they are not.
    """
    if jax.process_count() == 1 or not values:
        return
    found = everywhere("a comparison of values", b"".join(map(digest, values.values())))
    if len({*map(len, found)}) > 1:
        raise ValueError(f"the processes compare different things: one {', '.join(values)}")
    for k, what in enumerate(values):
        groups: dict[bytes, list[int]] = {}
        for rank, row in enumerate(found):
            groups.setdefault(row[k * _SIZE : (k + 1) * _SIZE], []).append(rank)
        if len(groups) > 1:
            told = " and ".join(f"rank {', '.join(map(str, ranks))}" for ranks in groups.values())
            raise ValueError(f"{what} must be the same in all processes, and differs between {told}")
