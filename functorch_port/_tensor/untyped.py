"""`UntypedStorage`: a `Storage` as bytes, what ``Tensor.untyped_storage()`` gives.

Reference: https://docs.pytorch.org/docs/stable/storage.html
"""

from __future__ import annotations

import copy
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from .._array import executor
from .._array.placing import put
from .._array.storage import Storage
from .._array.value import OTHERS
from .._base import memory
from .._base.alive import alive
from .._base.device import as_device, device, get_default_device, to_jax
from .cells import address, nbytes
from .tensor import Tensor, attach

__all__ = ["Bytes", "UntypedStorage"]


class Bytes:
    """What storages share, counted in bytes or in elements: they have `untyped`, and a ``dtype`` for elements."""

    is_sparse = _sparse = False

    def untyped(self) -> UntypedStorage:
        """The storage as bytes."""
        raise NotImplementedError

    @property
    def device(self) -> device:
        """Where it is."""
        return self.untyped()._cell.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def filename(self) -> str | None:
        """The file whose memory it is (see `UntypedStorage.from_file`), or None."""
        return self.untyped()._filename

    @property
    def _cdata(self) -> int:
        return id(self.untyped()._cell)

    def nbytes(self) -> int:
        """Bytes held."""
        return len(self.untyped())

    def data_ptr(self) -> int:
        """The address of the first byte, which holds until the next write; 0 if there is none."""
        return self.untyped()._address()

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def is_shared(self) -> bool:
        """False: processes get copies."""
        return False

    def resizable(self) -> bool:
        return True

    def element_size(self) -> int:
        """Bytes per element."""
        raise NotImplementedError

    def _numpy(self) -> np.ndarray:
        """The elements, not to be written to."""
        raise NotImplementedError

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def __len__(self) -> int:
        return self.nbytes() // self.element_size()

    def size(self) -> int:
        """Elements held."""
        return len(self)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._numpy().tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        content = "..." if self.device.type == "meta" else " " + "\n ".join(map(str, self))
        return f"{content}\n[{self._named()} of size {len(self)}]"

    def _named(self) -> str:
        raise NotImplementedError


class UntypedStorage(Bytes):
    """The memory of a tensor as bytes: what ``Tensor.untyped_storage()`` gives.

    Args:
        data: how many bytes, zeros here, or a sequence of them; default: none.
        device: where.

    Example:
        >>> import functorch_port as torch
        >>> storage = torch.tensor([1., 2.]).untyped_storage()
        >>> storage.nbytes(), storage[3]
        (8, 63)

    Reference: https://docs.pytorch.org/docs/stable/storage.html
    """

    __module__ = "functorch_port.storage"
    _cell: Storage
    _range: range | None
    _filename: str | None

    def __init__(self, data: int | Sequence[int] = 0, *, device: Any = None) -> None:
        if isinstance(data, int):
            if data < 0:
                raise RuntimeError(f"UntypedStorage: the size must not be negative, but is {data}")
            array = np.zeros(data, np.uint8)
        else:
            for item in data:
                if not isinstance(item, int):
                    raise RuntimeError(
                        "torch.UntypedStorage(): tried to construct a storage from a sequence "
                        f"({type(data).__name__}), but one of the items was of type {type(item).__name__} instead of "
                        "int"
                    )
            array = np.array([item & 0xFF for item in data], np.uint8)
        self._hold(Storage(_at(array, device)))

    def _hold(self, cell: Storage, part: range | None = None, filename: str | None = None) -> None:
        self._cell, self._range, self._filename = cell, part, filename

    @classmethod
    def _of(cls, cell: Storage, part: range | None = None, filename: str | None = None) -> UntypedStorage:
        made: UntypedStorage = object.__new__(cls)
        made._hold(cell, part, filename)
        return made

    @staticmethod
    def of(cell: Storage) -> UntypedStorage:
        """That of a `Storage`: the same object as long as somebody holds it."""
        found = _faces.get(id(cell))
        if found is None:
            found = _faces[id(cell)] = UntypedStorage._of(cell)
        return found

    @staticmethod
    def from_file(filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file.

        Args:
            shared: whether writes go to the file, which is made if it is not there. Supported for few elements on the
                CPU, whose memory a tensor can share (see `Tensor.numpy`).
            nbytes: how many.
        """
        if not shared:
            array = np.fromfile(filename, np.uint8, nbytes)
            if len(array) < nbytes:
                raise RuntimeError(
                    f"file {os.fspath(filename)!r} has {len(array)} bytes, fewer than {nbytes}"
                )
            return UntypedStorage._of(Storage(_at(array)))
        with open(filename, "ab") as file:
            file.truncate(max(file.tell(), nbytes))
        mapped = np.memmap(filename, np.uint8, "r+", shape=(nbytes,))
        cell = Storage(np.array(mapped))
        if not executor.current.follow(cell, mapped):
            raise NotImplementedError(
                f"UntypedStorage.from_file(shared=True) of {nbytes} bytes: only few can be shared with a file; read it "
                "with shared=False, and write it with torch.save or numpy"
            )
        return UntypedStorage._of(cell, filename=os.fspath(filename))

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        *,
        dtype: Any = None,
    ) -> UntypedStorage:
        """A copy of the bytes of an object with Python's buffer protocol.

        Args:
            byte_order: of the elements there: "native", "little" or "big"; not for elements of one byte.
            count: elements to take; -1 takes all after the offset.
            offset: bytes to leave out at the start.
            dtype: of the elements; default: bytes.
        """
        kind = np.dtype(np.uint8 if dtype is None else dtype.np)
        if byte_order not in ("native", "little", "big", None):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'native', 'little' or 'big')")
        if byte_order is None and kind.itemsize > 1:
            raise TypeError("from_buffer(): byte_order is needed for elements of several bytes")
        whole = memoryview(buffer).cast("B")[offset:]
        taken = len(whole) // kind.itemsize if count < 0 else count
        if taken * kind.itemsize > len(whole) or (count < 0 and len(whole) % kind.itemsize):
            raise ValueError(
                f"from_buffer(): the buffer has {len(whole)} bytes after the offset, which are not "
                f"{taken} elements of {kind.itemsize} bytes"
            )
        array = np.frombuffer(whole, np.uint8, taken * kind.itemsize)
        if byte_order not in ("native", None) and (byte_order == "little") != (sys.byteorder == "little"):
            array = _swapped(array, kind)
        return cls._of(Storage(_at(array.copy())))

    # ------------------------------------------------------------- reading

    def untyped(self) -> UntypedStorage:
        """This storage."""
        return self

    def __len__(self) -> int:
        return nbytes(self._cell) if self._range is None else len(self._range)

    def element_size(self) -> int:
        """1."""
        return 1

    def _address(self) -> int:
        start = 0 if self._range is None else self._range.start
        return address(self._cell) + start if len(self) else 0

    def _numpy(self) -> np.ndarray:
        value = self._cell.look()
        if isinstance(value, jax.core.Tracer):
            raise RuntimeError("the bytes of a storage are not known while the function is being compiled")
        if isinstance(value, jax.ShapeDtypeStruct):
            raise NotImplementedError("Not available for 'meta' device type")
        array = np.ascontiguousarray(memory.run(np.asarray, (value,))).reshape(-1).view(np.uint8)
        return array if self._range is None else array[self._range.start : self._range.stop]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = self._part(index)
            offset = 0 if self._range is None else self._range.start
            return UntypedStorage._of(self._cell, range(part.start + offset, part.stop + offset))
        return int(self._numpy()[self._index(index)])

    def _index(self, index: Any) -> int:
        if type(index) is not int:
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return index

    def _part(self, index: slice) -> range:
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        return range(start, max(start, stop))

    def _named(self) -> str:
        return f"torch.storage.UntypedStorage(device={self.device})"

    def get_device(self) -> int:
        """The number of its device, -1 for the CPU."""
        return -1 if self.device.type == "cpu" else self.device.index or 0

    # ------------------------------------------------------------- writing

    @contextmanager
    def _edit(self) -> Iterator[np.ndarray]:
        """The bytes, to be written to. As in PyTorch this is no write that autograd knows of."""
        cell, seen = self._cell, self._numpy()
        whole = UntypedStorage._of(cell)._numpy().copy()
        start = 0 if self._range is None else self._range.start
        yield whole[start : start + len(seen)]
        old = cell.aval()
        cell.value = _there(whole.view(old.dtype).reshape(old.shape), cell)
        cell.apart += 1

    def __setitem__(self, index: Any, value: int) -> None:
        if not isinstance(value, int):
            raise RuntimeError(f"can't assign a {type(value).__name__} to a torch.UntypedStorage")
        where: Any = index
        if isinstance(index, slice):
            part = self._part(index)
            where = slice(part.start, part.stop)
        elif type(index) is int and not -len(self) <= index < len(self):
            raise RuntimeError("out of bounds")
        else:
            self._index(index)
        with self._edit() as data:
            data[where] = value & 0xFF

    def fill_(self, value: int) -> UntypedStorage:
        """Set all bytes."""
        if not isinstance(value, int):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        self[:] = value
        return self

    def copy_(self, source: Bytes, non_blocking: Any = None) -> UntypedStorage:
        """Take over the bytes of another storage of the same size."""
        if self.nbytes() != source.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        with self._edit() as data:
            data[:] = source.untyped()._numpy()
        return self

    def byteswap(self, dtype: Any) -> None:
        """Turn the order of the bytes of each element of ``dtype``; of a complex one that of both parts."""
        with self._edit() as data:
            data[:] = _swapped(data, np.dtype(dtype.np))

    def resize_(self, size: int) -> UntypedStorage:
        """Have another number of bytes: the first ones stay, new ones are 0.

        Raises:
            NotImplementedError: a tensor looks at it, whose size is that of its storage here.
        """
        if size == len(self):
            return self
        if self._range is not None or any(t._storage is self._cell for t in alive(Tensor)):
            raise NotImplementedError(
                "UntypedStorage.resize_: a tensor looks at this storage; resize the tensor (Tensor.resize_), or give "
                "it other data (tensor.data = ...)"
            )
        array = np.zeros(size, np.uint8)
        kept = min(size, len(self))
        array[:kept] = self._numpy()[:kept]
        self._cell.value = _there(array, self._cell)
        return self

    # ------------------------------------------------------------- copies

    def new(self) -> UntypedStorage:
        """An empty storage on the same device."""
        return UntypedStorage(0, device=self.device)

    def clone(self) -> UntypedStorage:
        """A copy."""
        if self._range is None:
            return UntypedStorage._of(Storage(self._cell.value))
        return UntypedStorage._of(Storage(_there(self._numpy().copy(), self._cell)))

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        if self._range is not None:
            return self.clone()
        return UntypedStorage.of(copy.deepcopy(self._cell, memo))

    def __reduce__(self) -> Any:
        return UntypedStorage.from_buffer, (self._numpy().tobytes(),)

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """This storage, or a copy of it on another device."""
        where = as_device(device)
        if where.type == self.device.type and where.index in (None, self.device.index):
            return self
        return UntypedStorage._of(Storage(put(self.clone()._cell.value, to_jax(where))))

    def cpu(self) -> UntypedStorage:
        """This storage, or a copy of it on the CPU."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """This storage, or a copy of it on a GPU."""
        return self.to(device=device if isinstance(device, _Device) else _Device("cuda", device))

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its type."""
        if dtype is None:
            return "torch.storage.UntypedStorage"
        raise NotImplementedError("UntypedStorage.type(dtype): make a tensor of it, and convert that")


_Device = device
#: id of a Storage -> the object that shows it
_faces: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()


def _at(array: np.ndarray, where: Any = None) -> Any:
    """The bytes as a value on a device; on the meta device only what describes them."""
    where = get_default_device() if where is None else as_device(where)
    if where.type == "meta":
        return jax.ShapeDtypeStruct(array.shape, array.dtype)
    return executor.current.place(array) if where == get_default_device() else put(array, to_jax(where))


def _there(array: np.ndarray, cell: Storage) -> Any:
    """The elements as a value where that of a Storage is."""
    held = cell.held
    if held.__class__ in OTHERS or not getattr(held, "committed", False):
        return executor.current.place(array)
    return put(array, held.sharding)


def _swapped(data: np.ndarray, kind: np.dtype) -> np.ndarray:
    each = kind.itemsize // (2 if kind.kind == "c" else 1)
    return data.reshape(-1, each)[:, ::-1].reshape(-1)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that holds the value, as bytes. It is the same object as long as somebody holds it."""
    return UntypedStorage.of(self._storage)


attach(untyped_storage)
