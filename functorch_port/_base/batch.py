"""How the batch of a data-parallel module lies on its devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .modes import OfThread

__all__ = ["batch"]


class _Batch(OfThread):
    """
    Attributes:
        parts: of a batch that devices have a part of each, as under `parallel.DistributedDataParallel`: batch
            normalization has the statistics of each part.
    """

    parts = 1

    @contextmanager
    def in_parts(self, count: int) -> Iterator[None]:
        """For a block the batch has so many parts."""
        before, self.parts = self.parts, count
        try:
            yield
        finally:
            self.parts = before


batch = _Batch()
