"""The run of a plan on Tensors: the arrays of its arguments go to the executor, its results become Tensors.

With an argument that requires a gradient the results get a node, which keeps the arguments. `traced` is for traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._array import executor, placed, tracing
from .._array.executor import arrays
from .._array.value import VALUES
from .._tensor import grad_mode
from .._tensor.node import Edge
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor
from . import crossing, traced
from .opnode import OpNode, edge_of, node_class
from .results import recorded, unrecorded

__all__ = ["run"]

_grad = grad_mode.state


def run(plan: Plan, dyn: Sequence[Any]) -> Any:
    """Run a plan on Tensors and numbers; returns a Tensor, or a tuple of them."""
    if tracing.overlay:
        return traced.run(plan, dyn)
    tracked = _grad.enabled and plan.differentiable
    records = False
    values: list[Any] = []
    edges: list[Edge] = []
    for a in dyn:
        edge = None
        if isinstance(a, Tensor):
            if tracked:
                if a._base is not None:
                    a._sync_view()  # a write to its base may have changed its history
                if a._requires_grad:
                    records, edge = True, edge_of(a)
            value = a._storage.held
            values.append(value if a._view is None and value.__class__ not in VALUES else a._peek())
        else:
            values.append(a)
        edges.append(edge)
    if placed.several:
        crossing.joined(plan.name, values, edges, dyn)
    if plan.eager:
        values = [*arrays(values, dyn)]
    if plan.check is not None:
        plan.check(*values)
    if not records:
        return unrecorded(plan, executor.current.run(plan, values, dyn, None)[1])
    mask = tuple(map(bool, edges))
    used, out, kept = executor.current.run(plan, values, dyn, mask)
    node = node_class(plan.node)(plan, mask, tuple(edges), used, out)
    node.kept = kept
    if kept.__class__ is not tuple and kept is not None:
        kept.recorded(node)  # it has not run yet
    return recorded(plan, node, out, dyn)


OpNode.run_again = staticmethod(run)
