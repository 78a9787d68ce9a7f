"""What a program makes anew at every call: each Storage once, and the tensors over it with their views and bases.

So results and what is left in places (see `places`) share memory with each other, with arguments and with state, as
what the traced function made did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .._array.sizes import NeedsSize
from .._array.storage import Storage
from .._base.sizes import is_symbolic_dim
from .._tensor.tensor import Tensor
from .._tensor.view import View
from .results import Left

if TYPE_CHECKING:
    from .overlay import Overlay
    from .places import Arguments

__all__ = ["Content", "Made", "can_be_made"]

_new = object.__new__

#: where something comes from: ("made", number), ("argument", position) or ("as it is", the thing itself)
Content = tuple[str, Any]


class _Handle:
    """How a tensor over the Storage number ``cell`` is made."""

    __slots__ = (
        "attributes", "base", "behind", "cell", "cls", "count", "grad", "plain", "positions", "requires_grad",
        "view",
    )  # fmt: skip

    def __init__(
        self, tensor: Tensor, cell: int, base: Any, grad: Any, count: int | None, onto: bool
    ) -> None:
        self.cls, self.cell, self.base, self.grad, self.count = type(tensor), cell, base, grad, count
        #: neither a view nor anything else special
        self.plain = not onto and base is None and grad is None and count is None and tensor._view is None
        self.view = None if tensor._view is None else tensor._view.fresh()
        #: of positions that only the call knows: which link from the end, which argument, which output of the program
        self.positions: list[tuple[int, int, int]] = []
        self.requires_grad = tensor._requires_grad and tensor._grad_fn is None
        self.behind = tensor._writes - tensor._version_seen
        self.attributes = {k: v for k, v in tensor.__dict__.items() if k not in _HISTORY}

    def ask_for_positions(self, add: Callable[[Any], int]) -> None:
        """Have the program return the positions that only it knows."""
        for link, view in enumerate([] if self.view is None else self.view.chain()[::-1]):
            for i, value in enumerate(view.extra):
                if isinstance(value, jax.core.Tracer):
                    self.positions.append((link, i, add(value)))
                    view.extra = (*view.extra[:i], 0, *view.extra[i + 1 :])

    def make(
        self,
        sources: list[tuple[Storage, View | None]],
        found: Callable[[Any], Any],
        counts: list[list[int]],
        outs: Sequence[Any],
    ) -> Tensor:
        new: Tensor = _new(self.cls)
        new._view = new._base = new._grad_fn = new._kept_grad = new._accumulator = None
        new._requires_grad = self.requires_grad
        new._output_nr = 0
        if self.attributes:
            new.__dict__.update(self.attributes)
        if self.plain:
            new._storage = sources[self.cell][0]
            return new
        self.put_over(new, *sources[self.cell], found, outs)
        new._kept_grad = None if self.grad is None else found(self.grad)
        if self.count is not None:
            new._own_count = counts[self.count]
        new._version_seen = new._writes - self.behind
        return new

    def put_over(
        self,
        tensor: Tensor,
        cell: Storage,
        onto: View | None,
        found: Callable[[Any], Any],
        outs: Sequence[Any],
    ) -> None:
        """Have the tensor look at a Storage, or at what ``onto`` sees of it."""
        tensor._storage = cell
        tensor._view = onto if self.view is None else self.view.fresh(onto)
        for link, i, index in self.positions:
            seen = tensor._view.chain()[-1 - link]
            seen.extra = (*seen.extra[:i], int(outs[index]), *seen.extra[i + 1 :])
        base = None if self.base is None else found(self.base)
        tensor._base = base if base is None or base._base is None else base._base


#: attributes of a tensor that belong to its history, or are made anew
_HISTORY = frozenset(
    ("_rebases", "_rebased", "_hooks", "_retains_grad", "_post_accumulate_hooks", "_own_count", "_version_seen")
)  # fmt: skip


class Made:
    """The tensors that a program makes, and the Storages below them.

    Attributes:
        histories: those that have one, and in the trace themselves.
        retaining: the numbers of those that retain their gradient.
        traced: what the trace made, until the first call is over.
    """

    def __init__(
        self, overlay: Overlay, arguments: Arguments, outs: Any, is_live: Callable[[Tensor], bool]
    ) -> None:
        self.overlay, self.arguments, self.outs, self.is_live = overlay, arguments, outs, is_live
        self.sources: list[tuple[str, Any, int, int]] = []
        self.handles: list[_Handle] = []
        self.counts: list[list[int]] = []
        self.histories: list[tuple[Left, Tensor]] = []
        self.retaining: list[int] = []
        #: how many of them, the first ones, are left in places
        self.left = 0
        self.traced: list[Tensor] = []
        self.made: dict[int, int] = {}
        self.at: dict[Storage, int] = {}

    # ----------------------------------------------------------- in the trace

    def content(self, item: Any, history: bool = False) -> Content:
        """How an object that the function left or returned is found after a call; with its ``history`` or without."""
        if not isinstance(item, Tensor):
            return ("as it is", item)
        if id(item) in self.arguments.ids:
            return ("argument", self.arguments.ids[id(item)])
        if self.overlay.is_outside(item):
            return ("as it is", item)
        if id(item) not in self.made:
            if item._view is not None and any(map(is_symbolic_dim, item._value.shape)):
                raise NeedsSize("a view that the function returns or keeps, of a tensor that others see too")
            base = None if item._base is None else self.content(item._base, history)
            grad = None if item._kept_grad is None else self.content(item._kept_grad)
            count = None if item._own_count is None else self._count(item._own_count)
            cell = self._source(item._storage)
            onto = self.sources[cell][0] == "argument"
            handle = _Handle(item, cell, base, grad, count, onto)
            handle.ask_for_positions(self.outs.add)
            self.handles.append(handle)
            number = self.made[id(item)] = len(self.traced)
            self.traced.append(item)
            if history and self.is_live(item):
                self.histories.append((Left(number, requires_grad=True), item))
                if item._retains_grad:
                    self.retaining.append(number)
        return ("made", self.made[id(item)])

    def _source(self, cell: Storage) -> int:
        if cell not in self.at:
            kind: str = "as it is"
            what: Any = cell
            if cell in self.overlay.inside:
                kind, what = "output", self.outs.add_cell(cell)
            elif cell in self.arguments.cells:
                kind, what = "argument", self.arguments.cells[cell]
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
        """Whether a tensor shares a Storage that was made in the trace with one of these."""
        at = self.at.get(tensor._storage)
        return at is not None and self.sources[at][0] == "output"

    def number(self, tensor: Tensor) -> int:
        """Which of those made a tensor is."""
        return self.content(tensor)[1]

    def finish(self) -> None:
        """The trace has been looked at; from now on only calls matter."""
        del self.overlay, self.arguments, self.outs, self.is_live
        self.counts = [list(count) for count in self.counts]
        self.histories = []

    def outputs(self) -> list[int]:
        """The program's outputs that are values of Storages."""
        positions = [index for handle in self.handles for _, _, index in handle.positions]
        return [what for kind, what, _, _ in self.sources if kind == "output"] + positions

    def move(self, new: dict[int, int]) -> None:
        """The outputs have new positions."""
        self.sources = [
            (kind, new[what] if kind == "output" else what, *rest) for kind, what, *rest in self.sources
        ]
        for handle in self.handles:
            handle.positions = [(link, i, new[index]) for link, i, index in handle.positions]

    # ------------------------------------------------------------- in a call

    def make(self, outs: Sequence[Any], leaves: Sequence[Any], first: bool) -> list[Tensor]:
        """The tensors of a call; of the ``first`` one those that the trace made."""
        made: list[Tensor] = []

        def found(content: Content) -> Any:
            return find(content, leaves, made)

        sources = self._sources(outs, leaves, first)
        if first:
            made += self.traced
            for tensor, handle in zip(made, self.handles, strict=True):  # lets go of the tracers
                handle.put_over(tensor, *sources[handle.cell], found, outs)
            return made
        counts = [list(count) for count in self.counts] if self.counts else []
        for handle in self.handles:
            made.append(handle.make(sources, found, counts, outs))
        return made

    def release(self) -> None:
        """Let go of what only the trace and the first call needed."""
        self.traced, self.made, self.at = [], {}, {}

    def _sources(
        self, outs: Sequence[Any], leaves: Sequence[Any], first: bool
    ) -> list[tuple[Storage, View | None]]:
        sources: list[tuple[Storage, View | None]] = []
        traced = list(self.at) if first else []
        for kind, what, version, apart in self.sources:
            if kind == "argument":
                sources.append((leaves[what]._storage, leaves[what]._view))
                continue
            cell = what
            if kind == "output" and first:
                cell = traced[len(sources)]
            elif kind == "output":
                cell = Storage(outs[what])
                cell.version, cell.apart = version, apart
            sources.append((cell, None))
        return sources


def find(content: Content, leaves: Sequence[Any], made: Sequence[Tensor]) -> Any:
    """What a content is in a call."""
    kind, what = content
    return what if kind == "as it is" else leaves[what] if kind == "argument" else made[what]


def can_be_made(tensor: Tensor) -> bool:
    """Not so: sparse tensors, and views at a position that only the call knows."""
    if tensor._sparse or (tensor._view is not None and tensor._view.is_traced()):
        return False
    grad: Any = tensor._kept_grad
    return grad is None or (isinstance(grad, Tensor) and can_be_made(grad))
