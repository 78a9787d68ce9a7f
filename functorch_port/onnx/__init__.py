"""``torch.onnx``: there is no exporter to ONNX, and `is_in_onnx_export` returns False."""

from __future__ import annotations

from typing import Any

__all__ = [
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]


def is_in_onnx_export() -> bool:
    """Return False."""
    return False


def export(*args: Any, **kwargs: Any) -> Any:
    """Not supported: there is no exporter to ONNX.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.onnx.export: there is no ONNX exporter; jax.export of functorch_port.functionalize(fn) gives a portable "
        "StableHLO program, or load the state dict into PyTorch and export there"
    )


def register_custom_op_symbolic(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no exporter."""


unregister_custom_op_symbolic = register_custom_op_symbolic
