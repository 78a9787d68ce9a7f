"""The old tensor classes by dtype: ``torch.FloatTensor([1, 2])``, ``isinstance(x, torch.LongTensor)``."""

from __future__ import annotations

import warnings
from typing import Any

from .._base import dtypes
from .._tensor import creation
from .._tensor.tensor import Tensor
from .registry import composite

__all__ = ["CLASSES", "set_default_tensor_type"]


class _LegacyMeta(type):
    """The behaviour of ``torch.FloatTensor`` and its like: constructors and dtype checks, no classes of their own."""

    dtype: dtypes.dtype
    is_cuda = False

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.is_cpu

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return creation.legacy(args, device, cls.dtype)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _make(dtype: dtypes.dtype) -> Any:
    members = {
        "dtype": dtype,
        "_dtype": dtype,
        "__doc__": f"The old constructor of {dtype!r} tensors; `functorch_port.tensor` replaces it.",
    }
    return _LegacyMeta(f"{dtype.scalar_name}Tensor", (), members)


CLASSES: dict[str, Any] = {
    f"{d.scalar_name}Tensor": _make(d)
    for d in (
        dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.uint8, dtypes.int8, dtypes.int16,
        dtypes.int32, dtypes.int64, dtypes.bool_,
    )
}  # fmt: skip
for _name, _class in CLASSES.items():
    composite(_name, where="torch")(_class)


@composite(where="torch")
def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by an old class or its name (deprecated in PyTorch: use `set_default_dtype`)."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    found = CLASSES.get(t.removeprefix("torch.")) if isinstance(t, str) else t
    if found is None or not isinstance(found, _LegacyMeta):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    dtypes.set_default_dtype(found.dtype)
