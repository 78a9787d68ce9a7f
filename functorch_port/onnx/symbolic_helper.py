"""``torch.onnx.symbolic_helper``: decorators of functions that only an ONNX exporter would call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that gives back the function."""
    return lambda fn: fn


def quantized_args(*arg_q_descriptors: bool, **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator that gives back the function."""
    return lambda fn: fn
