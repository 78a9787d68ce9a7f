"""What the calling thread computes in another way for a while; a compiled function has a program for each."""

from __future__ import annotations

from typing import Any

from .modes import OfThread

__all__ = ["state"]


class _State(OfThread):
    def __init__(self) -> None:
        #: what takes the place of `scaled_dot_product_attention`: a callable that compares by value
        self.attention: Any = None


state = _State()
