"""``torch.backends.mkldnn``: switches without effect; on a CPU oneDNN is used wherever it is installed and pays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["allow_tf32", "deterministic", "enabled", "flags", "is_available"]

enabled = True
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: there are no tensors in oneDNN's layout."""
    return False


@contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Iterator[None]:
    """Set the switches within a ``with`` block."""
    names = ("enabled", "deterministic", "allow_tf32")
    before = {name: globals()[name] for name in names}
    globals().update(zip(names, (enabled, deterministic, allow_tf32), strict=True))
    try:
        yield
    finally:
        globals().update(before)
