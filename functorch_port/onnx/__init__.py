"""``torch.onnx``: there is no exporter to ONNX, and `is_in_onnx_export` returns False."""

from __future__ import annotations

import enum
from typing import Any

from .._base.refused import refused_class

__all__ = [
    "ONNXProgram",
    "OperatorExportTypes",
    "TrainingMode",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]


class OperatorExportTypes(enum.IntEnum):
    """How PyTorch's exporter writes operators; there is no exporter."""

    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)


class TrainingMode(enum.IntEnum):
    """The mode that PyTorch's exporter puts a module into; there is no exporter."""

    EVAL, PRESERVE, TRAINING = range(3)


ONNXProgram = refused_class("torch.onnx.ONNXProgram", "there is no ONNX exporter: torch.export.export")


def is_in_onnx_export() -> bool:
    """Return False."""
    return False


def export(*args: Any, **kwargs: Any) -> Any:
    """Not supported: no converter from JAX to ONNX takes what models are made of (docs/deployment.md has the trials).

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.onnx.export: there is no ONNX exporter. jax2onnx 0.17 converts MLPs and a TransformerEncoder, but no "
        "convolutions, LSTMs and GPTs (docs/deployment.md). Load the state dict into PyTorch and export there, or use "
        "torch.export.export: its StableHLO runs on CPU, GPU and TPU"
    )


def register_custom_op_symbolic(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no exporter."""


unregister_custom_op_symbolic = register_custom_op_symbolic
