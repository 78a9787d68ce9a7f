"""What a `Tensor` says of its memory and dtype: bytes, device, strides, which other tensors have the same elements."""

from __future__ import annotations

import warnings
from typing import Any

from .._array.offloaded import is_on_hosts
from .._array.placed import sharding_of
from .._base.layout import channels_last, channels_last_3d, is_in_format, strided
from .._base.strides import contiguous
from .cells import address
from .tensor import Tensor, attach

__all__: list[str] = []


def _itemsize(self: Tensor) -> int:
    return self._aval().dtype.itemsize


def element_size(self: Tensor) -> int:
    """Bytes per element."""
    return self._aval().dtype.itemsize


def _nbytes(self: Tensor) -> int:
    return self.numel() * self.itemsize


def _is_cuda(self: Tensor) -> bool:
    return self.device.type == "cuda"


def _is_cpu(self: Tensor) -> bool:
    return self.device.type == "cpu"


def _is_meta(self: Tensor) -> bool:
    return self.device.type == "meta"


def get_device(self: Tensor) -> int:
    """Index of the device, -1 on the CPU."""
    return -1 if self.is_cpu else (self.device.index or 0)


def _strided_layout(self: Tensor) -> Any:
    return strided


def is_floating_point(self: Tensor) -> bool:
    return self.dtype.is_floating_point


def is_complex(self: Tensor) -> bool:
    return self.dtype.is_complex


def is_signed(self: Tensor) -> bool:
    return self.dtype.is_signed


# ---------------------------------------------------------------- strides


def _layout(self: Tensor) -> tuple[tuple[int, ...], int]:
    if self._view is None:
        return contiguous(self._aval().shape), 0
    return self._view.layout(self._storage)


def _turned(self: Tensor) -> tuple[bool, bool]:
    """Whether it shows the conjugate, and whether the negative, of what is in the Storage."""
    return (False, False) if self._view is None else self._view.turned()


def _strides(self: Tensor) -> tuple[int, ...]:
    return self._layout()[0]


def stride(self: Tensor, dim: int | None = None) -> Any:
    """Element strides, as PyTorch's layout of the same views would have them."""
    strides = self._strides()
    return strides if dim is None else strides[self._wrap_dim(dim)]


def storage_offset(self: Tensor) -> int:
    """Position of the first element in the Storage."""
    return self._layout()[1]


def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in order, that of ``memory_format``, as PyTorch's layout of the same views would."""
    if memory_format in (channels_last, channels_last_3d):
        return is_in_format(self._aval().shape, self._strides(), memory_format)
    return self._view is None or self._view.is_contiguous(self._storage)


def _overlaps(self: Tensor) -> bool:
    return (
        self._view is not None
        and self._view.may_overlap
        and any(s == 0 and n > 1 for s, n in zip(self._strides(), self._aval().shape, strict=True))
    )


def _is_look_of(self: Tensor, other: Any) -> bool:
    """Whether ``other`` is the same look at the same elements: copying it does nothing."""
    return (
        isinstance(other, Tensor)
        and self._storage is other._storage
        and self.dtype is other.dtype
        and not any(t._view is not None and t._view.is_traced() for t in (self, other))
        and self.is_set_to(other)
    )


def data_ptr(self: Tensor) -> int:
    """The address of the first element; 0 if there is none.

    It is equal for tensors that start at the same element of one storage, and holds until one of them is written to: a
    write gives the storage another piece of memory.

    Raises:
        RuntimeError: a function is being compiled, so that the value has no place yet.
        NotImplementedError: the tensor is on several devices, or on one whose memory has no addresses here.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.data_ptr.html
    """
    start = address(self._storage) if self.numel() else 0
    return start and start + self.storage_offset() * self.itemsize


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both look at the same elements of one Storage in the same way."""
    return (
        self._storage is tensor._storage
        and self.shape == tensor.shape
        and self._layout() == tensor._layout()
        and self._turned() == tensor._turned()
    )


#: names that only tensors on a mesh have
OF_MESHES: set[str] = set()


def __dir__(self: Tensor) -> list[str]:
    return sorted({*object.__dir__(self)} - {"__dict__"} - OF_MESHES)


def _is_view(self: Tensor) -> bool:
    return self._base is not None


def is_shared(self: Tensor) -> bool:
    return False


def is_pinned(self: Tensor) -> bool:
    """Whether it is kept in memory of the host that devices read: see `distributed.sharding.offload`."""
    return self._view is None and is_on_hosts(sharding_of(self._storage))


def share_memory_(self: Tensor) -> Tensor:
    warnings.warn(
        "share_memory_() has no effect: JAX's arrays cannot be shared, so a process has a copy of each tensor that it "
        "is given, and what it writes is not seen by others. Train with torch.distributed (DistributedDataParallel, "
        "all_reduce), or send tensors back by a torch.multiprocessing.Queue",
        stacklevel=2,
    )
    return self


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    return self


attach(
    element_size, get_device, is_floating_point, is_complex, is_signed, _layout, _turned, _strides, stride,
    __dir__, storage_offset, is_contiguous, _overlaps, _is_look_of, data_ptr, is_set_to, _is_view, is_shared,
    is_pinned, share_memory_, pin_memory,
    itemsize=property(_itemsize), nbytes=property(_nbytes), is_cuda=property(_is_cuda), is_cpu=property(_is_cpu),
    is_meta=property(_is_meta), layout=property(_strided_layout),
)  # fmt: skip
