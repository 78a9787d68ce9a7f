"""``torch._dynamo.utils``."""

from __future__ import annotations

import functools
import warnings
from typing import Any

__all__ = ["is_compile_supported", "warn_once"]


@functools.cache
def warn_once(msg: Any, stacklevel: int = 1) -> None:
    """Warn, the first time that this is said."""
    warnings.warn(msg, stacklevel=stacklevel + 1)


def is_compile_supported(device_type: str) -> bool:
    """False: libraries that would compile a part by themselves leave it to `functorch_port.compile`."""
    return False
