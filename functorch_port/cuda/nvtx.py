"""``torch.cuda.nvtx``: marks for NVIDIA's profiler, which are `jax.profiler.TraceAnnotation`s."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

__all__ = ["mark", "range", "range_pop", "range_push"]

_open: list[Any] = []


def range_push(msg: str) -> int:
    """Open a range; returns how many are open around it."""
    annotation = jax.profiler.TraceAnnotation(msg)
    annotation.__enter__()
    _open.append(annotation)
    return len(_open) - 1


def range_pop() -> int:
    """Close the last range; returns how many are open around it."""
    if _open:
        _open.pop().__exit__(None, None, None)
    return len(_open)


def mark(msg: str) -> None:
    """Mark a moment."""
    with jax.profiler.TraceAnnotation(msg):
        pass


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a ``with`` block; its text is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
