"""Places in plain Python objects where a traced function keeps tensors: list items, dict values, attributes, globals.

``hidden = (h, c)``, ``ema[i] = d * ema[i] + (1 - d) * p``, ``self.running = new``: the function replaces one tensor by
another. After a trace that left new tensors behind, `find` says where they are. The next trace watches these places: if
each held tensors before and holds new ones of the same kind after, the place is state like any other.
"""

from __future__ import annotations

import gc
import types
from collections import Counter
from collections.abc import Iterable
from sys import getrefcount
from typing import Any

import jax

from ..autograd.node import Node
from ..core.alive import alive
from ..core.donation import HELD
from ..core.storage import Storage
from ..core.tensor import Tensor

__all__ = ["Slot", "find", "tensors_of"]


def _leaves(content: Any) -> tuple[list[Any], Any]:
    return jax.tree_util.tree_flatten(content, is_leaf=lambda x: isinstance(x, Tensor))


class Slot:
    """One place: a container and a key. Its content is a Tensor or a tuple of them."""

    __slots__ = ("container", "key", "old", "tree")

    def __init__(self, container: Any, key: Any) -> None:
        self.container, self.key = container, key
        self.old: list[Any] = []
        self.tree: Any = None

    def get(self) -> Any:
        """What is there now; None if nothing is."""
        if isinstance(self.container, types.CellType):
            try:
                return self.container.cell_contents
            except ValueError:
                return None
        try:
            return self.container[self.key]
        except (KeyError, IndexError):
            return None

    def set(self, content: Any) -> None:
        if isinstance(self.container, types.CellType):
            self.container.cell_contents = content
        else:
            self.container[self.key] = content

    def watch(self) -> None:
        """Remember what is there before the trace."""
        self.old, self.tree = _leaves(self.get())

    def tensors(self) -> list[Tensor]:
        """The tensors that are there now, in order."""
        return _leaves(self.get())[0]

    def replaced(self) -> bool:
        """Whether the trace put other tensors of the same kind in the place of those that were there."""
        new, tree = _leaves(self.get())
        plain = all(isinstance(t, Tensor) and t._view is None for t in (*self.old, *new))
        same = tree == self.tree and all(
            a._value.shape == b._value.shape and a._value.dtype == b._value.dtype
            for a, b in zip(self.old, new, strict=True)
            if plain
        )
        return plain and same and any(a is not b for a, b in zip(self.old, new, strict=True))

    def restore(self) -> None:
        """Undo what the trace put there."""
        self.set(jax.tree_util.tree_unflatten(self.tree, self.old))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and self.container is other.container and self.key == other.key

    def __hash__(self) -> int:
        return hash((id(self.container), self.key))


def tensors_of(cells: Iterable[Storage]) -> list[Tensor]:
    """The tensors alive now that look at these Storages."""
    wanted = set(cells)
    return [t for t in alive(Tensor) if getattr(t, "_storage", None) in wanted]


def find(tensors: list[Tensor], ours: Iterable[Any] = ()) -> list[Slot]:
    """The places outside that hold these tensors; ``ours`` are containers that do not count."""
    found: dict[Slot, None] = {}
    ours = list({id(x): x for x in (tensors, *ours)}.values())
    suspects = _held_elsewhere(tensors, ours)
    hidden = {id(ours), id(suspects), *map(id, ours)}
    for owner, held in _owners(suspects, hidden):
        for slot in _places(owner, held, hidden, 0):
            found[slot] = None
    return list(found)


def _held_elsewhere(tensors: list[Tensor], ours: list[Any]) -> list[Tensor]:
    """Those with more references than ``ours`` account for: to look for the others takes a pass over all objects."""
    known = Counter([id(x) for container in ours for x in gc.get_referents(container)])
    passing = HELD - 2  # what `map` itself adds
    counts = list(map(getrefcount, tensors))
    return [t for t, count in zip(tensors, counts, strict=True) if count > known[id(t)] + passing]


def _owners(objects: list[Any], hidden: set[int]) -> list[tuple[Any, Any]]:
    """Who refers to which of the objects."""
    by_id = {id(o): o for o in objects}
    referrers = gc.get_referrers(*objects) if objects else []
    hidden |= {id(by_id), id(referrers)}
    pairs = []
    for owner in referrers:
        if id(owner) in hidden or isinstance(owner, types.FrameType | Tensor):
            continue
        pairs += [(owner, by_id[i]) for i in {id(x) for x in gc.get_referents(owner)} & by_id.keys()]
    return pairs


def _places(owner: Any, held: Any, hidden: set[int], depth: int) -> Iterable[Slot]:
    """The slots through which ``owner`` refers to an object; a tuple is looked up in turn."""
    if type(owner) is list:
        yield from (Slot(owner, i) for i, item in enumerate(owner) if item is held)
    elif isinstance(owner, dict):
        yield from (Slot(owner, k) for k, item in list(owner.items()) if item is held)
    elif isinstance(owner, types.CellType):
        yield Slot(owner, None)
    elif isinstance(owner, tuple) and depth < 3:
        for outer, inner in _owners([owner], hidden):
            yield from _places(outer, inner, hidden, depth + 1)
    elif not isinstance(owner, type | types.ModuleType | Node) and hasattr(owner, "__dict__"):
        table = owner.__dict__
        yield from (Slot(table, k) for k, item in list(table.items()) if item is held)
