"""The public functions of operations by name, which `_run.bind` fills: for layers below the operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["function", "functions"]

functions: dict[str, Callable[..., Any]] = {}


def function(name: str) -> Any:
    """The public function of an operation or composite, wherever it is published."""
    return functions[name]
