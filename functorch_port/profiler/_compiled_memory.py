"""The memory of a compiled step: its state, and what XLA has planned for the program."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .._base import flops, scopes
from .._base.jaxprs import is_literal, nbytes, needed
from ._eager_memory import INPUTS, OTHER
from ._owners import GRADIENTS, NO_MODULE, Moment, Owner, nbytes_of, owners

__all__ = ["TEMPORARY", "kept_for_backward", "of_program", "saved_for_backward"]

#: activations, gradients that are used up in the step, and room to compute
TEMPORARY = "temporary"


def of_program(step: Any, program: Any) -> tuple[Moment, dict[str, int]]:
    """What a call needs, and XLA's numbers.

    Gradients are those that the program returns; or, while it leaves them to who reads ``.grad``, the parameters of the
    call before, which are kept for that (see `_trace.pending`).

    Raises:
        NotImplementedError: XLA has no analysis of memory on this platform.
    """
    analysis = program.executable.lower().compile().memory_analysis()
    if analysis is None:
        raise NotImplementedError("memory_breakdown: XLA has no analysis of memory on this platform")
    inputs, pending = program.inputs, program.executable.pending
    members = {joint.cell: joint.members for joint in program.guards.joints}
    expanded = lambda cells: [one for cell in cells for one in members.get(cell, (cell,))]
    cells = expanded((*inputs.donated, *inputs.cells))
    known = owners(step, cells)
    moment = Moment()
    costs = moment.costs
    nobody = Owner(OTHER, NO_MODULE)
    for cell in cells:
        moment.add(known.get(cell, nobody), nbytes_of(cell))
    of_state = costs.total()
    returned = [cell for cell, owner in known.items() if owner.cost == GRADIENTS and cell not in cells]
    old = [] if pending is None else expanded(inputs.donated[pending.safe :])
    for cell in (*returned, *old):
        moment.add(known.get(cell, nobody)._replace(cost=GRADIENTS), nbytes_of(cell))
    arguments, outputs = int(analysis.argument_size_in_bytes), int(analysis.output_size_in_bytes)
    alias = int(analysis.alias_size_in_bytes)
    costs[INPUTS] += max(0, arguments - of_state - sum(map(nbytes_of, old)))
    costs[OTHER] += max(0, outputs - alias - sum(map(nbytes_of, returned)))
    costs[TEMPORARY] = int(analysis.temp_size_in_bytes)
    numbers = {
        "arguments": arguments,
        "outputs": outputs,
        "reused in place": alias,
        "temporary": costs[TEMPORARY],
    }
    moment.costs = +costs
    return moment, numbers


def kept_for_backward(jaxpr: Any, platform: str) -> Counter[str]:
    """An estimate: bytes of what the forward pass computes and the backward pass reads, by the module that makes it.

    XLA may compute some of it again, or never store it.
    """
    sizes: Counter[str] = Counter()
    for variable, scope in saved_for_backward(jaxpr, platform).items():
        sizes[scope or NO_MODULE] += nbytes(variable)
    return +sizes


def saved_for_backward(jaxpr: Any, platform: str) -> dict[Any, str]:
    """Variables that the forward pass makes and the backward pass reads, with the modules that make them.

    The program has a result of each platform's way; those that only others save are left out.
    """
    made: dict[Any, tuple[Any, int]] = {}
    kept: dict[Any, str] = {}
    for eqn in needed(jaxpr, platform).eqns:
        if scopes.is_backward(flops.scope_of(eqn)):
            read = [v for v in eqn.invars if not is_literal(v) and v in made and v not in kept]
            kept |= {v: _scope_of(*made[v]) for v in read}
        else:
            made |= {v: (eqn, k) for k, v in enumerate(eqn.outvars)}
    return kept


def _scope_of(eqn: Any, k: int, scope: str = "") -> str:
    """The module that makes a result of an operation: in a loop or a call, that of the operation inside."""
    here = flops.joined(scope, flops.scope_of(eqn))
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    inner = getattr(inner, "jaxpr", inner)
    if not hasattr(inner, "eqns") or len(inner.outvars) != len(eqn.outvars):
        return here
    result = inner.outvars[k]
    for one in inner.eqns:
        if not is_literal(result) and result in one.outvars:
            return _scope_of(one, one.outvars.index(result), here)
    return here
