"""``torch.multiprocessing.reductions``: how tensors go to other processes, which is as copies."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

from .._array.storage import Storage
from .._base.refused import refused_function
from .._tensor.tensor import Tensor
from ..nn.parameter import Parameter

__all__ = ["StorageWeakRef", "init_reductions", "reduce_tensor"]


class StorageWeakRef:
    """A weak reference to the memory of tensors; those to the same memory are equal.

    Args:
        storage: what ``Tensor.untyped_storage()`` gives.

    Attributes:
        cdata: a number for the memory, as long as it lives.
    """

    def __init__(self, storage: Any) -> None:
        cell: Storage = storage.untyped()._cell
        self.cdata = storage._cdata
        self._ref = weakref.ref(cell)

    def expired(self) -> bool:
        """Whether no tensor has the memory any more."""
        return self._ref() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self._ref == other._ref


def reduce_tensor(tensor: Tensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and its arguments, which make the tensor in the process that unpickles them.

    Raises:
        RuntimeError: the tensor has a history, which does not cross processes.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    return tensor.__reduce_ex__(pickle.DEFAULT_PROTOCOL)  # type: ignore[return-value]


def init_reductions() -> None:
    """Let queues and pipes of `multiprocessing` send tensors by `reduce_tensor`; it has been called."""
    for kind in (Tensor, Parameter):
        reduction.ForkingPickler.register(kind, reduce_tensor)


_COPIED = "processes do not share memory here: tensors are copied to them, as by pickle"
globals().update(
    {
        name: refused_function(f"torch.multiprocessing.reductions.{name}", _COPIED)
        for name in (
            "fd_id", "rebuild_cuda_tensor", "rebuild_event", "rebuild_storage_fd", "rebuild_storage_filename",
            "reduce_event", "reduce_storage", "storage_from_cache",
        )
    }
)  # fmt: skip
