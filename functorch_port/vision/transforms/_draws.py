"""Random parameters from the default generator, in the order and the arithmetic of torchvision's."""

from __future__ import annotations

import functorch_port as torch

__all__ = ["chance", "integer", "uniform"]


def uniform(low: float, high: float) -> float:
    """A number between two."""
    return torch.empty(1).uniform_(low, high).item()


def integer(low: int, high: int) -> int:
    """An integer from ``low`` to ``high - 1``."""
    return torch.randint(low, high, size=(1,)).item()


def chance(p: float) -> bool:
    """True with probability ``p``."""
    return torch.rand(1).item() < p
