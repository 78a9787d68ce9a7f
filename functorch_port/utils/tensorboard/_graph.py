"""The graph of a module for TensorBoard: the operations of its compiled forward pass, by module."""

from __future__ import annotations

from typing import Any

from ..._base import flops
from ..._base.jaxprs import is_literal
from ..._tensor.grad_mode import no_grad
from ..._trace.compiled import Compiled
from ..._trace.names import name_cells
from ...nn._conversion import modes_kept
from ._records import proto

__all__ = ["graph_of"]


def graph_of(model: Any, inputs: Any) -> Any:
    """A ``GraphDef`` of what a module computes, in evaluation mode."""
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    compiled = Compiled(lambda *given: model(*given))
    with modes_kept(model), no_grad():
        model.eval()
        compiled(*args)
    program = compiled.programs()[0]
    jaxpr = program.executable.jaxpr.jaxpr
    given = program.inputs
    cells = [*given.donated, *given.cells]
    found = name_cells(compiled._fn, cells, program.guards.joints)
    state = [found[cell].replace(".", "/") for cell in cells]
    left_over = len(jaxpr.invars) - len(state)
    names = dict(zip(jaxpr.invars, [*state, *(f"input/{i}" for i in range(left_over))]))
    graph = proto("compat.proto.graph_pb2").GraphDef()
    graph.versions.producer = 22
    for variable in (*jaxpr.constvars, *jaxpr.invars):
        names.setdefault(variable, f"constant/{len(names)}")
        _node(graph, names[variable], "input", [], variable)
    for number, eqn in enumerate(jaxpr.eqns):
        name = flops.joined(flops.scope_of(eqn), f"{eqn.primitive.name}_{number}")
        for i, out in enumerate(eqn.outvars):
            names[out] = name if not i else f"{name}:{i}"
        taken = [names[v] for v in eqn.invars if not is_literal(v)]
        _node(graph, name, eqn.primitive.name, taken, *eqn.outvars)
    for i, out in enumerate(jaxpr.outvars):
        if not is_literal(out):
            _node(graph, f"output/{i}", "output", [names[out]], out)
    return graph


def _node(graph: Any, name: str, kind: str, inputs: list[str], *variables: Any) -> None:
    node = graph.node.add(name=name, op=kind, input=inputs)
    for variable in variables:
        shape = node.attr["_output_shapes"].list.shape.add()
        for size in getattr(variable.aval, "shape", ()):
            shape.dim.add(size=int(size))
