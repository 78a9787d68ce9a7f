"""A plan: an operation with its static arguments as a pure function of arrays, and what is derived from that once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._array import tracing
from .._base import config, memory
from .._base.bounded import Bounded
from .._base.jaxprs import pruned
from .._base.tuning import tuning

if TYPE_CHECKING:
    from .._run.registry import OpSpec

__all__ = [
    "KeptPlan", "Plan", "Pullback", "Saved", "aval_of", "avals_of", "conj", "kept_plan", "pullback_of",
]  # fmt: skip

NUMBERS = frozenset({bool, int, float, complex})
#: the integers that an operation takes: numpy takes any
LEAST, MOST = -(2**63), 2**64 - 1


class Plan:
    """One operation with its static arguments bound: a pure function of a flat list of arrays and numbers.

    Attributes:
        fn: the pure function.
        jit: its jitted form, used in eager mode.
        node: the class of its autograd node.
    """

    __slots__ = (
        "_backward",
        "_keeping",
        "_kinds",
        "_reached",
        "_reads",
        "backend",
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
        "returns",
        "saves",
        "slots",
        "tensors",
        "view",
    )

    def __init__(self, fn: Callable[..., Any], name: str, node: str, spec: OpSpec | None = None) -> None:
        fn = self.fn = config.by_our_rules(fn)
        self.name = name
        self.node = node
        self.eager = spec.eager if spec is not None else ""
        self.jit = fn if self.eager else jax.jit(fn)
        self.returns = spec.returns if spec is not None else None
        self.differentiable = spec is None or spec.differentiable
        self.view = spec is not None and spec.view
        #: whether a call may be lazy
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
        kinds = tuning.cached_kinds
        self._backward: dict[Any, Plan] = {}
        #: by which inputs have a tangent (see `_run.duals`)
        self.forward: dict[tuple[bool, ...], Plan] = {}
        self._keeping: Bounded[Any, Callable[..., Any]] = Bounded(kinds)
        self._kinds: Bounded[Any, Any] = Bounded(kinds)
        #: what a backend remembers of it
        self.backend: Bounded[Any, Any] = Bounded(kinds)
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
            plan = self._backward[key] = Plan(fn, f"{self.name}_backward", f"{self.node[:-1]}Backward0")
            plan.pulls = True
        return plan

    def run_recorded(self, mask: tuple[bool, ...], values: Sequence[Any]) -> tuple[Any, Saved | None]:
        """The results, and from where to take the pullback to the values in ``mask`` if not from these alone."""
        if not mask or self.keeps is None or not self.keeps(*values):
            return memory.run(self.jit, values), None
        found = self._keeping.get(mask)
        if found is None:
            found = self._keeping[mask] = jax.jit(functools.partial(_forward_and_pullback, self.fn, mask))
        out, kept = memory.run(found, values)
        source = kept_plan(kept.tree, kept.sources, kept.outs, kept.many, len(values))
        return out, (source, [*values, *kept.arrays])

    def kinds(self, values: Sequence[Any]) -> Any:
        """Shapes and dtypes of the results for such values; they do not depend on the numbers among them."""
        key = avals_of(values)
        found = self._kinds.get(key)
        if found is None:
            avals = [aval_of(v) if hasattr(v, "dtype") else v for v in values]
            with tracing.x64():
                found = self._kinds[key] = jax.eval_shape(self.fn, *avals)
        return found

    def shapes(self, values: Sequence[Any]) -> Any:
        """What it gives on the meta device."""
        if self.eager:
            raise NotImplementedError(
                f"{self.name}: the shape of the result depends on values, which tensors on the meta device have not"
            )
        with tracing.x64():
            return jax.eval_shape(self.fn, *[aval_of(v) if hasattr(v, "dtype") else v for v in values])

    def reads(self, mask: tuple[bool, ...], holes: tuple[bool, ...], args: Sequence[Any]) -> list[bool]:
        """Which inputs the pullback looks at, other than at their shapes. ``args`` are arrays, shapes or numbers."""
        key = (mask, holes)
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = looks_at(self.backward(mask, holes).fn, args)[: len(mask)]
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
            found = self._reached[holes] = looks_at(self.fn, args, holes)
        return tuple([m and f for m, f in zip(mask, found, strict=True)])


def looks_at(fn: Callable[..., Any], args: Sequence[Any], holes: Sequence[bool] = ()) -> list[bool]:
    """Which arguments the results of ``fn``, but those at ``holes``, depend on, other than on their shapes."""
    avals = [aval_of(a) if hasattr(a, "dtype") else a for a in args]
    with tracing.x64():
        jaxpr = jax.make_jaxpr(fn)(*avals).jaxpr
    return pruned(jaxpr, [not hole for hole in holes] or None)[1]


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
        cotangents = tuple([cotangent_of(o, g) for o, g in zip(self.outs, grads, strict=True)])
        pull = config.by_our_rules(self.pull)
        return tuple([conj(g) for g in pull(cotangents if self.many else cotangents[0])])


def pullback_of(fn: Callable[..., Any], mask: Sequence[bool], values: Sequence[Any]) -> tuple[Any, Pullback]:
    """The result of ``fn``, and the pullback to the values in ``mask``."""
    masked = of_masked(fn, mask, values)
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
    outs = tuple([aval_of(o) for o in pullback.outs])
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


kept_plan = functools.lru_cache(tuning.cached_programs)(KeptPlan)


def of_masked(fn: Callable[..., Any], mask: Sequence[bool], values: Sequence[Any]) -> Callable[..., Any]:
    """``fn`` as a function of the masked arguments alone."""

    def masked(*diff: Any) -> Any:
        it = iter(diff)
        out = fn(*[next(it) if m else v for v, m in zip(values, mask, strict=True)])
        return tuple(out) if isinstance(out, list) else out

    return masked


def cotangent_of(out: Any, grad: Any) -> Any:
    if not jax.numpy.issubdtype(out.dtype, np.inexact):
        return np.zeros(out.shape, jax.dtypes.float0)
    if grad is None:
        return jax.numpy.zeros(out.shape, out.dtype)
    return conj(grad if grad.dtype == out.dtype else grad.astype(out.dtype))


def conj(x: Any) -> Any:
    return x.conj() if jax.numpy.issubdtype(x.dtype, np.complexfloating) else x


_Shape = jax.ShapeDtypeStruct


def avals_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """Shapes and dtypes of those that are no numbers."""
    kinds = [getattr(v, "aval", v) for v in values if v.__class__ not in NUMBERS]
    return tuple([(kind.shape, kind.dtype) for kind in kinds if hasattr(kind, "dtype")])


def aval_of(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)
