"""``torch._dynamo.utils``."""

from __future__ import annotations

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: str) -> bool:
    """False: libraries that would compile a part by themselves leave it to `functorch_port.compile`."""
    return False
