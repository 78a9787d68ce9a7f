"""What `Storage` has of PyTorch's ``UntypedStorage``, which counts in bytes.

Reference: https://docs.pytorch.org/docs/stable/storage.html
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._array.placing import put
from .._array.storage import Storage
from .._array.value import HOST, OTHERS
from .._base.device import device, from_jax, get_default_device, to_jax

__all__: list[str] = []


def data_ptr(self: Storage) -> int:
    """A number that is this Storage's own, as an address would be."""
    return id(self) << 40


def nbytes(self: Storage) -> int:
    """Bytes held."""
    value = self.aval()
    return value.size * value.dtype.itemsize


def element_size(self: Storage) -> int:
    """1: a Storage is counted in bytes."""
    return 1


def tolist(self: Storage) -> list[int]:
    """The bytes."""
    return np.frombuffer(np.ascontiguousarray(np.asarray(self.look())).tobytes(), np.uint8).tolist()


def cpu(self: Storage) -> Storage:
    """A Storage with the same value on the CPU."""
    return _moved(self, device("cpu"))


def cuda(self: Storage, index: Any = None) -> Storage:
    """A Storage with the same value on a GPU."""
    return _moved(self, index if isinstance(index, device) else device("cuda", index))


def _moved(self: Storage, where: device) -> Storage:
    return Storage(put(self.value, to_jax(where)))


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


def _item(self: Storage, index: Any) -> Any:
    return tolist(self)[index]


for _method in (data_ptr, nbytes, element_size, tolist, cpu, cuda):
    _method.__qualname__ = f"Storage.{_method.__name__}"
    setattr(Storage, _method.__name__, _method)
Storage.size = Storage.__len__ = nbytes  # type: ignore[attr-defined]
Storage.__getitem__ = _item  # type: ignore[attr-defined]
Storage.device = property(_device, doc="Where it is.")
