"""What becomes of the arrays that a plan gave: Tensors, with the node that recorded it, as views, in an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._array import tracing
from .._base import dtypes
from .._tensor import anomaly, grad_mode
from .._tensor.node import Node
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor, wrap
from .._tensor.view import View, laid
from .opnode import MANY
from .packing import note

__all__ = ["attach_view", "has_gradient", "laid_as", "recorded", "unrecorded"]

_grad = grad_mode.state


class _HasGradient(dict):
    """Whether tensors of a dtype can require grad, by numpy dtype."""

    def __missing__(self, np_dtype: Any) -> bool:
        kind = dtypes.from_np(np_dtype)
        found = self[np_dtype] = kind.is_floating_point or kind.is_complex
        return found


has_gradient = _HasGradient()


def unrecorded(plan: Plan, out: Any) -> Any:
    """The results without a history."""
    if out.__class__ not in MANY:
        return wrap(out)
    outs = tuple(map(wrap, out))
    return outs if plan.returns is None else plan.returns(*outs)


def recorded(plan: Plan, node: Node, out: Any, dyn: Sequence[Any] | None = None) -> Any:
    """The results with their node. It also notes what PyTorch saves, if there are the arguments ``dyn``."""
    if anomaly.enabled:
        anomaly.record(node)
    if out.__class__ in MANY:
        outs = tuple(map(wrap, out))
        for number, tensor in enumerate(outs):
            if has_gradient[out[number].dtype]:
                tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, number
        result: Any = outs if plan.returns is None else plan.returns(*outs)
    else:
        result = wrap(out)
        if has_gradient[out.dtype]:
            result._requires_grad, result._grad_fn = True, node
        outs = (result,)
    if dyn is not None and plan.saves is not None:
        note(node, plan, dyn, outs)
    return result


def laid_as(order: Callable[..., Any], inputs: Sequence[Any], result: Any) -> Any:
    """The result of an operation, which lies in memory in the order that its inputs bring about."""
    if isinstance(result, tuple):
        new = [laid_as(order, inputs, part) for part in result]
        return type(result)(*new) if hasattr(result, "_fields") else tuple(new)
    if type(result) is not Tensor:
        return result
    shape = result._aval().shape
    if len(shape) < 2:
        return result
    return laid(result, order(shape, [a for a in inputs if isinstance(a, Tensor)]))


def attach_view(result: Tensor, source: Tensor, view: View) -> None:
    """Make ``result`` share the Storage of ``source``."""
    result._view = view
    if source._requires_grad and has_gradient[view.cache.dtype] and view.plan.differentiable:
        # without a history, but not a constant either: under `no_grad`, as in PyTorch, and in a transform of `func`
        transforms = bool(tracing.overlay) and tracing.overlay.transforms
        if _grad.enabled if transforms else not _grad.enabled:
            result._requires_grad = result._inherits = True
    result._storage = source._storage
    if source._storage.version.__class__ is tracing.Untracked:  # nobody tracks its views
        result._requires_grad = result._inherits = False
        result._grad_fn = None
    else:
        result._base = source._base if source._base is not None else source
    version = result._writes
    if version:
        result._version_seen = version
    if tracing.overlay:
        tracing.overlay.note_made(result)
