"""Copies and pickles of a `Tensor`."""

from __future__ import annotations

import copy
from typing import Any

from .._array.storage import Storage
from .tensor import Tensor, _new, _rebuild

__all__: list[str] = []

#: what `Tensor.__dict__` has of the library's own
_BOOKKEEPING = frozenset({
    "_hooks", "_inherits", "_own_count", "_post_accumulate_hooks", "_retains_grad", "_version_seen",
})  # fmt: skip


def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
            "the moment.  If you were attempting to deepcopy a module, this may be because of a "
            "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
        )
    cell = memo.get(id(self._storage))
    if cell is None:
        cell = memo[id(self._storage)] = Storage(self._storage.value)  # arrays are immutable: nothing to copy
    new = self._like(cell)
    memo[id(self)] = new
    new.__dict__.update(copy.deepcopy(self._own_attributes(), memo))
    grad = self._get_grad()
    if grad is not None:
        new._set_grad(grad.__deepcopy__(memo))
    return new


def _like(self: Tensor, cell: Storage) -> Tensor:
    new = _new(type(self))
    new._storage, new._view = cell, self._view
    new._base = new._grad_fn = new._kept_grad = new._accumulator = None
    new._requires_grad, new._output_nr = self._requires_grad, 0
    return new


def _own_attributes(self: Tensor) -> dict[str, Any]:
    """What a program put on the tensor."""
    return {k: v for k, v in self.__dict__.items() if k not in _BOOKKEEPING}


def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    view = None
    if self._view is not None:
        view = (tuple(self.shape), *self._layout(), self.dtype, self._turned())
    return (_rebuild, (type(self), self._storage, view, self.requires_grad, self._own_attributes()))


for _method in (__deepcopy__, _like, _own_attributes, __reduce_ex__):
    _method.__qualname__ = f"Tensor.{_method.__name__}"
    setattr(Tensor, _method.__name__, _method)
