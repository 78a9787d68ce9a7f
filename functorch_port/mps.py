"""``torch.mps``: there is no such backend; questions are answered, commands raise."""

from __future__ import annotations

from typing import Any

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Accepted: there is no generator to seed."""


def empty_cache() -> None:
    """Nothing is cached."""


def synchronize(device: Any = None) -> None:
    """Raises, for want of a device to wait for."""
    raise RuntimeError("there is no mps device: JAX runs the work on cpu, cuda or tpu")
