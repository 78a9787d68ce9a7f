"""``torch.backends.mha``: the switch of the inference path of the Transformer layers."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """Whether `nn.TransformerEncoder` sets padded positions to zero in evaluation, as PyTorch's fast path does."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Switch it; nothing else depends on it, as there is one way of computing."""
    global _enabled
    _enabled = value
