"""Queries of tensors as functions: ``is_tensor``, ``numel``, ``is_floating_point``, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._array import tracing
from .._base import dtypes
from .._base.promotion import result_dtype
from .._base.size import Size
from .._run import bind
from .._run import legacy as _legacy  # noqa: F401  registers the old tensor classes
from .._run.registry import composite
from .._tensor import anomaly
from .._tensor.subclass import NO_SUBCLASS
from .._tensor.tensor import Tensor
from .._tensor.typed import TypedStorage
from .._tensor.untyped import UntypedStorage

__all__: list[str] = []


def _checked(input: Any, name: str) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


@composite(where="torch")
def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


@composite(where="torch")
def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a Storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


@composite(where="torch")
def numel(input: Tensor) -> int:
    """The number of elements."""
    return _checked(input, "numel").numel()


@composite(where="torch")
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating point type."""
    return _checked(input, "is_floating_point").is_floating_point()


@composite(where="torch")
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is a complex type."""
    return _checked(input, "is_complex").is_complex()


@composite(where="torch")
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return _checked(input, "is_signed").is_signed()


@composite()
def is_nonzero(input: Tensor) -> bool:
    """Whether a one-element tensor is nonzero."""
    return bool(_checked(input, "is_nonzero"))


@composite()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return input.shape == other.shape


@composite(where="torch")
def is_inference(input: Tensor) -> bool:
    """Whether the tensor's memory was allocated in `inference_mode`."""
    return input.is_inference()


@composite()
def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a conjugate view."""
    return _checked(input, "is_conj")._turned()[0]


@composite()
def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a negated view."""
    return _checked(input, "is_neg")._turned()[1]


composite(where="torch")(anomaly.is_anomaly_enabled)
composite(where="torch")(anomaly.is_anomaly_check_nan_enabled)


@composite(where="torch")
def typename(obj: Any) -> str:
    """The name of an object's type; for tensors the legacy name, such as ``torch.FloatTensor``."""
    if isinstance(obj, Tensor):
        return obj.type()  # type: ignore[attr-defined]
    kind = type(obj) if not hasattr(obj, "__qualname__") else obj
    module = getattr(kind, "__module__", "") or ""
    name = getattr(kind, "__qualname__", type(obj).__name__)
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


@composite("dim_order", where="method")
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions in the order of memory, from outermost to innermost; ``ambiguity_check`` has no effect."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


@composite("map_", where="method")
def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace every element by ``callable(own, other)``; slow, for small CPU tensors."""
    other = np.broadcast_to(tensor.numpy(force=True), self.shape)
    pairs = zip(self.numpy(force=True).reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True)
    values = np.array([callable(a, b) for a, b in pairs]).reshape(self.shape)
    with tracing.x64():
        self._set_value(jnp.asarray(values, self._value.dtype))
    return self


@composite("map2_", where="method")
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace every element by ``callable(own, x, y)``; slow, for small CPU tensors."""
    parts = [np.broadcast_to(t.numpy(force=True), self.shape).reshape(-1).tolist() for t in (self, x, y)]
    values = np.array([callable(*each) for each in zip(*parts, strict=True)]).reshape(self.shape)
    with tracing.x64():
        self._set_value(jnp.asarray(values, self._value.dtype))
    return self


@composite(where="method")
def as_subclass(self: Tensor, cls: type) -> Tensor:
    """Return this tensor as an instance of a subclass, with the same Storage."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(NO_SUBCLASS)
    return bind.function("alias")(self)._as(cls)


@composite("detach_", where="torch")
def detach_(input: Tensor) -> Tensor:
    """Detach a tensor from the graph, in place."""
    return _checked(input, "detach_").detach_()


@composite(where="torch")
def get_device(input: Tensor) -> int:
    """The index of the tensor's device; -1 on the CPU."""
    return _checked(input, "get_device").get_device()


@composite("detach", where="torch")
def detach(input: Tensor) -> Tensor:
    """A tensor with the same Storage, detached from the graph."""
    return input.detach()


@composite("result_type", where="torch")
def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of the result of an operation on two tensors or numbers.

    Example:
        >>> import functorch_port as torch
        >>> torch.result_type(torch.tensor([1, 2]), 1.0)
        torch.float32

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.result_type.html
    """
    return result_dtype(*(x._value if isinstance(x, Tensor) else x for x in (tensor1, tensor2)))


@composite("broadcast_shapes", where="torch")
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that tensors of these shapes broadcast to.

    Example:
        >>> import functorch_port as torch
        >>> torch.broadcast_shapes((2, 1), (3,))
        torch.Size([2, 3])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.broadcast_shapes.html
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


@composite()
def resolve_conj(input: Tensor) -> Tensor:
    """A copy of a conjugate view (see `is_conj`); any other tensor unchanged."""
    return input.clone() if _checked(input, "resolve_conj")._turned()[0] else input  # type: ignore[attr-defined]


@composite()
def resolve_neg(input: Tensor) -> Tensor:
    """A copy of a negated view (see `is_neg`); any other tensor unchanged."""
    return input.clone() if _checked(input, "resolve_neg")._turned()[1] else input  # type: ignore[attr-defined]
