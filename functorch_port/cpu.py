"""``torch.cpu``: the CPU as a device module."""

from __future__ import annotations

import contextlib
from typing import Any

from .amp import autocast as _autocast

__all__ = ["current_device", "device_count", "is_available", "set_device", "stream", "synchronize"]


def is_available() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return ``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Does nothing: there is one CPU device."""


def synchronize(device: Any = None) -> None:
    """Does nothing: reading a value waits for it."""


def stream(stream: Any = None) -> Any:
    """A context that does nothing."""
    return contextlib.nullcontext()


class amp:
    """``torch.cpu.amp``."""

    autocast = _autocast
