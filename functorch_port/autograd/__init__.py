"""`torch.autograd`. What builds on Tensor is added by `complete`: core imports this package for its nodes."""

from __future__ import annotations

import importlib
from typing import Any

from . import grad_mode as grad_mode
from .grad_mode import enable_grad as enable_grad
from .grad_mode import inference_mode as inference_mode
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .node import Node as Node

_LATER = {
    "backward": "engine",
    "grad": "engine",
    "Function": "function",
    "Variable": "variable",
    "detect_anomaly": "anomaly",
    "set_detect_anomaly": "anomaly",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
}
_MODULES = ("functional", "graph", "profiler")


def complete() -> None:
    """Load the rest and bind its names (a function wins over the submodule of the same name)."""
    for name in _MODULES:
        globals()[name] = importlib.import_module(f"{__name__}.{name}")
    for name, module in _LATER.items():
        globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __getattr__(name: str) -> Any:
    if name in _LATER or name in _MODULES:
        complete()
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
