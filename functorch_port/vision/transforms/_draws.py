"""Random parameters from the default generator, in the order and the arithmetic of torchvision's.

They are drawn from the stream itself: a tensor of one element would take two thirds of the time.
"""

from __future__ import annotations

from typing import Any

from functorch_port._array import tracing
from functorch_port._base import dtypes
from functorch_port._random.generator import draw

__all__ = ["chance", "integer", "refuse_in_trace", "uniform"]


def refuse_in_trace() -> None:
    """Refuse to draw in a compiled function.

    Raises:
        NotImplementedError: something is traced.
    """
    if tracing.overlay:
        raise NotImplementedError(
            "a random transform in a compiled function would be the same at every call: transform what goes into the "
            "function, as a DataLoader does"
        )


def _drawn(kind: str, dtype: Any, **params: Any) -> Any:
    refuse_in_trace()
    return draw(None, kind, (1,), dtype, **params)[0]


def uniform(low: float, high: float) -> float:
    """A number between two, as of ``torch.empty(1).uniform_(low, high)``."""
    return float(_drawn("uniform", dtypes.get_default_dtype(), low=low, high=high))


def integer(low: int, high: int) -> int:
    """An integer from ``low`` to ``high - 1``, as of ``torch.randint(low, high, (1,))``."""
    return int(_drawn("integers", dtypes.int64, low=low, high=high))


def chance(p: float) -> bool:
    """True with probability ``p``, as of ``torch.rand(1) < p``."""
    return float(_drawn("uniform", dtypes.get_default_dtype())) < p
