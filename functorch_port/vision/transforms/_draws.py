"""Random parameters from the default generator, in the order and the arithmetic of torchvision's.

They are drawn from the stream itself: a tensor of one element would take two thirds of the time.
"""

from __future__ import annotations

from functorch_port._base import dtypes
from functorch_port._random.generator import draw

__all__ = ["chance", "integer", "uniform"]


def uniform(low: float, high: float) -> float:
    """A number between two, as of ``torch.empty(1).uniform_(low, high)``."""
    return float(draw(None, "uniform", (1,), dtypes.float32, low=low, high=high)[0])


def integer(low: int, high: int) -> int:
    """An integer from ``low`` to ``high - 1``, as of ``torch.randint(low, high, (1,))``."""
    return int(draw(None, "integers", (1,), dtypes.int64, low=low, high=high)[0])


def chance(p: float) -> bool:
    """True with probability ``p``, as of ``torch.rand(1) < p``."""
    return float(draw(None, "uniform", (1,), dtypes.float32)[0]) < p
