"""Questions about tensors, answered on the host: what something is, and what an operation would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import grad_mode
from ..core import dtypes
from ..core.promotion import result_dtype
from ..core.registry import composite
from ..core.size import Size
from ..core.storage import Storage
from ..core.tensor import Tensor


@composite("is_tensor", where="torch")
def is_tensor(obj: Any, /) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


@composite("is_storage", where="torch")
def is_storage(obj: Any, /) -> bool:
    """Whether ``obj`` is the storage of a Tensor."""
    return isinstance(obj, Storage)


@composite("is_floating_point", where="torch")
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating point numbers."""
    return input.is_floating_point()


@composite("is_complex", where="torch")
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.is_complex()


@composite("is_signed", where="torch")
def is_signed(input: Tensor) -> bool:
    """Whether the elements can be negative."""
    return input.is_signed()


@composite("is_conj", "is_neg")
def is_conj(input: Tensor) -> bool:
    """False: conjugation and negation are never lazy here."""
    return False


@composite("is_inference")
def is_inference(input: Tensor) -> bool:
    """Whether inference mode is on, in which nothing is recorded."""
    return grad_mode.is_inference_mode_enabled()


@composite("is_nonzero")
def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor of one element is not 0."""
    return bool(input)


@composite("is_same_size")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape."""
    return tuple(input.shape) == tuple(other.shape)


@composite("is_set_to", where="method")
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both look at one Storage in the same way."""
    same_view = tuple(self.shape) == tuple(tensor.shape) and self._layout() == tensor._layout()
    return self._storage is tensor._storage and same_view


@composite("numel", where="torch")
def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


@composite("detach", where="torch")
def detach(input: Tensor) -> Tensor:
    """A tensor that shares the Storage and is cut off from the history."""
    return input.detach()


@composite("typename", where="torch")
def typename(obj: Any, /) -> str:
    """The name of a tensor's legacy type, or of an object's class."""
    if isinstance(obj, Tensor):
        return obj.type()  # type: ignore[attr-defined]
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@composite("result_type", where="torch")
def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an operation on two tensors or numbers.

    Example:
        >>> import functorch_port as torch
        >>> torch.result_type(torch.tensor([1, 2]), 1.0)
        torch.float32

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.result_type.html
    """
    return result_dtype(*(x._value if isinstance(x, Tensor) else x for x in (tensor1, tensor2)))


@composite("broadcast_shapes", where="torch")
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that tensors of these shapes broadcast to.

    Example:
        >>> import functorch_port as torch
        >>> torch.broadcast_shapes((2, 1), (3,))
        torch.Size([2, 3])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.broadcast_shapes.html
    """
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    out = [1] * max((len(s) for s in given), default=0)
    for number, shape in enumerate(given):
        for i in range(-1, -1 - len(shape), -1):
            if shape[i] < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension ({shape[i]}): ({shape[i]})"
                )
            if shape[i] == 1 or shape[i] == out[i]:
                continue
            if out[i] != 1:
                wide = max((len(s) for s in given[:number]), default=0)
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[i]} at {i}! Mismatching argument at index "
                    f"{number} had {shape}; but expected shape should be broadcastable to {out[-wide:] if wide else []}"
                )
            out[i] = shape[i]
    return Size(out)
