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

__all__ = ["by_scope", "of_eqn", "scope_of"]


def by_scope(jaxpr: Any, scope: str = "") -> Counter[str]:
    """The operations of a program by the scope that they are in (see `scopes`), without zeros.

    Raises:
        NotImplementedError: a loop of unknown length multiplies matrices.
    """
    found: Counter[str] = Counter()
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        found.update(of_eqn(eqn, scope))
    return +found


def of_eqn(eqn: Any, scope: str = "") -> Counter[str]:
    """As `by_scope`, of one operation of a jaxpr."""
    name, params = eqn.primitive.name, eqn.params
    here = joined(scope, scope_of(eqn))
    if name == "dot_general":
        return Counter({here: _product(eqn)})
    if name == "conv_general_dilated":
        return Counter({here: _convolution(eqn)})
    formula = lowering.formula_of(eqn.primitive)
    if formula is not None:
        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        return by_scope(jax.make_jaxpr(partial(formula, **params))(*avals), here)
    inner = [value for value in params.values() if hasattr(getattr(value, "jaxpr", value), "eqns")]
    if name == "scan":
        return _times(by_scope(params["jaxpr"], here), params["length"])
    if name == "while":
        counts = by_scope(params["body_jaxpr"], here)
        if counts:
            raise NotImplementedError("FLOPs of a while loop, which runs an unknown number of times")
        return counts
    if name == "cond":
        return max((by_scope(branch, here) for branch in _branches(params)), key=Counter.total)
    times = params["mesh"].size if name == "shard_map" else 1
    return sum((_times(by_scope(jaxpr, here), times) for jaxpr in inner), Counter())


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


_WRAPPED = re.compile(r"\w+\((.*)\)")


def scope_of(eqn: Any) -> str:
    """The scope of an operation, without what JAX's transforms and calls add to it."""
    parts = []
    for part in str(eqn.source_info.name_stack).split("/"):
        while (inside := _WRAPPED.fullmatch(part)) is not None:
            part = inside[1]
        parts.append(part)
    return "/".join(filter(None, parts))


def joined(outer: str, inner: str) -> str:
    """A scope within another."""
    return f"{outer}/{inner}" if outer and inner else outer or inner
