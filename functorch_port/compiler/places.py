"""What a program finds and leaves in places of plain Python objects (see `slots`).

The tensors in the places are given to a program after its arguments, and a Storage that the places see only through
views is given as a whole. What the function put there is made anew at every call: each Storage once, and the tensors
over it with their views, so that what shares memory in PyTorch does here. That is a program for one way of sharing;
before each call the places are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from ..core.storage import HostStorage, Storage
from ..core.tensor import Tensor
from ..core.tree import LEAF, unflatten
from ..core.view import View
from .names import closures
from .overlay import Overlay
from .slots import Slot, references
from .tree import by_identity

__all__ = ["Form", "Given", "Places"]

_new = object.__new__
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
            if not isinstance(item, Tensor) or item.is_sparse:
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
            value: Any = cell.host if cell.__class__ is HostStorage else cell._value
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


class Given:
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

    def _references(self, ours: Sequence[Any]) -> list[int]:
        return references(self.passed, (self.passed, self.leaves, *self.ours, *ours))

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


class _Handle:
    """How a tensor over the Storage number ``cell`` is made at every call."""

    __slots__ = (
        "attributes", "base", "behind", "cell", "cls", "count", "grad", "plain", "requires_grad", "view",
    )  # fmt: skip

    def __init__(self, tensor: Tensor, cell: int, base: Any, grad: Any, count: int | None) -> None:
        self.cls, self.cell, self.base, self.grad, self.count = type(tensor), cell, base, grad, count
        #: neither a view nor anything else special
        self.plain = base is None and grad is None and count is None and tensor._view is None
        self.view = None if tensor._view is None else tensor._view.fresh()
        self.requires_grad = tensor._requires_grad and tensor._grad_fn is None
        seen = tensor._version_seen
        self.behind = None if seen is None else tensor._version - seen
        self.attributes = {k: v for k, v in tensor.__dict__.items() if k not in _HISTORY}

    def make(self, cells: list[Storage], found: Callable[[Any], Any], counts: list[list[int]]) -> Tensor:
        new: Tensor = _new(self.cls)
        new._storage = cells[self.cell]
        new._view = new._base = new._grad_fn = new._kept_grad = new._accumulator = None
        new._requires_grad = self.requires_grad
        new._output_nr = 0
        if self.attributes:
            new.__dict__.update(self.attributes)
        if self.plain:
            return new
        new._view = None if self.view is None else self.view.fresh()
        new._base = None if self.base is None else found(self.base)
        new._kept_grad = None if self.grad is None else found(self.grad)
        if self.count is not None:
            new._own_count = counts[self.count]
        if self.behind is not None:
            new._version_seen = new._version - self.behind
        return new


#: attributes of a tensor that belong to its history, or are made anew
_HISTORY = frozenset(
    ("_rebases", "_rebased", "_hooks", "_retains_grad", "_post_accumulate_hooks", "_own_count", "_version_seen")
)  # fmt: skip


class Places:
    """The places whose content a traced function replaced: how a program finds and leaves them.

    Attributes:
        slots: the places.
        tensors: what the program is given: the tensors in the places now, and a plain one over each Storage that is
            seen through views alone.
        free: the Storages that this call found there and has no other way to.
        traced: what the trace made, until the first call is over.
    """

    def __init__(self, overlay: Overlay, arguments: Sequence[Any]) -> None:
        self.overlay = overlay
        slots = [slot for slot in overlay.watched if _replaced(slot) or (slot.given and _is_kept(slot))]
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
        self.sources: list[tuple[str, Any, int, int]] = []
        self.handles: list[_Handle] = []
        self.counts: list[list[int]] = []
        self.contents: list[list[Any]] = []
        self.traced: list[Tensor] = []
        self.made: dict[int, int] = {}
        self.at: dict[Storage, int] = {}

    def _find(self, form: Form) -> list[Tensor]:
        found = form.tensors
        for i in self.bare:
            bare = Tensor.__new__(Tensor)
            bare._storage = form.cells[i]
            found.append(bare)
        return found

    # ----------------------------------------------------------- in the trace

    def keep(self, given: Given, output: Callable[[Storage], int]) -> None:
        """Note how what is in the places now is made; ``output`` says where the program returns a Storage's value."""
        self.given, self.output = given, output
        self.contents = [[self._content(item) for item in slot.leaves()[0]] for slot in self.slots]

    def _content(self, item: Any) -> tuple[str, Any]:
        if not isinstance(item, Tensor):
            return ("as it is", item)
        if id(item) in self.given.ids:
            return ("given", self.given.ids[id(item)])
        if self.overlay.is_outside(item):
            return ("as it is", item)
        if id(item) not in self.made:
            base = None if item._base is None else self._content(item._base)
            grad = None if item._kept_grad is None else self._content(item._kept_grad)
            count = None if item._own_count is None else self._count(item._own_count)
            self.handles.append(_Handle(item, self._source(item._storage), base, grad, count))
            self.made[id(item)] = len(self.traced)
            self.traced.append(item)
        return ("made", self.made[id(item)])

    def _source(self, cell: Storage) -> int:
        if cell not in self.at:
            kind: str = "as it is"
            what: Any = cell
            if cell in self.overlay.inside:
                kind, what = "output", self.output(cell)
            elif cell in self.given.cells:
                kind, what = "given", self.given.cells[cell]
            self.at[cell] = len(self.sources)
            self.sources.append((kind, what, cell.version, cell.apart))
        return self.at[cell]

    def _count(self, count: list[int]) -> int:
        """Handles from one ``.data`` count their writes together."""
        for i, other in enumerate(self.counts):
            if other is count:
                return i
        self.counts.append(count)
        return len(self.counts) - 1

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor shares a Storage that was made in the trace with one in the places."""
        at = self.at.get(tensor._storage)
        return at is not None and self.sources[at][0] == "output"

    def number(self, tensor: Tensor) -> int:
        """Which of those made a tensor is."""
        return self._content(tensor)[1]

    def changes(self) -> str:
        """Why no later call can find what this one found; empty if one may."""
        if any(isinstance(t, Tensor) and self.overlay.grad_reads.get(t) is not None for t in self.old):
            return "the function reads the gradient of a tensor that it replaces"
        return ""

    def finish(self) -> None:
        """The trace has been looked at; from now on only calls matter."""
        del self.overlay, self.given, self.output
        self.counts = [list(count) for count in self.counts]

    def outputs(self) -> list[int]:
        """The program's outputs that are values of Storages in the places."""
        return [what for kind, what, _, _ in self.sources if kind == "output"]

    def move(self, new: dict[int, int]) -> None:
        """The outputs have new positions."""
        self.sources = [
            (kind, new[what] if kind == "output" else what, *rest) for kind, what, *rest in self.sources
        ]

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

    def leave(self, outs: Sequence[Any], leaves: Sequence[Any], first: bool) -> list[Tensor]:
        """Put into the places what belongs there; returns the tensors made for that."""
        made: list[Tensor] = []

        def found(content: tuple[str, Any]) -> Any:
            kind, what = content
            return what if kind == "as it is" else leaves[what] if kind == "given" else made[what]

        if first:
            made += self.traced
            for tensor, handle in zip(made, self.handles, strict=True):
                tensor._view = None if handle.view is None else handle.view.fresh()  # lets go of the tracers
        else:
            cells = self._cells(outs, leaves)
            counts = [list(count) for count in self.counts] if self.counts else []
            for handle in self.handles:
                made.append(handle.make(cells, found, counts))
        for slot, tree, contents in zip(self.slots, self.trees, self.contents, strict=True):
            if tree is LEAF:
                slot.set(found(contents[0]))
            else:
                slot.set(unflatten(tree, map(found, contents)))
        self.tensors = []
        return made

    def _cells(self, outs: Sequence[Any], leaves: Sequence[Any]) -> list[Storage]:
        cells = []
        for kind, what, version, apart in self.sources:
            if kind == "output":
                cell = Storage(outs[what])
                cell.version, cell.apart = version, apart
            elif kind == "given":
                tensor = leaves[what]
                cell = tensor._storage if tensor._view is None else Storage(tensor._value)
            else:
                cell = what
            cells.append(cell)
        return cells

    def settle(self) -> None:
        """Let go of what only the trace and the first call needed."""
        self.form.forget()
        self.old, self.traced, self.made, self.at, self.free = [], [], {}, {}, set()


def _replaced(slot: Slot) -> bool:
    """Whether the trace put other tensors of the same kind in the place of those that were there."""
    new, tree = slot.leaves()
    if tree != slot.tree or all(a is b for a, b in zip(slot.old, new, strict=True)):
        return False
    return all(_alike(a, b) for a, b in zip(slot.old, new, strict=True))


def _is_kept(slot: Slot) -> bool:
    """Whether the trace left what was there."""
    new, tree = slot.leaves()
    return tree == slot.tree and all(a is b for a, b in zip(slot.old, new, strict=True))


def _alike(old: Any, new: Any) -> bool:
    if not (isinstance(old, Tensor) and isinstance(new, Tensor)):
        return old is new or (type(old) is type(new) and isinstance(old, _PLAIN) and old == new)
    return _can_be_made(old) and _can_be_made(new)


def _can_be_made(tensor: Tensor) -> bool:
    """Not so: sparse tensors, and views at a position that only the call knows. Who keeps one is traced every time."""
    if tensor.is_sparse or (tensor._view is not None and tensor._view.is_traced()):
        return False
    grad: Any = tensor._kept_grad
    return grad is None or (isinstance(grad, Tensor) and _can_be_made(grad))


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
    there = {id(item) for slot in slots for item in slot.old}
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
    return cells.union(overlay.twins, overlay.packs)
