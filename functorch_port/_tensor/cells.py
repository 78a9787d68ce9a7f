"""What a `Storage` has for tensors: its device, the bytes it holds and their address."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import jax
import numpy as np

from .._array import executor, tracing
from .._array.storage import Storage
from .._array.value import HOST, OTHERS, VALUES
from .._base import memory
from .._base.device import device, from_jax, get_default_device
from .._base.references import are_alone
from .._base.tuning import tuning

__all__ = ["address", "device_of", "nbytes"]

#: address -> the Storage that it was told for
_told: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()


def address(cell: Storage) -> int:
    """Where the value of a Storage lies in memory, and that of no other Storage; 0 if there is none.

    It holds until the Storage is written to, or shares its memory with numpy. Copies of a tensor have one array until
    one of them is written to: one that is asked gets its own.

    Raises:
        RuntimeError: the value is not known yet, as a function is being compiled.
        NotImplementedError: it is in no single piece of memory that programs may read.
    """
    if not nbytes(cell):
        return 0
    found = _address(cell)
    if found and (other := _told.get(found)) is not cell:
        if not _is_its_own(cell) or (other is not None and _lies_at(other, found)):
            cell.put(executor.current.place(np.array(cell.look())))
            found = _address(cell)
        _told[found] = cell
    return found


def _lies_at(cell: Storage, place: int) -> bool:
    """Whether it has been there since it was told so: two arrays are one piece of memory where a program gives one
    result twice.
    """
    try:
        return _address(cell) == place
    except RuntimeError:
        return False


def _is_its_own(cell: Storage) -> bool:
    held = cell.held
    if held.__class__ in VALUES:
        return held.bound  # type: ignore[no-any-return]
    del held
    return are_alone([cell.held])


def _address(cell: Storage) -> int:
    if cell.held.__class__ in HOST and cell.held.size > tuning.numpy_elements:
        cell.array()  # which a read would do, and the address would be another one
    if cell.held.__class__ in VALUES and cell.held.bound:
        shared = executor.current.shared_memory(cell)
        if shared is not None:
            return _start(shared)
    value = cell.look()
    if isinstance(value, jax.core.Tracer):
        raise RuntimeError(
            "Cannot access data pointer of a tensor while the function that uses it is being compiled"
        )
    if isinstance(value, jax.ShapeDtypeStruct):
        return 0
    if isinstance(value, jax.Array):
        where = from_jax(next(iter(value.sharding.device_set)))
        if len(value.sharding.device_set) > 1:
            raise NotImplementedError(
                "data_ptr() of a tensor on several devices: ask for that of a shard's copy"
            )
        if where.type == "cuda":
            return int(value.__cuda_array_interface__["data"][0])  # type: ignore[attr-defined]
        if where.type != "cpu":
            raise NotImplementedError(f"data_ptr() of a tensor on {where}: its memory has no address here")
    return _start(memory.run(np.asarray, (value,)))


def _start(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def nbytes(self: Storage) -> int:
    """Bytes held."""
    value = self.aval()
    return value.size * value.dtype.itemsize


@functools.cache
def _host_device() -> device:
    return from_jax(jax.devices("cpu")[0])


_devices: dict[Any, device] = {}


def _device(self: Storage) -> device:
    """Where the value is; of one that a trace made, where the trace's program runs."""
    value = self.held
    if value.__class__ in OTHERS:
        if value.__class__ in HOST or value.on_cpu:
            return _host_device()
        value = self.array()
    if isinstance(value, jax.ShapeDtypeStruct):
        place = getattr(tracing.current(), "place_of_described", None)
        return (place and place(self)) or device("meta")
    if isinstance(value, jax.core.Tracer):
        overlay = tracing.current()
        return (overlay and overlay.device()) or get_default_device()
    return device_of(value.sharding)


def device_of(sharding: Any) -> device:
    """The devices of a sharding: without a number, if they are several."""
    found = _devices.get(sharding)
    if found is None:
        found = from_jax(next(iter(sharding.device_set)))
        _devices[sharding] = found if len(sharding.device_set) == 1 else device(found.type)
    return _devices[sharding]


Storage.nbytes = nbytes  # type: ignore[assignment]
Storage.device = property(_device, doc="Where it is.")
