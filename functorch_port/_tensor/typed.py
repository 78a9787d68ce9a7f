"""`TypedStorage`: a Storage counted in elements, what ``Tensor.storage()`` gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._array.storage import Storage
from .._base import device as devices
from .._base import dtypes
from .tensor import Tensor, attach, wrap

__all__ = ["TypedStorage"]


class TypedStorage:
    """A look at a `Storage` as elements of one dtype, one after the other (deprecated in PyTorch).

    Args:
        wrap_storage: the Storage.
        dtype: of its elements; default: what it was made as.

    Example:
        >>> import functorch_port as torch
        >>> torch.ones(3).storage().size(), torch.ones(3).untyped_storage().size()
        (3, 12)

    Reference: https://docs.pytorch.org/docs/stable/storage.html
    """

    def __init__(self, *, wrap_storage: Storage, dtype: dtypes.dtype | None = None) -> None:
        self._untyped_storage = wrap_storage
        self.dtype = dtype or dtypes.from_np(wrap_storage.aval().dtype)

    def untyped(self) -> Storage:
        """The Storage, counted in bytes."""
        return self._untyped_storage

    @property
    def device(self) -> devices.device:
        return self._untyped_storage.device

    def size(self) -> int:
        """Elements held."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = _size = size

    def nbytes(self) -> int:
        """Bytes held."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """A number that is the Storage's own, as an address would be."""
        return self._untyped_storage.data_ptr()

    def _flat(self) -> Any:
        flat: Any = wrap(self._untyped_storage.value).reshape(-1)  # type: ignore[attr-defined]
        return flat.view(self.dtype)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._flat().tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]


def storage(self: Tensor) -> Any:
    """The `Storage` as a `TypedStorage`, which counts elements of the tensor's dtype."""
    return TypedStorage(wrap_storage=self._storage, dtype=self.dtype)


attach(storage)
Tensor._typed_storage = storage
