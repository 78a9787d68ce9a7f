"""Whose the Storages of a step are: parameters, buffers, gradients and optimizer state, by module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._array.joint import Part
from .._array.storage import Storage
from .._base import alive
from .._tensor.tensor import Tensor
from .._trace.names import variable_of
from ..autograd.profiler import dense_parts
from ..nn import Module, Parameter
from ..optim import Optimizer

__all__ = ["Moment", "Owner", "name_of", "nbytes_of", "owners"]

PARAMETERS, BUFFERS, GRADIENTS, STATE = "parameters", "buffers", "gradients", "optimizer state"
NO_MODULE = "(no module)"


class Owner(NamedTuple):
    """What a Storage is, and the module that it belongs to, as ``model/layer1/conv``."""

    cost: str
    module: str


class Moment:
    """What there is at a moment.

    Attributes:
        costs: bytes by cost.
        modules: bytes by module and cost.
    """

    def __init__(self) -> None:
        self.costs: Counter[str] = Counter()
        self.modules: dict[str, Counter[str]] = {}

    def add(self, owner: Owner, nbytes: int) -> None:
        """Count bytes."""
        self.costs[owner.cost] += nbytes
        self.modules.setdefault(owner.module, Counter())[owner.cost] += nbytes


def name_of(step: Any, module: Any) -> str:
    """What a step calls a module: its variable, else the module's class."""
    return variable_of(step, module) or type(module).__name__


def owners(step: Any, used: Iterable[Storage]) -> dict[Storage, Owner]:
    """The Storages of the modules and optimizers that have some of those that a step has used."""
    cells = set(used)
    found: dict[Storage, Owner] = {}
    optimizers = [o for o in alive.optimizers if isinstance(o, Optimizer) and "param_groups" in o.__dict__]
    optimizers = [o for o in optimizers if any(p._storage in cells for p in _parameters(o))]
    for root in _roots(cells):
        name = name_of(step, root)
        for prefix, module in root.named_modules():
            path = f"{name}/{prefix.replace('.', '/')}" if prefix else name
            for tensor in module._parameters.values():
                _enter(found, tensor, PARAMETERS, path)
            for tensor in module._buffers.values():
                _enter(found, tensor, BUFFERS, path)
    for tensor in (p for o in optimizers for p in _parameters(o)):
        _enter(found, tensor, PARAMETERS, NO_MODULE)
    for tensor in alive.alive(Parameter):
        if tensor._storage in cells:
            _enter(found, tensor, PARAMETERS, NO_MODULE)
    modules = {cell: owner.module for cell, owner in found.items() if owner.cost == PARAMETERS}
    for tensor in alive.alive(Tensor):
        if tensor._storage in modules and isinstance(tensor._kept_grad, Tensor):
            for part in dense_parts(tensor._kept_grad):
                found.setdefault(part._storage, Owner(GRADIENTS, modules[tensor._storage]))
    for optimizer in optimizers:
        for param, value in _state(optimizer):
            found.setdefault(value._storage, Owner(STATE, modules[param._storage]))
    return found


def _parameters(optimizer: Any) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _state(optimizer: Any) -> Iterator[tuple[Tensor, Tensor]]:
    for param in _parameters(optimizer):
        for value in (optimizer.state.get(param) or {}).values():
            if isinstance(value, Tensor):
                yield param, value


def _roots(cells: set[Storage]) -> list[Any]:
    """The outermost modules that have one of the Storages."""
    modules = alive.alive(Module)
    inner = {id(child) for module in modules for child in module._modules.values()}
    wrapped = [m._modules["_orig_mod"] for m in modules if "_orig_mod" in m._modules]
    outer = [m for m in modules if id(m) not in inner and "_orig_mod" not in m._modules]
    return [
        m
        for m in dict.fromkeys((*outer, *wrapped))
        if any(t._storage in cells for t in (*m.parameters(), *m.buffers()))
    ]


def _enter(found: dict[Storage, Owner], tensor: Any, cost: str, module: str) -> None:
    if tensor is not None:
        found.setdefault(tensor._storage, Owner(cost, module))


def nbytes_of(cell: Storage) -> int:
    """Bytes of a Storage's array."""
    held = cell.held
    value = held if isinstance(held, Part) else cell.look()
    return int(value.size * value.dtype.itemsize)
