"""What the factories share: checks of arguments, and the placing of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..._array import placing, tracing
from ..._array.sizes import SymSize
from ..._array.symbolic import SymNumber
from ..._array.value import HOST
from ..._base import device as devices
from ..._base import dtypes
from ..._base.dtypes import dtype as DType
from ..registered import function
from ..tensor import Tensor, wrap

__all__ = ["finish", "place"]

_ABSENT: Any = object()


def _need(name: str, argument: str, value: Any) -> None:
    if value is _ABSENT:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')


def _dtype(value: Any, name: str) -> DType | None:
    """The ``dtype=`` argument; Python's number types mean the widest dtype of their kind."""
    return None if value is None else dtypes.as_dtype(value, name)


def _dtype_of(name: str, dtype: Any, out: Tensor | None, default: DType) -> DType:
    """The dtype of what a factory makes: the one asked for, else that of ``out``, else the default."""
    return _dtype(dtype, name) or (default if out is None else out.dtype)


def _tensor_argument(value: Any, name: str) -> Any:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}")
    return value._peek()


def _shape(size: Sequence[Any], name: str = "") -> tuple[int, ...]:
    """The shape from sizes given as separate arguments or as one sequence."""
    sequence = len(size) == 1 and isinstance(size[0], list | tuple)
    if sequence:
        size = size[0]
    elif len(size) > 1 and isinstance(size[0], list | tuple):
        raise TypeError(f"{name}() takes 1 positional argument but {len(size)} were given")
    shape = []
    for i, n in enumerate(size):
        if type(n) is SymSize:
            shape.append(n.dim)
            continue
        if isinstance(n, Tensor | SymNumber | np.integer):
            n = int(n)  # type: ignore[arg-type]
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(_not_a_size(name, n, i, sequence))
        if n < 0:
            raise RuntimeError(_negative_size(name, n, size))
        if n >= 1 << 63:
            raise TypeError(
                f"{name}(): argument 'size' failed to unpack the object at pos {i + 1} with error \"Overflow when "
                'unpacking long long"'
            )
        shape.append(n)
    return tuple(shape)


def _not_a_size(name: str, found: Any, position: int, sequence: bool) -> str:
    kind = type(found).__name__
    if position:
        return (
            f"{name}(): argument 'size' failed to unpack the object at pos {position + 1} with error \"type "
            f"must be tuple "
            f'of ints,but got {kind}"'
        )
    what = f"but found element of type {kind} at pos 0" if sequence else f"not {kind}"
    return f"{name}(): argument 'size' (position 1) must be tuple of ints, {what}"


def _negative_size(name: str, n: int, size: Sequence[Any]) -> str:
    if name == "zeros":
        return "zeros: Dimension size must be non-negative."
    return f"Trying to create tensor with negative dimension {n}: {list(size)}"


def place(value: Any, device: Any) -> Any:
    """Put a value on ``device`` (None: the default device, which costs nothing when it is JAX's own)."""
    where = devices.current_device() if device is None else devices.as_device(device)
    if where is None or isinstance(value, jax.core.Tracer):
        return value
    if where.type == "meta":
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    if tracing.overlay and where == getattr(tracing.current(), "described", None):
        return value  # there are no such devices here: the program is for them
    device = devices.to_jax(where)
    if devices.is_only(device) and (value.__class__ in HOST or value.devices() == {device}):
        return value
    return placing.put(value, device)


def finish(value: Any, device: Any, requires_grad: bool) -> Tensor:
    """Wrap the value of a factory: place it on ``device``, set ``requires_grad``."""
    tensor = wrap(place(value, device))
    return _requiring(tensor) if requires_grad else tensor


def _requiring(tensor: Tensor) -> Tensor:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    tensor._requires_grad = True
    return tensor


def _into(out: Tensor, made: Tensor) -> Tensor:
    out._assign_out(made)
    return out


def _is_meta(device: Any) -> bool:
    where = devices.current_device() if device is None else devices.as_device(device)
    return where is not None and where.type == "meta"


def _sparse_zeros(size: Any, dtype: DType | None, device: Any, requires_grad: bool) -> Tensor:
    return function("sparse_coo_tensor")(size=size, dtype=dtype, device=device, requires_grad=requires_grad)


def _wrong_call(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> TypeError:
    given = [type(a).__name__ for a in args] + [
        f"{k}={type(v).__name__}" for k, v in kwargs.items() if v is not None
    ]
    return TypeError(f"{name}() received an invalid combination of arguments - got ({', '.join(given)})")
