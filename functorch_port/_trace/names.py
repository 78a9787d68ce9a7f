"""Names of the state a program captured, as a reader of the source would write them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._array.joint import Joint
from .._array.storage import Storage
from .._base import alive
from .._random.generator import default_generator
from .._tensor.tensor import Tensor
from .stateful import fields_of, kind_of, kinds

__all__ = ["closures", "name_cells", "owner_of", "variable_of", "variables_cells"]


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
    kind = kind_of(value)
    if isinstance(value, Tensor):
        yield name, value
    elif kind is not None:
        for _, key, tensor in kind.tensors(value):
            yield f"{name}.{key}", tensor
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
            if isinstance(item, Tensor | list | tuple | dict) or kind_of(item) is not None:
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


def variable_of(fn: Callable[..., Any], value: Any) -> str | None:
    """The function's variable, or the attribute of its ``self``, that refers to a value; None if there is none."""
    try:
        found = _variables(fn)
    except (TypeError, ValueError):
        return None
    owner = found.pop("self", None)
    found |= fields_of(owner) or {}
    return next((name for name, one in found.items() if one is value), None)


def closures(fn: Callable[..., Any]) -> set[int]:
    """The `id` of every closure cell that the function and those it can call assign to or read."""
    inner = (inspect.unwrap(f) for f, _ in _functions(fn))
    return {id(cell) for f in inner for cell in getattr(f, "__closure__", None) or ()}


def _generators() -> dict[Storage, str]:
    return {default_generator.key_storage: "default_generator"}


def owner_of(cell: Storage) -> str | None:
    """Whose Storage it is, of all modules and optimizers there are: ``the buffer 'bn.running_mean' of Net``."""
    for kind in kinds():
        found: list[str] = []
        for owner in alive.alive(kind.cls):
            for what, key, tensor in kind.tensors(owner):
                name = type(owner).__name__
                name = f"the {what} {key!r} of {name}" if what else f"{name}.{key}"
                if tensor._storage is cell:
                    found.append(name)
                elif isinstance(tensor._kept_grad, Tensor) and tensor._kept_grad._storage is cell:
                    found.append(f"the gradient of {name}")
        if found:
            return max(found, key=lambda name: name.count("."))  # of the outermost module
    return next(("the key of a generator" for g in alive.generators if g._key is cell), None)


def _steps(value: Any) -> bool:
    kind = kind_of(value)
    return kind is not None and kind.steps


def name_cells(
    fn: Callable[..., Any], cells: Sequence[Storage], joints: Sequence[Joint] = ()
) -> dict[Storage, str]:
    """A name for every Storage: the first that the function's variables give, else ``state[i]``.

    What a module has gets the keys of its ``state_dict`` where the module itself is the function. That of a joint has
    the name of a member, and says how many more there are.
    """
    names: dict[Storage, str] = {}
    own = kind_of(fn)
    if own is not None:
        names.update({tensor._storage: key for _, key, tensor in own.tensors(fn)})
    variables = _variables(fn)
    ordered = sorted(
        variables.items(), key=lambda item: _steps(item[1])
    )  # a parameter has a name in its module
    for name, value in ordered:
        for full, tensor in _tensors(name, value):
            names.setdefault(tensor._storage, full)
    for joint in joints:
        known = [names[m] for m in joint.members if m in names]
        if known:
            names[joint.cell] = f"{known[0]} and {len(joint.members) - 1} more"
    for cell, name in _generators().items():
        names.setdefault(cell, name)
    return {cell: names.get(cell, f"state[{i}]") for i, cell in enumerate(cells)}
