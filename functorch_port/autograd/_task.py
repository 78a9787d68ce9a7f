"""The backward pass that is running, as hooks and PyTorch's private functions see it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from .._base import modes
from .._tensor import grad_mode
from .._tensor.node import AccumulateGrad, Node

if TYPE_CHECKING:
    from ._engine import Walk

__all__ = ["current_walk", "elsewhere", "queue_callback", "walks"]


class _Walks(threading.local):
    """The calling thread's walks in progress, the innermost last (a hook or a custom backward may start another)."""

    def __init__(self) -> None:
        self.stack: list[Walk] = []

    def are_deep(self) -> bool:
        """Whether another one is better in a thread of its own, as Python's recursion is bounded."""
        return len(self.stack) >= 24


walks = _Walks()


def current_walk() -> Walk:
    """The walk that is calling hooks right now."""
    return walks.stack[-1]


def elsewhere(call: Callable[[], Any]) -> Any:
    """Run a part of a backward pass in a thread of its own, which has the modes of this one, and wait for it."""
    before, made = modes.now(), Future[Any]()

    def run() -> None:
        modes.put_back(before)
        try:
            made.set_result(call())
        except BaseException as error:
            made.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    return made.result()


def queue_callback(callback: Callable[[], None]) -> None:
    """Call ``callback`` when the backward pass that is running is done.

    Raises:
        RuntimeError: none is running.
    """
    if not walks.stack:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    current_walk().callbacks.append(callback)


def _current_graph_task_id() -> int:
    return current_walk().number if walks.stack else -1


def _current_graph_task_execution_order() -> list[Node]:
    if not walks.stack:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if grad_mode.state.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled, e.g. by running:\n\n>>> with torch.autograd.set_multithreading_enabled(False):\n"
            "...     torch.autograd.grad(...)\n"
        )
    return _in_order(current_walk())


def _will_engine_execute_node(node: Node) -> bool:
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if not walks.stack:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    walk = current_walk()
    if walk.caught and type(node) is AccumulateGrad:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return node in walk.nodes


def _in_order(walk: Walk) -> list[Node]:
    """The nodes in the order in which they run."""
    awaited = Counter(e[0] for node in walk.order for e in node.edges if e is not None)
    found: list[Node] = []
    for node in walk.order:
        found.append(node)
        for edge in node.edges:
            if edge is not None:
                awaited[edge[0]] -= 1
                if type(edge[0]) is AccumulateGrad and not awaited[edge[0]]:
                    found.append(edge[0])
    return [node for node in found if node in walk.nodes]
