"""``torch.ao.quantization``: models can be defined for quantization; quantizing them is refused by name."""

from __future__ import annotations

from typing import Any

from ..._base.refused import refused
from ...nn._module import Module

__all__ = [
    "DeQuantStub",
    "QuantStub",
    "fuse_modules",
    "fuse_modules_qat",
    "prepare",
    "prepare_qat",
    "convert",
]


class QuantStub(Module):
    """Marks where a model's input would be quantized; returns its input.

    Args:
        qconfig: accepted.
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(QuantStub):
    """Marks where a model's output would be converted back; returns its input.

    Args:
        qconfig: accepted.
    """


_NAMES = (
    "convert", "default_eval_fn", "default_qconfig", "fuse_modules", "fuse_modules_qat", "get_default_qat_qconfig",
    "get_default_qconfig", "prepare", "prepare_qat", "quantize", "quantize_dynamic", "quantize_qat",
)  # fmt: skip
_CLASSES = (
    "FakeQuantize", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver", "ObserverBase",
    "PerChannelMinMaxObserver", "QConfig", "QConfigMapping", "QuantWrapper",
)  # fmt: skip
_WHY = (
    "there is no quantization here; use bfloat16 (functorch_port.amp), or quantize the trained "
    "state dict with PyTorch"
)
globals().update(refused("torch.ao.quantization", _WHY, _NAMES, _CLASSES))
