"""Instructions of optimised HLO text, and their shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Instruction", "Shape"]


@dataclass(frozen=True)
class Shape:
    """An array.

    Attributes:
        space: the memory that it lies in: 0 is that of the device, HBM; others are within the chip, or the host's.
        layout: the order of its dimensions, and the tiles to which each is filled up.
    """

    dtype: str
    dims: tuple[int, ...]
    space: int = 0
    layout: str = ""

    @property
    def nbytes(self) -> int:
        """Its size, packed: a number of 4 bits has half a byte."""
        return self._packed(self.dims)

    @property
    def laid_out(self) -> int:
        """Its bytes in the device's memory, as the compiler lays it out; none if it lies elsewhere."""
        order, _, rest = self.layout.partition(":")
        tile = re.search(r"T\(([\d,]+)\)", rest)
        dims = list(self.dims)
        if tile is not None and dims and order:
            steps = [int(n) for n in tile[1].split(",")]
            for axis, step in zip(map(int, order.split(",")), reversed(steps)):
                dims[axis] = -(-dims[axis] // step) * step
        return 0 if self.space else self._packed(dims)

    def _packed(self, dims: Iterable[int]) -> int:
        return -(-math.prod(dims) * _bits(self.dtype) // 8)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


def _bits(dtype: str) -> int:
    if dtype in ("token", "opaque"):
        return 0
    found = re.search(r"\d+", dtype)
    return int(found[0]) if found else 8  # pred


@dataclass(frozen=True)
class Instruction:
    """A line of a computation.

    Attributes:
        results: the arrays of its result.
        is_tuple: whether that is a tuple of them.
        operands: names of instructions of the same computation.
        given: what stands in the parentheses.
        rest: what stands behind.
    """

    name: str
    opcode: str
    results: tuple[Shape, ...]
    operands: tuple[str, ...]
    given: str
    rest: str
    is_root: bool
    is_tuple: bool

    def attribute(self, name: str) -> str | None:
        """The name or number that an attribute is."""
        found = re.search(rf"\b{name}=%?([\w.>-]+)", self.rest)
        return found[1] if found else None

    def numbers(self, name: str) -> list[int]:
        """The numbers in an attribute."""
        found = re.search(rf"\b{name}=\{{([\d,]*)\}}", self.rest)
        return [int(n) for n in found[1].split(",") if n] if found else []

    @property
    def nbytes(self) -> int:
        """Of the results."""
        return sum(shape.nbytes for shape in self.results)

    @property
    def place(self) -> str:
        """The stack of names that it comes from, with the operation's; "" if it is not said."""
        found = re.search(r'\bop_name="((?:[^"\\]|\\.)*)"', self.rest)
        return found[1] if found else ""

    @property
    def goes_on(self) -> bool:
        """Whether it is a step of a collective that an earlier fusion has begun, as TPUs have them."""
        if self.opcode == "custom-call":
            return '"AsyncCollective' in self.rest
        begun = re.search(r'"async_collective_fusion_config":\{[^}]*"flag_start":"(-?\d+)"', self.rest)
        return begun is not None and begun[1] != "-1"
