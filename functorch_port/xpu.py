"""``torch.xpu``: there is no such backend; `synchronize` raises RuntimeError."""

from __future__ import annotations

from typing import Any

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Accepted, without effect."""


def empty_cache() -> None:
    """Does nothing."""


def synchronize(device: Any = None) -> None:
    """Raise RuntimeError: there is no device."""
    raise RuntimeError("there is no xpu device: the devices are cpu, cuda and tpu")
