"""What all processes do together: they meet before it, with what must be the same and the errors of each."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import jax
import numpy as np

__all__ = [
    "FailedElsewhere", "Series", "alike", "caller", "check", "compare", "digest", "everywhere", "exchange_by",
    "in_threads", "of_first", "telling",
]  # fmt: skip


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


# ----------------------------------------------------------------------- meetings


class FailedElsewhere(RuntimeError):
    """Other processes failed in what all do together.

    Attributes:
        failures: the number of a process -> its error, as text.
        follows: the launcher shows the other errors as the cause.
    """

    follows = True

    def __init__(self, what: str, failures: dict[int, str]) -> None:
        told = "; ".join(f"rank {rank} failed in {text}" for rank, text in failures.items())
        super().__init__(f"{what} was not done, as all processes do it or none: {told}")
        self.failures = failures


class Series:
    """Meetings beside the order of all others, as those of a thread.

    Args:
        name: one that all processes know them by, and no other series has.
    """

    def __init__(self, name: str) -> None:
        self.name, self._count = name, 0

    def key(self) -> str:
        """The name of the next meeting."""
        self._count += 1
        return f"{self.name}/{self._count}"


def _gathered(what: str, mine: bytes, failed: bool, key: str) -> list[bytes]:
    """By collectives of JAX's. They do not notice when a process does not come, so an error is printed before."""
    if failed:
        print(f"process {jax.process_index()} failed in {mine.decode()}", file=sys.stderr, flush=True)
    heads = _rows(np.array([failed, len(mine)], np.int32))
    width = max(1, heads[:, 1].max())
    rows = _rows(np.frombuffer(mine.ljust(width, b"\0"), np.uint8))
    found = [row.tobytes()[:size] for row, (_, size) in zip(rows, heads, strict=True)]
    failures = {rank: found[rank].decode() for rank, (is_error, _) in enumerate(heads) if is_error}
    if failures and not failed:
        raise FailedElsewhere(what, failures)
    return found


def _rows(mine: np.ndarray) -> np.ndarray:
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(mine))


#: what `everywhere` does: with whether the bytes are an error, and the name of a meeting of a `Series`
_exchange: Callable[[str, bytes, bool, str], list[bytes]] = _gathered


def exchange_by(how: Callable[[str, bytes, bool, str], list[bytes]] = _gathered) -> None:
    """Have `everywhere` do its work in this way from now on: a process group's."""
    global _exchange
    _exchange = how


def in_threads() -> bool:
    """Whether the meetings of a `Series` may be in another thread than other meetings and collectives."""
    return jax.process_count() == 1 or _exchange is not _gathered


def everywhere(what: str, value: bytes, failed: bool = False, series: Series | None = None) -> list[bytes]:
    """Bring the bytes of this process to the others, who do the same (``what``); gives those of all.

    Args:
        failed: the bytes are an error, which the others raise; this process need not know how they fare.

    Raises:
        FailedElsewhere: some process failed before it came here.
    """
    try:
        return _exchange(what, value, failed, "" if series is None else series.key())
    except Exception as error:
        error.told = True  # type: ignore[attr-defined]
        raise


def of_first(what: str, text: str) -> str:
    """The text that process 0 gives, in all. They meet here."""
    return text if jax.process_count() == 1 else everywhere(what, text.encode())[0].decode()


@contextlib.contextmanager
def telling(what: str, series: Series | None = None) -> Iterator[None]:
    """Tell the others of an error in the block: they raise `FailedElsewhere` where they meet next.

    What all processes do together stands in such a block, or is decorated with it, and has an `alike` or another
    meeting behind all that may fail in one of them.
    """
    try:
        yield
    except Exception as error:
        if not _is_told(error) and jax.process_count() > 1:
            error.told = True  # type: ignore[attr-defined]
            where = f" at {caller()}" if series is None else ""
            text = f"{what}{where}: {type(error).__name__}: {error}"
            with contextlib.suppress(Exception):  # the others have ended
                everywhere(what, text.encode(), True, series)
        raise


def _is_told(error: BaseException | None) -> bool:
    """Whether the other processes know of an error: it came from them, or was told to them."""
    while error is not None and not getattr(error, "told", False):
        error = error.__cause__
    return error is not None


def alike(what: str, things: Mapping[str, Any], series: Series | None = None) -> None:
    """Meet, and refuse things, given by what they are, that have not the same text in all processes.

    Raises:
        RuntimeError: they have not, or some process failed before it came here.
    """
    if jax.process_count() == 1:
        return
    text = "".join(f"{name}: {thing}\n" for name, thing in things.items())
    found, other, difference = _met(what, text, series)
    if other:
        raise RuntimeError(
            f"the processes give {what} different things, rank 0 at {_place(found[0])} and rank {other} at "
            f"{_place(found[other])}. The first difference, in rank 0 and in rank {other}:\n  {difference}\n"
            "All processes must make the same calls with the same arguments, in the same order"
        )


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


@lru_cache(64)
def _mark(text: str) -> bytes:
    return digest([text])


def compare(text: str, again: bool = False) -> bool:
    """Refuse a program, given by its text, where other processes are about to run another one.

    One that all have run is not compared again: a process may trace it once more. But it is with ``again``.

    Returns:
        whether it is new to all of several processes.

    Raises:
        RuntimeError: they are.
    """
    if jax.process_count() == 1:
        return False
    mark = _mark(text)
    is_new = mark not in _same
    if not (is_new or again):
        return False
    found, other, difference = _met(f"{'a' if again else 'the first'} call of a compiled program", text)
    if not other:
        _same.add(mark)
        return is_new
    places: dict[bytes, list[str]] = {}
    for rank, theirs in enumerate(found):
        places.setdefault(theirs, []).append(str(rank))
    called = "; ".join(
        f"rank {', '.join(ranks)}: program {theirs[:4].hex()} at {_place(theirs)}"
        for theirs, ranks in places.items()
    )
    raise RuntimeError(
        f"the processes compiled different programs: {called}. The first difference, in rank 0 and in rank {other}:\n"
        f"  {difference}\nAll processes must call the same functions in the same order, with tensors "
        "of the same shapes, dtypes and placements, and take the same branches: nothing in a compiled one may depend "
        "on the rank. Give what differs as a tensor, pad batches to one size, or call the model without compile"
    )


def _met(what: str, text: str, series: Series | None = None) -> tuple[list[bytes], int, str]:
    """Meet with a text: the fingerprints and places of all, one that has another text than process 0 (0 if none has),
    and what differs first.
    """
    found = everywhere(what, _mark(text) + caller().encode(), series=series)
    other = next((rank for rank, theirs in enumerate(found) if theirs[:_SIZE] != found[0][:_SIZE]), 0)
    if not other:
        return found, 0, ""
    texts = everywhere("a comparison of what differs", zlib.compress(text.encode()), series=series)
    first, second = (zlib.decompress(texts[rank]).decode() for rank in (0, other))
    return found, other, _difference(first, second)


def _place(theirs: bytes) -> str:
    return theirs[_SIZE:].decode()


def _difference(first: str, second: str) -> str:
    """What of two texts differs first, a line for each."""
    for a, b in zip_longest(first.splitlines(), second.splitlines(), fillvalue="(nothing more)"):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            start = max(0, a.rfind(" ", 0, max(0, at - 40)) + 1)
            return "\n  ".join(line[start : at + 120].strip() for line in (a, b))
    return ""


#: what is not code of the user
_OURS = (os.path.dirname(os.path.dirname(__file__)) + os.sep, contextlib.__file__)


def caller() -> str:
    """The line of the user's code."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return "?" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
