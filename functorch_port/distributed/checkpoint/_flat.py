"""Nested states as flat ones: the dotted names of their entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Place", "flattened"]


class Place(NamedTuple):
    """Where an entry is: its container, its key there, its value, and all keys on the way."""

    container: Any
    key: Any
    value: Any
    path: tuple[Any, ...]


def flattened(state: Mapping[Any, Any], is_tensor: Callable[[Any], bool]) -> dict[str, Place]:
    """The entries of a state by their dotted names, as PyTorch counts them.

    A mapping is no entry, but what is in it. A list is one unless there are tensors or mappings in it. Tuples are.

    Raises:
        ValueError: two entries have the same name.
    """
    found: dict[str, Place] = {}

    def is_entry(value: Any) -> bool:
        if isinstance(value, Mapping):
            return False
        if not isinstance(value, list):
            return True
        return all(is_entry(part) and not is_tensor(part) for part in value)

    def visit(container: Any, key: Any, value: Any, path: tuple[Any, ...]) -> None:
        path = (*path, key)
        if is_entry(value):
            name = ".".join(map(str, path))
            if name in found:
                raise ValueError(f"duplicated flatten key {name}")
            found[name] = Place(container, key, value, path)
            return
        for inner, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            visit(value, inner, part, path)

    for key, value in state.items():
        visit(state, key, value, ())
    return found
