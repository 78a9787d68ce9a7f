"""Backward as one program: a small graph that has come several times is compiled whole.

Walking a graph costs one dispatch per operation, which outweighs the arithmetic when tensors are small. The
structure of
a graph (operations, edges, shapes) is a key; from the third time on, the walk over it runs as one jitted function, made
of the same pullbacks. Whatever the walk itself must see (hooks, custom functions, anomaly mode, big tensors)
keeps to it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import jax

from ..core import storage
from ..core.tensor import wrap
from .node import Node

__all__ = ["attempt"]

#: how often a graph is walked before it is compiled; 0 never compiles
AFTER = int(os.environ.get("FUNCTORCH_PORT_REPLAY_AFTER", "2"))
#: graphs with more operations, or more elements in their inputs, are walked
MOST_NODES, MOST_ELEMENTS = 256, 1 << 22

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
    described = _describe(order, leaves)
    if described is None:
        return None
    index, steps, shapes, values = described
    starts = tuple([(index.get(node), number) for node, number in roots])
    ends = None if wanted is None else tuple([(index.get(node), number) for node, number in wanted])
    if wanted is not None and None in (n for n, _ in (*starts, *(ends or ()))):
        return None
    variables = [leaf.variable for leaf in leaves]
    olds = [None if v._grad is None or wanted is not None else v._grad._value for v in variables]
    key = (tuple(steps), tuple(shapes), tuple([o is not None for o in olds]), starts, ends)
    program = _programs.get(key, 0)
    if type(program) is int:
        if program < AFTER:
            _programs[key] = program + 1
            return None
        program = _programs[key] = jax.jit(functools.partial(_whole, tuple(steps), len(leaves), starts, ends))
    with storage.x64():
        results = program(values, list(gradients), olds)
    if not retain:
        for node in order:
            node.release()
    if wanted is not None:
        return results
    for variable, value in zip(variables, results):
        if value is None:
            continue
        if variable._grad is None:
            variable._grad = wrap(value)
        else:
            variable._grad._set_value(value)
    return []


def _leaves(awaited: dict[Any, int], needed: set[Node] | None, accumulate: bool) -> list[Any] | None:
    """The leaves to reach, if there is nothing to do at them but to add."""
    leaves = [leaf for leaf in awaited if needed is None or leaf in needed]
    cells = []
    for leaf in leaves:
        variable = leaf.variable
        if variable._hooks or variable._post_accumulate_hooks or leaf.pre_hooks or leaf.post_hooks:
            return None
        if accumulate and variable._grad is not None:
            cells.append(variable._grad._storage)
    return (
        leaves if len(set(cells)) == len(cells) else None
    )  # gradients in one Storage are added to one by one


def _describe(order: list[Node], leaves: list[Any]) -> Any:
    """Positions, structure, shapes and saved values of the operations; None if one of them must be walked."""
    index: dict[Any, int] = {node: k for k, node in enumerate(order)}
    for k, leaf in enumerate(leaves):
        index[leaf] = -1 - k
    steps: list[Any] = []
    shapes: list[Any] = []
    values: list[Any] = []
    elements = 0
    for node in order:
        plan = node.replayable()
        if plan is None or node.pre_hooks or node.post_hooks or node.tensor_hooks or node.retained:
            return None
        edges = [None if e is None or e[0] not in index else (index[e[0]], e[1]) for e in node.edges]
        steps.append((plan, node.mask, tuple(edges), node.outputs))
        for value in node.values:
            shape = getattr(value, "shape", None)
            shapes.append(shape)
            if shape:
                elements += value.size
        values.append(node.values)
    return None if elements > MOST_ELEMENTS else (index, steps, shapes, values)


def _whole(
    steps: Any, leaves: int, starts: Any, ends: Any, values: Any, gradients: Any, olds: Any
) -> list[Any]:
    """The walk as a pure function: saved values, root gradients and old ``.grad`` to the gradients wanted."""
    buffers: dict[tuple[int, int], Any] = {}

    def deposit(place: tuple[int, int], value: Any) -> None:
        buffers[place] = buffers[place] + value if place in buffers else value

    for place, gradient in zip(starts, gradients):
        deposit(place, gradient)
    for k, ((plan, mask, edges, outputs), saved) in enumerate(zip(steps, values)):
        grads = [buffers.get((k, number)) for number in range(outputs)]
        given = [g for g in grads if g is not None]
        if not given:
            continue
        results = iter(plan.backward(mask, tuple(g is None for g in grads)).fn(*saved, *given))
        for masked, edge in zip(mask, edges):
            value = next(results) if masked else None
            if edge is not None:
                deposit(edge, value)
    if ends is not None:
        return [buffers.get(place) for place in ends]
    sums = [buffers.get((-1 - k, 0)) for k in range(leaves)]
    return [g if g is None or old is None else old + g for g, old in zip(sums, olds)]
