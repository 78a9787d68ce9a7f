"""Writing pickles as PyTorch does: tensors, dtypes, sizes and devices under PyTorch's names."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from types import FunctionType
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._array.storage import Storage
from .._array.value import VALUES
from .._base import dtypes, meshes
from .._base import layout as layouts
from .._base.device import device, from_jax
from .._base.size import Size
from .._run.sparse.tensor import SparseTensor
from .._tensor.copying import rebuild
from .._tensor.tensor import Tensor
from .._tensor.typed import TypedStorage
from .._tensor.untyped import UntypedStorage
from ..nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from ._tables import CALLED
from ._tensors import BY_CALL

__all__ = ["Pickler"]


class _Name:
    """An object that the file refers to by name."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """Callable only because Python's pickler asks for that."""


class _Typed:
    """A storage and the dtype of its elements; None if the call that makes the tensor has the dtype."""

    def __init__(self, cell: Storage, dtype: dtypes.dtype | None) -> None:
        self.cell, self.dtype = cell, dtype


class _Made:
    """An object that the file makes by a call."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.function, self.args = function, args


_FUNCTIONS = {full.rpartition(".")[2]: _Name(*full.rpartition(".")[::2]) for full in CALLED}
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_TYPED = {d: _Name("torch", f"{d.scalar_name}Storage") for d in dtypes.ALL if d.name not in BY_CALL}
_CLASSES: dict[Any, _Name] = {
    Tensor: _Name("torch", "Tensor"),
    Parameter: _Name("torch.nn.parameter", "Parameter"),
    UninitializedParameter: _Name("torch.nn.parameter", "UninitializedParameter"),
    UninitializedBuffer: _Name("torch.nn.parameter", "UninitializedBuffer"),
    device: _Name("torch", "device"),
    Size: _Name("torch", "Size"),
}


class Pickler(pickle._Pickler):  # the one in Python: its names can be replaced
    """Writes one pickle.

    Args:
        file: the file to write to.
        protocol: the pickle protocol; PyTorch reads 2.
        legacy: whether to number storages as PyTorch before 1.6 did.

    Attributes:
        cells: the storages written so far, by key.
    """

    dispatch: dict[Any, Any] = dict(pickle._Pickler.dispatch)  # type: ignore[assignment]

    def __init__(self, file: io.BytesIO, protocol: int, legacy: bool = False) -> None:
        super().__init__(file, protocol)
        self.cells: dict[str, tuple[Storage, dtypes.dtype]] = {}
        self._legacy = legacy
        self._keys: dict[int, str] = {}
        self._types: dict[int, dtypes.dtype] = {}

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is _Typed:
            return self._storage(obj.cell, obj.dtype)
        if kind is TypedStorage and obj.dtype in _TYPED:
            return self._storage(_whole(obj.untyped()), obj.dtype)
        if kind is UntypedStorage:
            return self._storage(_whole(obj), None)
        return None

    def _storage(self, cell: Storage, dtype: dtypes.dtype | None) -> Any:
        location, nbytes = _location(cell), cell.nbytes()
        kind = dtypes.uint8 if dtype is None else dtype
        if self._types.setdefault(id(cell), kind) is not kind and nbytes:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types"
            )
        key = self._keys.setdefault(id(cell), str(len(self._keys)))
        self.cells[key] = cell, kind
        name = _UNTYPED if dtype is None else _TYPED[dtype]
        pid = ("storage", name, key, location, nbytes // kind.itemsize)
        return (*pid, None) if self._legacy else pid

    def save_global(self, obj: Any, name: str | None = None) -> None:
        known = _CLASSES.get(obj) if isinstance(obj, type) else None
        if isinstance(obj, layouts.memory_format):
            known = _Name("torch", obj._name)
        if (
            isinstance(obj, FunctionType) and obj.__module__ == "functorch_port._utils"
        ):  # files name PyTorch's
            known = _FUNCTIONS.get(obj.__name__)
        if known is None:
            super().save_global(obj, name)
            return
        self._name(known)

    def _name(self, what: _Name, obj: Any = None) -> None:
        obj = what if obj is None else obj
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
            return
        self.write(pickle.GLOBAL + f"{what.module}\n{what.name}\n".encode())
        self.memoize(obj)

    dispatch[_Name] = _name
    dispatch[FunctionType] = lambda self, obj: self.save_global(obj)

    def _made(self, obj: _Made) -> None:
        self.save_reduce(obj.function, obj.args, obj=obj)

    dispatch[_Made] = _made

    def _dtype(self, obj: dtypes.dtype) -> None:
        self._name(_Name("torch", obj.name), obj)

    dispatch[dtypes.dtype] = _dtype

    def _layout(self, obj: Any) -> None:
        self.save_reduce(_FUNCTIONS["_get_layout"], (f"torch.{obj._name}",), obj=obj)

    dispatch[layouts.layout] = _layout

    def save_reduce(self, func: Any, args: Any, *rest: Any, obj: Any = None, **more: Any) -> None:
        if func is rebuild:
            func, args = _tensor(obj, *args)
        elif isinstance(obj, SparseTensor) and isinstance(obj, Parameter):
            func, args = _FUNCTIONS["_rebuild_parameter"], (obj.detach(), obj.requires_grad, OrderedDict())
        elif isinstance(obj, SparseTensor):
            func, args = _FUNCTIONS["_rebuild_sparse_tensor"], (obj.layout, obj._filed())
        super().save_reduce(func, args, *rest, obj=obj, **more)


def _tensor(obj: Any, cls: Any, cell: Storage, view: Any, requires_grad: bool, extra: dict[str, Any]) -> Any:
    """The call that rebuilds a tensor."""
    dtype = obj.dtype
    size, strides, offset = view[:3] if view is not None else (tuple(obj.shape), *obj._layout())
    of_parameter = cls is Parameter
    recorded = requires_grad and not of_parameter  # PyTorch saves it once, with the parameter
    value = cell.aval()
    if isinstance(value, jax.ShapeDtypeStruct):
        function = _FUNCTIONS["_rebuild_meta_tensor_no_storage"]
        args: Any = (dtype, size, strides, recorded)
    elif dtype in _TYPED:
        function = _FUNCTIONS["_rebuild_tensor_v2"]
        args = (_Typed(cell, dtype), offset, size, strides, recorded, OrderedDict())
    else:
        function = _FUNCTIONS["_rebuild_tensor_v3"]
        args = (_Typed(cell, None), offset, size, strides, recorded, OrderedDict(), dtype)
    turned = {bit: True for bit, on in zip(("conj", "neg"), obj._turned(), strict=True) if on}
    if turned and function is not _FUNCTIONS["_rebuild_meta_tensor_no_storage"]:
        args = (*args, turned)
    if of_parameter:
        data = _Made(function, *args)
        if not extra:
            return _FUNCTIONS["_rebuild_parameter"], (data, requires_grad, OrderedDict())
        return _FUNCTIONS["_rebuild_parameter_with_state"], (data, requires_grad, OrderedDict(), extra)
    if extra or cls is not Tensor:
        return _FUNCTIONS["_rebuild_from_type_v2"], (function, cls, args, extra)
    return function, args


def _whole(storage: UntypedStorage) -> Storage:
    """All that a storage shows as a `Storage`: a part of another one is copied."""
    return (storage if storage._range is None else storage.clone())._cell


def _location(cell: Storage) -> str:
    """The device of a storage, as the file names it."""
    held = cell.held
    if held.__class__ in VALUES and held.on_cpu and not tracing.overlay:
        return "cpu"  # it need not be read or computed for that
    value = cell.look()
    if isinstance(value, jax.core.Tracer):
        raise RuntimeError(
            "save() needs values, which are not known while a function is compiled: call it outside of that function"
        )
    if isinstance(value, np.ndarray | np.generic):
        return "cpu"
    if isinstance(value, jax.ShapeDtypeStruct):
        return "meta"
    if not meshes.is_here(value):
        raise RuntimeError(
            "save() of a tensor that is split over several processes: save x.full_tensor(), which all of them call, or "
            "x.to_local(), or the module and its optimizer by torch.distributed.checkpoint.save"
        )
    return str(from_jax(value.addressable_shards[0].device))


def bytes_of(cell: Storage) -> np.ndarray:
    """The bytes of a storage; empty for a meta storage."""
    value = cell.look()
    if isinstance(value, jax.ShapeDtypeStruct):
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(np.asarray(value)).reshape(-1).view(np.uint8)
