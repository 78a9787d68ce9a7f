"""`Parameter` and `Buffer`: Tensors that a `Module` files when they are assigned to an attribute."""

from __future__ import annotations

from typing import Any

from ..core.creation import empty
from ..core.tensor import Tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A Tensor that is learned: assigned to a module's attribute it becomes one of `Module.parameters()`.

    Args:
        data: the tensor; the parameter shares its Storage.
        requires_grad: whether it takes part in autograd.

    Raises:
        RuntimeError: for an integer or bool tensor, unless ``requires_grad=False``.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Parameter(torch.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        data = empty(0) if data is None else data.detach()
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        self = super().__new__(cls)
        self._storage, self._view = data._storage, data._view
        self._requires_grad = bool(requires_grad)
        return self  # type: ignore[return-value]

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Everything is done in `__new__`; the legacy constructor of `Tensor` must not run."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A parameter with the same values and nothing else: no gradient, no hooks, no attributes, as in PyTorch."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(Tensor._wrap(self._value), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Parameter containing:\n{super().__repr__()}"


class _BufferType(type):
    """A buffer is an ordinary Tensor that carries a mark, so that operations need not know about it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """A Tensor that is state but not learned: assigned to a module's attribute it becomes one of `Module.buffers()`.

    Args:
        data: the tensor; the buffer shares its Storage.
        persistent: whether it is part of `Module.state_dict()`.

    Example:
        >>> import functorch_port as torch
        >>> isinstance(torch.nn.Buffer(torch.ones(2)), torch.nn.Buffer)
        True

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Buffer.html
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Tensor:
        data = empty(0) if data is None else data
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
