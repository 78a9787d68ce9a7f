"""Linear algebra: PyTorch's `torch.linalg`.

Reference: https://docs.pytorch.org/docs/stable/linalg.html
"""

from __future__ import annotations

from ._run.bind import namespaces as _namespaces
from .ops._matrices import LinAlgError as LinAlgError

globals().update(_namespaces["linalg"])

__all__ = ["LinAlgError", *sorted(_namespaces["linalg"])]
