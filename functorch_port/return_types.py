"""The named tuples of operations with several results: PyTorch's `torch.return_types`."""

from __future__ import annotations

from ._run.registry import ops as _ops
from ._run.return_types import return_types as _types

for _spec in _ops.values():
    _spec.tuple_type  # noqa: B018  makes the type
globals().update(_types)

__all__ = sorted(_types)
