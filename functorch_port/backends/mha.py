"""``torch.backends.mha``: the switch of the Transformer layers' inference path."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """Whether `nn.TransformerEncoder` sets padded positions to zero in evaluation, as PyTorch's fast path does."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Set the result of `get_fastpath_enabled`; it has no other effect."""
    global _enabled
    _enabled = value
