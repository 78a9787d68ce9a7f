"""`torch.autograd`. What builds on Tensor is added by `complete`: core imports this package for its nodes."""

from __future__ import annotations

import importlib

from . import grad_mode as grad_mode
from .grad_mode import enable_grad as enable_grad
from .grad_mode import inference_mode as inference_mode
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .node import Node as Node

_LATER = {
    "engine": ("backward", "grad"),
    "function": ("Function",),
    "variable": ("Variable",),
    "anomaly": ("detect_anomaly", "set_detect_anomaly"),
    "gradcheck": ("gradcheck", "gradgradcheck"),
    "graph": (),
    "functional": (),
    "profiler": (),
}


def complete() -> None:
    """Load the rest and bind its names (a function wins over the submodule of the same name)."""
    for module, names in _LATER.items():
        loaded = importlib.import_module(f"{__name__}.{module}")
        for name in names:
            globals()[name] = getattr(loaded, name)
