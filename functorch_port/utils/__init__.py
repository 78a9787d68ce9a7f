"""Utilities beside the training stack: data loading, activation checkpointing, trees (``torch.utils``)."""

from __future__ import annotations

import importlib
from typing import Any

from functorch_port.utils import checkpoint as checkpoint
from functorch_port.utils import data as data

__all__ = ["checkpoint", "data"]

_LATER = ("_foreach_utils", "_python_dispatch", "_pytree", "hooks", "model_zoo", "resume")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
