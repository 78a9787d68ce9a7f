"""Small functions of the top-level namespace: checks that raise, constants, symbolic sizes, buffers."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._array.refusal import refuse
from ._base import dtypes
from ._base.device import device as Device
from ._base.memory import OutOfMemoryError
from ._tensor.anomaly import set_detect_anomaly
from ._tensor.creation import from_numpy
from ._tensor.tensor import Tensor, wrap

__all__ = [
    "OutOfMemoryError", "AcceleratorError", "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_check",
    "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with",
    "_check_type", "_check_value", "_check_with", "compiled_with_cxx11_abi", "e", "frombuffer", "get_device",
    "get_device_module", "inf", "is_distributed", "nan", "newaxis", "pi", "set_anomaly_enabled", "sym_float",
    "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum",
]  # fmt: skip

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None


class AcceleratorError(RuntimeError):
    """PyTorch's error for a failing device, for ``except`` clauses; never raised here."""

    __module__ = "functorch_port"


# ---------------------------------------------------------------- checks

_FALSE = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise ``error_type`` unless ``cond``, with the text ``message()``."""
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
                "that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(_FALSE if message is None else str(message()))


def _checker(name: str, error_type: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], Any] | None = None) -> None:
        _check_with(error_type, cond, message)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raises {error_type.__name__} unless ``cond``; the text comes from calling ``message``."
    return check


_check = _checker("_check", RuntimeError)
_check_index = _checker("_check_index", IndexError)
_check_value = _checker("_check_value", ValueError)
_check_type = _checker("_check_type", TypeError)
_check_not_implemented = _checker("_check_not_implemented", NotImplementedError)


def _check_is_size(i: Any, message: Any = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless ``0 <= i``, and ``i <= max`` if ``max`` is not None."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Any = None) -> None:
    """Raise ``error_type`` unless all elements are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not dtypes.bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    if isinstance(cond._value, jax.core.Tracer):
        text = _FALSE if message is None else str(message())
        refuse(lambda cond: ~cond, lambda cond: error_type(text), cond._value)
    else:
        _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Any = None) -> None:
    """Raise RuntimeError unless all elements are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition: Any, message: Any) -> None:
    """``assert`` as a function."""
    if isinstance(condition, Tensor) and condition.numel() == 1:
        refuse(lambda x: x == 0, lambda x: AssertionError(message), condition._value)
    else:
        assert condition, message


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Raise RuntimeError if a tensor of one element is zero."""
    text = assert_msg or "Expected Tensor with single nonzero value, but got zero"
    if input.numel() == 1:
        refuse(lambda x: x == 0, lambda x: RuntimeError(text), input._value)
    elif not bool(input):
        raise RuntimeError(text)


# ---------------------------------------------------------------- symbolic sizes: sizes are always known


class SymInt:
    """The type of PyTorch's symbolic sizes; it has no instances, as all sizes are known here."""

    __module__ = "functorch_port"


class SymFloat:
    """As `SymInt`, for floats."""

    __module__ = "functorch_port"


class SymBool:
    """As `SymInt`, for bools."""

    __module__ = "functorch_port"


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, which are given one by one or in a list."""
    numbers = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    return sum(numbers)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``, for two of one type."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


def sym_int(a: Any) -> int:
    """``int(a)``."""
    return int(a)


def sym_float(a: Any) -> float:
    """``float(a)``."""
    return float(a)


def sym_not(a: Any) -> bool:
    """``not a``."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number; a float if either is."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float if either is."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


# ---------------------------------------------------------------- others


def frombuffer(
    buffer: Any, *, dtype: dtypes.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Create a 1-dimensional tensor from the bytes of a buffer; it shares memory as with `from_numpy`.

    Args:
        buffer: an object with Python's buffer protocol.
        dtype: the tensor's dtype.
        count: the number of elements; negative for all.
        offset: the number of bytes to skip at the start.
        requires_grad: whether autograd should record operations on it.

    Raises:
        ValueError: ``buffer`` is not a buffer or has no bytes, or ``count`` or ``offset`` do not fit its size.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.frombuffer.html
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    size, each = view.nbytes, dtype.itemsize
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count < 0:
        if (size - offset) % each:
            raise ValueError(
                f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of "
                f"element size "
                f"({each})"
            )
        count = (size - offset) // each
    if offset + count * each > size:
        raise ValueError(
            f"requested buffer length ({count} * {each} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({size} bytes)"
        )
    array = np.frombuffer(view, dtype.np, count, offset)
    out = from_numpy(array) if array.dtype.kind != "V" else _wrapped(array.copy())
    return out.requires_grad_(requires_grad) if requires_grad else out


def _wrapped(array: np.ndarray) -> Tensor:
    """A tensor of a dtype that numpy itself lacks, such as bfloat16."""
    return wrap(jnp.asarray(array))


def get_device(input: Tensor) -> int:
    """The index of the tensor's device; -1 on the CPU."""
    return input.get_device()


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a device type: ``torch.cpu``, ``torch.cuda``, ...

    Raises:
        RuntimeError: there is no such module.
    """
    kind = "cpu" if device is None else Device(device).type if isinstance(device, str) else device.type
    try:
        return importlib.import_module(f"{__package__}.{kind}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None


def is_distributed(input: Tensor) -> bool:
    """Return False."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return True, as PyTorch's wheels do."""
    return True


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly detection on or off; see `autograd.set_detect_anomaly`."""
    set_detect_anomaly(mode, check_nan)
