"""What the backward pass reads of the forward pass, by the jaxpr: for a program that the compiler has given up on."""

from __future__ import annotations

from typing import Any

from .._base import flops, scopes
from .._base.jaxprs import is_literal, nbytes
from .memory import Kept

__all__ = ["saved_for_backward"]


def saved_for_backward(jaxpr: Any, devices: int) -> list[Kept]:
    """Values that the forward pass makes and the backward pass reads, the largest first.

    The compiler may compute some of them again, or never store them. How they are split over devices is not known
    before it has run: bytes are those of an equal share.
    """
    made: dict[Any, tuple[Any, int]] = {}
    kept: dict[Any, str] = {}
    for eqn in jaxpr.eqns:
        if scopes.is_backward(flops.scope_of(eqn)):
            read = [v for v in eqn.invars if not is_literal(v) and v in made and v not in kept]
            kept |= {v: _scope_of(*made[v]) for v in read}
        else:
            made |= {v: (eqn, k) for k, v in enumerate(eqn.outvars)}
    found = [
        Kept(nbytes(v) // devices, f"{v.aval.str_short()} on all devices", scope, True)
        for v, scope in kept.items()
    ]
    return sorted(found, key=lambda value: -value.nbytes)


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
