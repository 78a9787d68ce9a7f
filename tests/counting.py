"""Counting XLA compilations with JAX's own monitoring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from functorch_port._array import placing

_counts: list[int] = []
_registered = False


def _listen(event: str, duration: float, **kwargs: object) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        for i in range(len(_counts)):
            _counts[i] += 1


@contextmanager
def xla_compilations() -> Iterator[list[int]]:
    """A one-element list that holds how many programs XLA compiled inside the block."""
    global _registered
    if not _registered:
        jax.monitoring.register_event_duration_secs_listener(_listen)
        _registered = True
    placing._left.clear()  # what other tests asked for does not make a program pay in this one
    _counts.append(0)
    box = [0]
    try:
        yield box
    finally:
        box[0] = _counts.pop()
