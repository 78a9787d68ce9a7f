"""`torch.autograd`. Rarely used modules are imported on first access."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from .._tensor.grad_mode import _force_original_view_tracking as _force_original_view_tracking
from .._tensor.grad_mode import enable_grad as enable_grad
from .._tensor.grad_mode import inference_mode as inference_mode
from .._tensor.grad_mode import no_grad as no_grad
from .._tensor.grad_mode import set_grad_enabled as set_grad_enabled
from .._tensor.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from . import _methods
from . import grad_mode as grad_mode

if _typing.TYPE_CHECKING:
    from .._run.packing import SavedTensor as SavedTensor
    from . import anomaly_mode as anomaly_mode
    from . import forward_ad as forward_ad
    from . import functional as functional
    from . import graph as graph
    from . import profiler as profiler
    from . import profiler_util as profiler_util
    from ._calls import backward as backward
    from ._calls import grad as grad
    from .anomaly_mode import detect_anomaly as detect_anomaly
    from .anomaly_mode import set_detect_anomaly as set_detect_anomaly
    from .function import Function as Function
    from .gradcheck import gradcheck as gradcheck
    from .gradcheck import gradgradcheck as gradgradcheck
    from .profiler import _profiler_enabled as _profiler_enabled
    from .profiler import kineto_available as kineto_available
    from .variable import Variable as Variable

_LATER = {
    "backward": "_calls",
    "grad": "_calls",
    "Function": "function",
    "kineto_available": "profiler",
    "_profiler_enabled": "profiler",
    "Variable": "variable",
    "detect_anomaly": "anomaly_mode",
    "set_detect_anomaly": "anomaly_mode",
    "gradgradcheck": "gradcheck",
}
_MODULES = ("anomaly_mode", "forward_ad", "functional", "graph", "profiler", "profiler_util")


def _complete() -> None:
    """Bind the function that shares its name with a submodule, which a later import would otherwise replace."""
    globals()["gradcheck"] = _importlib.import_module(f"{__name__}.gradcheck").gradcheck


if not _typing.TYPE_CHECKING:  # there every name is known

    def __getattr__(name: str) -> _typing.Any:
        if name in _MODULES:
            return _importlib.import_module(f"{__name__}.{name}")
        if name == "SavedTensor":
            from .._run.packing import SavedTensor

            return SavedTensor
        if name in _LATER:
            table = {name: getattr(_importlib.import_module(f"{__name__}.{_LATER[name]}"), name)}
            if name == "grad":
                _importlib.import_module("functorch_port._run.bind").publish_functions(
                    table, "torch.autograd"
                )
            globals().update(table)
            return table[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES, "SavedTensor"})
