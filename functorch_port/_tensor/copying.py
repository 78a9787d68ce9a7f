"""Copies and pickles of a `Tensor`."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._array import placed
from .._array.storage import Storage
from . import overriding
from .registered import function
from .tensor import Tensor, attach, bare

__all__ = ["put_attributes", "rebuild"]

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
        held = placed.like(self._storage, self._storage.value)  # arrays are immutable: nothing to copy
        cell = memo[id(self._storage)] = Storage(held)
    new = self._like(cell)
    memo[id(self)] = new
    put_attributes(new, copy.deepcopy(self._own_attributes(), memo))
    grad = self._get_grad()
    if grad is not None:
        new._set_grad(grad.__deepcopy__(memo))
    return new


def _like(self: Tensor, cell: Storage) -> Tensor:
    new = bare(type(self))
    new._storage, new._view, new._requires_grad = cell, self._view, self._requires_grad
    return new


def _own_attributes(self: Tensor) -> dict[str, Any]:
    """What a program put on the tensor."""
    found = {k: v for k, v in self.__dict__.items() if k not in _BOOKKEEPING}
    cls: Any = type(self)
    return found | {name: getattr(self, name) for name in _slots(cls) if hasattr(self, name)}


@functools.cache
def _slots(cls: type) -> frozenset[str]:
    """The ``__slots__`` that a subclass has added."""
    found: set[str] = set()
    for base in cls.__mro__[: cls.__mro__.index(Tensor)]:
        own = vars(base).get("__slots__", ())
        found |= {own} if isinstance(own, str) else set(own)
    return frozenset(found - {"__dict__", "__weakref__"})


def put_attributes(tensor: Tensor, attributes: dict[str, Any]) -> None:
    """Set what a program put on a tensor, as it is."""
    cls: Any = type(tensor)
    slots = _slots(cls)
    tensor.__dict__.update({k: v for k, v in attributes.items() if k not in slots})
    for name in slots & attributes.keys():
        object.__setattr__(tensor, name, attributes[name])


def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    view = None
    if self._view is not None:
        view = (tuple(self.shape), *self._layout(), self.dtype, self._turned())
    return (rebuild, (type(self), self._storage, view, self.requires_grad, self._own_attributes()))


def rebuild(
    cls: type[Tensor], cell: Storage, view: Any, requires_grad: bool, extra: dict[str, Any]
) -> Tensor:
    """Unpickle a tensor; tensors that shared a Storage share it again."""
    tensor = bare(cls)
    tensor._storage, tensor._requires_grad = cell, requires_grad
    if view is not None:
        with overriding.WithoutAll():
            tensor._view = function("_strided")(tensor._alias(), *view)._view
    put_attributes(tensor, extra)
    return tensor


def _rebuild_from_type_v2(func: Callable[..., Any], new_type: Any, args: Sequence[Any], state: Any) -> Any:
    """What ``func`` makes as a tensor of a subclass, with its attributes: by its ``__setstate__``, if it has one."""
    made = func(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if "__setstate__" in vars(new_type):
        made.__setstate__(state)
        return made
    for part in state if isinstance(state, tuple) else (state,):  # attributes, and slots
        put_attributes(made, part or {})
    return made


attach(__deepcopy__, _like, _own_attributes, __reduce_ex__)
