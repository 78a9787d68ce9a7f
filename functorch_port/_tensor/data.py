"""Python data to arrays: numbers, nested sequences, numpy and JAX arrays, in the dtype PyTorch infers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, placed, placing
from .._array.symbolic import SymNumber
from .._base import dtypes
from .._base.dtypes import dtype as DType
from .._base.promotion import promote_types
from .tensor import Tensor

__all__ = ["checked_numpy", "value_of"]

_SEQUENCES = (list, tuple, range, bytearray, memoryview)
_COMPLEX = complex
_RANK = {bool: 0, int: 1, float: 2, _COMPLEX: 3}
_NUMBERS = tuple(_RANK)
_SUPPORTED = (
    "The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, "
    "int8, uint64, uint32, uint16, uint8, and bool."
)


def value_of(data: Any, dtype: DType | None = None) -> Any:
    """``data`` as an array that nobody else can write to, in ``dtype`` or the one that PyTorch infers. An
    executor may leave it a numpy array.
    """
    if isinstance(data, Tensor):
        return _cast(data._value, dtype)
    if isinstance(data, jax.Array):
        return _cast(placed.taken(data), dtype)
    if isinstance(data, SymNumber):
        kind = dtype or (dtypes.get_default_dtype() if isinstance(data.value, float) else dtypes.int64)
        return jnp.asarray(data.array, kind.np)
    if isinstance(data, np.ndarray):
        array = checked_numpy(data)
        array = array.real if _drops_imaginary(array, dtype) else array
        if dtype in (None, dtypes.from_np(array.dtype)) and executor.current.leaves(array):
            return array.copy(order="C")
        return placing.on_device(array if dtype is None else array.astype(dtype.np))
    try:
        inferred, plain = _infer(data)
    except _Unlisted:
        data = _listed(data)
        inferred, plain = _infer(data)
    if not plain and any(isinstance(leaf, Tensor | SymNumber | jax.Array) for leaf in _leaves(data)):
        return _from_tensors(data, dtype or inferred)
    array = _array(data, inferred, dtype)
    return executor.current.place(array)


def _listed(data: Any) -> Any:
    """Another kind of sequence (a deque, an array, what has a length and items by number) as a list."""
    if isinstance(data, _SEQUENCES) or _is_sequence(data):
        return [_listed(data[i]) for i in range(len(data))]
    return data


def _is_sequence(data: Any) -> bool:
    cls = type(data)
    counts = hasattr(cls, "__len__") and hasattr(cls, "__getitem__") and not hasattr(cls, "keys")
    return counts and not isinstance(data, str | bytes | Tensor | np.ndarray | np.generic | jax.Array)


class _Unlisted(Exception):
    """Among nested data is a sequence that is no list or tuple."""


def _drops_imaginary(array: np.ndarray, dtype: DType | None) -> bool:
    return dtype is not None and array.dtype.kind == "c" and not dtype.is_complex


def _cast(value: Any, dtype: DType | None) -> Any:
    if dtype is None or value.dtype == dtype.np:
        return value
    return (value.real if _drops_imaginary(value, dtype) else value).astype(dtype.np)


def checked_numpy(array: np.ndarray) -> np.ndarray:
    """A numpy array in native byte order, refused where PyTorch cannot take it."""
    if array.dtype.kind in "OUSMmV" and array.dtype.name not in dtypes.NAMES:
        raise TypeError(f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}. {_SUPPORTED}")
    if any(stride < 0 for stride in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are "
            "not currently supported. (You can probably work around this by making a copy of your array  "
            "with array.copy().) "
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


# ------------------------------------------------------------ nested sequences


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, _SEQUENCES):
        for item in data:
            yield from _leaves(item)
    else:
        yield data


def _infer(data: Any) -> tuple[DType | None, bool]:
    """The dtype of nested data, and whether it holds nothing but Python numbers."""
    widest, kind, plain = -1, None, True
    stack = [data]
    while stack:
        item = stack.pop()
        rank = _RANK.get(type(item))
        if rank is None and isinstance(item, _NUMBERS) and not isinstance(item, np.generic):
            rank = next(rank for kind, rank in _RANK.items() if isinstance(item, kind))  # an enum, say
        if rank is not None:
            widest = max(widest, rank)
        elif isinstance(item, _SEQUENCES):
            kinds = set(map(type, item))
            if kinds <= _RANK.keys():  # most lists have numbers alone, and many of them
                widest = max([widest, *map(_RANK.__getitem__, kinds)])
            else:
                stack.extend(item)
        else:
            plain = False
            own = _leaf_dtype(item)
            kind = own if kind is None else promote_types(kind, own)
    if widest >= 0:
        mine = (dtypes.bool_, dtypes.int64, dtypes.get_default_dtype(), dtypes.get_default_complex_dtype())[
            widest
        ]
        kind = mine if kind is None else promote_types(kind, mine)
    return kind, plain


def _leaf_dtype(item: Any) -> DType:
    if isinstance(item, Tensor):
        return item.dtype
    if isinstance(item, np.ndarray):
        return dtypes.from_np(checked_numpy(item).dtype)
    if isinstance(item, np.generic | jax.Array) and item.dtype.kind not in "OUSMm":
        return dtypes.from_np(item.dtype)
    if isinstance(item, SymNumber):
        return dtypes.get_default_dtype() if isinstance(item.value, float) else dtypes.int64
    if isinstance(item, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    if _is_sequence(item):
        raise _Unlisted
    raise RuntimeError(f"Could not infer dtype of {type(item).__name__}")


def _array(data: Any, kind: DType | None, dtype: DType | None) -> np.ndarray:
    """Nested numbers as a numpy array of ``dtype``, or of the inferred ``kind``."""
    target = dtype or kind or dtypes.get_default_dtype()
    try:
        array = np.array(data)
        if array.dtype == object and target is not dtypes.uint64 and kind is not dtypes.int64:
            array = np.array(data, np.float64)
    except ValueError:
        _explain(data, target)
        raise
    if kind is not None and not kind.is_complex and not kind.is_floating_point and array.size:
        if array.dtype.kind == "f":  # what numpy makes of integers with and without a sign
            array = np.array(data, object)
        if array.dtype == object or (array.dtype == np.uint64 and target is dtypes.int64):
            if not target.is_floating_point and target is not dtypes.uint64:
                raise ValueError("Overflow when unpacking long long")
    if array.dtype.kind == "c" and target.np.kind not in "cb":
        wrong = "must be real number, not complex"
        raise TypeError(
            wrong if target.is_floating_point else "'complex' object cannot be interpreted as an integer"
        )
    if dtype is not None and dtype.np.kind in "iu":
        _check_range(array, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(target.np)


def _check_range(array: np.ndarray, dtype: DType) -> None:
    """Numbers must fit an integer type that was asked for; negative ones wrap around in an unsigned type."""
    info = dtypes.iinfo(dtype)
    low = -info.max if info.min == 0 and array.dtype.kind != "f" else info.min
    if array.size and array.dtype.kind != "b" and not bool(np.all((array >= low) & (array <= info.max))):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


def _explain(data: Any, target: DType) -> None:
    """Raise PyTorch's error for nested sequences of uneven shape."""
    sizes: list[int] = []
    first = data
    while isinstance(first, _SEQUENCES):
        sizes.append(len(first))
        if not first:
            break
        first = first[0]

    def walk(item: Any, dim: int) -> None:
        if dim == len(sizes):
            if isinstance(item, _SEQUENCES):
                name = type(item).__name__
                real = target.is_floating_point or target.is_complex
                raise TypeError(
                    f"must be real number, not {name}"
                    if real
                    else f"'{name}' object cannot be interpreted as an integer"
                )
            return
        if not isinstance(item, _SEQUENCES):
            raise TypeError("not a sequence")
        if len(item) != sizes[dim]:
            raise ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(item)})")
        for inner in item:
            walk(inner, dim + 1)

    walk(data, 0)


def _from_tensors(data: Any, dtype: DType | None) -> Any:
    """Nested sequences with one-element tensors among the numbers."""
    np_dtype = (dtype or dtypes.get_default_dtype()).np
    if isinstance(data, _SEQUENCES):
        parts = [_from_tensors(item, dtype) for item in data]
        if any(part.shape != parts[0].shape for part in parts):
            raise ValueError("expected nested sequences of one shape")
        return jnp.stack(parts)
    value = data._value if isinstance(data, Tensor) else data.array if isinstance(data, SymNumber) else data
    if getattr(value, "size", 1) != 1:
        if np_dtype.kind in "fc":
            raise ValueError("only one element tensors can be converted to Python scalars")
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return jnp.asarray(value).reshape(()).astype(np_dtype)
