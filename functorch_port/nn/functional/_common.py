"""Helpers shared by the function families."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor


def require_tensor(function: str, argument: str, position: int, value: Any) -> None:
    """Raise PyTorch's error unless `value` is a Tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
        )


def write(target: Tensor, result: Tensor) -> Tensor:
    """Finish an in-place function: `target` becomes `result`, and autograd records it."""
    target._check_inplace()
    return target._take(result)
