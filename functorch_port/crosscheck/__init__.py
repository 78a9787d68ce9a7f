"""Compares the updates of this package's optimizers with PyTorch's and optax's, number by number.

Also a command: ``functorch-port crosscheck --help``. This is the only part of the package that imports PyTorch, and
only if it is installed and requested.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Problem", "Recording", "Report", "Result", "compare", "recording", "replay"]

#: imported on first use, so that the command line starts without them
_HOMES = {
    "Problem": "_problems", "Recording": "_recorder", "Report": "_comparison", "Result": "_comparison",
    "compare": "_comparison", "recording": "_recorder", "replay": "_player",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
