"""The walk from the outputs to the leaves, the latest operation first, without recursion.

An operation is younger than those its inputs came from, so the nodes sorted by age are in a right order; no counting of
dependencies is needed but for the leaves, which receive their gradient as soon as it is complete (as in PyTorch).
An executor may compute the gradients of a graph in another way (`_array.executor.Executor.backward`).
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from .._array import executor, tracing
from .._array.limits import tidy
from .._base import modes
from .._tensor import anomaly, grad_mode
from .._tensor.node import AccumulateGrad, Node
from .._tensor.tensor import Tensor
from ._accumulation import accumulate, array_of, summed, tensor_of
from ._roots import Place

__all__ = ["at_edges", "current_walk", "leading_to", "queue_callback", "reach", "run"]

_age = operator.attrgetter("seq")


class _Edges(dict):
    """Places where a gradient is caught as it arrives, before hooks, and where the walk ends."""


def at_edges(roots: Sequence[Place], gradients: Sequence[Any], places: Sequence[Place]) -> list[Any]:
    """The gradients that flow out of a part of the graph: what arrives at ``places``, None where nothing does.

    Args:
        roots, gradients: where the walk starts, and the arrays it starts with.
        places: where it ends.
    """
    captures: Any = _Edges()
    for node, number in places:
        captures.setdefault(node, {})[number] = None
    order, awaited = reach(roots)
    needed = leading_to(order, set(captures))
    with grad_mode.no_grad():
        _walk(order, awaited, roots, gradients, True, False, needed, captures)
    return [captures[node][number] for node, number in places]


def run(
    roots: Sequence[Place],
    gradients: Sequence[Any],
    retain: bool,
    create_graph: bool,
    wanted: Sequence[Place] | None,
    catch: bool = True,
) -> list[Any]:
    """Walk the graph. Gradients are summed into the leaves; with ``wanted``, caught at those places (or, without
    ``catch``, summed into those leaves only)."""
    before = modes.now()
    try:
        return _run_through(roots, gradients, retain, create_graph, wanted, catch)
    except BaseException:
        modes.put_back(before)
        raise
    finally:
        tidy()


def _run_through(
    roots: Sequence[Place],
    gradients: Sequence[Any],
    retain: bool,
    create_graph: bool,
    wanted: Sequence[Place] | None,
    catch: bool,
) -> list[Any]:
    values = [(tensor_of if create_graph else array_of)(g) for g in gradients]
    if not create_graph and not tracing.overlay and not anomaly.enabled:
        done = executor.current.backward(roots, values, retain, wanted, catch)
        if done is not None:
            return done
    order, awaited = reach(roots)
    needed = None if wanted is None else leading_to(order, {node for node, _ in wanted})
    captures: dict[Node, dict[int, Any]] = {}
    if wanted is not None and catch:
        for node, number in wanted:
            captures.setdefault(node, {})[number] = None
    with grad_mode.enable_grad() if create_graph else grad_mode.no_grad():
        _walk(order, awaited, roots, values, retain, create_graph, needed, captures)
    return [captures[node][number] for node, number in wanted] if wanted is not None and catch else []


def _walk(
    order: list[Node],
    awaited: dict[Node, int],
    roots: Sequence[Place],
    values: Sequence[Any],
    retain: bool,
    create_graph: bool,
    needed: set[Node] | None,
    captures: dict[Node, dict[int, Any]],
) -> None:
    buffers: dict[Node, list[Any]] = {}
    for (node, number), value in zip(roots, values):
        _deposit(buffers, node, number, value)
    walk = _Walk(order, awaited, needed, bool(captures))
    _walks.stack.append(walk)
    try:
        _go(order, awaited, buffers, retain, create_graph, needed, captures)
        for callback in walk.callbacks:  # which may add others
            callback()
    finally:
        _walks.stack.pop()


class _Walk:
    """A walk in progress: which nodes it will reach.

    Attributes:
        number: how many came before it.
        catches: whether gradients are caught, and not summed into leaves.
        callbacks: what is to be called when it is done.
    """

    _numbers = itertools.count()

    def __init__(
        self, order: list[Node], leaves: dict[Node, int], needed: set[Node] | None, catches: bool
    ) -> None:
        self.nodes = {*order, *leaves}
        if needed is not None:
            self.nodes &= needed
        self.order = order
        self.number = next(_Walk._numbers)
        self.catches = catches
        self.callbacks: list[Callable[[], None]] = []

    def reaches(self, node: Node) -> bool:
        return node in self.nodes

    def in_order(self) -> list[Node]:
        """The nodes in the order in which they run."""
        awaited = Counter(e[0] for node in self.order for e in node.edges if e is not None)
        found: list[Node] = []
        for node in self.order:
            found.append(node)
            for edge in node.edges:
                if edge is not None:
                    awaited[edge[0]] -= 1
                    if type(edge[0]) is AccumulateGrad and not awaited[edge[0]]:
                        found.append(edge[0])
        return [node for node in found if node in self.nodes]


class _Walks(threading.local):
    """The calling thread's walks in progress, the innermost last (a hook or a custom backward may start another)."""

    def __init__(self) -> None:
        self.stack: list[_Walk] = []


_walks = _Walks()


def current_walk() -> _Walk:
    """The walk that is calling hooks right now."""
    return _walks.stack[-1]


def queue_callback(callback: Callable[[], None]) -> None:
    """Call ``callback`` when the backward pass that is running is done.

    Raises:
        RuntimeError: none is running.
    """
    if not _walks.stack:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    current_walk().callbacks.append(callback)


def _current_graph_task_id() -> int:
    return current_walk().number if _walks.stack else -1


def _current_graph_task_execution_order() -> list[Node]:
    if not _walks.stack:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if grad_mode.state.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled, e.g. by running:\n\n>>> with torch.autograd.set_multithreading_enabled(False):\n"
            "...     torch.autograd.grad(...)\n"
        )
    return current_walk().in_order()


def _will_engine_execute_node(node: Node) -> bool:
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if not _walks.stack:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    walk = current_walk()
    if walk.catches and type(node) is AccumulateGrad:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return walk.reaches(node)


def _go(
    order: list[Node],
    awaited: dict[Node, int],
    buffers: dict[Node, list[Any]],
    retain: bool,
    create_graph: bool,
    needed: set[Node] | None,
    captures: dict[Node, dict[int, Any]],
) -> None:
    for node in [node for node, count in awaited.items() if not count]:
        _arrive(node, buffers, create_graph, needed, captures)
    for node in order:
        grads = buffers.pop(node, None)
        if grads is None and (node.runs_empty or (node.extras is not None and node.extras.watched())):
            grads = [None] * node.outputs
        results: Sequence[Any] = ()
        if grads is not None and (needed is None or node in needed):
            caught = captures.get(node)
            if caught is not None and type(captures) is _Edges:
                caught.update({number: grads[number] for number in caught})
            else:
                results = _visit(node, grads, create_graph, needed, caught)
            if not retain and (node not in captures or _feeds(node, needed)):
                node.release()
        for position, edge in enumerate(node.edges):
            if edge is None:
                continue
            target = edge[0]
            if results and results[position] is not None:
                _deposit(buffers, target, edge[1], results[position])
            if target in awaited:
                awaited[target] -= 1
                if not awaited[target]:
                    _arrive(target, buffers, create_graph, needed, captures)


def _visit(
    node: Node, grads: list[Any], create_graph: bool, needed: set[Node] | None, caught: dict[int, Any] | None
) -> Sequence[Any]:
    """Hooks, catching and execution of one operation. PyTorch catches before the hooks where the walk goes on."""
    goes_on = caught is None or _feeds(node, needed)
    if caught is not None and goes_on:
        caught.update({number: grads[number] for number in caught})
    grads = _tensor_hooks(node, grads)
    if caught is not None and not goes_on:
        caught.update({number: grads[number] for number in caught})
    if not goes_on:
        return ()
    grads = _pre_hooks(node, grads)
    if node.runs_empty or any(g is not None for g in grads) or node.post_hooks:
        return _apply(node, grads, create_graph)
    return ()


def _feeds(node: Node, needed: set[Node] | None) -> bool:
    return needed is None or any(e is not None and e[0] in needed for e in node.edges)


def reach(roots: Sequence[Place]) -> tuple[list[Node], dict[Node, int]]:
    """The operations that can be reached, the latest first; and the leaves, with the number of edges that
    lead there.
    """
    seen = {node for node, _ in roots}
    awaited: dict[Node, int] = {node: 0 for node in seen if type(node) is AccumulateGrad}
    order = [node for node in seen if type(node) is not AccumulateGrad]
    at = 0
    while at < len(order):  # the list grows while it is read
        for edge in order[at].edges:
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


def _deposit(buffers: dict[Node, list[Any]], node: Node, number: int, value: Any) -> None:
    slots = buffers.get(node)
    if slots is None:
        slots = buffers[node] = [None] * node.outputs
    slots[number] = value if slots[number] is None else summed(slots[number], value)


def _arrive(
    node: Any,
    buffers: dict[Node, list[Any]],
    create_graph: bool,
    needed: set[Node] | None,
    captures: dict[Node, Any],
) -> None:
    """A leaf's gradient is complete: catch it, or add it to ``.grad``."""
    grads = buffers.pop(node, None)
    if needed is not None and node not in needed:
        return
    if grads is None:
        if node.extras is None and not node.variable._hooks and not node.variable._post_accumulate_hooks:
            return
        grads = [None]
    if type(captures) is not _Edges:
        grads = _tensor_hooks(node, grads)
    if node in captures:
        captures[node][0] = grads[0]
        return
    grads = _pre_hooks(node, grads)
    hooks = node.variable._post_accumulate_hooks
    # A hook sees the sum with its own gradient. A trace has `tracing.turn`, for which others wait in there.
    with hooks.turn if hooks and not tracing.overlay else nullcontext():
        if grads[0] is not None:
            accumulate(node.variable, grads[0], create_graph)
        _post_accumulate(node.variable)
    if node.post_hooks:
        for hook in list(node.post_hooks.values()):
            hook((), tuple(None if g is None else tensor_of(g) for g in grads))


def _post_accumulate(variable: Tensor) -> None:
    if variable._post_accumulate_hooks:
        for hook in list(variable._post_accumulate_hooks.values()):
            if hook(variable) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _tensor_hooks(node: Node, grads: list[Any]) -> list[Any]:
    """Hooks of the tensors that the node made, and `retain_grad`."""
    hooks_by_output = node.tensor_hooks
    if type(node) is AccumulateGrad and node.variable._hooks:
        hooks_by_output = {0: node.variable._hooks}
    if hooks_by_output:
        for number, hooks in list(hooks_by_output.items()):
            for hook in list(hooks.values()):  # without a gradient, too
                result = hook(None if grads[number] is None else tensor_of(grads[number]))
                if result is not None:
                    grads[number] = _checked(hook, result, grads[number])
    if node.retained:
        for number, ref in node.retained.items():
            tensor = ref()
            if tensor is not None and grads[number] is not None:
                old = tensor._get_grad()
                tensor._set_grad(tensor_of(grads[number]) if old is None else old + tensor_of(grads[number]))
    return grads


def _pre_hooks(node: Node, grads: list[Any]) -> list[Any]:
    for hook in list(node.pre_hooks.values()) if node.pre_hooks else ():
        result = hook(tuple(None if g is None else tensor_of(g) for g in grads))
        if result is not None:
            grads = _all_checked(hook, result, grads)
    return grads


def _apply(node: Node, grads: list[Any], create_graph: bool) -> Sequence[Any]:
    """Run the node, and the hooks that come after it."""
    try:
        if node.runs_empty or any(g is not None for g in grads):
            results = node.apply_recorded(grads) if create_graph else node.apply(grads)
        else:
            results = [None] * len(node.edges)
    except Exception as error:
        anomaly.annotate(node, error)
        raise
    if anomaly.enabled:
        anomaly.check(node, results)
    if node.post_hooks:
        seen = tuple(None if g is None else tensor_of(g) for g in grads)
        for hook in list(node.post_hooks.values()):
            listed = node.to_hook(results)
            changed = hook(tuple(None if r is None else tensor_of(r) for r in listed), seen)
            if changed is not None:
                results = node.from_hook(_all_checked(hook, changed, listed), results)
    return results


def _hook_name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")


def _checked(hook: Any, result: Any, value: Any) -> Any:
    """What a hook made of a gradient, as an array or Tensor like the gradient."""
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if value is None:
        return result
    if tuple(result.shape) != tuple(value.shape):
        raise RuntimeError(f"hook '{_hook_name(hook)}' has changed the size of value")
    was = tensor_of(value)
    if result.dtype is not was.dtype:
        raise RuntimeError(
            f"hook '{_hook_name(hook)}' has changed the type of value (was {was.type()} got {result.type()})"
        )
    return result if isinstance(value, Tensor) else result._look()


def _all_checked(hook: Any, result: Any, values: Sequence[Any]) -> list[Any]:
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(values):
        raise RuntimeError(
            f"hook '{_hook_name(hook)}' has returned an incorrect number of values (got {len(result)}, but "
            f"expected {len(values)})"
        )
    return [None if r is None else _checked(hook, r, v) for r, v in zip(result, values)]
