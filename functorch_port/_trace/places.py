"""What a program finds and leaves in places of plain Python objects (see `slots`).

The tensors in the places are given to a program after its arguments, and a Storage that the places see only through
views is given as a whole. What the function put there is made anew at every call (see `handles`). That is a program for
one way of sharing memory; before each call the places are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from .._array.storage import Storage
from .._base.references import others
from .._tensor.tensor import Tensor, bare
from .._tensor.tree import LEAF, unflatten
from .._tensor.view import View
from .handles import Content, Made, can_be_made, find
from .names import closures
from .overlay import Overlay
from .slots import DataSlot, Slot, looked_at
from .tree import by_identity

__all__ = ["Form", "Arguments", "Places"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None))


class Form:
    """All about what is in places but the values: what kinds of tensors, which share a Storage, and their views.

    Args:
        items: what is there.
        arguments: of the call; a tensor may share its Storage with one.
        flags: ``requires_grad`` of tensors that have it otherwise now, by `id`.

    Attributes:
        tensors: the different tensors.
        cells: their different Storages, but for those of arguments.
    """

    __slots__ = ("cells", "parts", "tensors")

    def __init__(self, items: Iterable[Any], arguments: Sequence[Any] = (), flags: Any = None) -> None:
        self.tensors: list[Tensor] = []
        self.cells: list[Storage] = []
        self.parts: list[tuple[tuple[Any, ...], View | None]] = []
        numbers: dict[Any, int] = {}
        at = 0
        for a in arguments:
            at -= 1
            if isinstance(a, Tensor) and a._view is None:
                numbers[a._storage] = at
        tensors, cells, parts = self.tensors, self.cells, self.parts
        seen: dict[int, int] = {}
        for item in items:
            if not isinstance(item, Tensor) or item._sparse:
                same = item if isinstance(item, _PLAIN) else id(item)
                parts.append(((type(item), same), None))
                continue
            number = seen.get(id(item))
            if number is None:
                number = seen[id(item)] = len(tensors)
                tensors.append(item)
            cell: Any = item._storage
            at = numbers.get(cell)  # type: ignore[assignment]
            if at is None:
                at = numbers[cell] = len(cells)
                cells.append(cell)
            value = cell.held
            flag = item._requires_grad if item._grad_fn is None else None
            if flags is not None:
                flag = flags.get(id(item), flag)
            kind = (number, at, item.__class__, value.shape, value.dtype, flag, item._kept_grad is None)
            parts.append((kind, item._view))

    def differs(self, other: Form) -> int | None:
        """The first item that is not as in the other one, or None."""
        for i, ((mine, view), (theirs, seen)) in enumerate(zip(self.parts, other.parts, strict=True)):
            if mine != theirs or not (view is seen or (view is not None and view.same_as(seen))):
                return i
        return None

    def forget(self) -> None:
        """Keep the comparison alone, and no arrays."""
        self.tensors, self.cells = [], []
        self.parts = [(kind, None if view is None else view.fresh()) for kind, view in self.parts]


class Arguments:
    """What a call is given: its arguments, then what it finds in places.

    Attributes:
        leaves: all of it.
        ids: ``id(tensor)`` -> position.
        own: the same without arguments that are themselves (parameters).
        passed: the arguments that are not.
        cells: Storage -> position, for those which are not the same at every call.
    """

    def __init__(self, fn: Callable[..., Any], leaves: Sequence[Any], ours: Sequence[Any]) -> None:
        self.fn = fn
        self.leaves = list(leaves)
        self.ours = ours
        self.count = len(self.leaves)
        tensors = [(i, t) for i, t in enumerate(leaves) if isinstance(t, Tensor)]
        self.ids = {id(t): i for i, t in tensors}
        self.own = {id(t): i for i, t in tensors if not by_identity(t)}
        self.cells = {t._storage: i for i, t in tensors if not by_identity(t)}
        self.passed = list({id(t): t for _, t in tensors if not by_identity(t)}.values())
        del tensors  # its pairs refer to the arguments
        self.references = self._references(())
        #: the tensors whose gradients from before are given too
        self.old_grads: list[Any] = []

    def _references(self, ours: Sequence[Any]) -> list[int]:
        return others(self.passed, (self.passed, self.leaves, *self.ours, *ours))

    def held_by_others(self, ours: Sequence[Any]) -> list[Tensor]:
        """The arguments that something else refers to since this was made, and none of ``ours``: who called may hold
        them anywhere, but that is nothing new.
        """
        pairs = zip(self.passed, self.references, self._references(ours), strict=True)
        return [t for t, before, now in pairs if now > before]

    @cached_property
    def closures(self) -> set[int]:
        """The cells through which the function assigns to variables that outlive the call."""
        return closures(self.fn)

    def clear(self) -> None:
        self.leaves, self.passed, self.ours = [], [], ()

    def add(self, places: Places) -> None:
        for i, t in enumerate(places.tensors, len(self.leaves)):
            self.ids.setdefault(id(t), i)
            self.own.setdefault(id(t), i)
            if t._view is None and t._storage in places.free:
                self.cells.setdefault(t._storage, i)
        self.leaves += places.tensors

    def add_gradients(self, overlay: Overlay, results: Sequence[Any]) -> None:
        """The gradients from before that are looked at by results are given to the program too."""
        cells = {t._storage for t in results if isinstance(t, Tensor)}
        for tensor, grad in overlay.grad_reads.items():
            if grad is not None and grad._storage in cells and id(grad) not in self.ids:
                self.ids[id(grad)] = self.own[id(grad)] = len(self.leaves)
                if grad._view is None:
                    self.cells.setdefault(grad._storage, len(self.leaves))
                self.old_grads.append(self.own.get(id(tensor), tensor))
                self.leaves.append(grad)


class Places:
    """The places whose content a traced function replaced: how a program finds and leaves them.

    Attributes:
        slots: the places.
        tensors: what the program is given: the tensors in the places now, and a plain one over each Storage that is
            seen through views alone.
        free: the Storages that this call found there and has no other way to.
        arg_data: the positions of arguments that get another Storage, and what they look at then.
    """

    def __init__(self, overlay: Overlay, arguments: Sequence[Any]) -> None:
        self.overlay = overlay
        slots = [slot for slot in overlay.watched if _replaced(slot) or (slot.is_input and _is_kept(slot))]
        passed = {id(a) for a in arguments if isinstance(a, Tensor) and not by_identity(a)}
        slots += [DataSlot(t, overlay) for t in overlay.data if id(t) not in passed]
        arguments = [_before(a, overlay) for a in arguments]
        self.slots, self.trees = slots, [slot.tree for slot in slots]
        self.old = [item for slot in slots for item in slot.old]
        self.form = Form(self.old, arguments, _flags(overlay, self.old))
        reached = _reached(overlay, slots, arguments) if slots else set()
        #: Storages that the function also has another way to: they are state by themselves
        self.pinned = {i: cell for i, cell in enumerate(self.form.cells) if cell in reached}
        whole = {t._storage for t in self.form.tensors if t._view is None}
        self.bare = [i for i, c in enumerate(self.form.cells) if i not in self.pinned and c not in whole]
        self.free = set(self.form.cells).difference(reached)
        self.tensors = self._find(self.form)
        self.contents: list[list[Content]] = []
        self.arg_data: list[tuple[int, Content]] = []

    def _find(self, form: Form) -> list[Tensor]:
        found = form.tensors
        for i in self.bare:
            made = bare(Tensor)
            made._storage = form.cells[i]
            found.append(made)
        return found

    # ----------------------------------------------------------- in the trace

    def keep(self, arguments: Arguments, made: Made) -> None:
        """Note how what is in the places now is made."""
        self.contents = [[made.content(item) for item in slot.leaves()[0]] for slot in self.slots]
        for i, tensor in enumerate(arguments.leaves[: arguments.count]):
            if isinstance(tensor, Tensor) and tensor in self.overlay.data and not by_identity(tensor):
                self.arg_data.append((i, made.content(looked_at(tensor, self.overlay))))
        made.left = len(made.handles)

    def changes(self) -> str:
        """Why no later call can find what this one found; empty if one may."""
        if any(isinstance(t, Tensor) and self.overlay.grad_reads.get(t) is not None for t in self.old):
            return "the function reads the gradient of a tensor that it replaces"
        if any(g in self.overlay.data for g in self.overlay.grad_reads.values() if g is not None):
            return "a gradient from before the call gets other data"
        return ""

    def finish(self) -> None:
        """The trace has been looked at; from now on only calls matter."""
        del self.overlay

    def _key(self, at: int) -> Any:
        for slot, tree in zip(self.slots, self.trees, strict=True):
            at -= tree.num_leaves
            if at < 0:
                return slot.key
        return None

    # ------------------------------------------------------------- in a call

    def matches(self, leaves: Sequence[Any], cells: set[Storage]) -> str:
        """Look into the places. Empty if all is there as the program expects it, else the reason why not.

        ``cells`` are the Storages that the program knows by themselves.
        """
        items: list[Any] = []
        for slot, tree in zip(self.slots, self.trees, strict=True):
            found, there = slot.leaves()
            if there is not tree and there != tree:
                return f"something else is kept under {slot.key!r}"
            items += found
        form = Form(items, leaves)
        at = form.differs(self.form)
        if at is not None:
            return f"something else is kept under {self._key(at)!r}"
        if self.pinned:
            if any(form.cells[i] is not cell for i, cell in self.pinned.items()):
                return "tensors share memory in another way"
            cells = cells.difference(self.pinned.values())
        if not cells.isdisjoint(form.cells):
            return "tensors share memory in another way"
        self.tensors = self._find(form)
        return ""

    def leave(self, leaves: Sequence[Any], made: Sequence[Tensor]) -> None:
        """Put into the places what belongs there."""
        for slot, tree, contents in zip(self.slots, self.trees, self.contents, strict=True):
            if tree is LEAF:
                slot.set(find(contents[0], leaves, made))
            else:
                slot.set(unflatten(tree, [find(c, leaves, made) for c in contents]))
        for i, content in self.arg_data:
            look = find(content, leaves, made)
            leaves[i]._look_at(look._storage, look._view)
        self.tensors = []

    def release(self) -> None:
        """Let go of what only the trace and the first call needed."""
        self.form.forget()
        self.old, self.free = [], set()


def _before(argument: Any, overlay: Overlay) -> Any:
    """What a call was given there, if it gave that another Storage."""
    if not isinstance(argument, Tensor) or argument not in overlay.data:
        return argument
    look = bare(type(argument))
    look._storage, look._view = overlay.data[argument][:2]
    return look


def _replaced(slot: Slot) -> bool:
    """Whether the trace put other tensors of the same kind in the place of those that were there."""
    new, tree = slot.leaves()
    if tree != slot.tree or all(a is b for a, b in zip(slot.old, new, strict=True)):
        return False
    return all(_same_kind(a, b) for a, b in zip(slot.old, new, strict=True))


def _is_kept(slot: Slot) -> bool:
    """Whether the trace left what was there."""
    new, tree = slot.leaves()
    return tree == slot.tree and all(a is b for a, b in zip(slot.old, new, strict=True))


def _same_kind(old: Any, new: Any) -> bool:
    if not (isinstance(old, Tensor) and isinstance(new, Tensor)):
        return old is new or (type(old) is type(new) and isinstance(old, _PLAIN) and old == new)
    return can_be_made(old) and can_be_made(new)


def _flags(overlay: Overlay, tensors: Iterable[Any]) -> dict[int, Any]:
    """``requires_grad`` before the trace; None for one with a history that matters."""
    flags: dict[int, Any] = {}
    for t in tensors:
        if isinstance(t, Tensor):
            flag, node = overlay.flags.get(t, t._requires_grad), t._grad_fn
            if t in overlay.histories:
                flag, node = overlay.histories[t][:2]
            flags[id(t)] = flag if node is None else None if t in overlay.tensors else False
    return flags


def _reached(overlay: Overlay, slots: Sequence[Slot], arguments: Sequence[Any]) -> set[Storage]:
    """The Storages that the function came to by other tensors than those in the places."""
    there = {id(item) for slot in slots for item in (*slot.old, slot.container)}
    tables = [
        d for o in overlay.optimizers for d in (*o.param_groups, *o.state.values()) if isinstance(d, dict)
    ]
    others = [
        *overlay.tensors,
        *overlay.sources,
        *(g for g in overlay.grad_reads.values() if g is not None),
        *(p for table in tables for p in table.get("params", ())),
        *(value for table in tables for value in table.values()),
        *(a for a in arguments if isinstance(a, Tensor) and by_identity(a)),
    ]
    others = [t for t in others if id(t) not in there]
    others += (item for slot in set(overlay.watched).difference(slots) for item in slot.old)
    cells = {t._storage for t in others if isinstance(t, Tensor) and overlay.is_outside(t)}
    return cells.union(overlay.twins)
