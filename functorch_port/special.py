"""Special functions: PyTorch's `torch.special`.

Reference: https://docs.pytorch.org/docs/stable/special.html
"""

from __future__ import annotations

from ._run.bind import namespaces as _namespaces

globals().update(_namespaces["special"])

__all__ = sorted(_namespaces["special"])
