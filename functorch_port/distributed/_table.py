"""The table of a store: what a server keeps for all processes, or a `HashStore` for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["Late", "Lost", "Table"]

Found = TypeVar("Found")


class Late(Exception):
    """What was waited for did not come in time; ``who`` is missing, by position."""

    def __init__(self, who: Sequence[int] = ()) -> None:
        super().__init__(who)
        self.who = list(who)


class Lost(Exception):
    """A process that was waited for has ended: that at position ``who``, and ``how``."""

    def __init__(self, who: int, how: str) -> None:
        super().__init__(who, how)
        self.who, self.how = who, how


class _Meeting:
    """An exchange in progress: what each has brought, who has taken all, why it failed."""

    def __init__(self) -> None:
        self.brought: dict[int, bytes] = {}
        self.left = 0
        self.failed: Exception | None = None


class Table:
    """Byte strings by name, for several threads.

    Attributes:
        ended: how processes ended that were here, by name.
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._meetings: dict[str, _Meeting] = {}
        self._changed = threading.Condition()
        self.ended: dict[str, str] = {}

    def _until(self, found: Callable[[], Found | None], timeout: float) -> Found:
        """Wait for ``found`` to give something; the lock is held."""
        end = time.monotonic() + timeout
        while True:
            value = found()
            if value is not None:
                return value
            left = end - time.monotonic()
            if left <= 0:
                raise Late
            self._changed.wait(left)

    def set(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, timeout: float) -> bytes:
        with self._changed:
            return self._until(lambda: self._values.get(key), timeout)

    def wait(self, keys: Sequence[str], timeout: float) -> None:
        with self._changed:
            self._until(lambda: self._has(keys) or None, timeout)

    def _has(self, keys: Sequence[str]) -> bool:
        return all(key in self._values for key in keys)

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return self._has(keys)

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(total).encode()
            self._changed.notify_all()
            return total

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        with self._changed:
            held = self._values.get(key)
            if held == expected or (held is None and not expected):
                held = self._values[key] = desired
                self._changed.notify_all()
            return expected if held is None else held

    def delete(self, key: str) -> bool:
        with self._changed:
            return self._values.pop(key, None) is not None

    def append(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = self._values.get(key, b"") + value
            self._changed.notify_all()

    def count(self) -> int:
        with self._changed:
            return len(self._values)

    def take(self, keys: Sequence[str], names: Sequence[str], timeout: float) -> tuple[int, bytes]:
        """Wait for one of the keys, and take its value away; ``names`` are of who sets them."""

        def found() -> tuple[int, bytes] | None:
            for index, key in enumerate(keys):
                if key in self._values:
                    return index, self._values.pop(key)
            for index, name in enumerate(names):
                if name in self.ended:
                    raise Lost(index, self.ended[name])
            return None

        with self._changed:
            return self._until(found, timeout)

    def exchange(
        self,
        key: str,
        position: int,
        names: Sequence[str],
        value: bytes,
        timeout: float,
        leaves: bool = False,
    ) -> list[bytes]:
        """Bring a value, and wait for those of all others: the list of them, the same for each.

        Who ``leaves`` does not wait longer than the timeout, and has no list then; the others find its value.
        """
        with self._changed:
            meeting = self._meetings.setdefault(key, _Meeting())
            meeting.brought[position] = value
            self._changed.notify_all()

            def found() -> bool | None:
                if len(meeting.brought) == len(names):
                    return True
                if meeting.failed is not None:
                    raise meeting.failed
                for index, name in enumerate(names):
                    if index not in meeting.brought and name in self.ended:
                        raise Lost(index, self.ended[name])
                return None

            try:
                there = self._until(found, timeout)
            except Late:
                there = False
            if not there and not leaves:
                meeting.failed = Late([i for i in range(len(names)) if i not in meeting.brought])
                self._changed.notify_all()
                raise meeting.failed
            meeting.left += 1
            if meeting.left == len(names):
                del self._meetings[key]
            return [meeting.brought[index] for index in range(len(names))] if there else []

    def end(self, name: str, how: str) -> None:
        """Note how a process has ended."""
        with self._changed:
            self.ended.setdefault(name, how)
            self._changed.notify_all()

    def call(self, method: str, arguments: list[Any]) -> Any:
        """One of the methods above by name, for a server."""
        if method not in _METHODS:
            raise ValueError(f"the store has no {method!r}")
        return getattr(self, method)(*arguments)


_METHODS = frozenset(
    (
        "set",
        "get",
        "wait",
        "check",
        "add",
        "compare_set",
        "delete",
        "append",
        "count",
        "take",
        "exchange",
        "end",
    )
)
