"""All rules for primitives, and the program that is written with them."""

from __future__ import annotations

from typing import Any

from .arithmetic import ARITHMETIC_RULES
from .control import CONTROL
from .factors import FACTORS
from .indexing import INDEXING
from .primitives import RULES
from .program import Program
from .windows import WINDOWS
from .writer import Rules, Writer

__all__ = ["program"]

_MOVING = frozenset(CONTROL) | {
    "bitcast_convert_type", "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "copy_p",
    "dynamic_slice", "dynamic_update_slice", "expand_dims", "gather", "optimization_barrier", "pad", "reshape", "rev",
    "scatter", "select_n", "slice", "split", "squeeze", "stack", "stop_gradient", "transpose", "unstack",
}  # fmt: skip
_ALL = Rules({**ARITHMETIC_RULES, **CONTROL, **FACTORS, **INDEXING, **RULES, **WINDOWS}, _MOVING)


def program(closed: Any, kind: type, symbols: int) -> Program:
    """The program of a jaxpr; raises `Unsupported` where there is none (see `Writer`)."""
    return Writer(closed, kind, symbols, _ALL).program()
