"""flax, if it is installed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["linen", "nnx"]


def _part(name: str) -> Any:
    try:
        return importlib.import_module(f"flax.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("flax", f"flax.{name}"):
            raise
        raise ModuleNotFoundError(
            "functorch_port.flax needs flax, which is not installed: pip install 'functorch-port[flax]', "
            "or pip install flax",
            name=error.name,
        ) from None


def nnx() -> Any:
    """The module ``flax.nnx``."""
    return _part("nnx")


def linen() -> Any:
    """The module ``flax.linen``."""
    return _part("linen")
