"""The storages and tensors of a file that is being read.

A file gives a storage's size and type first; tensors then view it in shapes of their own. So a `Storage` begins as a
numpy vector, and `Tensors.finish` moves it to its device, in the shape of a tensor that covers all of it. All
other tensors are views.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import jax
import numpy as np

from .._array import executor, placing, tracing
from .._array.storage import Storage
from .._base import dtypes
from .._base import layout as layouts
from .._base.device import as_device, count, device, to_jax
from .._base.size import Size
from .._base.strides import contiguous
from .._run import bind
from .._run.sparse.compressed import CompressedTensor, sparse_compressed_tensor
from .._run.sparse.tensor import SparseTensor
from .._tensor.copying import put_attributes, rebuild
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor, wrap
from .._tensor.typed import TypedStorage
from .._tensor.untyped import Bytes, UntypedStorage
from .._tensor.view import View, is_dense, reinterpret
from ..nn.parameter import Parameter
from ._container import aligned

__all__ = [
    "BY_CALL",
    "MAPPED",
    "SWAPPED",
    "StorageType",
    "Tensors",
    "are_sizes",
    "owned",
    "placed",
    "tensor_at",
    "text_of",
    "with_state",
]


class StorageType:
    """A storage class in a file: a dtype, or None for untyped bytes."""

    def __init__(self, dtype: dtypes.dtype | None) -> None:
        self.dtype = dtype


#: dtypes that a file has in the call that makes the tensor, over a storage of bytes
BY_CALL = frozenset({"uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"})
#: as ``map_location``: a storage stays a numpy array in memory that is mapped to the file
MAPPED = object()
SWAPPED = {"little": "big", "big": "little"}[sys.byteorder]


class _Cell:
    """A storage of the file.

    Attributes:
        storage: the `Storage` that tensors hold.
        dtype: the dtype of its elements; uint8 until it is known.
        typed: whether the dtype is known.
        swapped: whether its bytes need swapping.
        location: the device that the file names.
        shape: the shape of the first tensor that covers all of it, or None.
        unit: the size in bytes of the elements that the file counts.
    """

    def __init__(self, kind: StorageType, flat: Any, location: str, swapped: bool) -> None:
        self.typed = kind.dtype is not None
        self.dtype = kind.dtype or dtypes.uint8
        self.unit = self.dtype.itemsize
        self.swapped, self.location = swapped, location
        self.shape: tuple[int, ...] | None = None
        self.nbytes = flat.size * flat.dtype.itemsize
        self._flat = flat
        self.storage = Storage(flat)
        self._show()

    def _show(self) -> None:
        """Show the current dtype and shape to the tensors that were made."""
        cell = self.storage
        if isinstance(self._flat, jax.ShapeDtypeStruct):
            cell.put(_shaped(self.value(), self.shape))
        else:
            whole = self._flat[: self.numel * self.dtype.itemsize]
            cell.put(_shaped(whole.view(self.dtype.np), self.shape))

    @property
    def numel(self) -> int:
        return self.nbytes // self.dtype.itemsize

    def become(self, dtype: dtypes.dtype) -> None:
        """Set the dtype of the bytes."""
        if self.nbytes % dtype.itemsize:
            raise UnpicklingError(f"a storage of {self.nbytes} bytes cannot hold elements of {dtype}")
        self.typed, self.dtype = True, dtype
        self._show()

    def claim(self, shape: tuple[int, ...]) -> bool:
        """Give the storage this shape unless it has one; returns whether it has this one."""
        if self.shape is None:
            self.shape = shape
            self._show()
        return self.shape == shape

    def value(self) -> Any:
        """The elements as a vector, in the byte order of this machine."""
        flat = self._flat
        if isinstance(flat, jax.ShapeDtypeStruct):
            return _kind((self.numel,), self.dtype)
        if self.swapped and self.dtype.itemsize > 1:
            each = self.dtype.itemsize // (2 if self.dtype.is_complex else 1)
            flat = flat.view(f"u{each}").byteswap().view(np.uint8)
        if self.dtype is dtypes.bool_ and flat.size and flat.max() > 1:
            return flat != 0  # a byte that is no bool would be one that equals neither
        return flat.view(self.dtype.np)


Read = Callable[[str, int], np.ndarray]


class Tensors:
    """Makes the tensors of one file.

    Args:
        read: a function ``(key, number of bytes) -> bytes`` of a storage.
        map_location: as in `load`.
        swapped: whether the file's byte order differs from this machine's.
    """

    def __init__(self, read: Read, map_location: Any, swapped: bool = False) -> None:
        self._read, self._map, self._swapped = read, map_location, swapped
        self.cells: dict[Any, _Cell] = {}
        self._of: dict[int, tuple[_Cell, int]] = {}
        self._views: list[tuple[Any, _Cell]] = []
        self._turned: list[tuple[Tensor, str]] = []
        self._sparse: list[SparseTensor] = []
        self._indexed: list[tuple[CompressedTensor, Tensor]] = []
        self._meta = isinstance(map_location, str | device) and str(map_location) == "meta"

    # ---------------------------------------------------------------- storages

    def storage(self, pid: Any) -> Any:
        """The storage for a reference (persistent id) in the file."""
        if type(pid) is not tuple or len(pid) not in (5, 6) or text_of(pid[0]) != "storage":
            kind = type(pid[0] if type(pid) is tuple and pid else pid)
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {kind}")
        if type(pid[1]) is str:
            return self._former(*pid[1:])
        kind, key, location, count = pid[1], text_of(pid[2]), text_of(pid[3]), pid[4]
        if type(kind) is not StorageType or type(key) is not str or type(location) is not str:
            raise UnpicklingError("a reference to a storage has parts of the wrong type")
        if type(count) is not int or not 0 <= count < 1 << 60:
            raise UnpicklingError(f"storage {key} has an invalid size")
        cell = self._cell(key, kind, count, location)
        view = pid[5] if len(pid) == 6 else None
        whole = UntypedStorage.of(cell.storage) if view is None else self._window(cell, view)
        return TypedStorage(wrap_storage=whole, dtype=kind.dtype or dtypes.uint8)

    def _cell(self, key: str, kind: StorageType, count: int, location: str) -> _Cell:
        nbytes = count * (kind.dtype.itemsize if kind.dtype else 1)
        name: Any = key
        cell = self.cells.get(name)
        if cell is not None and not nbytes and kind.dtype not in (None, cell.dtype):
            name = (key, kind.dtype)  # one that holds nothing may have several types
            cell = self.cells.get(name)
        if cell is None:
            flat = jax.ShapeDtypeStruct((nbytes,), np.uint8) if self._meta else self._read(key, nbytes)
            cell = self.cells[name] = _Cell(kind, flat, location, self._swapped)
            self._of[id(cell.storage)] = cell, 0
        elif cell.nbytes != nbytes or (kind.dtype not in (None, cell.dtype)):
            raise UnpicklingError(f"storage {key} has two sizes or types")
        return cell

    def keys(self) -> list[str]:
        """The keys of all storages that the file referred to."""
        return [key for key in self.cells if type(key) is str]

    def _window(self, cell: _Cell, view: Any) -> UntypedStorage:
        """A part of a storage, which files before PyTorch 0.4 treat as a storage."""
        if type(view) is not tuple or len(view) != 3 or not are_sizes(view[1:]):
            raise UnpicklingError("a view of a storage has parts of the wrong type")
        if view[1] + view[2] > cell.numel:
            raise UnpicklingError("a view of a storage reaches past its end")
        start, count = (n * cell.unit for n in view[1:])
        return UntypedStorage._of(cell.storage, range(start, start + count))

    def _former(self, key: str, name: Any, shape: Any, location: Any) -> Storage:
        """A storage of this package's former format, where it has a shape."""
        dtype = dtypes.NAMES.get(name) if type(name) is str else None
        if dtype is None or type(location) is not str or not are_sizes(shape):
            raise UnpicklingError("a storage has an unknown dtype or shape")
        if location == "meta":
            return Storage(_kind(shape, dtype))
        cell = self._cell(key, StorageType(dtype), math.prod(shape), location)
        cell.claim(tuple(shape))
        return cell.storage

    # ----------------------------------------------------------------- tensors

    def tensor(self, cell: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any,
               metadata: Any = None) -> Tensor:  # fmt: skip
        """A tensor with its storage's dtype."""
        found, start = self._known(cell)
        return self._tensor(found, found.dtype, offset, start, size, stride, requires_grad, metadata)

    def tensor_of(self, cell: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
                  metadata: Any = None) -> Tensor:  # fmt: skip
        """A tensor with a dtype of its own, over a storage of bytes."""
        found, start = self._known(cell)
        if type(dtype) is not dtypes.dtype:
            raise UnpicklingError("a tensor has no dtype")
        if not found.typed:
            found.become(dtype)
        return self._tensor(found, dtype, offset, start, size, stride, requires_grad, metadata)

    def old_tensor(self, cell: Any, offset: Any, size: Any, stride: Any) -> Tensor:
        """A tensor of PyTorch before 0.4, without ``requires_grad``."""
        return self.tensor(cell, offset, size, stride, False, None)

    def known(self, cell: Any) -> tuple[_Cell, int] | None:
        """The file's storage behind ``cell`` and its first element; None if it is not one of this file."""
        if not isinstance(cell, Bytes):
            return self._of.get(id(cell))
        storage = cell.untyped()
        found = self._of.get(id(storage._cell))
        if found is None or storage._range is None:
            return found
        return found[0], storage._range.start // found[0].unit

    def _known(self, cell: Any) -> tuple[_Cell, int]:
        found = self.known(cell)
        if found is None:
            raise UnpicklingError(f"a tensor is made of {type(cell)}, which is not a storage of this file")
        return found

    def _tensor(self, cell: _Cell, dtype: dtypes.dtype, offset: Any, start: int, size: Any, stride: Any,
                requires_grad: Any, metadata: Any) -> Tensor:  # fmt: skip
        if type(offset) is not int or offset < 0 or type(requires_grad) is not bool:
            raise UnpicklingError("a tensor has an invalid offset, or a requires_grad that is not a bool")
        size, stride = _geometry(size, stride)
        count = cell.nbytes // dtype.itemsize
        needed = _reach(size, stride, offset + start)
        if needed > count:
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset + start}, and "
                f"itemsize {dtype.itemsize} requiring a storage size of {needed * dtype.itemsize} are out of bounds "
                f"for storage of size {cell.nbytes}"
            )
        tensor = rebuild(Tensor, cell.storage, None, _may_require(requires_grad, dtype), {})
        tensor._view = self._view(cell, dtype, offset + start, size, stride)
        return self._turn(tensor, metadata)

    def _view(self, cell: _Cell, dtype: dtypes.dtype, offset: int, size: Any, stride: Any) -> Any:
        """A tensor's view of its storage; None if it covers all of it in order."""
        count = math.prod(size)
        if dtype is cell.dtype and offset == 0 and count == cell.numel:
            if stride == contiguous(size) or not count:
                if cell.claim(size):
                    return None
            elif is_dense(size, stride):
                order = sorted(range(len(size)), key=lambda d: (-stride[d], d))
                back = tuple(order.index(d) for d in range(len(size)))
                shape = tuple(size[d] for d in order)
                steps = contiguous(shape)
                if tuple(steps[i] for i in back) == stride and cell.claim(shape):
                    return self._look(cell, None, "permute", back, kind=_kind(size, dtype))
        parent = None
        if dtype is not cell.dtype:
            flat = self._look(
                cell, None, "_as_strided", (cell.numel,), (1,), 0, kind=_kind((cell.numel,), cell.dtype)
            )
            parent = self._look(
                cell, flat, "_view_dtype", dtype, kind=_kind((cell.nbytes // dtype.itemsize,), dtype)
            )
        return self._look(cell, parent, "_as_strided", size, stride, offset, kind=_kind(size, dtype))

    def _look(self, cell: _Cell, parent: View | None, name: str, *args: Any, kind: Any) -> View:
        """A view that is not computed: a file may claim any number of elements, so none are allocated."""
        source = _kind((cell.numel,), cell.dtype)
        twin = rebuild(Tensor, Storage(source), None, False, {})
        view = View(parent, bind.function(name).plan(twin, *args), (), source, kind)
        self._views.append((view, cell))
        return view

    def _turn(self, tensor: Tensor, metadata: Any) -> Tensor:
        """Record that the tensor is the conjugate or the negative of its bytes."""
        if metadata is not None and type(metadata) is not dict:
            raise UnpicklingError(f"the metadata of a tensor are {type(metadata)}, not a dict")
        for key, on in (metadata or {}).items():
            if key not in ("conj", "neg"):
                raise UnpicklingError("a tensor has metadata other than conj and neg")
            if on:
                self._turned.append((tensor, key))
        return tensor

    def meta(self, dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
        """A meta tensor."""
        if type(dtype) is not dtypes.dtype or type(requires_grad) is not bool:
            raise UnpicklingError("a meta tensor has no dtype, or a requires_grad that is not a bool")
        size, stride = _geometry(size, stride)
        count = math.prod(size)
        cell = _Cell(
            StorageType(dtype),
            jax.ShapeDtypeStruct((_reach(size, stride, 0) * dtype.itemsize,), np.uint8),
            "meta",
            False,
        )
        self.cells[id(cell)] = cell
        tensor = rebuild(Tensor, cell.storage, None, _may_require(requires_grad, dtype), {})
        tensor._view = self._view(cell, dtype, 0, size, stride) if count else None
        if not count:
            cell.claim(size)
        return tensor

    def parameter(self, data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Tensor:
        """A `Parameter`."""
        if not isinstance(data, Tensor) or type(requires_grad) is not bool:
            raise UnpicklingError(f"a parameter is made of {type(data)}, not of a tensor")
        if isinstance(data, SparseTensor):  # of which `finish` completes this one
            data._is_param = True
            return with_state(data.detach_().requires_grad_(requires_grad), state)  # type: ignore[attr-defined]
        return with_state(Parameter(data, requires_grad), state)

    def of_type(self, make: Any, cls: Any, args: Any, state: Any) -> Any:
        """A tensor with attributes, or of a subclass."""
        if type(args) is not tuple:
            raise UnpicklingError("the arguments of a tensor are not a tuple")
        made = make(*args)
        if not isinstance(made, Tensor) or not (isinstance(cls, type) and issubclass(cls, Tensor)):
            raise UnpicklingError("a value is not a tensor, or its class is not a Tensor class")
        if type(made) is not cls:
            view, turned = made._view, made
            made = rebuild(cls, made._storage, None, made.requires_grad, {})
            made._view = view
            self._turned += [(made, how) for other, how in self._turned if other is turned]
        if hasattr(cls, "__setstate__"):
            made.__setstate__(state)
            return made
        return with_state(made, state)

    def sparse(self, layout: Any, data: Any) -> Tensor:
        """A sparse tensor; `finish` checks its indices."""
        if layout in layouts.COMPRESSED:
            return self._compressed(layout, data)
        if layout is not layouts.sparse_coo:
            raise UnpicklingError("a sparse tensor has a layout that is none")
        if type(data) is not tuple or len(data) not in (3, 4):
            raise UnpicklingError("a sparse tensor has no indices, values and size")
        indices, values, size, *rest = data
        coalesced = bool(rest and rest[0] is True)
        if not (type(indices) is Tensor and type(values) is Tensor and are_sizes(size)):
            raise UnpicklingError("a sparse tensor has no indices, values and size")
        dims = indices.shape[0] if indices.ndim == 2 else len(size) + 1
        if (
            indices.dtype is not dtypes.int64
            or dims > len(size)
            or tuple(values.shape) != (indices.shape[1], *size[dims:])
        ):
            raise RuntimeError("a sparse tensor has indices or values that do not fit its size")
        if any(t.nbytes > t._storage.nbytes() for t in (indices, values)):
            raise RuntimeError("a sparse tensor has more indices or values than their storages")
        made = SparseTensor._make(indices, values, tuple(size), coalesced)
        self._sparse.append(made)
        return made

    def _compressed(self, layout: Any, data: Any) -> Tensor:
        """A tensor of layout CSR or CSC; `finish` checks its indices and gives it its own."""
        if type(data) is not tuple or len(data) != 4:
            raise UnpicklingError("a sparse tensor has no indices, values and size")
        begins, others, values, size = data
        if not (all(type(t) is Tensor for t in data[:3]) and are_sizes(size)):
            raise UnpicklingError("a sparse tensor has no indices, values and size")
        if any(t.nbytes > t._storage.nbytes() for t in data[:3]):
            raise RuntimeError("a sparse tensor has more indices or values than their storages")
        if any(t.is_meta for t in data[:3]):
            raise NotImplementedError(f"tensors of layout {layout} without elements: load them to the CPU")
        made = CompressedTensor._of(others, values, tuple(size), layout, begins.dtype)
        self._indexed.append((made, begins))
        return made

    # --------------------------------------------------------------------- end

    def finish(self) -> None:
        """Give every storage its shape and move it to its device."""
        for key, cell in self.cells.items():
            self._settle(key, cell)
        for view, cell in self._views:
            view.source = _kind((cell.numel,) if cell.shape is None else cell.shape, cell.dtype)
        for tensor, how in self._turned:
            with no_grad():
                made = bind.function("_conj" if how == "conj" else "_neg_view")(tensor.detach())
            tensor._storage, tensor._view = made._storage, made._view
        for made in self._sparse:
            _check_indices(made)
        for made, begins in self._indexed:
            parts = begins, made._ids, made._own.detach(), made._size
            made._ids = sparse_compressed_tensor(*parts, layout=made.layout)._ids

    def _settle(self, key: Any, cell: _Cell) -> None:
        value = cell.value()
        if isinstance(value, jax.ShapeDtypeStruct):
            cell.storage.put(_shaped(value, cell.shape))
            return
        if self._map is MAPPED:
            cell.storage.put(_shaped(value, cell.shape))
            return
        where: Any = cell.location
        if isinstance(self._map, str | bytes | device):
            where = str(text_of(self._map))
        elif isinstance(self._map, dict):
            where = str(self._map.get(where, where))
        elif self._map is not None:
            cell.storage.put(value)
            given = UntypedStorage.of(cell.storage)
            chosen = self._map(given, where)
            if chosen is given:
                where = "cpu"
            elif chosen is not None:
                cell.storage.put(_taken(chosen, cell))
                return
        _settle_at(cell.storage, _shaped(value, cell.shape), where)


def _taken(chosen: Any, cell: _Cell) -> Any:
    """The value of the storage that ``map_location`` returned."""
    if not isinstance(chosen, Bytes) or chosen.nbytes() != cell.nbytes:
        raise RuntimeError(f"map_location returned {type(chosen)}, not a storage of {cell.nbytes} bytes")
    value = chosen.untyped().clone()._cell.value
    if value.dtype != cell.dtype.np:
        with tracing.x64():
            value = reinterpret(value.reshape(-1), cell.dtype.np)
    return _shaped(value, cell.shape)


def _shaped(value: Any, shape: tuple[int, ...] | None) -> Any:
    if shape is None or value.shape == shape:
        return value
    if isinstance(value, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(shape, value.dtype)
    with tracing.x64():
        return value.reshape(shape)


def _settle_at(cell: Storage, array: np.ndarray, location: str) -> None:
    value = _at(_narrowed(array), location)
    cell.put(value)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """The array in its 32-bit dtype where 64 bits are switched off."""
    narrow = array.astype(_narrow(array.dtype), copy=False)
    if array.dtype.kind in "iu" and narrow is not array and (narrow != array).any():
        raise RuntimeError(
            f"the file has integers past {narrow.dtype}, but FUNCTORCH_PORT_X64=0 switches 64 bits off: unset it"
        )
    return narrow


def _at(array: np.ndarray, location: str) -> Any:
    """An array as a Storage on the device holds it; a small one on the CPU is copied."""
    if location == "meta":
        return jax.ShapeDtypeStruct(array.shape, array.dtype)
    if location == "cpu" and executor.current.keeps_on_host(array):
        return np.array(array, order="C")
    return place(array, location)


def tensor_at(array: np.ndarray, where: Any) -> Tensor:
    """A tensor of an array that was read from a file and may be memory-mapped.

    Args:
        array: the array; only the parts that are placed are read.
        where: a device (JAX's, too), its name, or a `jax.sharding.Sharding`: each device reads its own shard.

    Raises:
        RuntimeError: the device does not exist.
    """
    if str(where) == "meta":
        return wrap(_kind(array.shape, dtypes.from_np(array.dtype)))
    if isinstance(where, jax.Device):
        where = jax.sharding.SingleDeviceSharding(where)
    if isinstance(where, jax.sharding.Sharding):
        with tracing.x64():
            return wrap(
                jax.make_array_from_callback(array.shape, where, lambda at: _narrowed(owned(array[at])))
            )
    return wrap(_at(_narrowed(owned(array)), str(where)))


def placed(where: Any, name: str) -> Any:
    """Where the tensor ``name`` goes: ``where``, or its result if it is a function of the name; None is the CPU."""
    if callable(where) and not isinstance(where, device | jax.sharding.Sharding):
        where = where(name)
    return "cpu" if where is None else where


def owned(array: np.ndarray) -> np.ndarray:
    """A copy in aligned memory, which JAX can use without another copy."""
    own = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    own[...] = array
    if own.dtype == np.bool_:  # a byte that is no bool would be one that equals neither
        np.not_equal(own.view(np.uint8), 0, out=own)
    return own


def place(array: Any, location: str) -> jax.Array:
    """An array on the device that the file or the caller names.

    Raises:
        RuntimeError: the device does not exist.
    """
    try:
        where = as_device(location)
        if where.type not in ("cpu", "cuda", "tpu"):
            raise NotImplementedError
        target = to_jax(where)
    except NotImplementedError:
        raise _unknown(location) from None
    except (RuntimeError, AssertionError) as error:
        kind = location.partition(":")[0]
        if kind not in ("cpu", "cuda", "tpu"):
            raise _unknown(location) from None
        if "invalid device ordinal" in str(error):
            raise RuntimeError(
                f"Attempting to deserialize object on {kind.upper()} device {where.index} but "
                f"torch.{kind}.device_count() is {count(kind)}. Please use torch.load with map_location to map your "
                "storages to an existing device."
            ) from error
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        ) from error
    return placing.put(array, target)


def _unknown(location: str) -> RuntimeError:
    return RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
    )


def _kind(shape: tuple[int, ...], dtype: dtypes.dtype) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, _narrow(dtype.np))


def _narrow(kind: np.dtype) -> np.dtype:
    """The dtype that JAX has for this one: a 32-bit one where 64 bits are switched off."""
    if tracing.X64:
        return kind
    with tracing.x64():
        return jax.dtypes.canonicalize_dtype(kind)


def text_of(value: Any) -> Any:
    """A str, also of the bytes that Python 2 wrote for one."""
    if type(value) is bytes:
        try:
            return value.decode("ascii")
        except UnicodeDecodeError:
            raise UnpicklingError("a name in the file is not ASCII") from None
    return value


def are_sizes(values: Any) -> bool:
    return type(values) in (tuple, list, Size) and all(type(n) is int and 0 <= n < 1 << 62 for n in values)


def _geometry(size: Any, stride: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides, checked."""
    if not (are_sizes(size) and are_sizes(stride)):
        raise UnpicklingError("a tensor has a size or stride that is negative, too large or not an integer")
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if len(size) > 64 or math.prod(n for n in size if n) >= 1 << 62:
        raise UnpicklingError("a tensor has more dimensions or elements than are possible")
    return tuple(size), tuple(stride)


def _reach(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> int:
    """The number of elements that a storage needs for this view."""
    if math.prod(size) == 0:
        return 0
    return offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _may_require(requires_grad: bool, dtype: dtypes.dtype) -> bool:
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    return requires_grad


def with_state(tensor: Any, state: Any) -> Any:
    """Set the public attributes of a tensor; private ones do not come from files."""
    parts = state if type(state) is tuple else (state,)
    if len(parts) > 2:
        raise RuntimeError("Invalid serialized state")
    for part in parts:
        if part is None:
            continue
        if type(part) is not dict:
            raise UnpicklingError(f"the attributes of a tensor are {type(part)}, not a dict")
        named = {
            k: v for k, v in part.items() if type(k) is str and (not k.startswith("_") or k == "_is_buffer")
        }
        put_attributes(tensor, named)
    return tensor


def _check_indices(made: SparseTensor) -> None:
    """Refuse indices out of range, which would be dropped silently."""
    indices = made._ids
    if indices.is_meta or not indices.numel():
        return
    flat = np.asarray(indices._storage.look()).reshape(-1)
    strides, offset = indices._layout()
    seen = np.ndarray(
        indices._aval().shape, flat.dtype, flat, offset * flat.itemsize, [s * flat.itemsize for s in strides]
    )
    sizes = np.asarray(made._size[: len(seen)], np.int64)[:, None]
    if (seen < 0).any() or (seen >= sizes).any():
        raise RuntimeError("size is inconsistent with indices: some are negative or past its size")
