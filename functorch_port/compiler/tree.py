"""Arguments and results as trees whose leaves are Tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ..core.storage import Storage
from ..core.symbolic import SymNumber
from ..core.tensor import Tensor

__all__ = ["LEAF", "beside_views", "by_identity", "cell_of", "flatten"]

#: the structure of a result that is one leaf
LEAF = jax.tree_util.tree_structure(0)


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor | SymNumber)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure of arguments or results; Tensors are leaves."""
    return jax.tree_util.tree_flatten(tree, is_leaf=_is_leaf)


def cell_of(leaf: Any) -> Storage | None:
    """The Storage that an argument looks at; None if it is no Tensor, or a sparse one."""
    return getattr(leaf, "_storage", None) if isinstance(leaf, Tensor) else None


def beside_views(leaves: Sequence[Any]) -> set[int]:
    """Positions of the arguments that share memory with another, where one is a view."""
    cells = list(map(cell_of, leaves))
    viewed = {c for c, leaf in zip(cells, leaves, strict=True) if c is not None and leaf._view is not None}
    return {i for i, c in enumerate(cells) if c in viewed and cells.count(c) > 1}


def by_identity(tensor: Tensor) -> bool:
    """Whether an argument is this very tensor, a parameter, and not whatever tensor stands in its place."""
    return type(tensor).__name__ == "Parameter" or getattr(tensor, "_is_param", False)
