"""``torch.onnx.symbolic_helper``: decorators for functions that an ONNX exporter would call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that returns the function unchanged."""
    return lambda fn: fn


def quantized_args(*arg_q_descriptors: bool, **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator that returns the function unchanged."""
    return lambda fn: fn
