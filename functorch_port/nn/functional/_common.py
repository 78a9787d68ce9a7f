"""What the function families share."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor


def require_tensor(function: str, argument: str, position: int, value: Any) -> None:
    """PyTorch's error for a value that is no Tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
        )


def write(target: Tensor, result: Tensor) -> Tensor:
    """The end of an in-place function: `target` becomes `result`, and autograd knows."""
    target._check_inplace()
    return target._take(result)
