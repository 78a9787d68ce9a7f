"""What is written of a jaxpr."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Program"]


class Program(NamedTuple):
    """What was written.

    Attributes:
        run: a function of the symbols and then the arrays and numbers, to an array or a tuple of them.
        facts: a function of the symbols: microseconds that it takes, by an estimate, the elements of its largest array,
            and the multiply-adds of its largest product.
        is_kept: whether its arguments and results are of types that small values in numpy have.
    """

    run: Callable[..., Any]
    facts: Callable[..., tuple[float, int, int]]
    is_kept: bool
