"""Places in plain Python objects where a traced function keeps tensors: list items, dict values, attributes, globals.

``hidden = (h, c)``, ``ema[i] = d * ema[i] + (1 - d) * p``, ``self.running = new``: the function replaces one tensor by
another. After a trace that left new tensors behind, `find` says where they are. The next trace watches these places: if
what each holds after is of the same kind as what it held before, the place is state like any other (see `places`).
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterable
from typing import Any

from .._array import tracing
from .._array.storage import Storage
from .._base.alive import alive
from .._base.references import others, owners
from .._tensor.node import Node
from .._tensor.tensor import Tensor, bare
from .._tensor.tree import LEAF, Structure, flatten, unflatten

__all__ = ["DataSlot", "Slot", "find", "looked_at", "tensors_of"]


class Slot:
    """One place: a container and a key. Its content is a Tensor, or a tuple with Tensors in it."""

    __slots__ = ("container", "is_input", "key", "old", "tree")

    def __init__(self, container: Any, key: Any, is_input: bool = False) -> None:
        self.container, self.key = container, key
        #: whether the place is an input even if the function does not replace what is there: the caller does
        self.is_input = is_input
        self.old: list[Any] = []
        self.tree: Structure = LEAF

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

    def leaves(self) -> tuple[list[Any], Structure]:
        """What is there now: the tensors and whatever else a tuple has beside them, and the structure."""
        content = self.get()
        if isinstance(content, Tensor):
            return [content], LEAF
        return flatten(content)

    def watch(self) -> None:
        """Remember what is there before the trace."""
        self.old, self.tree = self.leaves()

    def forget(self) -> None:
        """The trace is over, and what was there may go."""
        self.old, self.tree = [], LEAF

    def tensors(self) -> list[Tensor]:
        """The tensors that are there now, in order."""
        return [t for t in self.leaves()[0] if isinstance(t, Tensor)]

    def restore(self) -> None:
        """Undo what the trace put there."""
        self.set(unflatten(self.tree, self.old))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Slot)
            and self.container is other.container
            and (self.key is other.key or self.key == other.key)
        )

    def __hash__(self) -> int:
        return hash((id(self.container), self.key))


class DataSlot(Slot):
    """What a tensor from outside looks at, as a place: ``tensor.data = other`` replaces it, for a call that began with
    another one (see `Overlay.data`).
    """

    __slots__ = ()

    def __init__(self, tensor: Tensor, overlay: Any) -> None:
        super().__init__(tensor, "data")
        self.old, self.tree = [_look(*overlay.data[tensor][:2])], LEAF

    def get(self) -> Tensor:
        return looked_at(self.container, tracing.current())

    def set(self, content: Tensor) -> None:
        tracing.bump_epoch()
        self.container._look_at(content._storage, content._view)


def looked_at(tensor: Tensor, overlay: Any = None) -> Tensor:
    """A handle on what the tensor looks at."""
    look = _look(tensor._storage, tensor._view)
    if overlay is not None:
        overlay.note_made(look)
    return look


def _look(cell: Storage, view: Any) -> Tensor:
    look = bare(Tensor)
    look._storage, look._view = cell, view
    return look


def tensors_of(cells: Iterable[Storage]) -> list[Tensor]:
    """The tensors alive now that look at these Storages."""
    wanted = set(cells)
    return [t for t in alive(Tensor) if getattr(t, "_storage", None) in wanted]


def find(tensors: list[Tensor], ours: Iterable[Any] = (), known: Iterable[Tensor] = ()) -> list[Slot]:
    """The places outside that hold these tensors; ``ours`` are containers that do not count.

    ``known`` has a tensor once for every place that is known to hold it: if no others do, no place is found.
    """
    found: dict[Slot, None] = {}
    ours = [tensors, *ours]
    suspects = _held_elsewhere(tensors, ours, known)
    hidden: dict[int, Any] = {id(x): x for x in (ours, suspects, known, *ours)}
    hidden[id(hidden)] = None
    for _ in range(_DEPTH):
        holders, held = owners(suspects, hidden, (Tensor,))
        inside: list[Any] = []
        hidden[id(inside)] = suspects = inside
        for i, owner in enumerate(holders):
            if isinstance(owner, tuple):
                inside.append(owner)
            else:
                for slot in _places(owner, held[i]):
                    found[slot] = None
        if not suspects:
            break
    return list(found)


#: how deep in tuples a tensor is looked for; each takes one pass over all objects
_DEPTH = 4


def _held_elsewhere(tensors: list[Tensor], ours: list[Any], known: Iterable[Tensor]) -> list[Tensor]:
    """Those with more references than are accounted for: to look for the others takes a pass over all objects."""
    found = others(tensors, (*ours, known))
    expected = Counter(map(id, known))
    return [t for t, count in zip(tensors, found, strict=True) if count > expected[id(t)]]


def _places(owner: Any, held: Any) -> Iterable[Slot]:
    """The slots through which ``owner`` refers to an object."""
    if isinstance(owner, types.CellType):
        yield Slot(owner, None)
    elif type(owner) is list:
        for i, item in enumerate(owner):
            if item is held:
                yield Slot(owner, i)
    elif not isinstance(owner, type | types.ModuleType | Node):
        table = owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})
        for key, item in list(table.items()):
            if item is held:
                yield Slot(table, key)
