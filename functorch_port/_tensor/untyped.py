"""What `Storage` has of PyTorch's ``UntypedStorage``, which counts in bytes.

Reference: https://docs.pytorch.org/docs/stable/storage.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array.placing import put
from .._array.storage import Storage
from .._base.device import device, to_jax

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


def _item(self: Storage, index: Any) -> Any:
    return tolist(self)[index]


for _method in (data_ptr, nbytes, element_size, tolist, cpu, cuda):
    _method.__qualname__ = f"Storage.{_method.__name__}"
    setattr(Storage, _method.__name__, _method)
Storage.size = Storage.__len__ = nbytes  # type: ignore[attr-defined]
Storage.__getitem__ = _item  # type: ignore[attr-defined]
