"""What the calling thread computes in another way for a while; a compiled function has a program for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .modes import OfThread

__all__ = ["state"]


class _State(OfThread):
    """
    Attributes:
        attention: what takes the place of `scaled_dot_product_attention`: a callable that compares by value.
        parts: of a batch that devices have a part of each, as under `parallel.DistributedDataParallel`: batch
            normalization has the statistics of each part.
    """

    attention: Any = None
    parts = 1

    @contextmanager
    def having(self, **values: Any) -> Iterator[None]:
        """Other values for a block."""
        before = {name: getattr(self, name) for name in values}
        try:
            self.__dict__.update(values)
            yield
        finally:
            self.__dict__.update(before)


state = _State()
