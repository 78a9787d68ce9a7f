"""Hooks at the nodes of a backward pass: what they are called with, and what they may give back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._array import placed, tracing
from .._base import watch
from .._run import crossing
from .._tensor import anomaly
from .._tensor.node import AccumulateGrad, Node
from .._tensor.tensor import Tensor
from ._accumulation import accumulate, tensor_of

__all__ = ["add_up", "apply", "call_pre", "call_tensor_hooks", "remake"]


def call_tensor_hooks(node: Node, grads: list[Any]) -> list[Any]:
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


def remake(node: Node, grads: Sequence[Any]) -> None:
    """Make again what the node let go of."""
    for make in node.remaking or ():
        make([None if g is None else tensor_of(g) for g in grads])


def call_pre(node: Node, grads: list[Any]) -> list[Any]:
    """Hooks before the node runs."""
    remake(node, grads)
    for hook in list(node.pre_hooks.values()) if node.pre_hooks else ():
        result = hook(tuple(None if g is None else tensor_of(g) for g in grads))
        if result is not None:
            grads = _all_checked(hook, result, grads)
    return grads


def apply(node: Node, grads: list[Any], create_graph: bool) -> Sequence[Any]:
    """Run the node, and the hooks that come after it."""
    try:
        if node.runs_empty or any(g is not None for g in grads):
            run = node.apply_recorded if create_graph else node.apply
            if watch.on and watch.state.profile is not None:
                run = watch.state.profile.at_node(node, run)
            results = run(grads)
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


def add_up(leaf: AccumulateGrad, grad: Any, create_graph: bool) -> None:
    """Add a gradient, unless it is None, to the ``.grad`` of a leaf; then call the hooks that come after that."""
    variable = leaf.variable
    if grad is not None:
        add = accumulate
        if watch.on and watch.state.profile is not None:
            add = watch.state.profile.at_node(leaf, accumulate)
        add(variable, grad, create_graph)
    if variable._post_accumulate_hooks:
        for hook in list(variable._post_accumulate_hooks.values()):
            if hook(variable) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")


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
    if placed.several and not tracing.overlay:
        result = crossing.given_for(was, result)
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
