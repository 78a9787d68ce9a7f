"""``torch.utils.hooks``: the handle that registering a hook returns."""

from __future__ import annotations

from typing import Any

from .._tensor.node import RemovableHandle as RemovableHandle
from ..nn._hooks import BackwardHook as BackwardHook

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Any) -> Any:
    """Mark a hook so that pickling skips it, and return it."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Do nothing: hooks of tensors are never pickled."""
