"""Python's garbage collector, which is stopped, or looks away, where it would find nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["pass_over", "stopped"]


@contextmanager
def stopped() -> Iterator[None]:
    """The collector does not run inside, if it did before.

    What a trace makes is freed by its counts or stays. The collector would look at it again and again, and after so
    many young collections at everything there is, which takes 80 ms with JAX loaded.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def pass_over() -> None:
    """Have the collector never look at what there is now: modules, classes and functions, which stay.

    To look at those of JAX takes 80 ms, which any step of a program might take that long for.
    """
    if gc.isenabled():
        gc.freeze()
