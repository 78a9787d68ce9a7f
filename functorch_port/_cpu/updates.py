"""The loops of the CPU for elementwise updates (see `_array.loops`)."""

from __future__ import annotations

from typing import Any

from .._array.loops import Loops, New
from .native import kernels

__all__ = ["CpuLoops"]


class CpuLoops(Loops):
    """Loops of machine code, where llvmlite is there and programs run on one CPU alone."""

    def run(self, fn: Any, rows: Any, written: int, numbers: Any, joined: Any = ()) -> New | None:
        return kernels.run(fn, rows, written, numbers, joined)
