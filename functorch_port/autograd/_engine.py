"""The backward pass: a walk from the outputs to the leaves, the latest operation first, without recursion.

An operation is younger than those its inputs came from, so the nodes sorted by age are in a right order. Dependencies
are counted for the leaves only, which receive their gradient as soon as it is complete, as in PyTorch. An executor may
compute the gradients of a graph in another way (`_array.executor.Executor.backward`).
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Any

from .._array import executor, tracing
from .._array.limits import tidy
from .._base import modes, watch
from .._tensor import anomaly, grad_mode
from .._tensor.node import AccumulateGrad, Node
from ._accumulation import array_of, summed, tensor_of
from ._hooks import add_up, apply, call_pre, call_tensor_hooks
from ._roots import Place
from ._task import elsewhere, walks

__all__ = ["Walk", "at_edges", "leading_to", "reach", "run"]

_age = operator.attrgetter("seq")


def run(
    roots: Sequence[Place],
    gradients: Sequence[Any],
    retain: bool,
    create_graph: bool,
    wanted: Sequence[Place] | None,
    catch: bool = True,
) -> list[Any]:
    """Sum the gradients into the leaves; with ``wanted``, catch them at those places instead (or, without ``catch``,
    sum them into those leaves only).

    Args:
        roots, gradients: where gradients enter the graph, and which.
        retain: keep what the graph saved.
        create_graph: record the backward pass itself.
    """
    if walks.are_deep() and not tracing.overlay:
        return elsewhere(lambda: run(roots, gradients, retain, create_graph, wanted, catch))
    before = modes.now()
    try:
        values = [(tensor_of if create_graph else array_of)(g) for g in gradients]
        if not (create_graph or tracing.overlay or anomaly.enabled or (watch.on and watch.state.profile)):
            done = executor.current.backward(roots, values, retain, wanted, catch)
            if done is not None:
                return done
        with grad_mode.enable_grad() if create_graph else grad_mode.no_grad():
            return Walk(roots, wanted, catch, retain, create_graph).run(roots, values)
    except BaseException:
        modes.put_back(before)
        raise
    finally:
        tidy()


def at_edges(roots: Sequence[Place], gradients: Sequence[Any], places: Sequence[Place]) -> list[Any]:
    """The gradients that flow out of a part of the graph: what arrives at ``places``, None where nothing does."""
    with grad_mode.no_grad():
        return Walk(roots, places, catch=True, retain=True, ends=True).run(roots, gradients)


def reach(roots: Sequence[Place], ends: Collection[Node] = ()) -> tuple[list[Node], dict[Node, int]]:
    """The operations that can be reached without passing ``ends``, the latest first; and the leaves, with the number of
    edges that lead there.
    """
    seen = {node for node, _ in roots}
    awaited: dict[Node, int] = {node: 0 for node in seen if type(node) is AccumulateGrad}
    order = [node for node in seen if type(node) is not AccumulateGrad]
    at = 0
    while at < len(order):  # the list grows while it is read
        for edge in () if order[at] in ends else order[at].edges:
            if edge is None:
                continue
            target = edge[0]
            if type(target) is AccumulateGrad:
                awaited[target] = awaited.get(target, 0) + 1
            elif target not in seen:
                seen.add(target)
                order.append(target)
        at += 1
    order.sort(key=_age, reverse=True)
    return order, awaited


def leading_to(order: list[Node], targets: set[Node]) -> set[Node]:
    """The targets and the operations from which one can be reached."""
    needed = set(targets)
    for node in reversed(order):
        if node not in needed and any(e is not None and e[0] in needed for e in node.edges):
            needed.add(node)
    return needed


class Walk:
    """One backward pass.

    Attributes:
        order, awaited: the operations, and the leaves with the number of edges to come (see `reach`).
        needed: the nodes that lead to what is wanted; None for all.
        arrived: by node the gradients of its outputs that have arrived, and not been used yet.
        caught: by node and output the gradients that are caught.
        ends: whether they are caught as they arrive, before hooks, and the walk ends there: at the nodes ``stops``.
        number: how many walks came before.
        callbacks: what is to be called when it is done.
    """

    _numbers = itertools.count()

    def __init__(
        self,
        roots: Sequence[Place],
        wanted: Sequence[Place] | None,
        catch: bool,
        retain: bool,
        create_graph: bool = False,
        ends: bool = False,
    ) -> None:
        self.stops = {node for node, _ in wanted or ()} if ends else set()
        self.order, self.awaited = reach(roots, self.stops)
        self.needed = None if wanted is None else leading_to(self.order, {node for node, _ in wanted})
        self.places = wanted if wanted is not None and catch else ()
        self.caught: dict[Node, dict[int, Any]] = {}
        for node, number in self.places:
            self.caught.setdefault(node, {})[number] = None
        self.retain, self.create_graph, self.ends = retain, create_graph, ends
        self.arrived: dict[Node, list[Any]] = {}
        self.number = next(Walk._numbers)
        self.callbacks: list[Callable[[], None]] = []

    def run(self, roots: Sequence[Place], gradients: Sequence[Any]) -> list[Any]:
        """Walk; returns the gradients that were caught."""
        for (node, number), value in zip(roots, gradients):
            self._deposit(node, number, value)
        walks.stack.append(self)
        try:
            self._go()
            for callback in self.callbacks:  # which may add others
                callback()
        finally:
            walks.stack.pop()
        return [self.caught[node][number] for node, number in self.places]

    @functools.cached_property
    def nodes(self) -> set[Node]:
        """Those that it will reach."""
        nodes: set[Node] = {*self.order, *self.awaited}
        return nodes if self.needed is None else nodes & self.needed

    def _go(self) -> None:
        awaited, needed = self.awaited, self.needed
        for leaf in [leaf for leaf, count in awaited.items() if not count]:
            self._arrive(leaf)
        for node in self.order:
            grads = self.arrived.pop(node, None)
            if grads is None and (node.runs_empty or (node.extras is not None and node.extras.watched())):
                grads = [None] * node.outputs
            results: Sequence[Any] = ()
            if grads is not None and (needed is None or node in needed):
                results = self._visit(node, grads)
                if not self.retain and (node not in self.caught or self._feeds(node)):
                    node.release()
            for position, edge in enumerate(() if node in self.stops else node.edges):
                if edge is None:
                    continue
                target, number = edge
                if results and results[position] is not None:
                    self._deposit(target, number, results[position])
                if target in awaited:
                    awaited[target] -= 1
                    if not awaited[target]:
                        self._arrive(target)

    def _deposit(self, node: Node, number: int, value: Any) -> None:
        """A gradient arrives at an output of a node, where others may have arrived."""
        slots = self.arrived.get(node)
        if slots is None:
            slots = self.arrived[node] = [None] * node.outputs
        slots[number] = value if slots[number] is None else summed(slots[number], value)

    def _visit(self, node: Node, grads: list[Any]) -> Sequence[Any]:
        """Hooks, catching and execution of one operation: the gradients of its inputs."""
        caught = self.caught.get(node, {})
        is_last = bool(caught) and (self.ends or not self._feeds(node))
        if is_last and not self.ends:
            grads = call_tensor_hooks(node, grads)
        caught.update({number: grads[number] for number in caught})
        if is_last:
            return ()
        grads = call_tensor_hooks(node, grads)  # PyTorch catches before the hooks where the walk goes on
        grads = call_pre(node, grads)
        if node.runs_empty or any(g is not None for g in grads) or node.post_hooks:
            return apply(node, grads, self.create_graph)
        return ()

    def _feeds(self, node: Node) -> bool:
        """Whether the walk goes on to something that is wanted."""
        needed = self.needed
        return needed is None or any(e is not None and e[0] in needed for e in node.edges)

    def _arrive(self, leaf: Any) -> None:
        """The gradient of a leaf is complete: catch it, or add it to ``.grad``."""
        grads = self.arrived.pop(leaf, None)
        if self.needed is not None and leaf not in self.needed:
            return
        if grads is None:
            if leaf.extras is None and not leaf.variable._hooks and not leaf.variable._post_accumulate_hooks:
                return
            grads = [None]
        if not self.ends:
            grads = call_tensor_hooks(leaf, grads)
        if leaf in self.caught:
            self.caught[leaf][0] = grads[0]
            return
        grads = call_pre(leaf, grads)
        hooks = leaf.variable._post_accumulate_hooks
        # A hook sees the sum with its own gradient. A trace has `tracing.turn`, for which others wait in there.
        with hooks.turn if hooks and not tracing.overlay else nullcontext():
            add_up(leaf, grads[0], self.create_graph)
        if leaf.post_hooks:
            for hook in list(leaf.post_hooks.values()):
                hook((), tuple(None if g is None else tensor_of(g) for g in grads))
