"""The node of a recorded operation in the autograd graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .._array import executor, tracing
from .._array.value import computed
from .._base import scopes
from .._tensor import grad_mode, saved
from .._tensor.node import FREED, AccumulateGrad, Edge, Node, accumulator
from .._tensor.node import _sequence as _sequence
from .._tensor.plan import Plan, Saved
from .._tensor.pullback import Pullback
from .._tensor.tensor import Tensor, wrap
from . import packing

__all__ = ["OpNode", "TransposeNode", "edge_of", "edges_of", "node_class", "show_saved", "with_history"]

_x64 = jax.enable_x64
_X64 = tracing.X64


#: what a plan gives that has several results
MANY = frozenset({tuple, list})


class OpNode(Node):
    """The node of a registered op: keeps the inputs, or (in a trace) the pullback itself."""

    __slots__ = ("_avals", "kept", "mask", "plan", "pull", "saved", "values")

    def __init__(
        self, plan: Plan, mask: tuple[bool, ...], edges: tuple[Edge, ...], values: Any, out: Any
    ) -> None:
        # Node.__init__ written out: one of these is made for every recorded operation
        self.edges = edges
        self.outputs = len(out) if out.__class__ in MANY else 1
        self.seq = next(_sequence)
        self.extras = None
        self.plan = plan
        self.mask = mask
        self.values = values
        self.pull: Pullback | None = None
        #: the plan to take the pullback from, and the saved values, where these are more than the inputs; or the
        #: operation itself, if it has not run yet
        self.kept: Saved | executor.Pending | None = None
        self.saved: Sequence[saved.Saved] = ()
        self._avals: Any = None

    def _part(self) -> None:
        """Put the operations that PyTorch records in place of this one: somebody looks at them."""
        plan, freed = self.plan, self.freed
        parts = None if plan.spec is None else plan.spec.parts
        if parts is None or tracing.overlay:
            return
        values = self.values
        if freed:
            with tracing.x64():
                values = [jax.numpy.zeros(*v) if type(v) is tuple else v for v in self._avals]
        inputs = [
            wrap(v) if edge is None else with_history(v, edge)
            for v, edge in zip(computed(values), self.edges, strict=True)
        ]
        start = next(_sequence)
        with grad_mode.enable_grad():
            made = parts(**plan.named(inputs))
        last = (made[0] if type(made) in MANY else made)._grad_fn
        self.plan, self.mask, self.edges, self.values = last.plan, last.mask, last.edges, last.values
        self.kept = last.kept
        inner = _since(start, self)
        for i, node in enumerate(inner, 1):
            node.seq = self.seq - i  # younger than what they came from, older than what is made of them
        for node in (self, *inner) if freed else ():
            node.release()

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        self._part()
        return super().register_hook(fn)

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        self._part()
        order = self.plan.edge_order
        if order is None:
            return super().next_functions
        listed = []
        for index, transposed in order:
            edge = self.edges[index]
            listed.append((None, 0) if edge is None else (TransposeNode(edge), 0) if transposed else edge)
        return tuple(listed)

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        holes = tuple([g is None for g in grads])
        if self.pull is not None:
            if self.saved:
                saved.check(self)
            mask = self.plan.reached(self.mask, holes, self.values)
            with _x64(_X64), scopes.backward(self.pull.scope):
                found = self._spread(self.pull(grads), self.mask)
            return [g if m else None for g, m in zip(found, mask, strict=True)]
        while (pullback := self.pullback()) is None:  # another thread may free it meanwhile
            self._revive(grads)
        source, values = pullback
        mask = self.plan.reached(self.mask, holes, values)
        if True not in mask:
            return [None] * len(mask)
        plan = source.backward(mask, holes)
        args = [*values, *(g for g in grads if g is not None)]
        if tracing.overlay:
            with tracing.outside():
                args = [*computed(args)]
            return self._spread(plan.fn(*args), mask)
        return self._spread(executor.current.compute(plan, args), mask)

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        if self.values is None:
            self._revive(grads)
        if self.saved:
            saved.check(self)
        holes, given = tuple(g is None for g in grads), [g for g in grads if g is not None]
        values: Sequence[Any]
        if self.extras is None or not self.extras.packed:
            values = self.values = computed(self.values)
        else:
            values = computed(self._unpacked())
        mask = self.plan.reached(self.mask, holes, values)
        if True not in mask:
            return [None] * len(mask)
        plan = self.plan.backward(mask, holes)
        reads = self.plan.reads(mask, holes, [*values, *(g._look() for g in given)])
        inputs = []
        for value, edge, read in zip(values, self.edges, reads, strict=True):
            history = edge is not None and read  # what is not read has no second derivative
            inputs.append(
                with_history(value, edge) if history else wrap(value) if hasattr(value, "dtype") else value
            )
        return self._spread(self.run_again(plan, [*inputs, *given]), mask)

    @staticmethod
    def _spread(grads: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
        it = iter(grads)
        return [next(it) if m else None for m in mask]

    def release(self) -> None:
        if self.values is not None:
            self.note_avals()
            if self.extras is not None:
                self.extras.packed = None
            self.values = self.pull = self.kept = None
            self.saved = ()

    def note_avals(self) -> None:
        """Remember the shapes and dtypes of the inputs, as some are let go of."""
        if self._avals is None:
            kinds = [getattr(v, "aval", v) for v in self.values]
            self._avals = [(k.shape, k.dtype) if hasattr(k, "dtype") else k for k in kinds]

    def _unpacked(self) -> Sequence[Any]:
        return packing.unpacked(self)

    def __dir__(self) -> list[str]:
        shown = {f"_saved_{name}" for name in packing.names(self)}
        return [n for n in super().__dir__() if not n.startswith(("_saved_", "_raw_saved_")) or n in shown]

    @property
    def freed(self) -> bool:
        return self.values is None

    def _revive(self, grads: Sequence[Any]) -> None:
        """A freed node may run again if its pullback needs shapes only, as PyTorch's nodes that save nothing."""
        holes = tuple(g is None for g in grads)
        avals = [jax.ShapeDtypeStruct(*v) if type(v) is tuple else v for v in self._avals]
        given = [g._look() if isinstance(g, Tensor) else g for g in grads if g is not None]
        reads = self.plan.reads(self.mask, holes, [*avals, *given])
        kept = self.plan.tensors
        if any(
            r and (type(v) is tuple or kept is None or i in kept)
            for i, (r, v) in enumerate(zip(reads, self._avals, strict=True))
        ):
            raise RuntimeError(FREED)
        with tracing.x64():
            self.values = tuple(jax.numpy.zeros(*v) if type(v) is tuple else v for v in self._avals)

    def pullback(self) -> tuple[Any, Any] | None:
        values = self.values
        if self.pull is not None or values is None:
            return None
        if self.saved:
            saved.check(self)
        if self.extras is not None and self.extras.packed:
            return self.plan, self._unpacked()
        kept: Any = self.kept
        if kept is not None and kept.__class__ is not tuple:
            kept = kept.kept
        return kept or (self.plan, values)

    @property
    def pending(self) -> executor.Pending | None:
        """The operation itself, if it was lazy when it was recorded."""
        return None if self.kept.__class__ is tuple else self.kept  # type: ignore[return-value]

    def to_hook(self, results: Sequence[Any]) -> Sequence[Any]:
        order = self.plan.edge_order
        if order is None:
            return results
        return [
            results[i].T if transposed and results[i] is not None else results[i] for i, transposed in order
        ]

    def from_hook(self, changed: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        order = self.plan.edge_order
        if order is None:
            return changed
        mixed = list(results)
        for (i, transposed), value in zip(order, changed, strict=True):
            mixed[i] = value.T if transposed and value is not None else value
        return mixed


def _since(start: int, last: Node) -> list[Node]:
    """The nodes after ``start`` that lead to one, the youngest first."""
    found: set[Node] = set()
    stack = [last]
    while stack:
        targets = {edge[0] for edge in stack.pop().edges if edge is not None}
        new = {t for t in targets - found if t.seq > start and not isinstance(t, AccumulateGrad)}
        found |= new
        stack += new
    return sorted(found, key=lambda node: -node.seq)


@functools.cache
def show_saved(node: str, arguments: tuple[str, ...]) -> None:
    """Give the class of the nodes of this name what PyTorch's has as ``_saved_NAME`` (a `__getattr__` would slow every
    attribute down).
    """
    cls = node_class(node)
    for argument in (*arguments, "result", "result0", "result1", "result2"):
        name = saved.shown_as(argument)
        for attribute in (f"_saved_{name}", f"_raw_saved_{name}"):
            if attribute not in vars(cls):
                setattr(cls, attribute, property(functools.partial(_saved_of, attribute)))


def _saved_of(attribute: str, node: OpNode) -> Any:
    return packing.look(node, attribute)


def with_history(value: Any, edge: Edge) -> Tensor:
    """A Tensor that holds a saved value and continues the graph where the original input stood."""
    tensor = wrap(value)
    tensor._requires_grad = True
    tensor._grad_fn, tensor._output_nr = edge  # type: ignore[misc]
    return tensor


class TransposeNode(Node):
    """PyTorch's ``TBackward0`` between `linear` and its weight, which the fused op does not need."""

    __slots__ = ()

    def __init__(self, edge: Edge) -> None:
        super().__init__((edge,))

    def name(self) -> str:
        return "TBackward0"


@functools.cache
def node_class(name: str) -> type[OpNode]:
    """The class of the nodes called ``name``."""
    members: dict[str, Any] = {"__slots__": ()}
    if name in ("CopySlices", "CopyBackwards"):  # PyTorch writes these by hand, and they carry their C++ name
        members["name"] = lambda self: f"torch::autograd::{name}"
    return type(name, (OpNode,), members)


def edge_of(tensor: Tensor) -> Edge:
    """Where the gradient of ``tensor`` goes."""
    if not tensor._requires_grad:
        return None
    if tensor._grad_fn is None:
        if tensor._inherits:
            return None
        return (accumulator(tensor), 0)
    return (tensor._grad_fn, tensor._output_nr)


def edges_of(dyn: Sequence[Any]) -> tuple[tuple[Edge, ...], tuple[bool, ...]]:
    """The edges of the Tensors among the arguments of a plan, and for which arguments there is one."""
    edges = tuple([edge_of(a) if isinstance(a, Tensor) and a._requires_grad else None for a in dyn])
    return edges, tuple(map(bool, edges))


TransposeNode.__name__ = "TBackward0"
