"""``torch.fx.experimental.symbolic_shapes``: questions about sizes, which here are known, or numbers of a trace."""

from __future__ import annotations

from typing import Any

from ..._base.refused import refused_class
from .. import _INSTEAD

__all__ = [
    "GuardOnDataDependentSymNode", "ShapeEnv", "guard_or_false", "guard_or_true", "guard_size_oblivious",
    "has_free_symbols", "is_concrete_int", "statically_known_true",
]  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """PyTorch's error for a branch on an unknown size, for ``except`` clauses; never raised here."""


ShapeEnv = refused_class("torch.fx.experimental.symbolic_shapes.ShapeEnv", _INSTEAD)


def guard_or_false(a: Any) -> bool:
    """The truth of a condition."""
    return bool(a)


guard_or_true = guard_size_oblivious = statically_known_true = guard_or_false


def is_concrete_int(a: Any) -> bool:
    """Whether a size is a number that Python knows."""
    return isinstance(a, int)


def has_free_symbols(val: Any) -> bool:
    """Whether a size is none that Python knows."""
    return not isinstance(val, int | float | bool)
