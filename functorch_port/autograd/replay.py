"""Backward as one program: a graph that has come several times is compiled whole.

Walking a graph costs one dispatch per operation, which outweighs the arithmetic when tensors are small; when they are
not, XLA's threads wait for each operation of the walk, and every gradient goes through memory (the eager step of a
U-Net takes 0.78 of the time with it, a GPT's of 0.8M parameters 0.81). The structure of a graph (operations, edges,
shapes) is a key; from the third time on, the walk over it runs as one jitted function, made of the same pullbacks.
Whatever the walk itself must see (hooks, custom functions, anomaly mode) keeps to it.

The walk frees saved values as it goes, a program has all of them to its end: a fifth more memory at the peak. So graphs
of big tensors are walked on devices other than the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from ..core import allocator, storage
from ..core.dispatch import Plan, all_on_host
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
    described = _describe(order, index)
    if described is None:
        return None
    structure, values = described
    key = (starts, ends, *[old is None for old in olds], *structure)
    program = _programs.get(key, 0)
    if type(program) is int:
        if program < AFTER or not _pays(values):
            _programs[key] = min(program + 1, AFTER)
            return None
        program = _programs[key] = _program(order, index, starts, ends, values, gradients, olds)
    flat = _flat(values, gradients, olds)
    results = None
    if (wanted is not None or len(leaves) <= MOST_ON_HOST) and all_on_host(flat):
        results = program.on_host(flat)
    if results is None:
        with storage.x64():
            results = program.jit(*flat)
    if not retain:
        for node in order:
            node.release()
    if wanted is not None:
        return results
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


def _describe(order: list[Node], index: dict[Any, int]) -> tuple[list[Any], list[Any]] | None:
    """Structure and shapes of the operations, flat, and their saved values; None if one of them must be walked."""
    structure: list[Any] = []
    values: list[Any] = []
    position = index.get
    for node in order:
        found = node.pullback()
        if found is None or (node.extras and node.extras.watched()):
            return None
        plan, saved = found
        looks, saved = flattened(saved)
        structure += (plan, node.mask, node.outputs, looks)
        for edge in node.edges:
            if edge is None:
                structure.append(None)
            else:
                structure += (position(edge[0]), edge[1])
        for value in saved:
            structure.append(getattr(value, "shape", None))
        values.append(saved)
    return structure, values


def _step(node: Any, index: dict[Any, int]) -> tuple[Any, ...]:
    """One operation for `_whole`: plan, which inputs have gradients, where these go, number of outputs, and through
    which views it looks.
    """
    edges = [None if e is None or e[0] not in index else (index[e[0]], e[1]) for e in node.edges]
    plan, saved = node.pullback()
    return plan, node.mask, tuple(edges), node.outputs, flattened(saved)[0]


def _elements(values: list[Any]) -> int:
    return sum(getattr(value, "size", 0) for saved in values for value in saved)


@dataclass
class _Large:
    """What became of graphs that are not small."""

    programs: int = 0
    calls: int = 0


_large = _Large()


def _pays(values: list[Any]) -> bool:
    """Whether to compile a graph with these saved values."""
    count = _elements(values)
    if count <= SMALL:
        return True
    arrays = [value for saved in values for value in saved if isinstance(value, jax.Array)]
    if count > MOST_ELEMENTS or not all(map(on_one_cpu, arrays)):
        return False
    return _large.programs < 3 + _large.calls // CALLS


def _flat(values: list[Any], gradients: Sequence[Any], olds: list[Any]) -> list[Any]:
    """The arguments of a program: saved values, gradients at the roots, and those there that are added to."""
    return [*(v for saved in values for v in saved), *gradients, *(old for old in olds if old is not None)]


def _program(
    order: list[Node],
    index: dict[Any, int],
    starts: Any,
    ends: Any,
    values: list[Any],
    gradients: Sequence[Any],
    olds: list[Any],
) -> Plan:
    """The walk as a plan: a function of what `_flat` gives."""
    steps = tuple([_step(node, index) for node in order])
    counts, missing = [len(saved) for saved in values], [old is None for old in olds]

    def fn(*flat: Any) -> list[Any]:
        rest = iter(flat)
        saved = [[next(rest) for _ in range(n)] for n in counts]
        gradients = [next(rest) for _ in starts]
        return _whole(
            steps, len(olds), starts, ends, saved, gradients, [None if m else next(rest) for m in missing]
        )

    plan = Plan(fn, "backward", "BackwardBackward0")
    if _elements(values) > SMALL:
        _large.programs += 1
        plan.jit = _OfTypes(fn)
    return plan


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


def _whole(
    steps: Any, leaves: int, starts: Any, ends: Any, values: Any, gradients: Any, olds: Any
) -> list[Any]:
    """The walk as a pure function: saved values, root gradients and old ``.grad`` to the gradients wanted."""
    buffers: dict[tuple[int, int], Any] = {}

    def deposit(place: tuple[int, int], value: Any) -> None:
        buffers[place] = buffers[place] + value if place in buffers else value

    for place, gradient in zip(starts, gradients):
        deposit(place, gradient)
    for k, ((plan, mask, edges, outputs, looks), saved) in enumerate(zip(steps, values)):
        grads = [buffers.get((k, number)) for number in range(outputs)]
        given = [g for g in grads if g is not None]
        if not given:
            continue
        results = iter(plan.backward(mask, tuple(g is None for g in grads)).fn(*seen(looks, saved), *given))
        for masked, edge in zip(mask, edges):
            value = next(results) if masked else None
            if edge is not None:
                deposit(edge, value)
    if ends is not None:
        return [buffers.get(place) for place in ends]
    sums = [buffers.get((-1 - k, 0)) for k in range(leaves)]
    return [g if g is None or old is None else old + g for g, old in zip(sums, olds)]
