"""Memory that a small tensor and numpy arrays have together, as in PyTorch.

A `jax.Array` is immutable, and XLA may have it in several places, so nobody may write to its memory. But a small value
on a CPU can be kept beside the memory that numpy writes to: whoever reads the tensor compares the two, which takes some
microseconds, and takes over what was written; whoever writes to the tensor writes to that memory, too. When numpy's
arrays are gone the Storage is an ordinary one again.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import jax
import numpy as np

from .._array import storage
from .._array.storage import HOST, HostStorage, Storage
from .._base import inside
from . import numpy_programs as host

__all__ = ["SharedStorage", "follow", "memory_of"]


class _Memory:
    """
    Attributes:
        array: the memory; whoever holds it, or an array that has it as its ``base``, may write to it.
        seen: the bytes that were in it.
        content: an ordinary Storage with these, as a value that nobody writes to.
    """

    __slots__ = ("array", "content", "seen")

    def __init__(self, array: np.ndarray, seen: bytes, content: Storage) -> None:
        self.array, self.seen, self.content = array, seen, content

    def is_alone(self) -> bool:
        """Whether there is no numpy array any more that could write to it."""
        array = self.array
        if getrefcount(array) > _ALONE[0]:
            return False
        base = array.base
        if base is None:
            return True
        return type(base) is np.ndarray and base.base is None and getrefcount(base) <= _ALONE[1]

    def put_back(self) -> None:
        """Write what was seen, when what was written since is undone."""
        self.array[...] = _read(self.seen, self.array)


def _read(data: bytes, like: np.ndarray) -> np.ndarray:
    return np.frombuffer(data, like.dtype).reshape(like.shape)


def _measure_alone() -> tuple[int, int]:
    """The reference counts that `_Memory.is_alone` sees of an array and its base which nobody else holds."""
    memory = _Memory(np.zeros(2)[:], b"", None)  # type: ignore[arg-type]
    array = memory.array
    base = array.base
    return getrefcount(array), getrefcount(base)


_ALONE = _measure_alone()


class SharedStorage(Storage):
    """A `Storage` whose value is in a `_Memory`."""

    __slots__ = ()

    def _now(self) -> Storage:
        """The Storage that has the value: itself, if nobody shares the memory any more."""
        memory = self.raw
        if memory.__class__ is not _Memory:
            # another thread was faster, or an exception came between the two writes
            if self.__class__ is SharedStorage:
                self.__class__ = Storage  # type: ignore[assignment]
            return self
        seen = memory.array.tobytes()
        if seen != memory.seen:
            memory = _Memory(memory.array, seen, HostStorage(_read(seen, memory.array)))
            self.raw = memory
        content = memory.content
        if memory.is_alone() and self.raw is memory:
            if content.__class__ is HostStorage:
                _host.__set__(self, content.host)
                self.form, self.__class__ = None, HostStorage  # type: ignore[assignment]
            else:
                known = content.on_host()
                _host.__set__(self, known)
                if known is not None:
                    self.twin = content.twin
                self.raw, self.__class__ = content.raw, Storage  # type: ignore[assignment]
            return self
        return content

    @property
    def _value(self) -> Any:  # type: ignore[override]
        return self._now()._value

    @_value.setter
    def _value(self, value: Any) -> None:
        memory = self.raw
        array = memory.array if memory.__class__ is _Memory else None
        small = value.__class__ in HOST
        if (
            array is not None
            and (small or (isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)))
            and (value.shape, value.dtype) == (array.shape, array.dtype)
        ):
            array[...] = value
            self.raw = _Memory(array, array.tobytes(), HostStorage(value) if small else Storage(value))
        elif small:
            _host.__set__(self, value)
            self.form, self.__class__ = None, HostStorage  # type: ignore[assignment]
        else:
            self.raw, self.__class__ = value, Storage  # type: ignore[assignment]

    @property
    def value(self) -> Any:
        return storage.overlay.read(self) if storage.overlay else self._now()._value

    @value.setter
    def value(self, value: Any) -> None:
        if not storage.overlay and inside.top_trace(None) is not inside.NO_TRACE:
            inside.may_write(self, value)
        self.version += 1
        if storage.overlay:
            storage.overlay.write(self, value)
        else:
            self._value = value

    @property
    def host(self) -> Any:  # type: ignore[override]
        return self._now().on_host()

    @host.setter
    def host(self, value: Any) -> None:
        _host.__set__(self, value)

    def look(self) -> Any:
        return storage.overlay.read(self) if storage.overlay else self._now().look()

    def aval(self) -> Any:
        memory = self.raw
        if storage.overlay or memory.__class__ is not _Memory:
            return self.look()
        return memory.array

    def on_host(self) -> Any:
        return self._now().on_host()


_host: Any = Storage.__dict__["host"]
_PLAIN = frozenset({Storage, HostStorage})


def _may_share(array: Any) -> bool:
    return bool(array.size) and host.keeps(array) and not storage.in_jax()


def memory_of(cell: Storage) -> np.ndarray | None:
    """The memory of a Storage, that it will share with whoever holds it; None where it cannot.

    That is where it is not small, not on the CPU that JAX computes on, or its value is not known now.
    """
    memory = cell.raw if cell.__class__ is SharedStorage else None
    if memory.__class__ is _Memory:
        return memory.array
    if not _may_share(cell.aval()):
        return None
    value = cell.look()
    if cell.__class__ not in _PLAIN or not (value.__class__ in HOST or host.is_only_cpu(value.devices())):
        return None
    array = np.array(value, order="C")
    content = HostStorage(value) if value.__class__ in HOST else Storage(value)
    memory = _Memory(array, array.tobytes(), content)
    cell.raw, cell.__class__ = memory, SharedStorage  # type: ignore[assignment]
    return array


def follow(cell: Storage, array: Any) -> None:
    """Have a new Storage share the memory of the array that its value was copied from, if it may."""
    if (
        cell.__class__ is HostStorage
        and type(array) in (np.ndarray, np.memmap)
        and array.flags.writeable
        and (cell.host.shape, cell.host.dtype) == (array.shape, array.dtype)
        and _may_share(array)
    ):
        array = array.view(np.ndarray)  # one that has its shape and dtype for itself
        memory = _Memory(array, array.tobytes(), HostStorage(cell.host))
        cell.raw, cell.__class__ = memory, SharedStorage  # type: ignore[assignment]
