"""The named tuples that operations with several results return: PyTorch's `torch.return_types`."""

from __future__ import annotations

from .core.registry import return_types as _types

globals().update(_types)

__all__ = sorted(_types)
