"""What the leaves of arguments share and stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._array.storage import Storage
from .._tensor.tensor import Tensor

__all__ = ["beside_views", "by_identity", "cell_of"]


def cell_of(leaf: Any) -> Storage | None:
    """The Storage that an argument looks at; None if it is no Tensor, or a sparse one."""
    return getattr(leaf, "_storage", None) if isinstance(leaf, Tensor) else None


def beside_views(leaves: Sequence[Any]) -> set[int]:
    """Positions of the arguments that share memory with another, where one is a view."""
    cells = list(map(cell_of, leaves))
    viewed = {c for c, leaf in zip(cells, leaves, strict=True) if c is not None and leaf._view is not None}
    return {i for i, c in enumerate(cells) if c in viewed and cells.count(c) > 1}


def by_identity(tensor: Tensor) -> bool:
    """Whether an argument is this very tensor, and not whatever tensor stands in its place: a parameter, or one with a
    gradient or hooks, which a call takes in.
    """
    if type(tensor).__name__ == "Parameter" or getattr(tensor, "_is_param", False):
        return True
    has_more = tensor._kept_grad is not None or bool(tensor._hooks)
    return has_more and tensor._requires_grad and tensor._grad_fn is None
