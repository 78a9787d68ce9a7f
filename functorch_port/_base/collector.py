"""Python's garbage collector, which is kept from where it would find nothing. The package imports this file first."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["pass_over_imports", "stopped"]

#: objects that there were when this was imported, and how many the imports of a program may have made
_FIRST, _IMPORTED = len(gc.get_objects()), 1 << 15


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


def pass_over_imports() -> None:
    """Have the collector pass over what there is, at the end of the package's import: three quarters of all objects of
    a small program. It looks at everything when there is a quarter more than before, which is so within the first
    second, and took 60 to 140 ms each time; without these it takes 15 to 25.

    What the program made before in a cycle would never be freed, so this is only done where that cannot be much.
    """
    if gc.isenabled() and _FIRST <= _IMPORTED:
        gc.freeze()
