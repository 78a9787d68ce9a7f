"""The walk back from what a compiled function returns: a node on the tape, and one more for every watched place.

Hooks, and tensors that retain their gradient, see the real gradients at every backward pass: where the function left
one at a result or on the way to it, and at a result that others were made from, the walk is cut. Each part is traced by
itself and is a `ProgramNode` of the call, with the hooks of the node in the trace that it stands for.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._array import placed, placing, tracing
from .._array.refusal import unknown
from .._array.storage import Storage
from .._array.symbolic import SymNumber
from .._run import crossing
from .._run.opnode import OpNode, with_history
from .._run.run import run
from .._tensor.node import FREED, AccumulateGrad, Extras, Hooks, Node, accumulator
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor
from ..autograd._engine import at_edges
from ..autograd._hooks import remake

if TYPE_CHECKING:
    from .draft import Draft
    from .ends import Ends
    from .handles import Made
    from .overlay import Overlay
    from .places import Arguments
    from .results import Changed, Left
    from .rows import StageRows

__all__ = ["ProgramNode", "Recording", "Root", "Stage", "collect_backward", "hooks_of", "takes"]

Place = tuple[Node, int]


class Root:
    """Where gradients come in: an output of the program (or a tensor made of it), its place in the trace's graph."""

    __slots__ = ("aval", "out", "place")

    def __init__(self, out: Any, tensor: Tensor) -> None:
        value = tensor._value
        self.out, self.place = out, (tensor._grad_fn, tensor._output_nr)
        self.aval = jax.ShapeDtypeStruct(value.shape, value.dtype)


class Stage:
    """A part of the walk.

    Attributes:
        outputs: how many gradients it takes.
        edges: where those it gives go: (None, number of one of the program's `boundary`), or (stage, output of its
            node), or None.
        reached: which of the edges get one.
        residuals: what it takes from the forward pass: outputs of the program, and inputs, ``~number`` of each.
        jaxpr, avals: the walk, and the kinds of gradients it takes; None for those that cannot come.
        consts: of the jaxpr, after the residuals.
        ends: where gradients end that have padding, and ``sizes``, the names of the last residuals, that say so.
        backward: the jitted walk; it returns the gradients, and whether checks of values failed.
        errors: those of the checks.
        hidden: whether hooks are part of the walk.
        rows: how it runs in all processes, if each computes with tensors of its own.
        extras: the hooks of the node it stands for.
    """

    def __init__(self, outputs: int, node: Node | None = None) -> None:
        self.outputs = outputs
        self.edges: list[tuple[int | None, int] | None] = []
        self.reached: list[bool] = []
        self.residuals: list[int] = []
        self.jaxpr: Any = None
        self.avals: list[Any] = []
        self.extras = None if node is None else node.extras
        self.name = "CompiledFunctionBackward" if node is None else node.name()
        self.plan: Any = getattr(node, "plan", None)
        self.consts: list[Any] = []
        self.ends: Ends | None = None
        self.sizes: list[str] = []
        self.backward: Any = None
        self.errors: list[Callable[..., Exception]] = []
        self.hidden = False
        self.rows: StageRows | None = None

    def hooks(self) -> Extras | None:
        """The hooks for the node of a call; the first one's are those that the trace registered."""
        given = self.extras
        if given is not None:
            self.extras = Extras()
            self.extras.pre_hooks, self.extras.post_hooks = _copy(given.pre_hooks), _copy(given.post_hooks)
            self.extras.tensor_hooks = {k: Hooks(hooks) for k, hooks in (given.tensor_hooks or {}).items()}
            given.retained = given.remaking = (
                None  # tensors of the call will say that again; the walk has done that
            )
        return given


def _copy(hooks: Hooks | None) -> Hooks | None:
    return None if hooks is None else Hooks(hooks)


class ProgramNode(Node):
    """The node of a compiled function whose outputs are differentiated outside, or of a place that is watched in it."""

    __slots__ = ("boundary", "older", "plan", "recording", "residuals", "stage", "values")

    def __init__(
        self,
        recording: Recording,
        stage: Stage,
        edges: Sequence[Any],
        outs: Sequence[Any],
        values: Sequence[Any],
        boundary: Sequence[Any],
        older: Sequence[ProgramNode],
    ) -> None:
        super().__init__(edges, stage.outputs)
        self.recording, self.stage, self.values, self.boundary = recording, stage, values, boundary
        self.older, self.plan = tuple(older), stage.plan
        self.residuals: Any = [outs[i] if i >= 0 else _fixed(values[~i]) for i in stage.residuals]
        self.extras = stage.hooks()

    def name(self) -> str:
        return self.stage.name

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        if self.residuals is None:
            raise RuntimeError(FREED)
        given = tuple([g is not None for g in grads])
        with tracing.x64():
            found, flags = self.stage.backward(self.residuals, [g for g in grads if g is not None], given)
        for flag, error in zip(flags, self.stage.errors, strict=True):
            if bool(flag):
                raise error()
        return found

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Recorded: the walk as an operation on what it takes from the forward pass, and that as one on the inputs."""
        if self.residuals is None:
            raise RuntimeError(FREED)
        stage, count = self.stage, len(self.stage.residuals)
        nodes = (self, *self.older) if self.stage.extras is not None else self.older
        if stage.hidden or any(node.extras is not None and node.extras.watched() for node in nodes):
            raise NotImplementedError(SECOND)
        given = tuple([g is not None for g in grads])
        history = self.recording.residuals_of(self)

        def walk(*values: Any) -> tuple[Any, ...]:
            found, _ = stage.backward(list(values[:count]), list(values[count:]), given)
            return tuple([g for g in found if g is not None])

        found = iter(
            _run_recorded(walk, [*history, *(g for g in grads if g is not None)], sum(stage.reached))
        )
        return [next(found) if there else None for there in stage.reached]

    def to_hook(self, results: Sequence[Any]) -> Sequence[Any]:
        return results if self.plan is None else OpNode.to_hook(self, results)  # type: ignore[arg-type]

    def from_hook(self, changed: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        return changed if self.plan is None else OpNode.from_hook(self, changed, results)  # type: ignore[arg-type]

    def release(self) -> None:
        self.residuals = self.values = None  # type: ignore[assignment]


def _fixed(value: Any) -> Any:
    """An input that others may not write to."""
    return value if isinstance(value, jax.Array) else placing.on_device(np.asarray(value))


def _run_recorded(
    fn: Callable[..., tuple[Any, ...]], values: Sequence[Any], outputs: int
) -> Sequence[Tensor]:
    """A function of arrays as an operation on the tape."""
    if not outputs:
        return ()
    found = run(Plan(fn, "compiled_function", "CompiledFunctionBackward0"), values)
    return found if isinstance(found, tuple | list) else (found,)


ProgramNode.__name__ = ProgramNode.__qualname__ = "CompiledFunctionBackward"  # as PyTorch prints it


@dataclass(frozen=True)
class Recording:
    """How a call is an operation on the tape, because its outputs have gradients to tensors outside.

    Attributes:
        boundary: where the gradients lead to: ("tensor", itself), ("arg", position) or ("made", number).
        inputs: which inputs of the program these are; None for one whose value is not looked at.
        stages: the parts of the walk there, the oldest first.
        changed: tensors that were there before and have a new history after the call.
        histories: of tensors that are made anew.
        retaining: numbers of those of them that retain their gradient.
        pure: the program as a function of the inputs that are ``donated``, so many, and the others.
        why_no_second: what stands in the way of second derivatives.
    """

    boundary: Sequence[tuple[str, Any]]
    inputs: Sequence[int | None]
    stages: Sequence[Stage]
    changed: Sequence[Changed]
    histories: Sequence[Left]
    retaining: Sequence[int]
    pure: Callable[..., Any]
    donated: int
    why_no_second: str

    def record(
        self,
        outs: Sequence[Any],
        leaves: Sequence[Any],
        made: Sequence[Tensor],
        values: list[Any],
        flags: Sequence[tuple[Any, bool]],
    ) -> list[ProgramNode]:
        """The nodes of a call that was given ``values``; ``flags`` are those that it wrote."""
        for target, flag in flags:
            if flag:  # `requires_grad_()` comes before what is recorded of it, False after what was
                (leaves[target] if type(target) is int else target)._requires_grad = True
        tensors = [
            leaves[what] if kind == "arg" else made[what] if kind == "made" else what
            for kind, what in self.boundary
        ]
        boundary = [_edge(tensor) for tensor in tensors]
        is_one = placed.several and not any(stage.rows for stage in self.stages)
        for k, i in enumerate(self.inputs if is_one else ()):
            if i is not None:
                boundary[k] = crossing.passed(boundary[k], tensors[k]._look(), values[i])
        nodes: list[ProgramNode] = []
        for stage in self.stages:
            edges = [
                None if e is None else boundary[e[1]] if e[0] is None else (nodes[e[0]], e[1])
                for e in stage.edges
            ]
            nodes.append(ProgramNode(self, stage, edges, outs, values, boundary, nodes))
        if self.histories:
            for out in self.histories:
                if out.requires_grad:
                    out.give_history(made[out.made], nodes)
            for number in self.retaining:
                made[number].retain_grad()
        for changed in self.changed:
            if changed.requires_grad:
                target = leaves[changed.target] if type(changed.target) is int else changed.target
                target._continue_from(changed.make(outs, leaves, {}, nodes, made))
        return nodes

    def residuals_of(self, node: ProgramNode) -> Sequence[Tensor]:
        """What the walk of ``node`` takes from the forward pass, with its history, for a second derivative."""
        if any(kind == "made" for kind, _ in self.boundary):
            raise NotImplementedError(
                "create_graph=True through a compiled function that returns a leaf made inside it which requires grad: "
                "make the leaf outside, or do not compile the function"
            )
        if self.why_no_second:
            raise NotImplementedError(
                f"create_graph=True through a compiled function with {self.why_no_second}: do not compile the "
                "function, or differentiate inside of it"
            )
        which, count = node.stage.residuals, self.donated

        def residuals(*values: Any) -> tuple[Any, ...]:
            outs = self.pure(list(values[:count]), list(values[count:]))
            return tuple([outs[i] if i >= 0 else values[~i] for i in which])

        edges = dict(zip(self.inputs, node.boundary, strict=True))
        inputs = [with_history(v, edges[i]) if i in edges else v for i, v in enumerate(node.values)]
        return _run_recorded(residuals, inputs, len(which))


def _edge(tensor: Tensor) -> Any:
    return (accumulator(tensor), 0) if tensor.grad_fn is None else (tensor._grad_fn, tensor._output_nr)


# ---------------------------------------------------------------- in the trace


SECOND = (
    "create_graph=True through a compiled function with a hook or retain_grad() at what it computes inside: a second "
    "derivative would not come by there. Do not compile the function, or do without the hook."
)
KEPT = (
    "a hook that was registered in a compiled function uses tensors of the call, and keeps what it makes of them and "
    "of the gradient. Return these tensors from the function and register the hook outside."
)


def collect_backward(
    draft: Draft,
    overlay: Overlay,
    roots: list[Root],
    taken_in: list[Root],
    arguments: Arguments,
    add: Callable[[Any], int],
    start: int,
) -> None:
    """The walk from the outputs to the tensors outside, as programs of its own.

    JAX's derivative of the program would see through `no_grad`, hooks and custom functions. What the walk takes from
    the forward pass becomes an output of that: ``add`` has it return a value.
    """
    boundary = _boundary(
        [root.place for root in (*roots, *taken_in)], start, overlay, arguments.own, draft.made
    )
    passed = set(map(id, arguments.passed))

    def is_ours(item: Any) -> bool:
        if isinstance(item, Tensor):
            return id(item) in passed or not overlay.is_outside(item)
        return isinstance(item, SymNumber | jax.core.Tracer) or (
            isinstance(item, Storage) and item in overlay.inside
        )

    try:
        stages, once = _stages(overlay, [*roots, *taken_in], list(boundary), add, is_ours)
    except RuntimeError as error:
        if str(error) != FREED:
            raise
        # the function ran backward through it already: through what a tensor outside took in, as a sum of losses does,
        # or through the results themselves
        for root in taken_in or roots:
            root.out.requires_grad = False
        if taken_in and roots:
            collect_backward(draft, overlay, roots, [], arguments, add, start)
        return
    draft.boundary = list(boundary.values())
    draft.stages = stages
    if overlay.symbols is not None:
        numbers = {name: add(number) for name, number in overlay.symbols.tracers.items()}
        for stage in stages:
            stage.sizes = list(numbers)
            stage.residuals += numbers.values()
    if once:
        draft.why_once = "a hook was registered that uses tensors of the call"


def _boundary(
    roots: list[tuple[Node, int]], start: int, overlay: Overlay, arg_ids: dict[int, int], made: Made
) -> dict[tuple[Node, int], tuple[str, Any]]:
    """The leaves that gradients of the outputs lead to, by their places in the graph: tensors outside, and results."""
    found: dict[tuple[Node, int], tuple[str, Any]] = {}
    stack = [node for node, _ in roots]
    seen: set[Node] = set(stack)
    while stack:
        node = stack.pop()
        for edge in node.edges:
            if edge is None:
                continue
            target = edge[0]
            if isinstance(target, AccumulateGrad) or target.seq < start:
                tensor = overlay.edges.get(edge)
                if tensor is not None and overlay.is_outside(tensor):
                    i = arg_ids.get(id(tensor))
                    found[edge] = ("tensor", tensor) if i is None else ("arg", i)
                elif isinstance(target, AccumulateGrad) and id(target.variable) in made.made:
                    found[edge] = ("made", made.made[id(target.variable)])
            elif target not in seen:
                seen.add(target)
                stack.append(target)
    return found


def _stages(
    overlay: Overlay,
    roots: Sequence[Root],
    boundary: Sequence[Place],
    add: Callable[[Any], int],
    is_ours: Callable[[Any], bool],
) -> tuple[list[Stage], bool]:
    """Trace the walk from the roots to the boundary, part by part; the oldest come first. And whether hooks are for
    this call alone.

    ``add`` has the program return a value; ``is_ours`` says whether an object is of this call.
    """
    watch = _Watch(roots, set(boundary), is_ours)
    order = sorted(watch.nodes, key=lambda node: node.seq)
    positions = {node: k for k, node in enumerate(order)}
    ends: dict[Place, tuple[int | None, int]] = {edge: (None, i) for i, edge in enumerate(boundary)}
    ends.update({(node, k): (positions[node], k) for node in order for k in range(node.outputs)})
    arriving: dict[Place, Any] = {root.place: root.aval for root in roots}
    stages = [Stage(node.outputs, node) for node in order]
    main = [root for root in roots if root.place[0] not in positions]
    for root in roots:
        root.out.stage, root.out.number = positions.get(root.place[0], len(order)), root.place[1]
    for number, root in enumerate(main):
        root.out.number = number
    before = set(overlay.inside)
    if main:  # the youngest, as what arrives elsewhere comes from there
        stages.append(Stage(len(main)))
        places = [root.place for root in main]
        _trace_part(overlay, stages[-1], places, [root.aval for root in main], ends, None, arriving, add)
    for node in reversed(order):
        places = [(node, k) for k in range(node.outputs)]
        avals = [arriving.get(place) for place in places]
        _trace_part(overlay, stages[positions[node]], places, avals, ends, node, arriving, add)
    for stage in stages:
        stage.hidden = watch.hidden
    if watch.hidden:
        gc.collect(0)
        if set(overlay.inside) - before:
            raise RuntimeError(KEPT)
    for cell in set(overlay.inside) - before:  # what custom functions made belongs to that other program
        overlay.inside.pop(cell, None)
    return stages, watch.once


class _Watch:
    """Which nodes between the roots and the boundary are looked at.

    Attributes:
        nodes: those where the walk is cut: the hooks there are called with the real gradients.
        hidden: whether there are others: hooks that take tensors of the call become part of the walk.
        once: whether hooks that take tensors of the call cannot do that.
        places: those of the results.
    """

    def __init__(self, roots: Sequence[Root], boundary: set[Place], is_ours: Callable[[Any], bool]) -> None:
        self.nodes: dict[Node, None] = {}
        self.hidden = self.once = False
        self.places = {root.place for root in roots}
        stack = [root.place[0] for root in roots]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node.extras is not None and node.extras.watched():
                self._look(node, node.extras, is_ours)
            # results from which others were computed
            self.nodes.update(dict.fromkeys(e[0] for e in node.edges if e in self.places))
            for edge in node.edges:
                if edge is not None and edge not in boundary and edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
        for node in list(self.nodes):
            if _is_exact(node):
                ends = [e[0] for e in node.edges if e is not None and e not in boundary]
                self.nodes.update(dict.fromkeys(n for n in ends if type(n) is not AccumulateGrad))

    def _look(self, node: Node, extras: Extras, is_ours: Callable[[Any], bool]) -> None:
        on_tensors = [hook for hooks in (extras.tensor_hooks or {}).values() for hook in hooks.values()]
        others = [*(extras.pre_hooks or {}).values(), *(extras.post_hooks or {}).values()]
        retained = [t for t in (ref() for ref in (extras.retained or {}).values()) if t is not None]
        if not (on_tensors or others or retained):
            return
        of_call = any(takes(hook, is_ours) for hook in (*on_tensors, *others))
        # hooks that come later, at a result, see what these make of the gradient
        if of_call and not (
            others or retained or any((node, k) in self.places for k in extras.tensor_hooks or {})
        ):
            self.hidden = True
        else:
            self.nodes[node] = None
            self.once |= of_call


def _is_exact(node: Node | None) -> bool:
    """Whether hooks see what the node makes of its gradients."""
    return node is not None and bool(node.post_hooks)


def _trace_part(
    overlay: Overlay,
    stage: Stage,
    places: list[Place],
    avals: list[Any],
    ends: dict[Place, tuple[int | None, int]],
    node: Node | None,
    arriving: dict[Place, Any],
    add: Callable[[Any], int],
) -> None:
    """Trace the walk from ``places``, of all outputs of ``node`` unless that is None, to the next of the ``ends``."""
    stage.avals = avals
    there = [(place, aval) for place, aval in zip(places, avals, strict=True) if aval is not None]
    targets: list[Any] = [
        end for end in ends if end[0] is not node and (node is None or end[0].seq < node.seq)
    ]
    if node is not None and _is_exact(node):
        targets = [end if end in ends else None for end in node.edges]

    def backward(grads: list[Any]) -> list[Any]:
        if node is not None and _is_exact(node):
            given = dict(zip([place for place, _ in there], grads, strict=True))
            remake(node, [given.get(place) for place in places])
            found = node.apply([given.get(place) for place in places])
            found = [None if end is None else g for g, end in zip(found, targets, strict=True)]
        else:
            found = at_edges([place for place, _ in there], grads, targets)
        if overlay.across is not None:
            found = [_arriving(overlay, end, g) for end, g in zip(targets, found, strict=True)]
        stage.reached = [g is not None for g in found]
        arrays = [g.to_dense()._value if isinstance(g, Tensor) else g for g in found if g is not None]
        return [*arrays, *(check.flag() for check in overlay.checks or ())]

    forward_checks, overlay.checks = overlay.checks, None if overlay.checks is None else []
    extras, hidden = (None, None) if node is None else (node.extras, node)
    if hidden is not None:
        hidden.extras = None
        if extras is not None and extras.remaking:
            hidden.remaking = extras.remaking
    try:
        closed = jax.make_jaxpr(backward)([aval for _, aval in there])
        stage.errors = [unknown(check) for check in overlay.checks or ()]
    finally:
        overlay.checks = forward_checks
        if hidden is not None:
            hidden.extras = extras
    made = iter(closed.out_avals)
    for end, there_is in zip(targets, stage.reached, strict=True):
        if there_is:
            arriving.setdefault(end, jax.ShapeDtypeStruct(*_form(next(made))))
    if not (node is not None and _is_exact(node)):
        targets = [end for end, there_is in zip(targets, stage.reached, strict=True) if there_is]
        stage.reached = [True] * len(targets)
    stage.edges = [None if end is None else ends[end] for end in targets]
    stage.jaxpr = closed.jaxpr
    stage.residuals = [add(value) for value in closed.consts]


def _arriving(overlay: Overlay, edge: Any, grad: Any) -> Any:
    """The gradient that arrives at a tensor outside of the program, where processes have tensors of their own."""
    tensor = overlay.edges.get(edge)
    if grad is None or tensor is None or not placed.is_shared(tensor._storage):
        return grad
    if tensor._storage in overlay.across.averaged:
        return overlay.across.mean(grad.to_dense()._value if isinstance(grad, Tensor) else grad)
    if overlay.across.crosses:
        return grad  # `rows.batched` refuses what is of one process
    raise NotImplementedError(
        "a compiled function of several processes with tensors of each, whose result is differentiated by a tensor "
        f"of shape {list(tensor.shape)} that is on the devices of all: only parameters of a module under "
        "DistributedDataParallel have the mean of the gradients. Or give global tensors (DTensor.from_local)"
    )


def _form(aval: Any) -> tuple[Any, Any]:
    return aval.shape, aval.dtype


def hooks_of(tensor: Tensor) -> list[Any]:
    """The hooks that run when a leaf gets a gradient."""
    tables = (tensor._hooks, tensor._post_accumulate_hooks)
    return [hook for table in tables if table for hook in table.values()]


def takes(hook: Any, is_ours: Callable[[Any], bool]) -> bool:
    """Whether a hook refers to something of the call: a later call's would be another."""
    stack, seen = [hook], set()
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType):
            continue
        seen.add(id(item))
        if is_ours(item):
            return True
        if isinstance(item, types.FunctionType):
            stack += (item.__closure__, item.__defaults__, item.__kwdefaults__)
        elif (
            isinstance(item, types.CellType | types.MethodType | functools.partial)
            or type(item) in _CONTAINERS
        ):
            stack += gc.get_referents(item)
        elif not isinstance(item, Tensor) and hasattr(item, "__dict__"):
            stack.append(vars(item))
    return False


_CONTAINERS = (list, tuple, dict, set)
