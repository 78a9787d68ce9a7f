"""What a compiled function captured, why it was traced, and what it costs."""

from __future__ import annotations

from typing import Any

from .._base.units import nbytes
from .names import name_cells
from .program import Program

__all__ = ["explain"]


def _size(count: float) -> str:
    return nbytes(count, digits=1)


def explain(compiled: Any, analyse: bool = True) -> str:
    """The report behind ``compile(...).explain()``."""
    lines = [f"{getattr(compiled, '__qualname__', 'function')}: traced {compiled.traces} time(s)"]
    lines += [f"  trace {i + 1}: {why}" for i, why in enumerate(compiled.reasons)]
    lines += compiled._changing.describe(compiled._fn)
    for n, program in enumerate(compiled.programs()):
        lines += _program(compiled, program, n, analyse)
    return "\n".join(lines)


def _program(compiled: Any, program: Program, n: int, analyse: bool) -> list[str]:
    inputs, numbers = program.inputs, program.inputs.numbers
    calls = program.calls + (0 if program.quick is None else program.quick.calls)
    lines = [f"program {n}: {calls} call(s), {len(program.executable.jaxpr.jaxpr.eqns)} operations"]
    named = [
        (name in numbers.fixed, key if i is None else f"{key}[{i}]")
        for name, (_, key, i, _) in numbers.places.items()
    ]
    names = name_cells(compiled._fn, [*inputs.donated, *inputs.cells], program.guards.joints)
    for title, cells in (("updated in place", inputs.donated), ("read", inputs.cells)):
        if cells:
            lines.append(f"  {title}:")
            lines += [f"    {names[c]}: {_describe(c.array())}" for c in cells]
    values = program.guards.values.describe()
    if values:
        lines += ["  traced for:", *(f"    {value}" for value in values)]
    for title, items in (
        ("gradients read", [tuple(t.shape) for t in inputs.grads]),
        ("numbers that may change", [name for is_fixed, name in named if not is_fixed]),
        ("numbers that are fixed", [name for is_fixed, name in named if is_fixed]),
        ("random draws made on the host", [len(inputs.draws)] if inputs.draws else []),
        ("checks of values before a call", [len(program.before)] if program.before else []),
        ("checks of values in the program", [] if program.within is None else [program.within.count]),
        (
            "differentiated outside, towards",
            [] if program.recording is None else [kind for kind, _ in program.recording.boundary],
        ),
    ):
        if items:
            lines.append(f"  {title}: {', '.join(map(str, items))}")
    return lines + (_analysis(program) if analyse else [])


def _describe(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}, {_size(value.size * value.dtype.itemsize)}"


def _analysis(program: Program) -> list[str]:
    compiled = program.executable.lower().compile()
    cost, memory = compiled.cost_analysis() or {}, compiled.memory_analysis()
    lines = [
        f"  cost: {cost.get('flops', 0):.4g} FLOPs, {_size(cost.get('bytes accessed', 0))} accessed per call"
    ]
    if memory is not None:
        lines.append(
            f"  memory: {_size(memory.argument_size_in_bytes)} in, {_size(memory.output_size_in_bytes)} out, "
            f"{_size(memory.temp_size_in_bytes)} temporary, {_size(memory.alias_size_in_bytes)} reused in place"
        )
    return lines
