"""Caches that do not grow beyond a size. What is cached can be computed again: to forget it costs time alone."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Bounded"]

K = TypeVar("K")
V = TypeVar("V")


class Bounded(dict[K, V]):
    """A dict that forgets the oldest quarter of its entries when it has more than ``most``.

    Functions have `functools.lru_cache`; this is for what is asked in every call. There use ``get``, which is a dict's:
    Python gives the brackets of a subclass no shortcut.
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        dict.__setitem__(self, key, value)
        if len(self) > self.most:
            self._forget()

    def setdefault(self, key: K, default: V) -> V:  # type: ignore[override]
        found = super().setdefault(key, default)
        if len(self) > self.most:
            self._forget()
        return found

    def _forget(self) -> None:
        keys = list(self)  # at once: other threads may enter some meanwhile
        for key in keys[: len(keys) - self.most * 3 // 4]:
            self.pop(key, None)
