"""Floating point operations of a program: of its products of matrices and its convolutions, by scope.

A multiplication and an addition are two. What is computed element by element is not counted, as by PyTorch's
`FlopCounterMode`. The numbers are those of the jaxpr, so what XLA computes again or in another way makes no difference.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import partial
from typing import Any

import jax

from . import lowering
from .jaxprs import is_literal

__all__ = ["by_place", "by_scope", "of_eqn", "parts", "scope_of", "split"]


def by_scope(jaxpr: Any, scope: str = "") -> Counter[str]:
    """The operations of a program by the scope that they are in (see `scopes`), without zeros.

    Raises:
        NotImplementedError: a loop of unknown length multiplies matrices.
    """
    return _by_scope(by_place(jaxpr, scope))


def of_eqn(eqn: Any, scope: str = "") -> Counter[str]:
    """As `by_scope`, of one operation of a jaxpr."""
    return _by_scope(_of_eqn(eqn, scope))


def by_place(jaxpr: Any, place: str = "") -> Counter[str]:
    """As `by_scope`, but by the whole stack of names, with what JAX's transforms and calls add to it."""
    found: Counter[str] = Counter()
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        found.update(_of_eqn(eqn, place))
    return +found


def _by_scope(places: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for place, count in places.items():
        found["/".join(parts(place))] += count
    return +found


def _of_eqn(eqn: Any, place: str) -> Counter[str]:
    name, params = eqn.primitive.name, eqn.params
    here = joined(place, str(eqn.source_info.name_stack))
    if name in _FORMULAS:
        return Counter({here: _FORMULAS[name](eqn)})
    formula = lowering.formula_of(eqn.primitive)
    if formula is not None:
        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        return by_place(jax.make_jaxpr(partial(formula, **params))(*avals), here)
    if name == "scan":
        return _times(by_place(params["jaxpr"], here), params["length"])
    if name == "while":
        counts = by_place(params["body_jaxpr"], here)
        return _times(counts, _trips(eqn)) if counts else counts
    if name == "cond":
        return max((by_place(branch, here) for branch in _branches(params)), key=Counter.total)
    inner = [value for value in params.values() if hasattr(getattr(value, "jaxpr", value), "eqns")]
    return sum((_times(by_place(jaxpr, here), _copies(eqn)) for jaxpr in inner), Counter())


def _copies(eqn: Any) -> int:
    """How often an operation's own program runs: on each part of a mesh, or for each place of a kernel's grid."""
    params = eqn.params
    if eqn.primitive.name == "shard_map":
        return math.prod(params["mesh"].shape[axis] for axis in params["newly_manual_axes"])
    if eqn.primitive.name == "pallas_call":
        grid = params["grid_mapping"].grid
        if not all(isinstance(n, int) for n in grid):
            raise NotImplementedError("FLOPs of a Pallas kernel with a grid of unknown size")
        return math.prod(grid)
    return 1


_COMPARISONS = {"lt": 0, "le": 1, "gt": 0, "ge": 1}


def _trips(eqn: Any) -> int:
    """How often a while loop runs whose condition compares a counter with a number, both known."""
    params = eqn.params
    body, condition = params["body_jaxpr"].jaxpr, params["cond_jaxpr"].jaxpr
    held, own = params["cond_nconsts"], params["body_nconsts"]
    after, before = body.outvars, body.invars[own:]

    def index(atom: Any) -> int:  # of an input of the condition
        return -1 if is_literal(atom) else condition.invars.index(atom)

    def value(atom: Any) -> Any:
        """What does not change, if it is known."""
        k = index(atom)
        if k >= held and after[k - held] is not before[k - held]:
            return None
        given = atom if k < 0 else eqn.invars[k if k < held else k + own]
        return _whole(given)

    def counted(atom: Any) -> Any:
        """The start of a counter and its step, if they are known."""
        k = index(atom) - held
        made = [
            e for e in body.eqns if k >= 0 and after[k] is e.outvars[0] and e.primitive.name in ("add", "sub")
        ]
        start = _whole(eqn.invars[held + own + k]) if made else None
        if start is None:
            return None
        x, y = made[0].invars
        if made[0].primitive.name == "add" and y is before[k]:
            x, y = y, x
        step = _whole(y)
        if x is not before[k] or step is None:
            return None
        return start, step if made[0].primitive.name == "add" else -step

    if len(condition.eqns) == 1 and (name := condition.eqns[0].primitive.name) in _COMPARISONS:
        left, right = condition.eqns[0].invars
        counter, limit, up = counted(left), value(right), name in ("lt", "le")
        if counter is None or limit is None:
            counter, limit, up = counted(right), value(left), not up
        if counter is not None and limit is not None and counter[1] and (counter[1] > 0) == up:
            start, step = counter
            length = abs(limit - start) + _COMPARISONS[name] if (limit - start) * step >= 0 else 0
            return -(-length // abs(step))
    raise NotImplementedError("FLOPs of a while loop, which runs an unknown number of times")


def _whole(atom: Any) -> int | None:
    """A whole number in the program."""
    return int(atom.val) if is_literal(atom) and atom.aval.dtype.kind in "iu" else None


def _branches(params: Any) -> list[Any]:
    """The branches of a condition; where platforms have their own, the one for all others."""
    branches, platforms = params["branches"], params.get("branches_platforms")
    return [b for i, b in enumerate(branches) if not platforms or platforms[i] is None]


def _times(counts: Counter[str], factor: int) -> Counter[str]:
    return Counter({name: factor * count for name, count in counts.items()})


def _product(eqn: Any) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    left = eqn.invars[0].aval.shape
    return 2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(left[d] for d in contracted)


def _ragged_product(eqn: Any) -> int:
    """Each row is in one group, also where rows are what is added up."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (contracted, _), _ = numbers.dot_dimension_numbers
    left, groups = eqn.invars[0].aval.shape, eqn.invars[2].aval.shape[-1]
    whole = 2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(left[d] for d in contracted)
    return whole // groups if set(numbers.lhs_ragged_dimensions) <= set(contracted) else whole


def _convolution(eqn: Any) -> int:
    """For each position of the result the whole kernel; or for each position of the first operand, if these are fewer:
    then the result is larger because of zeros around or between its elements, as in a transposed convolution. In the
    gradient of a kernel these are what the result and the "kernel" are in the others.
    """
    numbers = eqn.params["dimension_numbers"]
    left, right, out = (v.aval.shape for v in (*eqn.invars, eqn.outvars[0]))
    size = lambda shape, spec: math.prod(shape[d] for d in spec[2:])
    of_left, of_right = size(left, numbers.lhs_spec), size(right, numbers.rhs_spec)
    places = size(out, numbers.out_spec)
    if numbers.lhs_spec[0]:  # its batch is what others have as features
        of_left, of_right = places, min(of_left, of_right)
    channels = out[numbers.out_spec[0]] * out[numbers.out_spec[1]] * right[numbers.rhs_spec[1]]
    return 2 * channels * min(places, of_left) * of_right


_FORMULAS = {
    "dot_general": _product,
    "ragged_dot_general": _ragged_product,
    "conv_general_dilated": _convolution,
}


_WRAPPED = re.compile(r"\w+\((.*)\)")


def scope_of(eqn: Any) -> str:
    """The scope of an operation, without what JAX's transforms and calls add to it."""
    return "/".join(parts(str(eqn.source_info.name_stack)))


def parts(place: str) -> list[str]:
    """The names in a stack of names, without what JAX's transforms and calls add to it."""
    found = []
    for part in split(place):
        inside = _WRAPPED.fullmatch(part)
        found += [part] if inside is None else parts(inside[1])
    return [*filter(None, found)]


def split(place: str) -> list[str]:
    """The parts of a stack of names; what a transform has in its parentheses is one."""
    found = place.split("/")
    for k in range(len(found) - 1, 0, -1):
        if "/".join(found[k:]).count("(") != "/".join(found[k:]).count(")"):
            found[k - 1 : k + 1] = ["/".join(found[k - 1 : k + 1])]
    return found


def joined(outer: str, inner: str) -> str:
    """A scope within another."""
    return f"{outer}/{inner}" if outer and inner else outer or inner
