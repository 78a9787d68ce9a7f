"""Signal processing: PyTorch's `torch.signal`.

Reference: https://docs.pytorch.org/docs/stable/signal.html
"""

from __future__ import annotations

from . import windows as windows

__all__ = ["windows"]
