"""Cross-checking update math: this package's optimizers beside those of PyTorch and optax, number by number.

Also as a command: ``functorch-port crosscheck --help``. PyTorch is imported here, when it is installed and asked
for, and nowhere else in the package.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Problem", "Recording", "Report", "Result", "compare", "recording", "replay"]

#: loaded when first asked for, so that the command line starts without them
_HOMES = {
    "Problem": "problems", "Recording": "recorder", "Report": "comparison", "Result": "comparison",
    "compare": "comparison", "recording": "recorder", "replay": "player",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
