"""Questions about tensors, as functions: ``is_tensor``, ``numel``, ``is_floating_point``, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import anomaly
from ..core import legacy as _legacy  # noqa: F401  registers the old tensor classes
from ..core import storage
from ..core.registry import composite
from ..core.tensor import Tensor

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
    return isinstance(obj, storage.Storage)


@composite(where="torch")
def numel(input: Tensor) -> int:
    """Number of elements."""
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
    """Whether a one-element tensor is not zero."""
    return bool(_checked(input, "is_nonzero"))


@composite()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return input.shape == other.shape


@composite()
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode; tensors here are all alike."""
    return False


@composite()
def is_conj(input: Tensor) -> bool:
    """Whether a conjugation is still to be done; it never is."""
    return False


@composite()
def is_neg(input: Tensor) -> bool:
    """Whether a negation is still to be done; it never is."""
    return False


composite(where="torch")(anomaly.is_anomaly_enabled)
composite(where="torch")(anomaly.is_anomaly_check_nan_enabled)


@composite(where="torch")
def typename(obj: Any) -> str:
    """The name of an object's type; tensors by their old class."""
    if isinstance(obj, Tensor):
        return obj.type()  # type: ignore[attr-defined]
    kind = type(obj) if not hasattr(obj, "__qualname__") else obj
    module = getattr(kind, "__module__", "") or ""
    name = getattr(kind, "__qualname__", type(obj).__name__)
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


@composite("dim_order", where="method")
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


@composite("map_", where="method")
def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace every element by ``callable(own, other)``; slow, for small CPU tensors."""
    other = np.broadcast_to(tensor.detach().numpy(), self.shape)
    pairs = zip(self.detach().numpy().reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True)
    values = np.array([callable(a, b) for a, b in pairs]).reshape(self.shape)
    with storage.x64():
        self._set_value(storage.jax.numpy.asarray(values, self._value.dtype))
    return self
