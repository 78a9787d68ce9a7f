"""Objects through a socket; arrays go through shared memory.

What a message has in arrays and tensors is written once to an anonymous file in memory, whose descriptor goes along.
The receiver maps it, so that nothing is copied again, and the memory is free when the last of these arrays is, even if
a process was killed. Classes and functions that the other process cannot import, such as those of a script, go by
value (`cloudpickle`).
"""

from __future__ import annotations

import contextlib
import io
import math
import mmap
import os
import pickle
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle
import jax
import numpy as np

from functorch_port._array import executor
from functorch_port._array.storage import Storage
from functorch_port._random.generator import Generator, default_generator
from functorch_port._tensor.copying import rebuild
from functorch_port._tensor.tensor import Tensor

__all__ = ["Channel", "Parcel", "exactly"]

#: bytes of all arrays of a message from which on they go through shared memory
_SHARED = 1 << 15
#: where each array begins, so that XLA can take it as it lies there
_ALIGNED = 64
#: of a message: bytes of the pickle, of the arrays, and their number
_HEADER = struct.Struct("<QQI")
#: bytes that one call writes at most
_AT_ONCE = 1 << 30


class Parcel:
    """An object as bytes, to be sent once or often.

    Args:
        value: the object.
        batch: whether it comes from a worker: tensors with a history of autograd, which would lose it, are refused, and
            of a large tensor of which it has a small part, only that part goes.

    Attributes:
        data: the pickle without its arrays.
        sizes: bytes of each array.
        total: of all, with what lies between them.
        modules: names of the modules that it refers to.
        file: the descriptor of the memory that has them; None if they are few bytes.
        arrays: these few bytes.
    """

    def __init__(self, value: Any, batch: bool = False) -> None:
        pickler = _Pickler(batch)
        pickler.dump(value)
        whole = pickler.overlapping()
        if whole:
            pickler = _Pickler(batch, whole)
            pickler.dump(value)
        self.modules, self.data = list(pickler.modules), pickler.out.getbuffer()
        arrays = [buffer.raw() for buffer in pickler.buffers]
        self.sizes = [array.nbytes for array in arrays]
        places, self.total = _places(self.sizes)
        self.file: int | None = None
        self.arrays = b""
        if self.total >= _SHARED:
            self.file = _memory(self.total)
            for place, array in zip(places, arrays):
                _write(self.file, array, place)
        else:
            padded = zip(arrays, _padded(self.sizes))
            self.arrays = b"".join(bytes(array).ljust(size, b"\0") for array, size in padded)

    def close(self) -> None:
        """Let go of its memory here; receivers keep it."""
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def __enter__(self) -> Parcel:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Channel:
    """An end of a connection between two processes.

    Args:
        end: a connected Unix socket of type ``SOCK_STREAM``.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket, self._owner = end, os.getpid()

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`."""
        return self.socket.fileno()

    def close(self) -> None:
        """The other end then finds the end of the stream, even if a process that was forked from this one has it."""
        if self._owner == os.getpid():
            with contextlib.suppress(OSError):  # the other end has closed it
                self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def send(self, value: Any) -> None:
        """Send an object, or a `Parcel`.

        Raises:
            OSError: the other process has closed its end.
        """
        parcel = value if isinstance(value, Parcel) else Parcel(value)
        try:
            sizes = struct.pack(f"<{len(parcel.sizes)}Q", *parcel.sizes)
            head = _HEADER.pack(len(parcel.data), parcel.total, len(parcel.sizes))
            files = [] if parcel.file is None else [parcel.file]
            sent = socket.send_fds(self.socket, [head], files)
            for part in (head[sent:] + sizes, parcel.data, parcel.arrays):
                self.socket.sendall(part)
        finally:
            if parcel is not value:
                parcel.close()

    def receive(self) -> Any:
        """The next object.

        Raises:
            EOFError: the other process has closed its end, or has ended.
        """
        return self.receive_later()()

    def receive_later(self) -> Any:
        """As `receive`, but a function makes the object of what has come.

        Raises:
            RuntimeError: no descriptor is free.
        """
        head, files = self._head()
        length, total, count = _HEADER.unpack(head)
        sizes = struct.unpack(f"<{count}Q", exactly(self.socket, 8 * count))
        data = exactly(self.socket, length)
        arrays = _mapped(files[0], total) if files else memoryview(exactly(self.socket, total))
        parts = [arrays[place : place + size] for place, size in zip(_places(sizes)[0], sizes)]
        return lambda: pickle.loads(data, buffers=parts)

    def _head(self) -> tuple[bytes, list[int]]:
        head = b""
        files: list[int] = []
        while len(head) < _HEADER.size:
            part, found, flags, _ = socket.recv_fds(self.socket, _HEADER.size - len(head), 1)
            if not part:
                raise EOFError("the other process has closed the connection")
            if flags & socket.MSG_CTRUNC:
                raise RuntimeError(
                    "Too many open files. Communication with the workers is no longer possible. Please increase the "
                    "limit using `ulimit -n` in the shell"
                )
            head, files = head + part, files + found
        return head, files


def exactly(end: socket.socket, count: int) -> bytearray:
    """The next bytes of a socket.

    Raises:
        EOFError: there are fewer, as the other end was closed.
    """
    data = bytearray(count)
    rest = memoryview(data)
    while rest:
        read = end.recv_into(rest)
        if not read:
            raise EOFError("the other process has closed the connection")
        rest = rest[read:]
    return data


# ------------------------------------------------------------------ memory


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where each of some arrays begins, and where the last ends."""
    places, end = [], 0
    for size in _padded(sizes):
        places.append(end)
        end += size
    return places, end


def _padded(sizes: Sequence[int]) -> list[int]:
    return [-(-size // _ALIGNED) * _ALIGNED for size in sizes]


def _memory(size: int) -> int:
    """The descriptor of an anonymous file of so many bytes."""
    if sys.platform == "linux":
        file = os.memfd_create("functorch_port")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    try:
        os.ftruncate(file, size)
    except BaseException:
        os.close(file)
        raise
    return file


def _write(file: int, array: memoryview, place: int) -> None:
    rest = array.cast("B")
    while rest:
        done = os.pwrite(file, rest[:_AT_ONCE], place)
        rest, place = rest[done:], place + done


def _mapped(file: int, size: int) -> memoryview:
    """The memory of a file; what is written to it here is seen nowhere else."""
    untracked = {} if sys.version_info < (3, 13) else {"trackfd": False}
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    try:
        return memoryview(mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=protection, **untracked))
    except OSError:  # no more descriptors or maps, as a program keeps that many batches
        return _copied(file, size)
    finally:
        os.close(file)


def _copied(file: int, size: int) -> memoryview:
    whole = memoryview(bytearray(size))
    place = 0
    while place < size:
        place += os.preadv(file, [whole[place : place + _AT_ONCE]], place)
    return whole


# ------------------------------------------------------------------ pickling


class _Pickler(cloudpickle.Pickler):
    """Pickles for another process of this package.

    Args:
        batch: see `Parcel`.
        uncut: ids of the Storages that go as a whole.

    Attributes:
        out, buffers: the pickle, and the arrays that are not in it.
        modules: whose classes and functions go by name, in the order in which they came.
    """

    def __init__(self, batch: bool, uncut: frozenset[int] = frozenset()) -> None:
        self.out, self.buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        super().__init__(self.out, 5, buffer_callback=self.buffers.append)
        self.batch, self.uncut = batch, uncut
        self.modules: dict[str, None] = {}
        self._spans: dict[int, list[tuple[float, float]]] = {}

    def reducer_override(self, obj: Any) -> Any:
        if obj.__class__ is Storage:
            self._spans.setdefault(id(obj), []).append((0, math.inf))
            value = obj.look()
            return (
                (Storage, (value,))
                if isinstance(value, jax.ShapeDtypeStruct)
                else (_stored, (np.asarray(value),))
            )
        if self.batch and obj.__class__ is Tensor and obj._view is not None and not obj.requires_grad:
            return self._part(obj) or super().reducer_override(obj)
        if self.batch and isinstance(obj, Tensor) and obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor "
                "before serializing (e.g., putting it on the queue)."
            )
        if isinstance(obj, np.ndarray):
            return _of_file(obj) or super().reducer_override(obj)
        if obj is default_generator:
            return _default_generator, ()
        if isinstance(obj, io.TextIOWrapper) and obj not in (sys.stdout, sys.stderr) and _is_written(obj):
            raise pickle.PicklingError(f"cannot pickle {obj.name!r}, which is open for writing")
        if isinstance(obj, type | FunctionType) and _goes_by_name(obj.__module__):
            self.modules[obj.__module__] = None
        elif isinstance(obj, ModuleType) and getattr(obj, "__file__", None) and _goes_by_name(obj.__name__):
            self.modules[obj.__name__] = None
        return super().reducer_override(obj)

    def _part(self, tensor: Any) -> Any:
        """A small view of a large Storage, without the rest of that; None for another tensor."""
        cell, shape = tensor._storage, tuple(tensor.shape)
        whole = cell.look()
        if not isinstance(whole, np.ndarray | jax.Array) or whole.nbytes < _SHARED or 0 in shape:
            return None
        strides, offset = tensor._layout()
        ends = [(length - 1) * stride for length, stride in zip(shape, strides)]
        first, last = (offset + sum(end for end in ends if end * sign > 0) for sign in (-1, 1))
        much = 2 * (last - first) >= whole.size
        if much or id(cell) in self.uncut or tensor.element_size() != whole.itemsize:
            return None
        self._spans.setdefault(id(cell), []).append((first, last))
        part = Storage(np.ascontiguousarray(np.asarray(whole).reshape(-1)[first : last + 1]))
        view = shape, strides, offset - first, tensor.dtype, tensor._turned()
        return rebuild, (Tensor, part, view, False, tensor._own_attributes())

    def overlapping(self) -> frozenset[int]:
        """Ids of the Storages of which parts have numbers in common, which must stay common."""
        found = set()
        for cell, spans in self._spans.items():
            spans.sort()
            if any(end >= begin for (_, end), (begin, _) in pairwise(spans)):
                found.add(cell)
        return frozenset(found)


def _is_written(file: io.TextIOWrapper) -> bool:
    """Whether a file may be written to: a copy in another process would not be written to the disk."""
    return not file.closed and file.writable()


def _of_file(array: np.ndarray) -> Any:
    """How to map the same part of a file again; None for an array in memory."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if not isinstance(whole, np.memmap) or not whole.filename or not whole.flags.c_contiguous:
        return None
    starts = [part.__array_interface__["data"][0] for part in (array, whole)]
    mode = "r+" if whole.mode == "w+" else whole.mode
    where = os.fspath(whole.filename), mode, whole.offset, whole.nbytes, starts[0] - starts[1]
    return _map_again, (*where, type(array), array.shape, array.dtype, array.strides)


def _map_again(
    name: str, mode: Any, offset: int, size: int, place: int, kind: Any, shape: Any, dtype: Any, strides: Any
) -> np.ndarray:
    whole = np.memmap(name, np.uint8, mode, offset, (size,))
    return np.ndarray(shape, dtype, whole, place, strides).view(kind)


def _default_generator() -> Generator:
    return default_generator


def _stored(array: np.ndarray) -> Storage:
    return Storage(executor.current.place(array))


def _goes_by_name(name: str | None) -> bool:
    """Whether another process finds what is in a module. If not, it goes by value."""
    if name is None or name == "__main__" or name not in sys.modules:
        return False
    if _is_found(name, getattr(sys.modules[name], "__file__", None)):
        return True
    cloudpickle.register_pickle_by_value(sys.modules[name])
    return False


@cache
def _is_found(name: str, file: str | None) -> bool:
    """Whether a module is what its name finds: not another one since `sys.path` has changed, or of the same name."""
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return False
    path = getattr(sys.modules[parent], "__path__", None) if parent else None
    if parent and path is None:
        return False
    for finder in sys.meta_path:
        spec = None
        with contextlib.suppress(Exception):
            spec = finder.find_spec(name, path)
        if spec is not None:
            found = spec.origin if spec.has_location else None
            return file is None or found is None or os.path.abspath(found) == os.path.abspath(file)
    return False
