"""The values of a program that is being written."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["DTYPES", "KEPT", "LOW", "Unsupported", "Value", "identity"]


#: what small values in numpy have
KEPT = frozenset(map(np.dtype, ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")))
#: floating-point types in which an operation is computed in float32, and rounded
LOW = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
#: what programs compute with
DTYPES = KEPT | LOW | frozenset(map(np.dtype, ("uint16", "uint32", "uint64", "complex64", "complex128")))


class Unsupported(Exception):
    """The program must be compiled."""


def identity(ufunc: np.ufunc, dtype: np.dtype) -> Any:
    """The number that a sum, a product, a maximum or a minimum begins with."""
    if ufunc not in (np.maximum, np.minimum):
        return np.asarray(ufunc.identity).astype(dtype)[()]
    least = ufunc is np.maximum
    if dtype.kind == "b":
        return np.bool_(not least)
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min if least else np.iinfo(dtype).max)
    return dtype.type(-np.inf if least else np.inf)


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
