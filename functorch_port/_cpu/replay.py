"""Forward and backward as one program: a graph that has come several times is compiled whole.

Walking a graph costs one dispatch per operation, which outweighs the arithmetic when tensors are small; when they are
not, XLA's threads wait for each operation of the walk, and every value goes through memory. The structure of a graph
(operations, edges, shapes) is the key of a program (see `_cpu.programs`), made of the same pullbacks. Operations of the
forward pass that were put off (see `_cpu.deferred`) are part of it, and those of their results that somebody holds are
results of the program. Whatever the walk itself must see (hooks, custom functions, anomaly mode) keeps to it.

The walk frees saved values as it goes, a program has all of them to its end: a fifth more memory at the peak. So graphs
of big tensors are walked on devices other than the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._array import placed, tracing
from .._array.placed import sharding_of
from .._array.value import HOST
from .._base import meshes
from .._base.tuning import tuning
from .._tensor.node import AccumulateGrad, Node
from .._tensor.tensor import wrap
from ..autograd._accumulation import accumulate, check_shapes, summed
from ..autograd._engine import leading_to, reach
from . import deferred, programs, tiers
from . import numpy_programs as host
from .deferred import NEW, Call, Deferred, unrun
from .programs import Numbered, asked_for, forward_of, found, given, replayed, settle, taken

__all__ = ["backward"]


def backward(
    roots: Sequence[tuple[Node, int]],
    gradients: Sequence[Any],
    retain: bool,
    wanted: Sequence[tuple[Node, int]] | None,
    catch: bool,
) -> list[Any] | None:
    """As `Executor.backward`."""
    if placed.several and any(map(meshes.is_global, gradients)):
        return None  # a thread that compiles would run it, too: processes run their programs in one order
    if len(roots) == 1:
        found = _one_operation(*roots[0], gradients[0], retain, wanted, catch)
        if found is not None:
            return found
    if deferred.one_by_one():
        return None
    order, awaited = reach(roots)
    needed = None if wanted is None else leading_to(order, {node for node, _ in wanted})
    return _attempted(order, awaited, roots, gradients, retain, needed, wanted if catch else None)


def _one_operation(
    node: Node,
    number: int,
    gradient: Any,
    retain: bool,
    wanted: Sequence[tuple[Node, int]] | None,
    catch: bool,
) -> list[Any] | None:
    """The walk where there is one operation between the root and the leaves, it is done on the host, and nobody
    watches. None if there is more to it.
    """
    if node.extras is not None or node.outputs != 1 or node.pullback() is None:
        return None
    for edge in node.edges:
        if edge is not None:
            leaf: Any = edge[0]
            if type(leaf) is not AccumulateGrad or leaf.extras is not None:
                return None
            if leaf.variable._hooks or leaf.variable._post_accumulate_hooks:
                return None
    if wanted is not None and not (catch and all(type(n) is AccumulateGrad for n, _ in wanted)):
        return None
    if gradient.__class__ not in HOST or not host.kind_of(node.values)[1]:  # type: ignore[attr-defined]
        return None
    sums: dict[Any, Any] = {}
    for edge, result in zip(node.edges, node.apply((gradient,))):
        if edge is not None and result is not None:
            sums[edge[0]] = result if edge[0] not in sums else summed(sums[edge[0]], result)
    if not retain:
        node.release()
    if wanted is not None:
        return [sums.get(leaf) for leaf, _ in wanted]
    for leaf, result in sums.items():
        accumulate(leaf.variable, result)
    return []


def _attempted(
    order: list[Node],
    awaited: dict[Node, int],
    roots: Sequence[tuple[Node, int]],
    gradients: Sequence[Any],
    retain: bool,
    needed: set[Node] | None,
    wanted: Sequence[tuple[Node, int]] | None,
) -> list[Any] | None:
    """Run the walk as one program. None if it must be walked; else the gradients at ``wanted`` (or an empty list)."""
    if not order or len(order) > tuning.program_calls or any([node.kept is NEW for node in order]):  # noqa: C419
        return None
    if needed is not None:
        order = [node for node in order if any(e is not None and e[0] in needed for e in node.edges)]
    leaves = _leaves(awaited, needed, wanted is None)
    if leaves is None:
        return None
    if wanted is None and [leaf for leaf in leaves if leaf.variable._kept_grad is not None]:
        with tracing.turn:  # what is added to must be there still when the sum is written
            grads = [leaf.variable._grad for leaf in leaves]
            return _attempt(order, leaves, roots, gradients, retain, None, grads)
    return _attempt(order, leaves, roots, gradients, retain, wanted, [None] * len(leaves))


def _attempt(
    order: list[Node],
    leaves: list[Any],
    roots: Sequence[tuple[Node, int]],
    gradients: Sequence[Any],
    retain: bool,
    wanted: Sequence[tuple[Node, int]] | None,
    grads: Sequence[Any],
) -> list[Any] | None:
    index: dict[Any, int] = {leaf: -1 - k for k, leaf in enumerate(leaves)}
    index.update(zip(order, range(len(order))))
    starts = tuple([(index.get(node), number) for node, number in roots])
    ends = None if wanted is None else tuple([(index.get(node), number) for node, number in wanted])
    if ends is not None and None in (n for n, _ in (*starts, *ends)):
        return None
    olds = [None if grad is None else grad._look() for grad in grads]
    saved = _saved(order)
    if saved is None:
        return None
    calls = _waiting(order, saved)
    if retain and calls:
        deferred.run(list(calls))
        calls = {}
    numbered = Numbered(list(calls))
    recorded = {node.pending for node in order}.__contains__
    holders = [
        held for node, (_, values) in zip(order, saved) for held in (node.values, values) if held is not None
    ]
    holders += [values for call, values in calls.items() if not call.mask]
    forward = forward_of(calls, recorded, asked_for(calls, holders), numbered) if calls else ()
    backward = _describe(order, index, saved, numbered)
    missing = tuple([old is None for old in olds])
    key = (starts, ends, missing, forward, backward, numbered.shapes())
    count = len(numbered.arguments)
    make = lambda: _function(forward, backward, count, starts, ends, missing)
    flat = [*numbered.arguments, *gradients, *[old for old in olds if old is not None]]
    program = found(key, make, flat, list(calls), len(order) + len(calls))
    if program is None:
        return None
    results = None
    if wanted is not None or len(leaves) <= tuning.numpy_leaves:
        kind, on_host = host.kind_of(flat)
        state, _ = tiers.known(program, flat, kind, on_host) if on_host else (None, False)
        results = tiers.by_numpy(program, flat, kind, on_host, state) if state and state.is_small else None
    if results is None:
        results = programs.run(program, flat, sum([call.size for call in calls]))
    if not retain:
        for node in order:
            node.release()
    settle(calls, forward, iter(results[len(leaves if wanted is None else wanted) :]))
    if wanted is not None:
        return results[: len(wanted)]
    with tracing.turn:
        for leaf, value, grad in zip(leaves, results, grads):
            if value is None:
                continue
            if grad is not None:
                grad._set_value(value)
            elif leaf.variable._kept_grad is None:
                leaf.variable._grad = wrap(value)
            else:  # another thread was faster
                accumulate(leaf.variable, value)
    return []


def _leaves(awaited: dict[Any, int], needed: set[Node] | None, accumulate: bool) -> list[Any] | None:
    """The leaves to reach, if there is nothing to do at them but to add."""
    leaves = [leaf for leaf in awaited if needed is None or leaf in needed]
    cells = []
    for leaf in leaves:
        variable = leaf.variable
        if variable._hooks or variable._post_accumulate_hooks or (leaf.extras and leaf.extras.watched()):
            return None
        if variable._sparse:
            return None
        if accumulate and (not variable._requires_grad or sharding_of(variable._storage) is not None):
            return None  # not any more; a gradient goes where its tensor is
        if accumulate and variable._grad is not None:
            if variable._grad._sparse:
                return None
            cells.append(variable._grad._storage)
    # gradients in one Storage are added to one by one
    return leaves if len(set(cells)) == len(cells) else None


#: the plan whose `backward` a node is, and what it is to be given
_Saved = tuple[Any, Sequence[Any]]


def _saved(order: list[Node]) -> list[_Saved] | None:
    """What each operation needs for its pullback; None if one of them must be walked."""
    saved: list[_Saved] = []
    for node in order:
        if node.extras and node.extras.watched():
            return None
        found = node.pullback()
        if found is None:
            return None
        saved.append(found)
    return saved


def _waiting(order: list[Any], saved: list[_Saved]) -> dict[Call, Sequence[Any]]:
    """The operations that were put off, of the graph and those whose results it needs, first things first."""
    calls = {call for node in order if (call := node.pending) is not None}
    for _, values in saved:
        calls.update([value.call for value in values if value.__class__ is Deferred])
    return unrun(calls) if calls else {}


def _describe(
    order: list[Any], index: dict[Any, int], saved: list[_Saved], numbered: Numbered
) -> tuple[tuple[Any, ...], ...]:
    """Of each operation of the backward pass the plan, the arguments with a gradient, where the gradients go, the
    number of outputs, and the places of the saved values; instead of these the operation's number in the forward pass
    if that is part of the program.
    """
    steps: list[tuple[Any, ...]] = []
    for node, (plan, values) in zip(order, saved):
        edges = tuple([None if e is None or e[0] not in index else (index[e[0]], e[1]) for e in node.edges])
        at = numbered.number.get(node.pending)
        steps.append((plan, node.mask, edges, node.outputs, numbered.places(values) if at is None else at))
    return tuple(steps)


def _function(
    forward: Any, backward: Any, count: int, starts: Any, ends: Any, missing: Sequence[bool]
) -> Callable[..., list[Any]]:
    """The walk as a function of ``count`` arguments, the gradients at the roots, and those there to be added to."""

    def walk(*flat: Any) -> list[Any]:
        arguments, rest = iter(flat[:count]), iter(flat[count:])
        results, pullbacks = replayed(forward, arguments)
        gradients = [next(rest) for _ in starts]
        olds = [None if m else next(rest) for m in missing]
        sums = _backward(backward, starts, ends, arguments, results, pullbacks, gradients, olds)
        return [*sums, *given(forward, results)]

    return walk


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
        if place in buffers:
            check_shapes(buffers[place], value)
        buffers[place] = buffers[place] + value if place in buffers else value

    for place, gradient in zip(starts, gradients):
        deposit(place, gradient)
    for k, (plan, mask, edges, outputs, places) in enumerate(steps):
        walked = type(places) is tuple
        saved = taken(places, arguments, results) if walked else ()
        grads = [buffers.get((k, number)) for number in range(outputs)]
        given = [g for g in grads if g is not None]
        if not given:
            continue
        if walked:
            holes = tuple([g is None for g in grads])
            mask = plan.reached(mask, holes, saved)
            if True not in mask:
                continue
            found = iter(plan.backward(mask, holes).fn(*saved, *given))
        else:
            found = iter(pullbacks[places](grads))
        for masked, edge in zip(mask, edges):
            value = next(found) if masked else None
            if masked and edge is not None:
                deposit(edge, value)
    if ends is not None:
        return [buffers.get(place) for place in ends]
    sums = [buffers.get((-1 - k, 0)) for k in range(len(olds))]
    return [g if g is None or old is None else old + g for g, old in zip(sums, olds)]
