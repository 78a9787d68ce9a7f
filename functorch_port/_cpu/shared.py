"""Memory that a small tensor and numpy arrays have together, as in PyTorch.

A `jax.Array` is immutable, and XLA may have it in several places, so nobody may write to its memory. But a small value
on a CPU can be kept beside the memory that numpy writes to: whoever reads the tensor compares the two, which takes some
microseconds, and takes over what was written; whoever writes to the tensor writes to that memory, too. When numpy's
arrays are gone the Storage is an ordinary one again.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._array.placed import Placed
from .._array.storage import Storage
from .._array.value import HOST, LAZY, Value
from .._base.references import counts
from . import numpy_programs as host

__all__ = ["Memory", "follow", "memory_of"]


class Memory(Value):
    """A value in memory that numpy may write to.

    Attributes:
        memory: where; whoever holds it, or an array that has it as its ``base``, may write to it.
        seen: the bytes that were in it.
        content: a Storage with these, to which nobody writes.
    """

    __slots__ = ("content", "memory", "seen")
    bound = True

    def __init__(self, memory: np.ndarray, seen: bytes, content: Storage) -> None:
        self.memory, self.seen, self.content = memory, seen, content

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape

    @property
    def dtype(self) -> Any:
        return self.memory.dtype

    def array(self, cell: Storage) -> Any:
        return self._now(cell).array()

    def host(self, cell: Storage) -> Any:
        return self._now(cell).host()

    def _now(self, cell: Any) -> Storage:
        """A Storage that has the value; ``cell`` has it itself from now on if nobody shares the memory any more."""
        memory: Memory = self
        data = self.memory.tobytes()
        if data != self.seen:
            memory = Memory(self.memory, data, Storage(_read(data, self.memory)))
            if cell.held is self:
                cell.held = memory
        if memory.is_alone(memory is not self) and cell.held is memory:
            cell.held, cell.form = memory.content.held, None
        return memory.content

    def write(self, cell: Storage, value: Any) -> None:
        if value.__class__ in LAZY:
            value = value.array()
        known = value.__class__ in HOST or (
            isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
        )
        if known and (value.shape, value.dtype) == (self.shape, self.dtype):
            self.memory[...] = value
            value = Memory(self.memory, self.memory.tobytes(), Storage(value))
        cell.held, cell.form = value, None

    def restore(self) -> None:
        self.memory[...] = _read(self.seen, self.memory)

    def is_alone(self, more: int = 0) -> bool:
        """Whether there is no numpy array any more that could write to it, besides ``more`` of these objects."""
        if counts([self.memory])[0] > 1 + more:
            return False
        base = self.memory.base
        return base is None or (type(base) is np.ndarray and base.base is None and counts([base])[0] <= 2)


def _read(data: bytes, like: np.ndarray) -> np.ndarray:
    return np.frombuffer(data, like.dtype).reshape(like.shape)


def _may_share(array: Any) -> bool:
    return bool(array.size) and host.keeps(array) and not tracing.in_jax()


def memory_of(cell: Storage) -> np.ndarray | None:
    """The memory of a Storage, that it will share with whoever holds it; None where it cannot.

    That is where it is not small, not on the CPU that JAX computes on, placed on a mesh, or its value is not known now.
    """
    held = cell.held
    if held.__class__ is Memory:
        return held.memory
    if held.__class__ is Placed or not _may_share(held):
        return None
    value = cell.look()
    if not (value.__class__ in HOST or host.is_only_cpu(value.devices())):
        return None
    array = np.array(value, order="C")
    cell.put(Memory(array, array.tobytes(), Storage(value)))
    return array


def follow(cell: Storage, array: Any) -> bool:
    """Have a new Storage share the memory of the array that its value was copied from, if it may."""
    held = cell.held
    if (
        held.__class__ in HOST
        and type(array) in (np.ndarray, np.memmap)
        and array.flags.writeable
        and (held.shape, held.dtype) == (array.shape, array.dtype)
        and _may_share(array)
    ):
        array = array.view(np.ndarray)  # one that has its shape and dtype for itself
        cell.held = Memory(array, array.tobytes(), Storage(held))
        return True
    return False
