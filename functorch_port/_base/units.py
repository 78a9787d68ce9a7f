"""Numbers with units, for people."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BYTES", "Units", "nbytes", "unit_of"]

#: names and sizes, the largest first
Units = Sequence[tuple[str, float]]

BYTES: Units = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


def unit_of(number: float, units: Units) -> tuple[str, float]:
    """The largest unit that a number has one of, and its size; the smallest for less."""
    return next((unit for unit in units if abs(number) >= unit[1]), units[-1])


def nbytes(count: float, digits: int = 2) -> str:
    """Bytes in the unit that suits them, with so many digits after the point."""
    unit, size = unit_of(count, BYTES)
    return f"{int(count)} B" if size == 1 else f"{count / size:.{digits}f} {unit}"
