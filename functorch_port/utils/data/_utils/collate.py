"""Turning a list of samples into a batch, and single samples into tensors."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.utils.data._arrays import stacked

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # numpy type codes that have no tensor type
_CANNOT = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _refill(sample: Any, items: list[tuple[Any, Any]]) -> Any:
    """A container of ``sample``'s type with ``items``, pairs of a key or position and a value; else a dict or list."""
    mapping = isinstance(sample, Mapping)
    plain: Any = dict(items) if mapping else [value for _, value in items]
    try:
        if not isinstance(sample, MutableMapping | MutableSequence):
            return type(sample)(plain)
        twin: Any = copy.copy(sample)  # a subclass may have attributes
        if mapping:
            twin.update(plain)
        else:
            for position, value in items:
                twin[position] = value
        return twin
    except TypeError:
        return plain


def default_convert(data: Any) -> Any:
    """Convert numpy arrays and numbers in nested containers to tensors; other values stay. A tuple becomes a list.

    A ``DataLoader`` without batching applies this function to each sample.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_convert
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return data if np_str_obj_array_pattern.search(data.dtype.str) else torch.as_tensor(data)
    if isinstance(data, np.generic) and not isinstance(data, np.str_):
        return torch.as_tensor(data)
    if isinstance(data, Mapping):
        return _refill(data, [(key, default_convert(data[key])) for key in data])
    if isinstance(data, tuple):
        values = [default_convert(item) for item in data]
        return type(data)(*values) if hasattr(data, "_fields") else values
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _refill(data, [(i, default_convert(item)) for i, item in enumerate(data)])
    return data


def collate(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    """Collate ``batch`` with the function registered for the type of its elements, looking inside containers.

    Args:
        batch: samples of one structure.
        collate_fn_map: element type (or tuple of types) -> ``fn(batch, *, collate_fn_map)``.

    Raises:
        RuntimeError: sequences of different lengths.
        TypeError: an element type that nothing is registered for.
    """
    sample = batch[0]
    fn = _registered(type(sample), sample, collate_fn_map or {})
    if fn is not None:
        return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(sample, Mapping):
        columns = {key: [item[key] for item in batch] for key in sample}
        return _refill(
            sample, [(k, collate(column, collate_fn_map=collate_fn_map)) for k, column in columns.items()]
        )
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)))
    if isinstance(sample, Sequence):
        if any(len(item) != len(sample) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        return parts if isinstance(sample, tuple) else _refill(sample, list(enumerate(parts)))
    raise TypeError(_CANNOT.format(type(sample)))


def _registered(kind: type, sample: Any, table: dict) -> Callable[..., Any] | None:
    if kind in table:
        return table[kind]
    return next((fn for key, fn in table.items() if isinstance(sample, key)), None)


def collate_tensor_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    """Stack tensors along a new first dimension."""
    if batch[0]._sparse:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; please provide a custom "
            "collate_fn to handle them appropriately."
        )
    out = stacked(batch)
    return torch.stack(batch, 0) if out is None else out


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    """Stack numpy arrays as tensors."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise TypeError(_CANNOT.format(batch[0].dtype))
    first = batch[0]
    if _plain(collate_fn_map) and all(
        isinstance(a, np.ndarray) and (a.shape, a.dtype) == (first.shape, first.dtype) for a in batch
    ):
        return torch.as_tensor(np.stack([np.asarray(a) for a in batch]))  # a matrix has two dimensions always
    return collate([torch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _plain(table: dict | None) -> bool:
    """Whether the table collates tensors by stacking, so that numpy may stack arrays."""
    return table is not None and table.get(Tensor) is collate_tensor_fn


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    """Make one tensor of numpy numbers, of their common type or of PyTorch's promoted type."""
    return torch.as_tensor(np.asarray(batch) if len(set(map(type, batch))) == 1 else list(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    """Make a float64 tensor of Python floats."""
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    """Make one tensor of Python ints or bools."""
    return torch.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    """Return the list of strings unchanged."""
    return batch


#: element type -> collate function; programs may add entries
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Collate a list of samples to a batch: tensors with a new first dimension, in the samples' containers.

    Tensors, numpy arrays and numbers are stacked (Python floats as float64). Strings stay a list. Mappings, named
    tuples and sequences are collated member by member; a plain tuple becomes a list.

    Example:
        >>> from functorch_port.utils.data import default_collate
        >>> default_collate([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
        {'x': tensor([1, 2]), 'y': ['a', 'b']}

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
