"""The run of a plan on Tensors: at once, recorded for a gradient, or inside of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
from jax import lax

from .._array import executor, fits, tracing
from .._array.executor import arrays
from .._array.symbolic import SymNumber
from .._array.value import VALUES
from .._base import dtypes
from .._tensor import anomaly, grad_mode, saved
from .._tensor.node import Edge, Node
from .._tensor.plan import Plan, pullback_of
from .._tensor.tensor import Tensor, wrap
from .._tensor.view import View, laid
from . import packing
from .opnode import OpNode, edge_of, node_class

__all__ = ["attach_view", "laid_as", "outputs_of", "run"]

_grad = grad_mode.state


def run(plan: Plan, dyn: Sequence[Any]) -> Any:
    """Run a plan on Tensors and numbers; returns a Tensor, or a tuple of them."""
    if tracing.overlay:
        return _run_traced(plan, dyn)
    tracked = _grad.enabled and plan.differentiable
    recorded = False
    values: list[Any] = []
    for a in dyn:
        if isinstance(a, Tensor):
            if tracked:
                if a._base is not None:
                    a._sync_view()
                if a._requires_grad:
                    recorded = True
            value = a._storage.held
            values.append(value if a._view is None and value.__class__ not in VALUES else a._peek())
        else:
            values.append(a)
    if plan.eager:
        values = [*arrays(values, dyn)]
    if plan.check is not None:
        plan.check(*values)
    mask: tuple[bool, ...] | None = None
    if recorded:
        mask = (
            ()
            if plan.keeps is None
            else tuple([isinstance(a, Tensor) and edge_of(a) is not None for a in dyn])
        )
    try:
        used, out, kept = executor.current.run(plan, values, dyn, mask)
    except (TypeError, ValueError, OverflowError) as error:
        told = _told(values, error)
        if told is error:
            raise
        raise told from None
    if recorded:
        return _record(plan, dyn, used, out, kept)
    if type(out) is tuple or type(out) is list:
        outs = [wrap(o) for o in out]
        return plan.returns(*outs) if plan.returns is not None else tuple(outs)
    return wrap(out)


def _told(values: Sequence[Any], error: Exception) -> Exception:
    """The error for tensors on different devices, or for integers of more than 64 bits; else the one that came."""
    for value in values:
        if type(value) is int:
            fits.fits(value, dtypes.int64.np)
    if "incompatible devices" in str(error):
        places = list(dict.fromkeys(str(wrap(v).device) for v in values if isinstance(v, jax.Array)))
        found = f"{places[0]} and {places[-1]}"
        return RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {found}!"
        )
    return error


def _record(
    plan: Plan,
    dyn: Sequence[Any],
    values: Sequence[Any],
    out: Any,
    kept: Any = None,
) -> Any:
    edges: list[Edge] = []
    mask = []
    for a in dyn:
        if isinstance(a, Tensor) and a._requires_grad:
            made_by = a._grad_fn
            edge = edge_of(a) if made_by is None else (made_by, a._output_nr)
            edges.append(edge)
            mask.append(edge is not None)
        else:
            edges.append(None)
            mask.append(False)
    many = type(out) is tuple or type(out) is list
    node = node_class(plan.node)(plan, tuple(mask), tuple(edges), values, len(out) if many else 1)
    node.kept = kept
    if kept.__class__ is not tuple and kept is not None:
        kept.recorded(node)
    if many or anomaly.enabled:
        return outputs_of(plan, node, out, many, dyn)
    tensor = wrap(out)
    if plan.saves is not None:
        _note_saved(plan, node, dyn, (tensor,))
    if has_gradient[out.dtype]:
        tensor._requires_grad = True
        tensor._grad_fn = node
    return tensor


class _HasGradient(dict):
    """Whether tensors of a dtype can require grad, by numpy dtype."""

    def __missing__(self, np_dtype: Any) -> bool:
        kind = dtypes.from_np(np_dtype)
        found = self[np_dtype] = kind.is_floating_point or kind.is_complex
        return found


has_gradient = _HasGradient()


def _note_saved(plan: Plan, node: OpNode, dyn: Sequence[Any], outs: Sequence[Tensor]) -> None:
    """Have a node note what PyTorch saves for it."""
    where = plan.saves.get(node.mask)  # type: ignore[union-attr]
    if where is None:
        where = plan.saves[node.mask] = saved.positions(plan.name, plan.slots, node.mask)  # type: ignore[index]
    if not where:
        return
    if saved.state.plain:
        saved.note(node, where, dyn, outs)
    elif saved.state.hooks:
        packing.pack_all(node, where, dyn, outs)
    else:
        saved.state.allowed.note(node, where, dyn, outs)


def outputs_of(plan: Plan, node: Node, out: Any, many: bool, dyn: Sequence[Any] | None = None) -> Any:
    if anomaly.enabled:
        anomaly.record(node)
    outs = []
    for number, value in enumerate(out if many else (out,)):
        tensor = wrap(value)
        if has_gradient[value.dtype]:
            tensor._requires_grad = True
            tensor._grad_fn = node
            tensor._output_nr = number
        outs.append(tensor)
    if dyn is not None and plan.saves is not None:
        _note_saved(plan, cast(OpNode, node), dyn, outs)
    if not many:
        return outs[0]
    return plan.returns(*outs) if plan.returns is not None else tuple(outs)


def _run_traced(plan: Plan, dyn: Sequence[Any]) -> Any:
    """Inside a trace: plain JAX; a recorded op takes its `jax.vjp` at once, so that nothing is computed twice."""
    if tracing.overlay.transforms:
        return tracing.overlay.run_op(plan, dyn)
    if plan.eager:
        raise RuntimeError(tracing.overlay.data_dependent(plan.name, plan.eager))
    values, recorded = [], False
    for a in dyn:
        if isinstance(a, Tensor):
            if a._base is not None and _grad.enabled and plan.differentiable:
                a._sync_view()
            values.append(a._value)
            recorded = recorded or a._requires_grad
        else:
            values.append(a.array if isinstance(a, SymNumber) else a)
    tracing.overlay.note_inputs(dyn)
    if plan.check is not None:
        plan.check(*values)
    if not (recorded and _grad.enabled and plan.differentiable):
        out = plan.fn(*values)
        if type(out) is tuple or type(out) is list:
            outs = [wrap(o) for o in out]
            return plan.returns(*outs) if plan.returns is not None else tuple(outs)
        return wrap(out)
    edges = tuple([edge_of(a) if isinstance(a, Tensor) else None for a in dyn])
    tracing.overlay.note_edges(dyn, edges)
    mask = tuple(e is not None for e in edges)
    # what has no history here (`detach`, `no_grad`) has none for a second derivative either, which is JAX's
    values = [v if m else _stopped(v) for v, m in zip(values, mask, strict=True)]
    out, pull = pullback_of(plan.fn, mask, values)
    node = node_class(plan.node)(plan, mask, edges, tuple(values), len(out) if pull.many else 1)
    node.pull = pull
    return outputs_of(plan, node, out, pull.many, dyn)


def _stopped(value: Any) -> Any:
    return (
        lax.stop_gradient(value)
        if isinstance(value, jax.core.Tracer) and has_gradient[value.dtype]
        else value
    )


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


OpNode.run_again = staticmethod(run)
