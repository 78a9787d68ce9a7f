"""Names of the state a program captured, as a reader of the source would write them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Any

from .._array.storage import Storage
from .._base import alive
from .._tensor.tensor import Tensor

__all__ = ["closures", "name_cells", "owner_of", "variables_cells"]


def _variables(fn: Callable[..., Any]) -> dict[str, Any]:
    """What the function's free names refer to, and ``self`` of a bound method."""
    fn = inspect.unwrap(fn)
    found: dict[str, Any] = {}
    owner = getattr(fn, "__self__", None)
    if owner is not None:
        found["self"] = owner
    if inspect.ismethod(fn):
        fn = fn.__func__
    if inspect.isfunction(fn):
        free = inspect.getclosurevars(fn)
        found.update(free.globals)
        found.update(free.nonlocals)
    return found


def _tensors(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that can be named through ``value``."""
    from ..nn.module import Module
    from ..optim.optimizer import Optimizer

    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Module):
        for key, tensor in (*value.named_parameters(), *value.named_buffers()):
            yield f"{name}.{key}" if key else name, tensor
    elif isinstance(value, Optimizer):
        for i, group in enumerate(value.param_groups):
            for j, p in enumerate(group["params"]):
                yield f"{name}.param_groups[{i}]['params'][{j}]", p
        params = [p for g in value.param_groups for p in g["params"]]
        for i, p in enumerate(params):
            for key, tensor in (value.state.get(p) or {}).items():
                if isinstance(tensor, Tensor):
                    yield f"{name}.state[{i}].{key}", tensor
    elif isinstance(value, list | tuple) and depth < 3:
        for i, item in enumerate(value):
            yield from _tensors(f"{name}[{i}]", item, depth + 1)
    elif isinstance(value, dict) and depth < 3:
        for key, item in value.items():
            yield from _tensors(f"{name}[{key!r}]", item, depth + 1)
    elif (
        depth < 2
        and hasattr(value, "__dict__")
        and not isinstance(value, type)
        and type(value).__module__ != "builtins"
    ):
        for key, item in vars(value).items():
            if isinstance(item, Tensor | list | tuple | dict | Module | Optimizer):
                yield from _tensors(f"{name}.{key}", item, depth + 1)


def _functions(fn: Callable[..., Any]) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """The function and those that it can call, each with the values of its variables."""
    seen: set[int] = set()
    left = [fn]
    while left:
        fn = left.pop()
        if id(fn) in seen:
            continue
        seen.add(id(fn))
        try:
            values = list(_variables(fn).values())
        except (TypeError, ValueError):  # no Python function, or a variable that is not set yet
            values = []
        left += [v for v in values if inspect.isfunction(v) or inspect.ismethod(v)]
        yield fn, values


def variables_cells(fn: Callable[..., Any]) -> set[Storage]:
    """The Storages that the function can reach through its variables, and those of the functions it calls."""
    everything = (value for _, values in _functions(fn) for value in values)
    return {tensor._storage for value in everything for _, tensor in _tensors("", value)}


def closures(fn: Callable[..., Any]) -> set[int]:
    """The `id` of every closure cell that the function and those it can call assign to or read."""
    inner = (inspect.unwrap(f) for f, _ in _functions(fn))
    return {id(cell) for f in inner for cell in getattr(f, "__closure__", None) or ()}


def _generators() -> dict[Storage, str]:
    from .._random.generator import default_generator

    return {default_generator.key_storage: "default_generator"}


def owner_of(cell: Storage) -> str | None:
    """Whose Storage it is, of all modules and optimizers there are: ``the buffer 'bn.running_mean' of Net``."""
    from ..nn.module import Module

    found: list[str] = []
    for module in alive.alive(Module):
        for what, named in (("parameter", module.named_parameters), ("buffer", module.named_buffers)):
            for name, tensor in named():
                said = f"{what} {name!r} of {type(module).__name__}"
                if tensor._storage is cell:
                    found.append(f"the {said}")
                elif isinstance(tensor._kept_grad, Tensor) and tensor._kept_grad._storage is cell:
                    found.append(f"the gradient of the {said}")
    if found:
        return max(found, key=lambda name: name.count("."))  # of the outermost module
    for optimizer in alive.optimizers:
        for name, tensor in _tensors(type(optimizer).__name__, optimizer):
            if tensor._storage is cell:
                return name
    return next(("the key of a generator" for g in alive.generators if g._key is cell), None)


def name_cells(
    fn: Callable[..., Any], cells: list[Storage], packed: Collection[Storage] = ()
) -> dict[Storage, str]:
    """A name for every Storage: the first that the function's variables give, else ``state[i]``.

    Of ``packed`` ones, which hold the values of several tensors, it is said how many more there are.
    """
    names: dict[Storage, str] = {}
    variables = _variables(fn)
    rank = {id(v): i for i, v in enumerate(variables.values())}
    from ..optim.optimizer import Optimizer

    ordered = sorted(variables.items(), key=lambda kv: (isinstance(kv[1], Optimizer), rank[id(kv[1])]))
    looking: dict[Storage, int] = {}
    for name, value in ordered:
        for full, tensor in _tensors(name, value):
            names.setdefault(tensor._storage, full)
            if tensor._storage in packed:
                looking[tensor._storage] = looking.get(tensor._storage, 0) + 1
    for cell, count in looking.items():
        names[cell] += f" and {count - 1} more"
    for cell, name in _generators().items():
        names.setdefault(cell, name)
    return {cell: names.get(cell, f"state[{i}]") for i, cell in enumerate(cells)}
