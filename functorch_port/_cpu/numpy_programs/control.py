"""Branches and loops: the programs in them are Python functions of numpy arrays, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._base.jaxprs import scan_parts
from .values import Unsupported, Value

if TYPE_CHECKING:
    from .writer import Writer

__all__ = ["CONTROL"]

#: how often a `while` loop runs, for the estimate of its time
_RUNS = 16


def _branch(index: Any, *arrays: Any, branches: Sequence[Any], symbols: tuple[int, ...]) -> Any:
    return branches[min(max(int(index), 0), len(branches) - 1)](*symbols, *arrays)


def _cond(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    branches = eqn.params["branches"]
    if ins[0].const is not None:
        return w._run(branches[min(max(int(ins[0].const), 0), len(branches) - 1)], ins[1:])
    programs, costs = zip(*map(w._inner, branches), strict=True)
    longest = max(costs, key=lambda cost: cost[0])
    return w._call(_branch, eqn, ins, longest[0] + 2.0, *longest[1], branches=programs, symbols=w.symbols)


def _while(
    *arrays: Any, test: Any, body: Any, constants: tuple[int, int], symbols: tuple[int, ...]
) -> tuple[Any, ...]:
    first, second = constants
    tested, fixed = (*symbols, *arrays[:first]), (*symbols, *arrays[first : first + second])
    state = arrays[first + second :]
    while test(*tested, *state)[0]:
        state = body(*fixed, *state)
    return state


def _loop(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    p = eqn.params
    if eqn.params["cond_jaxpr"].out_avals[0].shape:
        raise Unsupported("a while loop for each of many")
    (test, cost), (body, more) = w._inner(p["cond_jaxpr"]), w._inner(p["body_jaxpr"])
    once, each = cost[0] + more[0], [(shape, ns * _RUNS) for shape, ns in (*cost[1], *more[1])]
    constants = p["cond_nconsts"], p["body_nconsts"]
    how: dict[str, Any] = {"test": test, "body": body, "constants": constants, "symbols": w.symbols}
    return w._call(_while, eqn, ins, once * _RUNS, *each, **how)


def _scan_over(
    *arrays: Any,
    body: Any,
    constants: int,
    carried: int,
    length: int,
    reverse: bool,
    results: Sequence[tuple[tuple[int, ...], Any]],
    symbols: tuple[int, ...],
) -> tuple[Any, ...]:
    fixed, state = (*symbols, *arrays[:constants]), arrays[constants : constants + carried]
    rows = arrays[constants + carried :]
    outs = [np.empty(shape, dtype) for shape, dtype in results]
    for k in reversed(range(length)) if reverse else range(length):
        made = body(*fixed, *state, *[x[k] for x in rows])
        state = made[:carried]
        for out, row in zip(outs, made[carried:], strict=True):
            out[k] = row
    return (*state, *outs)


def _scan(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    p = eqn.params
    (body, cost), length = w._inner(p["jaxpr"]), p["length"]
    each = [((length,), cost[0] + 1.0), *[((length, *shape), ns) for shape, ns in cost[1]]]
    (constants, carried), avals = scan_parts(eqn), [v.aval for v in eqn.outvars]
    how: dict[str, Any] = {"body": body, "constants": constants, "carried": carried, "symbols": w.symbols}
    results = tuple([(tuple(aval.shape), aval.dtype) for aval in avals[carried:]])
    how |= {"length": length, "reverse": p["reverse"], "results": results}
    return w._call(_scan_over, eqn, ins, 5.0, *each, **how)


def _linear_solve(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    """The solution by the function that the primitive has for it."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    before = lengths.matvec + lengths.vecmat
    return w._run(jaxprs.solve, [*ins[before : before + lengths.solve], *ins[sum(lengths) :]])


CONTROL: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "custom_linear_solve": _linear_solve,
    "scan": _scan,
    "while": _loop,
}
