"""The `Variable` of PyTorch's first versions, which is a Tensor now."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .._tensor.creation import zeros
from .._tensor.tensor import Tensor
from . import _task

__all__ = ["Variable"]


class ImperativeEngine:
    """What `Variable` has of PyTorch's engine."""

    @staticmethod
    def queue_callback(callback: Callable[[], None]) -> None:
        """Call ``callback`` when the backward pass that is running is done."""
        _task.queue_callback(callback)


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """``Variable(data)`` gives a Tensor that shares the data.

    Args:
        data: a Tensor.
        requires_grad: record operations on it.
        volatile: the old spelling of `no_grad`; ignored, as in PyTorch.

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#variable-deprecated
    """

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if data is None:
            data = zeros(0)
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data._alias().requires_grad_(requires_grad)
