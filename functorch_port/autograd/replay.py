"""Forward and backward as one program: a graph that has come several times is compiled whole.

Walking a graph costs one dispatch per operation, which outweighs the arithmetic when tensors are small; when they are
not, XLA's threads wait for each operation of the walk, and every value goes through memory. The structure of a graph
(operations, edges, shapes) is a key; from the third time on, the walk over it runs as one jitted function, made of the
same pullbacks. Operations of the forward pass that were put off (see `core.deferred`) are part of it, and those of
their results that somebody holds are results of the program.
Whatever the walk itself must see (hooks, custom functions, anomaly mode) keeps to it.

The walk frees saved values as it goes, a program has all of them to its end: a fifth more memory at the peak. So graphs
of big tensors are walked on devices other than the CPU.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from ..core import allocator, deferred, storage
from ..core.deferred import Call, Deferred, waiting
from ..core.dispatch import Plan, Pullback, all_on_host, pullback_of
from ..core.donation import on_one_cpu
from ..core.pads import join_pads
from ..core.tensor import wrap
from ..core.view import flattened, seen
from .node import Node

__all__ = ["attempt"]

#: how often a graph is walked before it is compiled; 0 never compiles
AFTER = int(os.environ.get("FUNCTORCH_PORT_REPLAY_AFTER", "2"))
#: graphs with more operations are walked
MOST_NODES = 512
#: elements in the inputs of a graph that is small; and beyond which it is walked, on a CPU
SMALL, MOST_ELEMENTS = 1 << 22, 1 << 28
#: Programs of graphs that are not small, which take a second or so to compile, may be one more than every so many calls
#: of them: shapes that come a few times each are walked.
CALLS = 16
#: gradients of more leaves than this go to a compiled optimizer next, so they had better not be on the host
MOST_ON_HOST = 2

#: structure -> how often it was seen, then its program
_programs: dict[Any, Any] = {}


def attempt(
    order: list[Node],
    awaited: dict[Node, int],
    roots: Sequence[tuple[Node, int]],
    gradients: Sequence[Any],
    retain: bool,
    needed: set[Node] | None,
    wanted: Sequence[tuple[Node, int]] | None,
) -> list[Any] | None:
    """Run the walk as one program. None if it must be walked; else the gradients at ``wanted`` (or an empty list)."""
    if not order or len(order) > MOST_NODES or not AFTER:
        return None
    if needed is not None:
        order = [node for node in order if any(e is not None and e[0] in needed for e in node.edges)]
    leaves = _leaves(awaited, needed, wanted is None)
    if leaves is None:
        return None
    index: dict[Any, int] = {leaf: -1 - k for k, leaf in enumerate(leaves)}
    index.update(zip(order, range(len(order))))
    starts = tuple([(index.get(node), number) for node, number in roots])
    ends = None if wanted is None else tuple([(index.get(node), number) for node, number in wanted])
    if ends is not None and None in (n for n, _ in (*starts, *ends)):
        return None
    olds = [None] * len(leaves) if wanted is not None else [_old(leaf.variable) for leaf in leaves]
    saved = _saved(order)
    if saved is None:
        return None
    calls = _waiting(order, saved)
    if retain and calls:
        deferred.run(calls)
        calls = []
    structure, flat = _describe(order, index, saved, calls)
    key = (starts, ends, *[old is None for old in olds], *structure)
    program = _programs.get(key, 0)
    if type(program) is int:
        if program < AFTER or not _pays(flat, calls):
            _programs[key] = min(program + 1, AFTER)
            return None
        program = _programs[key] = _program(structure, starts, ends, [old is None for old in olds])
        if _elements(flat, calls) > SMALL:
            _large.programs += 1
            program.jit = _OfTypes(program.fn)
    flat += gradients
    flat += [old for old in olds if old is not None]
    results = None
    if (wanted is not None or len(leaves) <= MOST_ON_HOST) and all_on_host(flat):
        results = program.on_host(flat)
    if results is None:
        with storage.x64():
            results = program.jit(*flat)
    if not retain:
        for node in order:
            node.release()
    if calls:
        rest = iter(results[len(leaves if wanted is None else wanted) :])
        for call, (*_, numbers) in zip(calls, structure[0]):
            call.done([next(rest) if i in numbers else None for i in range(len(call.handles))])
    if wanted is not None:
        return results[: len(wanted)]
    for leaf, value, old in zip(leaves, results, olds):
        if value is None:
            continue
        if old is None:
            leaf.variable._grad = wrap(value)
        else:
            leaf.variable._grad._set_value(value)
    return []


def _old(variable: Any) -> Any:
    """The gradient to add to."""
    grad = variable._grad
    return None if grad is None else grad._look()


def _leaves(awaited: dict[Any, int], needed: set[Node] | None, accumulate: bool) -> list[Any] | None:
    """The leaves to reach, if there is nothing to do at them but to add."""
    leaves = [leaf for leaf in awaited if needed is None or leaf in needed]
    cells = []
    for leaf in leaves:
        variable = leaf.variable
        if variable._hooks or variable._post_accumulate_hooks or (leaf.extras and leaf.extras.watched()):
            return None
        if accumulate and variable._grad is not None:
            if variable._grad.is_sparse:
                return None
            cells.append(variable._grad._storage)
    # gradients in one Storage are added to one by one
    return leaves if len(set(cells)) == len(cells) else None


#: the plan whose `backward` a node is, the views to look through, and the saved values, flat (see `view.flattened`)
_Saved = tuple[Any, Any, Sequence[Any]]


def _saved(order: list[Node]) -> list[_Saved] | None:
    """What each operation needs for its pullback; None if one of them must be walked."""
    saved: list[_Saved] = []
    for node in order:
        found = node.pullback()
        if found is None or (node.extras and node.extras.watched()):
            return None
        saved.append((found[0], *flattened(found[1])))
    return saved


def _waiting(order: list[Any], saved: list[_Saved]) -> list[Call]:
    """The operations that were put off, of the graph and those whose results it needs, first things first."""
    calls = {v.call for _, _, flat in saved for v in flat if v.__class__ is Deferred}
    calls.update([node.call for node in order if node.call is not None])
    return waiting(calls) if calls else []


def _describe(
    order: list[Any], index: dict[Any, int], saved: list[_Saved], calls: list[Call]
) -> tuple[tuple[Any, ...], list[Any]]:
    """The structure of the forward and the backward pass and the shapes of the arguments; and the arguments.

    Of the forward pass there are, for each operation, the plan, the arguments for which there is a gradient (None if
    for none), the views to look through, where the arguments come from (see `_places`), and which results are asked
    for. Of the backward pass: plan, arguments with a gradient, where the gradients go, the number of outputs, and views
    and places of the saved values, or the number of the operation in the forward pass.
    """
    arguments: list[Any] = []
    forward: list[Any] = []
    number = {call: i for i, call in enumerate(calls)}
    if calls:
        mine = {node.call: k for k, node in enumerate(order) if node.call in number}
        inputs = [saved[mine[c]][1:] if c in mine else flattened(c.values or ()) for c in calls]
        others = [f for c, (_, f) in zip(calls, inputs) if c not in mine and f is not c.values]
        asked = _asked_for(calls, order, saved, others)
        for call, (looks, flat), results in zip(calls, inputs, asked):
            mask = call.mask if call in mine else None
            forward.append((call.plan, mask, looks, _places(flat, number, arguments), results))
    backward: list[Any] = []
    for node, (plan, looks, flat) in zip(order, saved):
        edges = tuple([None if e is None or e[0] not in index else (index[e[0]], e[1]) for e in node.edges])
        at = number.get(node.call)
        if at is None:
            backward.append((plan, node.mask, edges, node.outputs, looks, _places(flat, number, arguments)))
        else:
            backward.append((plan, node.mask, edges, node.outputs, None, at))
    shapes = tuple([getattr(value, "shape", None) for value in arguments])
    return (tuple(forward), tuple(backward), shapes), arguments


def _places(values: Sequence[Any], number: dict[Call, int], arguments: list[Any]) -> tuple[Any, ...]:
    """For each value None if it is the next argument, which is added there; else the operation and output it is of."""
    places: list[Any] = []
    for value in values:
        if value.__class__ is Deferred:
            at = number.get(value.call)
            if at is not None:
                places.append((at, value.number))
                continue
            value = value.array()
        places.append(None)
        arguments.append(value)
    return tuple(places)


def _asked_for(
    calls: list[Call], order: list[Any], saved: list[_Saved], others: list[Sequence[Any]]
) -> list[tuple[int, ...]]:
    """Which results somebody can still ask for when the graph is gone: those with more references than from it.

    ``others`` are lists of our own with arguments.
    """
    known: dict[int, int] = {}
    for node, (_, _, flat) in zip(order, saved):
        for value in flat:
            if value.__class__ is Deferred:  # where there are looks, they or the node's list hold it too
                known[id(value)] = known.get(id(value), 0) + (1 if flat is node.values else 2)
    for flat in others:
        for value in flat:
            known[id(value)] = known.get(id(value), 0) + 1
    value = None
    return [
        tuple(
            [i for i, handle in enumerate(call.handles) if _references(handle) > known.get(id(handle()), 0)]
        )
        for call in calls
    ]


def _references(handle: Any) -> int:
    """How many references there are to what a weak reference is of."""
    value = handle()
    return 0 if value is None else getrefcount(value) - _OWN


def _own_references() -> int:
    class Probe:
        pass

    probe = Probe()
    return _references(weakref.ref(probe)) - 1  # but one is the probe's


_OWN = 0
_OWN = _own_references()


def _elements(values: Sequence[Any], calls: Sequence[Call]) -> int:
    return sum([getattr(value, "size", 0) for value in values]) + sum([call.size for call in calls])


@dataclass
class _Large:
    """What became of graphs that are not small."""

    programs: int = 0
    calls: int = 0


_large = _Large()


def _pays(values: Sequence[Any], calls: Sequence[Call]) -> bool:
    """Whether to compile a graph with these arguments and operations put off."""
    count = _elements(values, calls)
    if count <= SMALL:
        return True
    arrays = [value for value in values if isinstance(value, jax.Array)]
    if count > MOST_ELEMENTS or not all(map(on_one_cpu, arrays)):
        return False
    return _large.programs < 3 + _large.calls // CALLS


def _program(structure: Any, starts: Any, ends: Any, missing: list[bool]) -> Plan:
    """The walk as a plan: a function of the arguments, the gradients at the roots, and those there to be added to."""
    forward, backward, shapes = structure

    def fn(*flat: Any) -> list[Any]:
        arguments, rest = iter(flat[: len(shapes)]), iter(flat[len(shapes) :])
        results, pullbacks = _forward(forward, arguments)
        gradients = [next(rest) for _ in starts]
        olds = [None if m else next(rest) for m in missing]
        found = _backward(backward, starts, ends, arguments, results, pullbacks, gradients, olds)
        return [*found, *(outs[i] for outs, (*_, numbers) in zip(results, forward) for i in numbers)]

    return Plan(fn, "backward", "BackwardBackward0")


class _OfTypes:
    """A function for arguments of any types, for each of them as one program that XLA can do fast."""

    def __init__(self, fn: Callable[..., list[Any]]) -> None:
        self.fn = fn
        self.jits: dict[Any, Callable[..., list[Any]]] = {}

    def __call__(self, *flat: Any) -> list[Any]:
        _large.calls += 1
        types = tuple([getattr(value, "dtype", value.__class__) for value in flat])
        jitted = self.jits.get(types)
        if jitted is None:
            jitted = self.jits[types] = _jitted(self.fn, flat)
        return jitted(*flat)


def _jitted(fn: Callable[..., list[Any]], flat: Sequence[Any]) -> Callable[..., list[Any]]:
    closed, shapes = jax.make_jaxpr(fn, return_shape=True)(*flat)
    closed = closed.replace(jaxpr=join_pads(closed.jaxpr))
    given = [shape is not None for shape in shapes]

    def backward(*flat: Any) -> list[Any]:
        found = iter(jaxpr_as_fun(closed)(*flat))
        return [next(found) if there else None for there in given]

    return jax.jit(backward, compiler_options=allocator.options(closed.jaxpr))


def _taken(
    places: Sequence[Any], looks: Any, arguments: Iterator[Any], results: Sequence[Any]
) -> Sequence[Any]:
    """The values at these places (see `_places`), through views."""
    return seen(looks, [next(arguments) if p is None else results[p[0]][p[1]] for p in places])


def _forward(steps: Any, arguments: Iterator[Any]) -> tuple[list[Sequence[Any]], list[Pullback | None]]:
    """The operations that were put off: results and pullbacks."""
    results: list[Sequence[Any]] = []
    pullbacks: list[Pullback | None] = []
    for plan, mask, looks, places, _ in steps:
        values = _taken(places, looks, arguments, results)
        if mask is None:
            out, pullback = plan.fn(*values), None
        else:
            out, pullback = pullback_of(plan.fn, mask, values)
        results.append(out if isinstance(out, tuple | list) else (out,))
        pullbacks.append(pullback)
    return results, pullbacks


def _backward(
    steps: Any,
    starts: Any,
    ends: Any,
    arguments: Iterator[Any],
    results: Any,
    pullbacks: Any,
    gradients: Any,
    olds: Any,
) -> list[Any]:
    """The walk as a pure function: saved values, root gradients and old ``.grad`` to the gradients wanted."""
    buffers: dict[tuple[int, int], Any] = {}

    def deposit(place: tuple[int, int], value: Any) -> None:
        buffers[place] = buffers[place] + value if place in buffers else value

    for place, gradient in zip(starts, gradients):
        deposit(place, gradient)
    for k, (plan, mask, edges, outputs, looks, places) in enumerate(steps):
        walked = looks is not None or type(places) is tuple
        saved = _taken(places, looks, arguments, results) if walked else ()
        grads = [buffers.get((k, number)) for number in range(outputs)]
        given = [g for g in grads if g is not None]
        if not given:
            continue
        if walked:
            found = iter(plan.backward(mask, tuple(g is None for g in grads)).fn(*saved, *given))
        else:
            found = iter(pullbacks[places](grads))
        for masked, edge in zip(mask, edges):
            value = next(found) if masked else None
            if edge is not None:
                deposit(edge, value)
    if ends is not None:
        return [buffers.get(place) for place in ends]
    sums = [buffers.get((-1 - k, 0)) for k in range(len(olds))]
    return [g if g is None or old is None else old + g for g, old in zip(sums, olds)]
