"""The tape: a `Node` for every recorded operation, with PyTorch's names and links."""

from __future__ import annotations

import copy
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .._array import tracing
from . import grad_mode

__all__ = ["AccumulateGrad", "Edge", "Node", "RemovableHandle"]

#: (node, output number), or None where no gradient flows
Edge = tuple["Node", int] | None

#: steps leave room for nodes between two others
_sequence = itertools.count(step=16)

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
    "if you need to access saved tensors after calling backward."
)


class RemovableHandle:
    """What `register_*_hook` returns: `remove()` takes the hook away; usable as a context manager."""

    _ids = itertools.count()

    def __init__(self, hooks: Any, *, extra_dict: Any = None) -> None:
        self.id = next(RemovableHandle._ids)
        self.hooks_dict_ref = weakref.ref(hooks)
        extra = (
            extra_dict
            if isinstance(extra_dict, list | tuple)
            else [extra_dict]
            if extra_dict is not None
            else []
        )
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def remove(self) -> None:
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and hooks.pop(self.id, None) is not None:
                tracing.bump_epoch()

    def __getstate__(self) -> tuple[int, list[Any]]:
        return self.id, [ref() for ref in (self.hooks_dict_ref, *self.extra_dict_ref)]

    def __setstate__(self, state: tuple[int, list[Any]]) -> None:
        """A copy removes the copied hook; new handles get other ids."""
        self.id, tables = state
        RemovableHandle._ids = itertools.count(max(next(RemovableHandle._ids), self.id + 1))
        hooks, *extra = [Hooks() if table is None else table for table in tables]
        self.hooks_dict_ref, self.extra_dict_ref = weakref.ref(hooks), tuple(map(weakref.ref, extra))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks(OrderedDict):
    """Hooks by handle id; weakly referenceable, so a handle does not keep them alive."""

    def add(self, hook: Callable[..., Any]) -> RemovableHandle:
        handle = RemovableHandle(self)
        self[handle.id] = hook
        return handle

    @property
    def turn(self) -> Any:
        """A lock for a thread that calls them, which they may do again."""
        return self.__dict__.get("_turn") or self.__dict__.setdefault("_turn", threading.RLock())

    def __getstate__(self) -> None:
        """Without the lock, which cannot be copied."""


class Extras:
    """What only few nodes have: hooks, tensors that retain their gradient or are packed, the user's notes."""

    __slots__ = (
        "detached",
        "looking",
        "metadata",
        "packed",
        "post_hooks",
        "pre_hooks",
        "remaking",
        "retained",
        "tensor_hooks",
    )

    def __init__(self) -> None:
        self.pre_hooks: Hooks | None = None
        self.post_hooks: Hooks | None = None
        self.tensor_hooks: dict[int, Hooks] | None = None
        self.retained: dict[int, Any] | None = None
        self.metadata: dict[str, Any] | None = None
        #: by position what stands for tensors that the node saved (see `packing`)
        self.packed: dict[int, Any] | None = None
        #: called with the gradients before the node runs, to make again what it let go of
        self.remaking: tuple[Callable[..., Any], ...] | None = None
        #: the outputs whose tensors were cut off in place
        self.detached: set[int] | None = None
        #: called with the node, a context in which it has what it let go of
        self.looking: Callable[[Node], AbstractContextManager[None]] | None = None

    def watched(self) -> bool:
        """Whether somebody wants to see what passes through the node, or what it saved, or is to make that again."""
        hooks = self.pre_hooks or self.post_hooks or self.tensor_hooks
        return bool(hooks or self.retained or self.packed or self.remaking)


def _extra(name: str) -> Any:
    """A property of `Node` that is kept in its `Extras`, which are made when it is first set."""

    def get(node: Node) -> Any:
        return None if node.extras is None else getattr(node.extras, name)

    def put(node: Node, value: Any) -> None:
        if node.extras is None:
            node.extras = Extras()
        setattr(node.extras, name, value)

    return property(get, put)


class Node:
    """A recorded operation.

    Attributes:
        edges: for every input that may need a gradient, the (node, output number) it came from, or None.
        seq: when it was recorded; the engine runs later nodes first.
        outputs: number of outputs.
        extras: None for most.
    """

    __slots__ = ("__weakref__", "edges", "extras", "outputs", "seq")

    #: whether it runs although no gradient arrived
    runs_empty = False
    #: what an executor has noted of the operation
    kept: Any = None
    #: tensors that must not have been written to since (see `saved`)
    saved: Sequence[Any] = ()

    def __init__(self, edges: Sequence[Edge], outputs: int = 1) -> None:
        self.edges = edges
        self.outputs = outputs
        self.seq = next(_sequence)
        self.extras: Extras | None = None

    pre_hooks, post_hooks = _extra("pre_hooks"), _extra("post_hooks")
    tensor_hooks, retained = _extra("tensor_hooks"), _extra("retained")
    _metadata, packed = _extra("metadata"), _extra("packed")
    remaking, looking = _extra("remaking"), _extra("looking")
    detached = _extra("detached")

    def name(self) -> str:
        """PyTorch's name of the node, such as ``AddmmBackward0``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Where the gradients go next: ``(node, output number)`` per input, ``(None, 0)`` where nothing flows."""
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own notes on this node."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node ran; a returned tuple replaces ``grad_inputs``."""
        if self.post_hooks is None:
            self.post_hooks = Hooks()
        return self.post_hooks.add(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs; a returned tuple replaces ``grad_outputs``."""
        if self.pre_hooks is None:
            self.pre_hooks = Hooks()
        return self.pre_hooks.add(fn)

    def remake_by(self, fn: Callable[..., Any]) -> None:
        """Call ``fn(grad_outputs)`` before the node runs, to make again what it let go of. That is no hook: nobody
        watches, and in a compiled function it is a part of the walk.
        """
        self.remaking = (*(self.remaking or ()), fn)

    def looked_at(self) -> AbstractContextManager[None]:
        """A context in which the node has what it let go of, if that can be made again."""
        return nullcontext() if self.looking is None else self.looking(self)

    def hooks_of(self, number: int) -> Hooks:
        """The tensor hooks of output ``number``."""
        if self.tensor_hooks is None:
            self.tensor_hooks = {}
        return self.tensor_hooks.setdefault(number, Hooks())

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Gradients of the outputs (arrays or None) to gradients for `edges`."""
        raise NotImplementedError(self.name())

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        """As `apply`, on Tensors, and recorded itself (``create_graph=True``)."""
        raise NotImplementedError(self.name())

    def release(self) -> None:
        """Let go of saved values."""

    def bypass(self, watched: Node) -> None:
        """Have gradients go past a node that somebody watches, through one like it."""
        bare = copy.copy(watched)
        bare.extras = None
        self.edges = [
            (bare, edge[1]) if edge is not None and edge[0] is watched else edge for edge in self.edges
        ]

    def pullback(self) -> tuple[Any, Any] | None:
        """The `Plan` whose `backward` this node is, and the saved values; None if there is more to it."""
        return None

    def to_hook(self, results: Sequence[Any]) -> Sequence[Any]:
        """The gradients of the inputs as hooks see them: in the order of `next_functions`."""
        return results

    def from_hook(self, changed: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        """The reverse of `to_hook`; ``results`` are the gradients before the hook."""
        return changed

    def __call__(self, *grads: Any) -> Any:
        """Run the node by hand: gradients of the outputs to gradients of the inputs."""
        if len(grads) != self.outputs:
            raise TypeError(f"expected {self.outputs} arguments, got {len(grads)} instead")
        results = self.to_hook(self.apply_recorded(list(grads)))
        if not grad_mode.is_grad_enabled():
            results = [None if r is None else r._alias() for r in results]
        return tuple(results) if len(results) != 1 else results[0]

    def _sequence_nr(self) -> int:
        return self.seq

    def _register_hook_dict(self, tensor: Any) -> None:
        raise NotImplementedError("Node._register_hook_dict: register the hook on the tensor")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class EndedView(Node):
    """The history of a view whose base was detached in place and written to: gradients end here."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__((None,))

    def name(self) -> str:
        return "AsStridedBackward0"

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return (None,)

    apply_recorded = apply


class NoDerivative(Node):
    """The history of a result that has no derivative: a backward pass that comes here is an error."""

    __slots__ = ("_name", "_operation")

    def __init__(self, edge: Edge, name: str, operation: str) -> None:
        super().__init__((edge,))
        self._name, self._operation = name, operation

    def name(self) -> str:
        return self._name

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise NotImplementedError(f"the derivative for '{self._operation}' is not implemented.")

    apply_recorded = apply


class AccumulateGrad(Node):
    """The end of the tape: adds what arrives to ``variable.grad``."""

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        # Node.__init__ written out: every step makes one for every parameter
        self.edges = ()
        self.outputs = 1
        self.seq = next(_sequence)
        self.extras = None
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def _sequence_nr(self) -> int:
        return (1 << 64) - 1

    #: adds to a leaf's ``.grad``; `autograd._methods` sets it
    add: Callable[[Any, Any], None]

    def __call__(self, *grads: Any) -> None:
        if grads and grads[0] is not None:
            self.add(self.variable, grads[0])


def accumulator(variable: Any) -> AccumulateGrad:
    """The one `AccumulateGrad` of a leaf, made on first use and kept as long as a graph holds it."""
    while True:
        ref = variable._accumulator
        node = ref() if ref is not None else None
        if node is not None:
            return node
        node = AccumulateGrad(variable)
        new = weakref.ref(node)
        if variable._accumulator is ref:  # no other thread was faster; see `Storage.held`
            variable._accumulator = new
            return node
