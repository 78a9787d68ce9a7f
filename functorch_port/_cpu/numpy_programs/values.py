"""The values of a program that is being written."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["DTYPES", "Unsupported", "Value"]


DTYPES = frozenset(map(np.dtype, ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")))


class Unsupported(Exception):
    """The program must be compiled."""


class Value:
    """A value in the program that is being written.

    Attributes:
        text: how to write it.
        aval: shape and dtype.
        shape: the shape that the numpy array has; it broadcasts to the aval's.
        const: the value itself, where it does not depend on the arguments.
        line: number of the line that computes it.
        of: the value that this one has the elements of, in another shape.
    """

    __slots__ = ("aval", "const", "line", "of", "shape", "text")

    def __init__(self, text: str, aval: Any, shape: Any, const: Any = None, line: int | None = None) -> None:
        self.text = text
        self.aval = aval
        self.shape = tuple(shape)
        self.const = const
        self.line = line
        self.of: Value | None = None

    def like(self, aval: Any) -> Value:
        """The same elements with another aval."""
        return Value(self.text, aval, self.shape, self.const, self.line)
