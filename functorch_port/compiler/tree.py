"""Arguments and results as trees whose leaves are Tensors."""

from __future__ import annotations

from typing import Any

import jax

from ..core.symbolic import SymNumber
from ..core.tensor import Tensor

__all__ = ["LEAF", "by_identity", "flatten"]

#: the structure of a result that is one leaf
LEAF = jax.tree_util.tree_structure(0)


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor | SymNumber)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure of arguments or results; Tensors are leaves."""
    return jax.tree_util.tree_flatten(tree, is_leaf=_is_leaf)


def by_identity(tensor: Tensor) -> bool:
    """Whether an argument is this very tensor, a parameter, and not whatever tensor stands in its place."""
    return type(tensor).__name__ == "Parameter" or getattr(tensor, "_is_param", False)
