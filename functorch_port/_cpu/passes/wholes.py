"""Bundled parameters updated as they lie.

The parameters of a pack are a bundle, and one call of a kernel updates them: it can be given the bundle's array as it
is, and so can gradients that the program only reads. Nothing is then cut for it, and nothing joined afterwards: XLA
compiles the step of 3,000 parameters in 0.5 seconds instead of 6 to 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, Literal, Var

from ..._array.loops import Places, Wholes
from ..native import kernels

__all__ = ["update_wholes"]


def update_wholes(
    jaxpr: Jaxpr, bundles: Mapping[int, tuple[Places, Places]], reads: Mapping[int, Places]
) -> Wholes:
    """As `loops.wholes_of`, for calls of kernels."""
    calls = {id(call.new[0]): call for call in _calls(jaxpr)} if bundles else {}
    used = {id(v) for eqn in jaxpr.eqns for v in eqn.invars}
    replaced: dict[int, Any] = {}
    written: list[int] = []
    read: list[int] = []
    invars, outvars = list(jaxpr.invars), list(jaxpr.outvars)
    given = {id(invars[places[0]]): (k, [invars[p] for p in places]) for k, places in reads.items()}
    wholes: dict[int, Var] = {}
    for k, (places, new_places) in bundles.items():
        members, results = [invars[p] for p in places], [outvars[p] for p in new_places]
        call = calls.get(id(results[0]))
        if call is None or not (_same(members, call.old) and _same(results, call.new)):
            continue
        if any(id(v) in used for v in call.new):
            continue
        whole, updated = _joined(members), _joined(members)
        name, grads = given.get(id(call.read[0]), (-1, []))
        if _same(grads, call.read):
            wholes[name] = _joined(grads)
            read.append(name)
        replaced[id(call.eqn)] = kernels.join_written(call.eqn, whole, updated, wholes.get(name))
        invars.append(whole)
        outvars.append(updated)
        for p in new_places:
            outvars[p] = updated  # in place of what is not made any more; the whole is taken instead
        written.append(k)
    invars += [wholes[k] for k in read]
    eqns = [replaced.get(id(eqn), eqn) for eqn in jaxpr.eqns]
    if written:
        jaxpr = jaxpr.replace(invars=invars, outvars=outvars, eqns=eqns)
        looked_at = {id(v) for eqn in eqns for v in eqn.invars} | {id(v) for v in outvars}
        places_of = {k: bundles[k][0] for k in written} | {k: reads[k] for k in read}
        unread = {k for k, places in places_of.items() if not any(id(invars[p]) in looked_at for p in places)}
    return Wholes(jaxpr, written, read, unread if written else set())


def _joined(members: Sequence[Any]) -> Var:
    return Var(ShapedArray((sum(v.aval.size for v in members),), np.dtype(members[0].aval.dtype)))


def _calls(jaxpr: Jaxpr) -> list[Any]:
    found = [kernels.written(eqn) for eqn in jaxpr.eqns]
    return [call for call in found if call is not None]


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) > 0 and all(
        x is y and not isinstance(x, Literal) for x, y in zip(a, b, strict=True)
    )
