"""`torch.autograd`. The names that build on Tensor are loaded on first use: core imports this package for its nodes."""

from __future__ import annotations

import importlib
from typing import Any

from .grad_mode import enable_grad as enable_grad
from .grad_mode import inference_mode as inference_mode
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .node import Node as Node

_LAZY = {
    "backward": "engine",
    "grad": "engine",
    "Function": "function",
    "Variable": "variable",
    "detect_anomaly": "anomaly",
    "set_detect_anomaly": "anomaly",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module = importlib.import_module(f"{__name__}.{_LAZY[name]}")
        value = getattr(module, name)
        globals()[name] = value  # also replaces the submodule of the same name
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
