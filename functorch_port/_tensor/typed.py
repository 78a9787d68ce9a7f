"""`TypedStorage`: a storage counted in elements, what ``Tensor.storage()`` gives; and its old names by dtype."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .._base import dtypes
from .creation import tensor as tensor_of
from .creation import zeros
from .tensor import Tensor, attach, bare
from .untyped import Bytes, UntypedStorage

__all__ = ["CLASSES", "TypedStorage"]


class TypedStorage(Bytes):
    """The memory of a tensor as elements of one dtype, one after the other (deprecated in PyTorch).

    Args:
        data: how many elements, zeros here, or a sequence of them; default: none.
        wrap_storage: a storage to look at, in place of ``data``.
        dtype: of the elements; default: `get_default_dtype`, or what the given storage was made as.
        device: where.

    Example:
        >>> import functorch_port as torch
        >>> torch.ones(3).storage().size(), torch.ones(3).untyped_storage().size()
        (3, 12)

    Reference: https://docs.pytorch.org/docs/stable/storage.html
    """

    __module__ = "functorch_port.storage"

    def __init__(
        self,
        data: Any = 0,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: dtypes.dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if wrap_storage is None:
            dtype = dtype or dtypes.get_default_dtype()
            make: Any = zeros if isinstance(data, int) else tensor_of
            wrap_storage = make(data, dtype=dtype, device=device).untyped_storage()
        elif not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(
                f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}"  # PyTorch's text
            )
        self._untyped_storage: UntypedStorage = wrap_storage
        self.dtype = dtype or dtypes.from_np(wrap_storage._cell.aval().dtype)

    # ------------------------------------------------------------- reading

    def untyped(self) -> UntypedStorage:
        """The storage, counted in bytes."""
        return self._untyped_storage

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    _element_size, _size, _nbytes, _data_ptr = element_size, Bytes.size, Bytes.nbytes, Bytes.data_ptr

    def _numpy(self) -> np.ndarray:
        return self._untyped_storage._numpy()[: len(self) * self.element_size()].view(self.dtype.np)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        found: list[Any] = elements(self._untyped_storage, self.dtype).tolist()
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self.tolist()[self._index(index)]

    def _index(self, index: Any) -> int:
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return index

    def _named(self) -> str:
        return f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"

    def pickle_storage_type(self) -> str:
        """The old name of its class."""
        return f"{self.dtype.scalar_name}Storage"

    def get_device(self) -> int:
        """The number of its device, -1 for the CPU."""
        return self._untyped_storage.get_device()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The old name of its class; or a copy with elements of another dtype."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        named = CLASSES.get(dtype.removeprefix("torch.")) if isinstance(dtype, str) else dtype
        kind = getattr(named, "dtype", named)
        if not isinstance(kind, dtypes.dtype):
            raise ValueError(f"TypedStorage.type: {dtype!r} is no storage class or dtype")
        return self._as(kind)

    # ------------------------------------------------------------- writing

    def __setitem__(self, index: Any, value: Any) -> None:
        where: Any = slice(*index.indices(len(self))) if isinstance(index, slice) else self._index(index)
        with self._untyped_storage._edit() as data:
            data[: len(self) * self.element_size()].view(self.dtype.np)[where] = value

    def fill_(self, value: Any) -> TypedStorage:
        """Set all elements."""
        self[:] = value
        return self

    def copy_(self, source: Bytes, non_blocking: Any = None) -> TypedStorage:
        """Take over the bytes of another storage of the same size."""
        self._untyped_storage.copy_(source)
        return self

    def resize_(self, size: int) -> None:
        """As `UntypedStorage.resize_`, in elements."""
        self._untyped_storage.resize_(size * self.element_size())

    # ------------------------------------------------------------- copies

    def _with(self, storage: UntypedStorage) -> TypedStorage:
        return (
            self if storage is self._untyped_storage else TypedStorage(wrap_storage=storage, dtype=self.dtype)
        )

    def clone(self) -> TypedStorage:
        """A copy."""
        return self._with(self._untyped_storage.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self._with(copy.deepcopy(self._untyped_storage, memo))

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """This storage, or a copy of it on another device."""
        return self._with(self._untyped_storage.to(device=device))

    def cpu(self) -> TypedStorage:
        """This storage, or a copy of it on the CPU."""
        return self._with(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """This storage, or a copy of it on a GPU."""
        return self._with(self._untyped_storage.cuda(device))

    def pin_memory(self, device: Any = None) -> TypedStorage:
        return self

    def _as(self, dtype: dtypes.dtype) -> TypedStorage:
        return storage(elements(self._untyped_storage, self.dtype).to(dtype).clone())

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> Any:
        """As `UntypedStorage.from_file`, of so many elements: of ``torch.FloatStorage`` and the like."""
        raise RuntimeError("from_file can only be called on derived classes")


def elements(source: UntypedStorage, dtype: dtypes.dtype) -> Any:
    """A vector of all elements of a storage, which it shares. Bytes that make no whole element are left out."""
    flat: Any = bare(Tensor)
    flat._storage = source._cell
    flat = flat.reshape(-1)
    part = source._range
    count = len(source) // dtype.itemsize * dtype.itemsize
    if part is None and count == source.nbytes():
        return flat.view(dtype)
    start = 0 if part is None else part.start
    return flat.view(dtypes.uint8)[start : start + count].view(dtype)


def storage(self: Tensor) -> Any:
    """The memory as a `TypedStorage`, which counts elements of the tensor's dtype."""
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


attach(storage)
Tensor._typed_storage = storage


class _LegacyMeta(type):
    """The behaviour of ``torch.FloatStorage`` and its like: they make and recognise a `TypedStorage`."""

    dtype: dtypes.dtype

    def __call__(cls, data: Any = 0, *, wrap_storage: Any = None, device: Any = None) -> TypedStorage:
        return TypedStorage(data, wrap_storage=wrap_storage, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype and not instance.is_cuda

    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """As `UntypedStorage.from_buffer`, of such elements."""
        made = UntypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs)
        return TypedStorage(wrap_storage=made, dtype=cls.dtype)

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """As `UntypedStorage.from_file`, of so many elements."""
        made = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=made, dtype=cls.dtype)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


class _LegacyStorage(metaclass=_LegacyMeta):
    """The base of these classes, of which no object is made."""

    dtype = None  # type: ignore[assignment]


def _legacy(dtype: dtypes.dtype) -> Any:
    text = f"The old class of storages of {dtype!r}: `TypedStorage` replaces it."
    members = {"dtype": dtype, "__doc__": text, "__module__": "torch"}
    return _LegacyMeta(f"{dtype.scalar_name}Storage", (_LegacyStorage,), members)


#: the old classes by name
CLASSES: dict[str, Any] = {
    f"{d.scalar_name}Storage": _legacy(d)
    for d in (
        dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.uint8, dtypes.int8, dtypes.int16,
        dtypes.int32, dtypes.int64, dtypes.bool_, dtypes.complex64, dtypes.complex128,
    )
}  # fmt: skip


def _converter(name: str, dtype: dtypes.dtype) -> None:
    def method(self: Bytes) -> TypedStorage:
        of = self.dtype if isinstance(self, TypedStorage) else dtypes.uint8
        return TypedStorage(wrap_storage=self.untyped(), dtype=of)._as(dtype)

    method.__name__, method.__qualname__ = name, f"Bytes.{name}"
    method.__doc__ = f"A copy with elements of {dtype!r}."
    setattr(Bytes, name, method)


for _name, _dtype in {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "complex_float": dtypes.complex64, "complex_double": dtypes.complex128,
}.items():  # fmt: skip
    _converter(_name, _dtype)
