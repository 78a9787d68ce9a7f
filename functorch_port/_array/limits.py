"""How many compiled programs a process keeps: JAX keeps all, a few megabytes each, as long as their functions live.

`Latest` keeps what was used last. Single operations share functions, so their programs cannot be let go of one by one,
nor can what JAX knows of the functions in a program, a megabyte for each shape: when very many were compiled, JAX is
told to forget all. Those that are needed come back from its cache on the disk.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import jax

from .._base.tuning import tuning
from . import tracing
from .donation import Donating, is_whole

__all__ = ["Latest", "tidy"]

K = TypeVar("K", bound=Hashable)


class _Count:
    compiled = 0


def _listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
    _Count.compiled += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_listen)


def tidy() -> None:
    """Let go of all programs of this process, if there are too many; nothing that is traced or run is disturbed."""
    if _Count.compiled <= tuning.compilations or tracing.overlay or tracing.in_jax() or is_whole():
        return
    _Count.compiled = 0
    Donating.cleared += 1
    jax.clear_caches()
    gc.collect()


class Latest(Generic[K]):
    """Keys in the order of their last use, with what each weighs.

    Args:
        most: gives how many there may be.
        drop: what is done with a key that must go.

    All together may weigh ``tuning.cached_operations``, but ``tuning.cached_least`` stay whatever they weigh.
    """

    def __init__(self, most: Callable[[], int], drop: Callable[[K], None]) -> None:
        self.most, self.drop = most, drop
        self.last: K | None = None
        self._weights: dict[K, int] = {}
        self._sum = 0

    def __len__(self) -> int:
        return len(self._weights)

    def latest_first(self) -> list[K]:
        return [*reversed(self._weights)]

    def add(self, key: K, weight: int) -> int:
        """Enter a key as the latest; returns how many had to go for it."""
        self.remove(key)
        self._weights[key], self.last = weight, key
        self._sum += weight
        gone = 0
        while len(self._weights) > self.most() or (
            self._sum > tuning.cached_operations and len(self._weights) > tuning.cached_least
        ):
            oldest = next(iter(self._weights))
            self.remove(oldest)
            self.drop(oldest)
            gone += 1
        return gone

    def use(self, key: K) -> None:
        """Note that a key is used now."""
        if key is not self.last:
            weight = self._weights.pop(key, None)  # at once: others may use it too
            if weight is not None:
                self._weights[key], self.last = weight, key

    def remove(self, key: K) -> None:
        """Forget a key, if it is there."""
        self._sum -= self._weights.pop(key, 0)
        if self.last is key:
            self.last = None

    def clear(self) -> None:
        self._weights.clear()
        self._sum, self.last = 0, None
