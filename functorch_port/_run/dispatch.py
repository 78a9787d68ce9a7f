"""How one operation runs: eagerly as a cached `jax.jit`, recorded on the tape, or as plain JAX inside a trace.

A call is reduced to a signature (which arguments are tensors, which are numbers, the static values). For
every signature
there is one `Plan`: the pure function with the static arguments bound, its jitted form, and the plan of its backward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import FunctionType
from typing import Any, cast

import jax
import numpy as np
from jax import lax

from .._array import storage
from .._array.storage import HOST, HostStorage, form_of
from .._array.symbolic import SymNumber
from .._base import config, dtypes, errors, inside, memory, watch
from .._base.layout import SparseOperand
from .._base.strides import REINTERPRET
from .._cpu import numpy_programs as host
from .._cpu.deferred import Call, Deferred, DeferredStorage, avals_of, computed, may_wait, scope
from .._cpu.shared import SharedStorage
from .._tensor import anomaly, grad_mode, saved
from .._tensor.node import FREED, Edge, Node, accumulator
from .._tensor.node import _sequence as _sequence
from .._tensor.overriding import noticed
from .._tensor.tensor import Tensor, wrap, wrap_small
from .._tensor.view import Look, View, flattened, laid, seen
from . import autocast, fits
from .out import write_out
from .registry import ARRAY, ARRAYS, SCALAR, STATIC, OpSpec

__all__ = ["Op", "Plan", "caller", "run"]

_x64 = jax.enable_x64
_X64 = storage.X64
_grad = grad_mode.state
_quiet = host.quiet.run
_NUMBERS = frozenset({bool, int, float, complex})
_COUNTS = frozenset({int, float, complex})
#: the integers that an operation takes: numpy takes any
_LEAST, _MOST = -(2**63), 2**64 - 1
_REALS = frozenset({int, float})
_FLOAT32 = np.dtype(np.float32)
_PLAIN = HOST | _NUMBERS
_new = object.__new__
_ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other"}
_T, _OPEN, _CLOSE = object(), object(), object()
_ARRAYS = repeat(ARRAY)


class Plan:
    """One operation with its static arguments bound: a pure function of a flat list of arrays and numbers.

    Attributes:
        fn: the pure function.
        jit: its jitted form, used in eager mode.
        node: the class of its autograd node.
    """

    __slots__ = (
        "_backward",
        "_hosted",
        "_keeping",
        "_kinds",
        "_looking",
        "_reached",
        "_reads",
        "check",
        "defers",
        "differentiable",
        "eager",
        "edge_order",
        "fn",
        "forward",
        "jit",
        "keeps",
        "name",
        "named",
        "node",
        "parts",
        "pulls",
        "ran",
        "returns",
        "saves",
        "slots",
        "tensors",
    )

    def __init__(self, fn: Callable[..., Any], name: str, node: str, spec: OpSpec | None = None) -> None:
        fn = self.fn = config.by_our_rules(fn)
        self.name = name
        self.node = node_class(node)
        self.eager = spec.eager if spec is not None else ""
        self.jit = fn if self.eager else jax.jit(fn)
        self.returns = spec.returns if spec is not None else None
        self.differentiable = spec is None or spec.differentiable
        #: whether a call may be put off
        self.defers = spec is not None and not (spec.view or spec.eager)
        self.parts = spec.parts if spec is not None else None
        #: whether a call with these arguments keeps what its pullback would compute again
        self.keeps = spec.keeps if spec is not None else None
        self.check: Callable[..., None] | None = None
        self.edge_order: tuple[tuple[int, bool], ...] | None = None
        #: positions of the arguments that PyTorch would save as tensors, numbers among them; None: all
        self.tensors: frozenset[int] | None = None
        #: by which inputs need a gradient: what PyTorch saves (`saved.positions`); None if that is nothing
        self.saves: dict[tuple[bool, ...], tuple[int, ...]] | None = None
        #: positions of the arguments by name
        self.slots: dict[str, Any] = {}
        #: flat dynamic arguments to all arguments by name
        self.named: Callable[[Sequence[Any]], dict[str, Any]] | None = None
        self._backward: dict[Any, Plan] = {}
        #: by which inputs have a tangent (see `_run.duals`)
        self.forward: dict[tuple[bool, ...], Plan] = {}
        self._keeping: dict[Any, Callable[..., Any]] = {}
        self._looking: dict[Any, Callable[..., Any]] = {}
        self._kinds: dict[Any, Any] = {}
        #: `avals_of` arguments with which calls ran by themselves that had been put off
        self.ran: set[Any] = set()
        self._hosted: dict[Any, Callable[..., Any] | None] | None = None if self.eager else {}
        self._reads: dict[Any, list[bool]] = {}
        #: whether it is itself a pullback
        self.pulls = False
        self._reached: dict[tuple[bool, ...], list[bool]] = {}

    def backward(self, mask: tuple[bool, ...], holes: tuple[bool, ...]) -> Plan:
        """The plan of the pullback: ``fn(*inputs, *gradients) -> gradients of the inputs in mask``.

        ``holes`` marks the outputs for which no gradient arrives (their slots are left out of the arguments).
        """
        key = (mask, holes)
        plan = self._backward.get(key)
        if plan is None:
            fn = functools.partial(_pullback, self.fn, mask, holes)
            plan = self._backward[key] = Plan(
                fn, f"{self.name}_backward", f"{self.node.__name__[:-1]}Backward0"
            )
            plan.pulls = True
        return plan

    def run(self, values: Sequence[Any]) -> Any:
        """The jitted form for arrays, numbers, looks through views and what was put off."""
        looks, flat = flattened(values)
        flat = computed(flat)
        if looks is None:
            return memory.run(self.jit, flat)
        found = self._looking.get(looks)
        if found is None:
            fn = self.fn

            def look_and_run(*flat: Any) -> Any:
                return fn(*seen(looks, flat))

            look_and_run.__name__ = look_and_run.__qualname__ = self.name
            found = self._looking[looks] = jax.jit(look_and_run)
        return memory.run(found, flat)

    def run_recorded(self, mask: tuple[bool, ...], values: Sequence[Any]) -> tuple[Any, Saved | None]:
        """As `run`, and from where to take the pullback to the values in ``mask`` if not from these alone."""
        if not mask or self.keeps is None or not self.keeps(*values):
            return self.run(values), None
        looks, flat = flattened(values)
        flat = computed(flat)
        found = self._keeping.get((mask, looks))
        if found is None:
            fn = functools.partial(_forward_and_pullback, self.fn, mask)
            found = self._keeping[mask, looks] = jax.jit(lambda *flat: fn(*seen(looks, flat)))
        out, kept = memory.run(found, flat)
        source = _kept_plan(kept.tree, kept.sources, kept.outs, kept.many, len(values))
        return out, (source, [*values, *kept.arrays])

    def kinds(self, values: Sequence[Any]) -> Any:
        """Shapes and dtypes of the results for such values; they do not depend on the numbers among them."""
        key = avals_of(values)
        found = self._kinds.get(key)
        if found is None:
            avals = [_aval(v) if hasattr(v, "dtype") else v for v in values]
            with storage.x64():
                found = self._kinds[key] = jax.eval_shape(self.fn, *avals)
        return found

    def shapes(self, values: Sequence[Any]) -> Any:
        """What it gives on the meta device."""
        if self.eager:
            raise NotImplementedError(
                f"{self.name}: the shape of the result depends on values, which tensors on the meta device have not"
            )
        with storage.x64():
            return jax.eval_shape(self.fn, *[_aval(v) if hasattr(v, "dtype") else v for v in values])

    def on_host(self, values: Sequence[Any]) -> Any:
        """The result for numpy arrays and numbers, as numpy arrays; None if it must be compiled."""
        return self.hosted(_key_of(values), values)

    def hosted(self, key: tuple[Any, ...], values: Sequence[Any]) -> Any:
        """As `on_host`, for values of these shapes, dtypes and classes."""
        hosted = self._hosted
        if hosted is None:
            return None
        try:
            program = hosted[key]
        except KeyError:
            program = hosted[key] = host.function(self.fn, values) if host.enabled() else None
        if program is None:
            return None
        try:
            return _quiet(program, *values)
        except Exception:
            return host.run(program, values)

    def reads(self, mask: tuple[bool, ...], holes: tuple[bool, ...], args: Sequence[Any]) -> list[bool]:
        """Which inputs the pullback looks at, other than at their shapes. ``args`` are arrays, shapes or numbers."""
        key = (mask, holes)
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = _looks_at(self.backward(mask, holes).fn, args)[: len(mask)]
        return found

    def reached(
        self, mask: tuple[bool, ...], holes: tuple[bool, ...], args: Sequence[Any]
    ) -> tuple[bool, ...]:
        """Which of the inputs in ``mask`` get a gradient if none arrives at ``holes``.

        A pullback gives several gradients of which each depends on some of its inputs only.
        """
        if not self.pulls or True not in holes:
            return mask
        found = self._reached.get(holes)
        if found is None:
            found = self._reached[holes] = _looks_at(self.fn, args, holes)
        return tuple([m and f for m, f in zip(mask, found, strict=True)])


def _looks_at(fn: Callable[..., Any], args: Sequence[Any], holes: Sequence[bool] = ()) -> list[bool]:
    """Which arguments the results of ``fn``, but those at ``holes``, depend on, other than on their shapes."""
    avals = [_aval(a) if hasattr(a, "dtype") else a for a in args]
    with storage.x64():
        jaxpr = jax.make_jaxpr(fn)(*avals).jaxpr
    return _used(jaxpr, [not hole for hole in holes] or [True] * len(jaxpr.outvars))


def _used(jaxpr: Any, wanted: Sequence[bool]) -> list[bool]:
    """Which inputs of a jaxpr the wanted outputs depend on."""
    live = {id(v) for v, w in zip(jaxpr.outvars, wanted, strict=True) if w}
    for eqn in reversed(jaxpr.eqns):
        outs = [id(v) in live for v in eqn.outvars]
        if any(outs):
            inner = eqn.params.get("jaxpr") if eqn.primitive.name in ("jit", "pjit") else None
            needed = _used(inner.jaxpr, outs) if inner is not None else [True] * len(eqn.invars)
            live.update(id(v) for v, n in zip(eqn.invars, needed, strict=True) if n)
    return [id(v) in live for v in jaxpr.invars]


def _pullback(fn: Callable[..., Any], mask: Sequence[bool], holes: Sequence[bool], *args: Any) -> Any:
    """The vector-Jacobian product of ``fn``, in PyTorch's convention for complex numbers."""
    values, grads = args[: len(mask)], iter(args[len(mask) :])
    _, pullback = pullback_of(fn, mask, values)
    return pullback([None if hole else next(grads) for hole in holes])


class Pullback:
    """From gradients of outputs (None for zero) to those of inputs, in PyTorch's convention for complex numbers.

    Attributes:
        pull: the same as `jax.vjp` has it.
        outs: arrays or shapes and dtypes of the outputs.
        many: whether there is a tuple of them.
    """

    __slots__ = ("many", "outs", "pull")

    def __init__(self, pull: Callable[..., Any], outs: Sequence[Any], many: bool) -> None:
        self.pull, self.outs, self.many = pull, outs, many

    def __call__(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        cotangents = tuple([_cotangent(o, g) for o, g in zip(self.outs, grads, strict=True)])
        pull = config.by_our_rules(self.pull)
        return tuple([_conj(g) for g in pull(cotangents if self.many else cotangents[0])])


def pullback_of(fn: Callable[..., Any], mask: Sequence[bool], values: Sequence[Any]) -> tuple[Any, Pullback]:
    """The result of ``fn``, and the pullback to the values in ``mask``."""
    masked = _of_masked(fn, mask, values)
    out, pull = jax.vjp(masked, *[v for v, m in zip(values, mask, strict=True) if m])
    many = isinstance(out, tuple)
    return out, Pullback(pull, out if many else (out,), many)


#: a plan whose `backward` is that of a node, and what it is to be given
Saved = tuple[Any, Sequence[Any]]


@jax.tree_util.register_dataclass
@dataclass
class _Kept:
    """A pullback as its forward pass leaves it.

    Attributes:
        arrays: what it needs besides the inputs.
        tree: of the pullback, whose leaves are inputs and ``arrays``.
        sources: for each leaf the number of an input, or -1 for the next of ``arrays``.
        outs: shapes and dtypes of the outputs.
        many: whether there are several outputs.
    """

    arrays: list[Any]
    tree: Any = field(metadata={"static": True})
    sources: tuple[int, ...] = field(metadata={"static": True})
    outs: tuple[jax.ShapeDtypeStruct, ...] = field(metadata={"static": True})
    many: bool = field(metadata={"static": True})


def _forward_and_pullback(fn: Callable[..., Any], mask: Sequence[bool], *values: Any) -> tuple[Any, _Kept]:
    out, pullback = pullback_of(fn, mask, values)
    leaves, tree = jax.tree.flatten(pullback.pull)
    number = {id(v): k for k, v in enumerate(values)}
    sources = tuple([number.get(id(leaf), -1) for leaf in leaves])
    arrays = [leaf for leaf, source in zip(leaves, sources, strict=True) if source < 0]
    outs = tuple([_aval(o) for o in pullback.outs])
    return out, _Kept(arrays, tree, sources, outs, pullback.many)


class KeptPlan:
    """What has the pullbacks of a recorded operation whose forward pass keeps what they need.

    As of a `Plan`, `backward` is a plan of saved values and gradients. The saved values are the inputs and what was
    kept. The first arguments are those of `_Kept`; ``inputs`` is how many there are.
    """

    def __init__(
        self,
        tree: Any,
        sources: tuple[int, ...],
        outs: tuple[jax.ShapeDtypeStruct, ...],
        many: bool,
        inputs: int,
    ) -> None:
        self.tree, self.sources, self.outs, self.many, self.inputs = tree, sources, outs, many, inputs
        self._backward: dict[tuple[bool, ...], Plan] = {}

    def backward(self, mask: tuple[bool, ...], holes: tuple[bool, ...]) -> Plan:
        """The plan for gradients of all outputs but ``holes``; ``mask`` is that of the forward pass."""
        plan = self._backward.get(holes)
        if plan is None:
            fn = functools.partial(self._pull, holes)
            plan = self._backward[holes] = Plan(fn, "kept_backward", "KeptBackward0")
        return plan

    def reached(
        self, mask: tuple[bool, ...], holes: tuple[bool, ...], args: Sequence[Any]
    ) -> tuple[bool, ...]:
        """As of a `Plan`: no pullback keeps anything."""
        return mask

    def _pull(self, holes: tuple[bool, ...], *args: Any) -> Any:
        count = self.inputs + self.sources.count(-1)
        kept, grads = iter(args[self.inputs : count]), iter(args[count:])
        pull = jax.tree.unflatten(self.tree, [next(kept) if s < 0 else args[s] for s in self.sources])
        return Pullback(pull, self.outs, self.many)([None if hole else next(grads) for hole in holes])


_kept_plan = functools.cache(KeptPlan)


def _of_masked(fn: Callable[..., Any], mask: Sequence[bool], values: Sequence[Any]) -> Callable[..., Any]:
    """``fn`` as a function of the masked arguments alone."""

    def masked(*diff: Any) -> Any:
        it = iter(diff)
        out = fn(*[next(it) if m else v for v, m in zip(values, mask, strict=True)])
        return tuple(out) if isinstance(out, list) else out

    return masked


def _cotangent(out: Any, grad: Any) -> Any:
    if not jax.numpy.issubdtype(out.dtype, np.inexact):
        return np.zeros(out.shape, jax.dtypes.float0)
    if grad is None:
        return jax.numpy.zeros(out.shape, out.dtype)
    return _conj(grad if grad.dtype == out.dtype else grad.astype(out.dtype))


def _conj(x: Any) -> Any:
    return x.conj() if jax.numpy.issubdtype(x.dtype, np.complexfloating) else x


class OpNode(Node):
    """The node of a registered op: keeps the inputs, or (in a trace) the pullback itself."""

    __slots__ = ("_avals", "call", "kept", "mask", "plan", "pull", "saved", "values")

    def __init__(
        self, plan: Plan, mask: tuple[bool, ...], edges: tuple[Edge, ...], values: Any, outputs: int
    ) -> None:
        # Node.__init__ written out: one of these is made for every recorded operation
        self.edges = edges
        self.outputs = outputs
        self.seq = next(_sequence)
        self.extras = None
        self.plan = plan
        self.mask = mask
        self.values = values
        self.pull: Pullback | None = None
        #: the plan to take the pullback from, and the saved values, where these are more than the inputs
        self.kept: Saved | None = None
        #: the operation itself, if it was put off
        self.call: Call | None = None
        self.saved: Sequence[saved.Saved] = ()
        self._avals: Any = None

    def _part(self) -> None:
        """Put the operations that PyTorch records in place of this one: somebody looks at them."""
        plan, freed = self.plan, self.freed
        if plan.parts is None or storage.overlay:
            return
        values = self.values
        if freed:
            with storage.x64():
                values = [jax.numpy.zeros(*v) if type(v) is tuple else v for v in self._avals]
        values = _computed(values)
        inputs = [
            wrap(v) if edge is None else _with_history(v, edge)
            for v, edge in zip(values, self.edges, strict=True)
        ]
        with grad_mode.enable_grad():
            last = plan.parts(**plan.named(inputs)).grad_fn
        self.plan, self.mask, self.edges, self.values = last.plan, last.mask, last.edges, last.values
        self.kept, self.call = last.kept, last.call
        inner = [edge[0] for edge in self.edges if edge is not None]
        for node in inner:
            node.seq = self.seq - 1  # younger than what it came from, older than what is made of it
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
            listed.append((None, 0) if edge is None else (_TransposeNode(edge), 0) if transposed else edge)
        return tuple(listed)

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        holes = tuple([g is None for g in grads])
        if self.pull is not None:
            if self.saved:
                saved.check(self)
            mask = self.plan.reached(self.mask, holes, self.values)
            with _x64(_X64):
                found = self._spread(self.pull(grads), self.mask)
            return [g if m else None for g, m in zip(found, mask, strict=True)]
        if self.values is None:
            self._revive(grads)
        source, values = self.pullback()
        mask = self.plan.reached(self.mask, holes, values)
        if True not in mask:
            return [None] * len(mask)
        plan = source.backward(mask, holes)
        args = [*values, *(g for g in grads if g is not None)]
        if storage.overlay:
            with storage.outside():
                args = _computed(args)
            return self._spread(plan.fn(*args), mask)
        if all_on_host(args):
            found = plan.on_host(args)
            if found is not None:
                return self._spread(found, mask)
        if _Shape in map(type, args):
            return self._spread(plan.shapes(args), mask)
        with _x64(_X64):
            return self._spread(plan.run(args), mask)

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        if self.values is None:
            self._revive(grads)
        if self.saved:
            saved.check(self)
        holes, given = tuple(g is None for g in grads), [g for g in grads if g is not None]
        values: Sequence[Any]
        if self.extras is None or not self.extras.packed:
            values = self.values = _computed(self.values)
        else:
            values = _computed(self._unpacked())
        mask = self.plan.reached(self.mask, holes, values)
        if True not in mask:
            return [None] * len(mask)
        plan = self.plan.backward(mask, holes)
        reads = self.plan.reads(mask, holes, [*values, *(g._look() for g in given)])
        inputs = []
        for value, edge, read in zip(values, self.edges, reads, strict=True):
            history = edge is not None and read  # what is not read has no second derivative
            inputs.append(
                _with_history(value, edge) if history else wrap(value) if hasattr(value, "dtype") else value
            )
        return self._spread(run(plan, [*inputs, *given]), mask)

    @staticmethod
    def _spread(grads: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
        it = iter(grads)
        return [next(it) if m else None for m in mask]

    def release(self) -> None:
        if self.values is not None:
            self.note_avals()
            if self.extras is not None:
                self.extras.packed = None
            self.values = self.pull = self.kept = self.call = None
            self.saved = ()

    def note_avals(self) -> None:
        """Remember the shapes and dtypes of the inputs, as some are let go of."""
        if self._avals is None:
            kinds = [getattr(v, "aval", v) for v in self.values]
            self._avals = [(k.shape, k.dtype) if hasattr(k, "dtype") else k for k in kinds]

    def _unpacked(self) -> Sequence[Any]:
        from ..autograd import packing

        return packing.unpacked(self)

    def __dir__(self) -> list[str]:
        from ..autograd import packing

        shown = {f"_saved_{name}" for name in packing.names(self)}
        return [n for n in super().__dir__() if not n.startswith(("_saved_", "_raw_saved_")) or n in shown]

    @property
    def freed(self) -> bool:
        return self.values is None

    def _revive(self, grads: Sequence[Any]) -> None:
        """A freed node may run again if its pullback needs shapes only, as PyTorch's nodes that save nothing."""
        holes = tuple(g is None for g in grads)
        avals = [jax.ShapeDtypeStruct(*v) if type(v) is tuple else v for v in self._avals]
        reads = self.plan.reads(self.mask, holes, [*avals, *(_array(g) for g in grads if g is not None)])
        kept = self.plan.tensors
        if any(
            r and (type(v) is tuple or kept is None or i in kept)
            for i, (r, v) in enumerate(zip(reads, self._avals, strict=True))
        ):
            raise RuntimeError(FREED)
        with storage.x64():
            self.values = tuple(jax.numpy.zeros(*v) if type(v) is tuple else v for v in self._avals)

    def pullback(self) -> tuple[Any, Any] | None:
        if self.pull is not None or self.values is None:
            return None
        if self.saved:
            saved.check(self)
        if self.extras is not None and self.extras.packed:
            return self.plan, self._unpacked()
        kept = self.kept if self.call is None else self.call.kept
        return kept or (self.plan, self.values)

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


def _show_saved(node: type[OpNode], arguments: Iterable[str]) -> None:
    """Give a class of nodes what PyTorch's has as ``_saved_NAME`` (a `__getattr__` would slow every attribute down)."""
    for argument in (*arguments, "result", "result0", "result1", "result2"):
        name = saved.shown_as(argument)
        for attribute in (f"_saved_{name}", f"_raw_saved_{name}"):
            if attribute not in vars(node):
                setattr(node, attribute, property(functools.partial(_saved_of, attribute)))


def _saved_of(attribute: str, node: OpNode) -> Any:
    from ..autograd import packing

    return packing.look(node, attribute)


def _array(x: Any) -> Any:
    return x._look() if isinstance(x, Tensor) else x


def _computed(values: Sequence[Any]) -> list[Any]:
    """The values with arrays in place of looks through views and what was put off."""
    return [v.array() if type(v) in _NO_ARRAYS else v for v in values]


_NO_ARRAYS = frozenset({Look, Deferred})
_Shape = jax.ShapeDtypeStruct


def all_on_host(values: Sequence[Any]) -> bool:
    """Whether these are numpy arrays and numbers only."""
    return _PLAIN.issuperset(map(type, values))


def _aval(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _with_history(value: Any, edge: Edge) -> Tensor:
    """A Tensor that holds a saved value and continues the graph where the original input stood."""
    tensor = wrap(value)
    tensor._requires_grad = True
    tensor._grad_fn, tensor._output_nr = edge  # type: ignore[misc]
    return tensor


class _TransposeNode(Node):
    """PyTorch's ``TBackward0`` between `linear` and its weight, which the fused op does not need."""

    __slots__ = ()

    def __init__(self, edge: Edge) -> None:
        super().__init__((edge,))

    def name(self) -> str:
        return "TBackward0"


_TransposeNode.__name__ = "TBackward0"


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


def run(plan: Plan, dyn: Sequence[Any]) -> Any:
    """Run a plan on Tensors and numbers; returns a Tensor, or a tuple of them."""
    if storage.overlay:
        return _run_traced(plan, dyn)
    values: list[Any] = []
    key: list[Any] = []
    recorded = False
    for a in dyn:
        if isinstance(a, Tensor):
            cell = a._storage
            found = cell.host
            if found is None or (cell.__class__ is not HostStorage and cell.on_host() is None):
                break
            if a._view is not None:
                if a._base is not None and _grad.enabled and plan.differentiable:
                    a._sync_view()
                found = a._view.host(found)
                if found is None:
                    break
            values.append(found)
            key.append(found.shape)
            key.append(found.dtype)
            if a._requires_grad:
                recorded = True
        else:
            if a.__class__ is int and not _LEAST <= a <= _MOST:
                fits.fits(a, dtypes.int64.np)
            values.append(a)
            key.append(type(a))
    else:
        if plan.check is not None:
            plan.check(*values)
        out = plan.hosted(tuple(key), values)
        if out is not None:
            if recorded and _grad.enabled and plan.differentiable:
                return _record(plan, dyn, values, out)
            if type(out) is tuple:
                outs = [wrap(o) for o in out]
                return plan.returns(*outs) if plan.returns is not None else tuple(outs)
            return wrap(out)
    values = []
    recorded, plain, meta = False, True, False
    for a in dyn:
        if not isinstance(a, Tensor):
            values.append(a)
            continue
        view = a._view
        cell = a._storage
        if view is None and cell.__class__ is not DeferredStorage:
            value = cell._value
        elif view is None:
            plain = False
            value = cell.peek()
        else:
            plain = False
            if a._base is not None and _grad.enabled and plan.differentiable:
                a._sync_view()
            value = view.look(cell)
        values.append(value)
        if value.__class__ is _Shape:
            meta = True
        if a._requires_grad:
            recorded = True
    if plan.eager:
        values = _computed(values)
    if plan.check is not None:
        plan.check(*values)
    recorded = recorded and _grad.enabled and plan.differentiable
    kept = call = None
    noted = scope.calls
    waits = not anomaly.enabled if recorded else noted is not None
    try:
        if meta:
            out = plan.shapes(values)
        elif waits and plan.defers and may_wait(values):
            call = Call(plan, values)
            out = call.outputs(plan.kinds(values))
            if not recorded and noted is not None:
                noted.append(call)
                call.number = next(_sequence)
        elif not recorded:
            with _x64(_X64):
                out = memory.run(plan.jit, values) if plain else plan.run(values)
        else:
            mask: tuple[bool, ...] = ()
            if plan.keeps is not None:
                mask = tuple([isinstance(a, Tensor) and edge_of(a) is not None for a in dyn])
            with _x64(_X64):
                out, kept = plan.run_recorded(mask, values)
    except (TypeError, ValueError, OverflowError) as error:
        out = _run_elsewhere(plan, values, error)
    if recorded:
        return _record(plan, dyn, values, out, kept, call)
    if type(out) is tuple or type(out) is list:
        outs = [wrap(o) for o in out]
        return plan.returns(*outs) if plan.returns is not None else tuple(outs)
    return wrap(out)


def _look_later(plan: Plan, dyn: Sequence[Any]) -> Tensor | None:
    """A view that is not computed until somebody needs it; None if it is made the usual way."""
    source, *extra = dyn
    cell, view = source._storage, source._view
    if storage.overlay or cell.__class__ is HostStorage or plan.name in REINTERPRET:
        return None
    if not _NUMBERS.issuperset(map(type, extra)):
        return None
    base = cell.peek()
    if base.__class__ is not Deferred and (
        not isinstance(base, jax.Array) or cell.on_host() is not None or plan.eager
    ):
        return None
    if view is not None and source._base is not None and _grad.enabled and plan.differentiable:
        source._sync_view()
    inner = base if view is None else view.peek(cell)
    if plan.check is not None:
        plan.check(inner, *extra)
    values = [inner, *extra]
    made = plan.kinds(values)
    if source._requires_grad and _grad.enabled and plan.differentiable:
        tensor = _record(plan, dyn, values, made)
    else:
        tensor = wrap(made)
    kind = _aval(base)
    _attach_view(tensor, source, View(view, plan, tuple(extra), kind, made, _grad.enabled))
    return tensor


def _run_elsewhere(plan: Plan, values: Sequence[Any], error: Exception) -> Any:
    """The errors for tensors on different devices and for integers of more than 64 bits."""
    for value in values:
        if type(value) is int:
            fits.fits(value, dtypes.int64.np)
    if "incompatible devices" in str(error):
        places = list(dict.fromkeys(str(wrap(v).device) for v in values if isinstance(v, jax.Array)))
        found = f"{places[0]} and {places[-1]}"
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {found}!"
        ) from None
    raise error


def _record(
    plan: Plan,
    dyn: Sequence[Any],
    values: Sequence[Any],
    out: Any,
    kept: Saved | None = None,
    call: Call | None = None,
) -> Any:
    edges: list[Edge] = []
    mask = []
    for a in dyn:
        if isinstance(a, Tensor) and a._requires_grad:
            made_by = a._grad_fn
            edge = edge_of(a) if made_by is None else (made_by, a._output_nr)
            edges.append(edge)
            mask.append(edge is not None)
        else:
            edges.append(None)
            mask.append(False)
    many = type(out) is tuple or type(out) is list
    node = plan.node(plan, tuple(mask), tuple(edges), values, len(out) if many else 1)
    node.kept = kept
    if call is not None:
        call.mask, call.number = node.mask, node.seq
        node.call = call
    if many or anomaly.enabled:
        return _outputs(plan, node, out, many, dyn)
    tensor = wrap(out)
    if plan.saves is not None:
        _note_saved(plan, node, dyn, (tensor,))
    if _has_gradient[out.dtype]:
        tensor._requires_grad = True
        tensor._grad_fn = node
    return tensor


class _HasGradient(dict):
    """Whether tensors of a dtype can require grad, by numpy dtype."""

    def __missing__(self, np_dtype: Any) -> bool:
        kind = dtypes.from_np(np_dtype)
        found = self[np_dtype] = kind.is_floating_point or kind.is_complex
        return found


_has_gradient = _HasGradient()


def _note_saved(plan: Plan, node: OpNode, dyn: Sequence[Any], outs: Sequence[Tensor]) -> None:
    """Have a node note what PyTorch saves for it."""
    where = plan.saves.get(node.mask)  # type: ignore[union-attr]
    if where is None:
        where = plan.saves[node.mask] = saved.positions(plan.name, plan.slots, node.mask)  # type: ignore[index]
    if not where:
        return
    if saved.state.plain:
        saved.note(node, where, dyn, outs)
    elif saved.state.hooks:
        from ..autograd import packing

        packing.pack_all(node, where, dyn, outs)
    else:
        saved.state.allowed.note(node, where, dyn, outs)


def _outputs(plan: Plan, node: Node, out: Any, many: bool, dyn: Sequence[Any] | None = None) -> Any:
    if anomaly.enabled:
        anomaly.record(node)
    outs = []
    for number, value in enumerate(out if many else (out,)):
        tensor = wrap(value)
        if _has_gradient[value.dtype]:
            tensor._requires_grad = True
            tensor._grad_fn = node
            tensor._output_nr = number
        outs.append(tensor)
    if dyn is not None and plan.saves is not None:
        _note_saved(plan, cast(OpNode, node), dyn, outs)
    if not many:
        return outs[0]
    return plan.returns(*outs) if plan.returns is not None else tuple(outs)


def _run_traced(plan: Plan, dyn: Sequence[Any]) -> Any:
    """Inside a trace: plain JAX; a recorded op takes its `jax.vjp` at once, so that nothing is computed twice."""
    if storage.overlay.transforms:
        return storage.overlay.run_op(plan, dyn)
    if plan.eager:
        raise RuntimeError(storage.overlay.data_dependent(plan.name, plan.eager))
    values, recorded = [], False
    for a in dyn:
        if isinstance(a, Tensor):
            if a._base is not None and _grad.enabled and plan.differentiable:
                a._sync_view()
            values.append(a._value)
            recorded = recorded or a._requires_grad
        else:
            values.append(a.array if isinstance(a, SymNumber) else a)
    storage.overlay.note_inputs(dyn)
    if plan.check is not None:
        plan.check(*values)
    if not (recorded and _grad.enabled and plan.differentiable):
        out = plan.fn(*values)
        if type(out) is tuple or type(out) is list:
            outs = [wrap(o) for o in out]
            return plan.returns(*outs) if plan.returns is not None else tuple(outs)
        return wrap(out)
    edges = tuple([edge_of(a) if isinstance(a, Tensor) else None for a in dyn])
    storage.overlay.note_edges(dyn, edges)
    mask = tuple(e is not None for e in edges)
    # what has no history here (`detach`, `no_grad`) has none for a second derivative either, which is JAX's
    values = [v if m else _stopped(v) for v, m in zip(values, mask, strict=True)]
    out, pull = pullback_of(plan.fn, mask, values)
    node = plan.node(plan, mask, edges, tuple(values), len(out) if pull.many else 1)
    node.pull = pull
    return _outputs(plan, node, out, pull.many, dyn)


def _stopped(value: Any) -> Any:
    return (
        lax.stop_gradient(value)
        if isinstance(value, jax.core.Tracer) and _has_gradient[value.dtype]
        else value
    )


class Op:
    """A registered operation as a function of Tensors."""

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.kinds = spec.kinds[: spec.positional]
        self.positional = spec.positional
        self.kind_of = spec.kind_of
        self.plans: dict[Any, Plan] = {}
        #: by what the arguments of a call are, if small tensors: the program on the host, the plan of a view, and the
        #: `form_of` the result
        self.small: dict[Any, tuple[Callable[..., Any], Any, int]] = {}
        config.remembered.append(self.small)
        self.__name__ = spec.name
        self.__doc__ = spec.fn.__doc__
        space = spec.where[0] if spec.where else ""
        #: what error texts call it
        self.label = f"{space}_{spec.name}" if space in ("fft", "linalg", "special") else spec.name
        self.__wrapped__ = spec.fn
        self.call = caller(self)

    @functools.cached_property
    def arrays(self) -> tuple[str, ...]:
        return tuple(n for n, kind in zip(self.spec.params, self.spec.kinds, strict=True) if kind is ARRAY)

    @functools.cached_property
    def overloaded(self) -> bool:
        """Whether a number is refused in the first place because others may be numbers: several signatures."""
        spec = self.spec
        return any(n not in spec.strict and n not in spec.defaults for n in self.arrays[1:])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def run(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        known: list[Any] | None = None,
        values: Sequence[Any] = (),
    ) -> Any:
        """A call with these arguments; ``known`` and ``values`` are what `_note` found if they are small tensors."""
        spec = self.spec
        out = kwargs.pop("out", None) if kwargs else None
        if watch.on:
            args, kwargs = autocast.cast_inputs(spec.name, args, kwargs)
            if watch.state.profile is not None:
                return watch.state.profile.run_op(
                    self, args, kwargs if out is None else {**kwargs, "out": out}
                )
            if watch.state.level is not None:
                from . import duals

                return duals.run_op(self, args, kwargs, out)
        sig: list[Any] = [dtypes._default, config.key]
        dyn: list[Any] = []
        try:
            if len(args) > self.positional:
                raise TypeError
            for a, kind in zip(args, self.kinds):
                _scan(a, kind, sig, dyn)
            for name, a in kwargs.items():
                sig.append(name)
                _scan(a, self.kind_of[name], sig, dyn)
            plan = self.plans.get(tuple(sig))
        except (TypeError, KeyError):
            plan = None
        if plan is None:
            plan, dyn = self._bind(args, kwargs)
        try:
            result = _look_later(plan, dyn) if spec.view else None
            if result is None:
                result = run(plan, dyn)
        except SparseOperand:
            from . import sparse

            return sparse.run(spec.name, args, kwargs)
        except BaseException as error:
            inside.repair()
            new = errors.told(error, spec.name, args, kwargs)
            if new is error:
                raise
            raise new from error
        if spec.view and type(result) is Tensor and result._view is None:
            value, base = result._storage.look(), dyn[0]._storage.host
            if value.__class__ not in HOST:
                base = dyn[0]._storage.value
            extra = tuple(map(storage.as_array, dyn[1:]))
            _attach_view(result, dyn[0], View(dyn[0]._view, plan, extra, base, value, _grad.enabled))
        if spec.order is not None:
            for a in dyn:
                if isinstance(a, Tensor) and a._view is not None:
                    result = _laid(spec.order, dyn, result)
                    break
        if spec.after is not None and (kwargs or dyn[0]._view is not None):
            return spec.after(result, *args, **kwargs)
        if known is not None and type(result) is Tensor and (args or not spec.view):
            self._remember(known, plan, values, kwargs, form_of(result._look()))
        return result if out is None else write_out(out, result, spec.name, dyn)

    def _remember(
        self, signature: list[Any], plan: Plan, values: Sequence[Any], kwargs: dict[str, Any], made: int
    ) -> None:
        """Note how calls like one on small values are computed, if that is by a program on the host.

        ``made`` is the `form_of` the result.
        """
        if not self._in_order(kwargs):
            return
        program = (plan._hosted or {}).get(_key_of(values))
        if program is not None and not any(isinstance(k, Tensor) for k in signature):
            needed = self.spec.view or plan.check is not None
            self.small[tuple(signature)] = program, plan if needed else None, made

    def _in_order(self, kwargs: dict[str, Any]) -> bool:
        """Whether these keyword arguments come in the order in which a program has them."""
        places = [self.spec.params.index(name) for name in kwargs]
        return places == sorted(places)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """What a call with these arguments would run."""
        return self._bind(args, kwargs)[0]

    # The slow way: once per new signature, and for calls that need their arguments put in order.

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Plan, list[Any]]:
        bound = self._arguments(args, kwargs)
        if self.overloaded and self.spec.where and not self.spec.numbers:
            self._check_some_tensor(bound, args, kwargs)
        sig: list[Any] = [dtypes._default, config.key, None]
        dyn: list[Any] = []
        slots: dict[str, Any] = {}
        for name, value in bound.items():
            kind = self.kind_of[name]
            sig.append(name)
            if kind is STATIC:
                value = bound[name] = _static(value)
            if name in self.spec.strict or name in self.spec.types:
                self._check_type(name, value, len(args))
            start = len(dyn)
            _scan(value, kind, sig, dyn, self._wrong_type(name, value))
            if kind is ARRAYS:
                slots[name] = _slots(value, start)
            elif len(dyn) > start:
                slots[name] = start
        try:
            plan = self.plans.get(tuple(sig))
        except TypeError as error:
            raise TypeError(f"{self.label}(): {error}") from None
        if plan is None:
            static = {n: v for n, v in bound.items() if n not in slots}
            plan = self.plans[tuple(sig)] = self._plan(slots, static, len(dyn))
        first: list[Any] = [dtypes._default, config.key]
        scanned: list[Any] = []
        try:  # also under the spelling of this call, for the fast path
            for a, kind in zip(args, self.kinds, strict=False):
                _scan(a, kind, first, scanned)
            for name, a in kwargs.items():
                first.append(name)
                _scan(a, self.kind_of[name], first, scanned)
            same = [id(a) for a in scanned] == [id(a) for a in dyn]
            if len(args) <= len(self.kinds) and same and self._in_order(kwargs):
                self.plans[tuple(first)] = plan
        except (TypeError, KeyError):
            pass
        return plan, dyn

    def _plan(self, slots: dict[str, Any], static: dict[str, Any], count: int) -> Plan:
        fn, spec = self.spec.fn, self.spec

        def pure(*values: Any) -> Any:
            return fn(**{n: _fill(s, values) for n, s in slots.items()}, **static)

        pure.__name__ = pure.__qualname__ = spec.name
        node = spec.node if isinstance(spec.node, str) else spec.node(static)
        plan = Plan(pure, spec.name, node, spec)
        _show_saved(plan.node, spec.params)
        plan.named = lambda values: {**{n: _fill(s, values) for n, s in slots.items()}, **static}
        plan.saves, plan.slots = {} if spec.name in saved.RULES else None, slots
        plan.tensors = frozenset(s for n, s in slots.items() if self.kind_of[n] is ARRAY)
        checks: list[Callable[..., None]] = []
        if spec.check is not None:
            check = spec.check
            checks.append(lambda *values: check(**{n: _fill(s, values) for n, s in slots.items()}, **static))
        arrays = [s for n, s in slots.items() if self.kind_of[n] is ARRAY]
        for name in spec.fits.keys() & slots.keys():
            checks.append(_fitting(spec.fits[name], slots[name], arrays))
        plan.check = checks[0] if len(checks) == 1 else _all_of(checks) if checks else None
        if spec.edges is not None:
            named = [(e[2:-1], True) if e.startswith("t(") else (e, False) for e in spec.edges]
            plan.edge_order = tuple((slots[n], t) for n, t in named if n in slots)
        elif spec.view:
            plan.edge_order = ((0, False),)
        return plan

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        spec = self.spec
        bound: dict[str, Any] = {}
        params = spec.params[: spec.positional]
        if spec.varargs is not None:
            at = params.index(spec.varargs)
            rest = args[at:]
            if len(rest) > 1 or (
                len(rest) == 1 and not isinstance(rest[0], list | tuple) and rest[0] is not None
            ):
                args = (*args[:at], tuple(rest))
        if (
            spec.legacy is not None
            and len(args) == len(params) + 1
            and isinstance(args[1], int | float | SymNumber)
        ):
            args, kwargs = (args[0], *args[2:]), {**kwargs, spec.legacy: args[1]}
        if len(args) > len(params):
            raise TypeError(
                f"{self.label}() takes {len(params)} positional argument{'s' * (len(params) != 1)} but "
                f"{len(args)} were given"
            )
        bound.update(zip(params, args, strict=False))
        for name, value in kwargs.items():
            target = name if name in self.kind_of else _ALIASES.get(name, name)
            if target not in self.kind_of:
                raise TypeError(f"{self.label}() got an unexpected keyword argument '{name}'")
            if target in bound:
                raise TypeError(f"{self.label}() got multiple values for argument '{name}'")
            bound[target] = value
        missing = [n for n in spec.params if n not in bound and n not in spec.defaults]
        if missing:
            listed = ", ".join(f'"{n}"' for n in missing)
            raise TypeError(f"{self.label}() missing {len(missing)} required positional arguments: {listed}")
        return {n: bound[n] for n in spec.params if n in bound}

    def _check_some_tensor(
        self, bound: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """PyTorch's refusal of numbers alone, and of a number in the place of the tensor to work on."""
        tensors = [n for n in self.arrays if isinstance(bound.get(n), Tensor | jax.Array)]
        first = bound[self.arrays[0]]
        if not tensors or (self.arrays[0] in self.spec.strict and isinstance(first, int | float | complex)):
            given = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
            raise TypeError(
                f"{self.label}() received an invalid combination of arguments - got ({', '.join(given)})"
            )

    def _wrong_type(self, name: str, value: Any, wanted: str = "Tensor", positional: bool = True) -> str:
        place = f" (position {self.spec.params.index(name) + 1})" if positional else ""
        return f"{self.label}(): argument '{name}'{place} must be {wanted}, not {type(value).__name__}"

    def _check_type(self, name: str, value: Any, positional: int) -> None:
        """PyTorch's refusal of an argument of the wrong type; seen once per new signature."""
        index = self.spec.params.index(name)
        if name in self.spec.types:
            types, wanted = self.spec.types[name]
            inside = value if isinstance(value, tuple) and tuple in types else ()
            if not isinstance(value, types) or not all(isinstance(v, int) for v in inside):
                raise TypeError(self._wrong_type(name, value, wanted, index < positional))
        elif self.kind_of[name] is ARRAYS:
            if not isinstance(value, list | tuple):
                raise TypeError(self._wrong_type(name, value, "tuple of Tensors"))
            for i, item in enumerate(value):
                if not isinstance(item, Tensor | jax.Array):
                    kind = type(item).__name__
                    raise TypeError(f"expected Tensor as element {i} in argument {index}, but got {kind}")
        elif not isinstance(value, Tensor | jax.Array) and (
            value is not None or name not in self.spec.defaults
        ):
            raise TypeError(self._wrong_type(name, value))


def caller(op: Op, name: str = "", module: str = "") -> FunctionType:
    """An operation as a plain function, which Python calls faster than an object.

    With a ``name`` it is a public one: arguments that it refuses may override it.
    """
    spec, kinds, kind_of, small = op.spec, op.kinds, op.kind_of, op.small
    positional, is_view = op.positional, op.spec.view

    def call(*args: Any, **kwargs: Any) -> Any:
        known: list[Any] = []
        values: list[Any] = []
        try:
            if (
                not storage.overlay
                and not watch.on
                and len(args) <= positional
                and _note(args, kinds, known, values)
                and not (kwargs and not _note_named(kwargs, kind_of, known, values))
            ):
                # Most calls are like one that came before: on small tensors without a gradient, with the same settings.
                try:
                    program, plan, made = small[tuple(known)]
                except KeyError:
                    return op.run(args, kwargs, known, values)
                except TypeError:  # a list in a list
                    return op.run(args, kwargs)
                if plan is not None and plan.check is not None:
                    plan.check(*values)
                try:
                    value = _quiet(program, *values)
                except Exception:  # the usual way says it in its own words
                    return op.run(args, kwargs)
                result = wrap_small(value, made)
                if is_view:
                    view = View(None, plan, tuple(values[1:]), values[0], value, _grad.enabled)
                    _attach_view(result, args[0], view)
                return result
            return op.run(args, kwargs)
        except Exception:
            if not (name and noticed(args, kwargs)):
                raise
        return call(*args, **kwargs)  # it has other code now

    call.__name__ = call.__qualname__ = name or op.__name__
    call.__module__ = module or __name__
    call.__doc__ = op.__doc__
    call.__wrapped__ = spec.fn  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def _note(args: Iterable[Any], kinds: Iterable[str], known: list[Any], values: list[Any]) -> bool:
    """Add arguments to what a call is known by, if they are small tensors without a gradient, or none at all."""
    for a, kind in zip(args, kinds):
        cls = type(a)
        if kind is STATIC:
            known.append(cls)
            known.append(tuple(a) if cls is list else a)
        elif cls is Tensor:
            cell = a._storage
            if a._view is not None or (a._requires_grad and _grad.enabled):
                return False
            if cell.__class__ is HostStorage:
                value, form = cell.host, cell.form  # at once: another thread may write
                if form is None:
                    form = cell.form = form_of(value)
            elif cell.__class__ is SharedStorage and (value := cell.host) is not None:
                form = form_of(value)
            else:
                return False
            values.append(value)
            known.append(form)
        elif cls in _COUNTS:
            if cls is int and not _LEAST <= a <= _MOST:
                return False
            known.append(cls)
            values.append(a)
        elif a is None or cls is bool:
            known.append(a)
        elif kind is ARRAYS and (cls is list or cls is tuple):
            known.append(len(a))
            if not _note(a, _ARRAYS, known, values):
                return False
        else:
            return False
    return True


def _note_named(kwargs: dict[str, Any], kind_of: dict[str, str], known: list[Any], values: list[Any]) -> bool:
    """As `_note` for keyword arguments."""
    known.append(tuple(kwargs))
    try:
        kinds = [kind_of[name] for name in kwargs]
    except KeyError:
        return False
    return _note(kwargs.values(), kinds, known, values)


_SYMBOLIC = (SymNumber, tuple)


def _scan(a: Any, kind: str, sig: list[Any], dyn: list[Any], wrong: str = "") -> None:
    """Add one argument to the signature and, if it is dynamic, to the flat list."""
    if kind is STATIC:
        if type(a) is list:
            a = tuple(a)
        if storage.overlay and type(a) in _SYMBOLIC:
            a = _static(a)  # the signature outlives the trace
        sig.append(type(a))
        sig.append(a)
    elif isinstance(a, Tensor):
        sig.append(_T)
        dyn.append(a)
    elif a is None:
        sig.append(None)
    elif type(a) is bool and kind is not ARRAYS:
        sig.append(bool)
        sig.append(a)  # static: JAX has no weakly typed bools, so a traced one would count as a 0-dim tensor
    elif type(a) in _NUMBERS:
        sig.append(type(a))
        dyn.append(a)
    elif kind is ARRAYS and isinstance(a, list | tuple):
        sig.append(_OPEN)
        for item in a:
            _scan(item, ARRAYS, sig, dyn, wrong)
        sig.append(_CLOSE)
    elif isinstance(a, SymNumber):
        sig.append(a.value.__class__)
        dyn.append(a)
    elif isinstance(a, np.generic):
        _scan(a.item(), kind, sig, dyn, wrong)
    elif isinstance(a, jax.Array):
        sig.append(_T)
        dyn.append(wrap(a))
    elif kind is SCALAR and isinstance(a, int | float | complex):
        sig.append(type(a))
        dyn.append(a)
    else:
        raise TypeError(wrong)


def _key_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """What a program on the host depends on."""
    key: list[Any] = []
    for v in values:
        if type(v) in _NUMBERS:
            key.append(type(v))
        else:
            key += (v.shape, v.dtype)
    return tuple(key)


def _slots(value: Any, start: int) -> Any:
    if value is None:
        return None
    slots, at = [], start
    for item in value:
        slots.append(None if item is None else at)
        at += item is not None
    return tuple(slots)


def _fill(slot: Any, values: Sequence[Any]) -> Any:
    if slot is None:
        return None
    return tuple(_fill(s, values) for s in slot) if isinstance(slot, tuple) else values[slot]


def _fitting(how: fits.How, slot: int, arrays: Sequence[int]) -> Callable[..., None]:
    """The check that the number in a slot fits beside arrays, or numbers in their places."""
    first = arrays[0]
    if not how.common:
        return lambda *values: fits.check(how, values[slot], values[first])

    def check(*values: Any) -> None:
        value = values[slot]
        # most are small, which every dtype holds, but that an unsigned one holds no negative fraction
        if type(value) in _REALS and -128 < value < 128:
            if value >= 0 or getattr(values[first], "dtype", None) is _FLOAT32:
                return
        fits.check(how, value, *[values[s] for s in arrays])

    return check


def _all_of(checks: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def check(*values: Any) -> None:
        for one in checks:
            one(*values)

    return check


def _laid(order: Callable[..., Any], inputs: Sequence[Any], result: Any) -> Any:
    """The result of an operation, which lies in memory in the order that its inputs bring about."""
    if isinstance(result, tuple):
        new = [_laid(order, inputs, part) for part in result]
        return type(result)(*new) if hasattr(result, "_fields") else tuple(new)
    if type(result) is not Tensor:
        return result
    shape = result._aval().shape
    if len(shape) < 2:
        return result
    return laid(result, order(shape, [a for a in inputs if isinstance(a, Tensor)]))


def _static(value: Any) -> Any:
    """A static argument in hashable form."""
    if isinstance(value, list | tuple):
        return tuple(_static(v) for v in value)
    if isinstance(value, Tensor):
        return value.item() if value.ndim == 0 else tuple(value.tolist())
    if isinstance(value, SymNumber):
        return value.concrete()
    if isinstance(value, np.generic):
        return value.item()
    return dtypes.PYTHON.get(value, value) if isinstance(value, type) else value


def _attach_view(result: Tensor, source: Tensor, view: View) -> None:
    """Make ``result`` share the Storage of ``source``."""
    result._view = view
    if source._requires_grad and _has_gradient[view.cache.dtype] and view.plan.differentiable:
        # without a history, but not a constant either: under `no_grad`, as in PyTorch, and in a transform of `func`
        transforms = bool(storage.overlay) and storage.overlay.transforms
        if _grad.enabled if transforms else not _grad.enabled:
            result._requires_grad = result._inherits = True
    result._storage = source._storage
    if source._storage.version.__class__ is storage.Untracked:  # nobody tracks its views
        result._requires_grad = result._inherits = False
        result._grad_fn = None
    else:
        result._base = source._base if source._base is not None else source
    version = result._writes
    if version:
        result._version_seen = version
    if storage.overlay:
        storage.overlay.note_made(result)
