"""flax, if it is installed."""

from __future__ import annotations

from typing import Any

from .._base.optional import optional

__all__ = ["linen", "nnx"]


def nnx() -> Any:
    """The module ``flax.nnx``."""
    return optional("flax.nnx", "functorch_port.flax", "flax")


def linen() -> Any:
    """The module ``flax.linen``."""
    return optional("flax.linen", "functorch_port.flax", "flax")
