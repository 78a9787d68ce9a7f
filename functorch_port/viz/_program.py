"""`program`: a compiled step as a picture, its operations grouped by module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from .._base import flops, scopes
from .._base.jaxprs import is_literal, nbytes
from .._base.optional import optional
from .._base.units import BYTES, Units, unit_of
from .._trace.compiled import compile as compile_function
from .._trace.compiled import compiled_of

__all__ = ["program"]

_FORWARD, _BACKWARD, _REST = "#cfe2f3", "#f9cb9c", "#d9ead3"
_STYLE = {"style": "filled", "shape": "box", "fontsize": "10", "fontname": "monospace", "height": "0.2"}
#: what does not compute anything that a reader looks for
_PLAIN = frozenset(
    {"broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "copy", "stop_gradient"}
)
_OUTSIDE = "(outside of modules)"
_FLOPS: Units = (("GFLOPs", 1e9), ("MFLOPs", 1e6), ("kFLOPs", 1e3), ("FLOPs", 1))


def program(
    step: Callable[..., Any], *args: Any, operations: bool = False, most: int = 2000, **kwargs: Any
) -> Any:
    """Draw what a compiled step computes, as JAX hands it to XLA, grouped by module.

    There is a box for each module or region, blue in the forward pass and orange in the backward pass; the rest, such
    as the optimizer's update, is green. It says which operations there are and how many, and the FLOPs of products of
    matrices and convolutions. An arrow says how many bytes flow; it is dashed from the forward to the backward pass.

    Args:
        step: a compiled function, or one that is compiled for this.
        args, kwargs: what it is called with, once: it does all that it does. Without any, the program that a compiled
            function used last is drawn, and it is called only if there is none.
        operations: draw each operation instead, within boxes of the modules.
        most: operations to draw at most.

    Returns:
        a `graphviz.Digraph`. Its ``source`` is text; ``render`` needs Graphviz's program ``dot``.

    Raises:
        ModuleNotFoundError: graphviz is not installed.
        ValueError: there are more operations than ``most``; without ``operations`` there is no limit.

    Example:
        >>> import functorch_port as torch
        >>> model = torch.nn.Linear(3, 2)
        >>> step = torch.compile(lambda x: model(x).sum())
        >>> "model" in torch.viz.program(step, torch.ones(4, 3)).source
        True
    """
    digraph = optional("graphviz", "functorch_port.viz", "viz").Digraph
    if compiled_of(step) is None:
        step = compile_function(step)
    compiled: Any = compiled_of(step)
    if args or kwargs or not compiled.programs():
        step(*args, **kwargs)
    jaxpr = compiled.programs()[0].executable.jaxpr.jaxpr
    dot = digraph(graph_attr={"rankdir": "TB", "fontname": "monospace", "fontsize": "10"}, node_attr=_STYLE)
    dot.attr("edge", fontsize="8", fontname="monospace", color="#666666")
    if not operations:
        return _of_modules(dot, jaxpr)
    if len(jaxpr.eqns) > most:
        raise ValueError(
            f"viz.program(operations=True): {len(jaxpr.eqns)} operations, more than most={most}; without "
            "operations=True there is a box for each module"
        )
    return _of_operations(dot, jaxpr)


def _of_modules(dot: Any, jaxpr: Any) -> Any:
    counts: dict[str, Counter[str]] = {}
    work: Counter[str] = Counter()
    for eqn in jaxpr.eqns:
        scope = flops.scope_of(eqn)
        counts.setdefault(scope, Counter())[_title(eqn)] += 1
        for inner, number in flops.of_eqn(eqn).items():
            work[scope if inner.startswith(scope) else inner] += number
    box = lambda scope: _box(scope, counts[scope], work[scope])
    _clusters(dot, counts, lambda part, scope: part.node(_id(scope), box(scope), fillcolor=_colour(scope)))
    crossing = {(v, flops.scope_of(start), flops.scope_of(end)) for v, start, end in _flows(jaxpr)}
    flows: Counter[tuple[str, str]] = Counter()
    for variable, *way in crossing:  # what a module takes several times flows once
        flows[tuple(way)] += nbytes(variable)  # type: ignore[index]
    for (start, end), count in sorted(flows.items()):
        if start != end:
            style = "dashed" if not scopes.is_backward(start) and scopes.is_backward(end) else "solid"
            dot.edge(_id(start), _id(end), label=_short(count, BYTES), style=style)
    return dot


def _of_operations(dot: Any, jaxpr: Any) -> Any:
    number = {id(eqn): str(i) for i, eqn in enumerate(jaxpr.eqns)}
    of_scope: dict[str, list[Any]] = {}
    for eqn in jaxpr.eqns:
        of_scope.setdefault(flops.scope_of(eqn), []).append(eqn)

    def draw(part: Any, scope: str) -> None:
        for eqn in of_scope[scope]:
            label = f"{_title(eqn)}\n{' '.join(v.aval.str_short() for v in eqn.outvars)}"
            part.node(number[id(eqn)], label, fillcolor=_colour(scope))

    _clusters(dot, of_scope, draw, each=True)
    seen = set()
    for _, start, end in _flows(jaxpr):
        pair = number[id(start)], number[id(end)]
        if pair not in seen:
            seen.add(pair)
            dot.edge(*pair)
    return dot


def _clusters(dot: Any, names: Any, draw: Callable[[Any, str], None], each: bool = False) -> None:
    """Draw scopes, those of a module within a frame of its name; with ``each`` every scope has a frame."""
    tree: dict[str, Any] = {}
    for scope in names:
        place = tree
        for part in scope.split("/") if scope else []:
            place = place.setdefault(part, {})

    def fill(part: Any, path: str, children: dict[str, Any]) -> None:
        if path in names:
            draw(part, path)
        for name, inner in children.items():
            whole = f"{path}/{name}" if path else name
            if inner or each:
                with part.subgraph(name=f"cluster_{whole}") as frame:
                    frame.attr(label=name, style="rounded", color="#999999")
                    fill(frame, whole, inner)
            else:
                fill(part, whole, inner)

    fill(dot, "", tree)


def _flows(jaxpr: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The variables that one operation makes and another takes, with both."""
    made: dict[Any, Any] = {}
    for eqn in jaxpr.eqns:
        for variable in eqn.invars:
            if not is_literal(variable) and variable in made:
                yield variable, made[variable], eqn
        made |= dict.fromkeys(eqn.outvars, eqn)


def _title(eqn: Any) -> str:
    """The operation, or the name of the function that it calls."""
    name = eqn.params.get("name")
    return name if isinstance(name, str) and eqn.primitive.name in ("jit", "pjit") else eqn.primitive.name


def _box(scope: str, counts: Counter[str], work: int) -> str:
    shown = [f"{name} x{n}" if n > 1 else name for name, n in counts.most_common() if name not in _PLAIN][:5]
    lines = [scope.rpartition("/")[2] or _OUTSIDE, *shown]
    left_out = counts.total() - sum(counts[line.split(" x")[0]] for line in shown)
    lines += [f"{left_out} more"] if left_out else []
    return "\n".join(lines + ([_short(work, _FLOPS)] if work else []))


def _short(number: int, units: Units) -> str:
    unit, size = unit_of(number, units)
    return f"{number / size:.3g} {unit}"


def _colour(scope: str) -> str:
    if scopes.is_backward(scope):
        return _BACKWARD
    return _REST if not scope or scope.split("/")[0].endswith(".step") else _FORWARD


def _id(scope: str) -> str:
    return scope or _OUTSIDE
