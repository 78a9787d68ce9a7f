"""The run of a plan inside a trace: plain JAX. A recorded one takes its `jax.vjp` at once, so that nothing is computed
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from .._array import tracing
from .._array.symbolic import SymNumber
from .._tensor import grad_mode, once
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor
from .opnode import edges_of, node_class
from .results import has_gradient, recorded, unrecorded

__all__ = ["NO_HISTORY", "run"]

_grad = grad_mode.state


def run(plan: Plan, dyn: Sequence[Any]) -> Any:
    """As `_run.run.run`, of which this is a part."""
    if tracing.overlay.transforms:
        return tracing.overlay.run_op(plan, dyn)
    if plan.eager:
        raise RuntimeError(tracing.overlay.data_dependent(plan.name, plan.eager))
    records = False
    if _grad.enabled and plan.differentiable:
        for a in dyn:
            if isinstance(a, Tensor):
                if a._base is not None:
                    a._sync_view()
                records = records or a._requires_grad
    if records and tracing.overlay.has_run_backward:
        tracing.overlay.begin_forward()
    values: list[Any] = []
    for a in dyn:
        values.append(a._value if isinstance(a, Tensor) else a.array if isinstance(a, SymNumber) else a)
    tracing.overlay.note_inputs(dyn)
    if plan.check is not None:
        plan.check(*values)
    if not records:
        return unrecorded(plan, once.run(plan, values))
    edges, mask = edges_of(dyn)
    tracing.overlay.note_edges(dyn, edges)
    # what has lost its history (`detach`, `no_grad`) has none for a second derivative either, which is JAX's
    values = [v if m else _stopped(v) for v, m in zip(values, mask, strict=True)]
    out, pull = once.run_recorded(plan, mask, values)
    node = node_class(plan.node)(plan, mask, edges, tuple(values), out)
    node.pull = pull
    return recorded(plan, node, out, dyn)


def _stopped(value: Any) -> Any:
    if not isinstance(value, jax.core.Tracer) or not has_gradient[value.dtype]:
        return value
    return lax.stop_gradient(value) if tracing.overlay.rebinds else _no_history(value)


@jax.jit
def _no_history(value: Any) -> Any:
    """A mark in the trace of a pure function, which may or may not mean ``stop_gradient`` (see `_trace.stops`)."""
    return lax.stop_gradient(value)


#: what JAX calls the mark
NO_HISTORY = _no_history.__name__
