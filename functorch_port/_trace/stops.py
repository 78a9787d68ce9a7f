"""Where JAX's derivative of a pure function stops: at what the function's own tape has no history of.

`_run.traced` marks such operands while the function runs. Whether a mark has a meaning shows when all is traced: what
comes of tensors that require grad had a history and lost it (`no_grad`, ``.data``, a gradient), and is a constant as
in PyTorch. What comes of none of them never had one: that the tape does not record it says nothing about a JAX user's
``jax.grad`` by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import Literal

from .._base.jaxprs import scan_parts
from .._run.traced import NO_HISTORY

__all__ = ["settled"]

#: primitives that run one jaxpr on their operands in order
_CALLS = frozenset({"checkpoint", "closed_call", "jit", "pjit", "remat", "remat2"})


def settled(jaxpr: Any, learned: Sequence[bool]) -> Any:
    """The jaxpr with ``stop_gradient`` in place of the marks that mean it, and nothing in place of the others.

    Args:
        jaxpr: of the whole function.
        learned: for each input whether it is the value of a tensor that requires grad.
    """
    return _settled(jaxpr, learned)[0]


def _settled(jaxpr: Any, learned: Sequence[bool]) -> tuple[Any, list[bool]]:
    """The jaxpr, and for each output whether it comes of what is learned."""
    had = {var for var, flag in zip(jaxpr.invars, learned, strict=True) if flag}
    same: dict[Any, Any] = {}
    of = lambda x: x if isinstance(x, Literal) else same.get(x, x)
    comes = lambda x: not isinstance(x, Literal) and x in had
    eqns = []
    for eqn in jaxpr.eqns:
        if any(not isinstance(x, Literal) and x in same for x in eqn.invars):
            eqn = eqn.replace(invars=list(map(of, eqn.invars)))
        flags = [comes(x) for x in eqn.invars]
        inner = eqn.params.get("jaxpr")
        if eqn.params.get("name") == NO_HISTORY:
            if not any(flags):
                same[eqn.outvars[0]] = eqn.invars[0]
                continue
            (stop,) = inner.jaxpr.eqns
            eqn = stop.replace(invars=eqn.invars, outvars=eqn.outvars)
            found = flags
        elif eqn.primitive.name in _CALLS:
            closed = hasattr(inner, "jaxpr")
            new, found = _settled(inner.jaxpr if closed else inner, flags)
            eqn = eqn.replace(params=eqn.params | {"jaxpr": inner.replace(jaxpr=new) if closed else new})
        elif eqn.primitive.name == "scan":
            consts, count = scan_parts(eqn)
            carried = slice(consts, consts + count)
            new, found = _settled(inner.jaxpr, flags)
            while (more := [a or b for a, b in zip(flags[carried], found)]) != flags[carried]:
                flags[carried] = more
                new, found = _settled(inner.jaxpr, flags)
            eqn = eqn.replace(params=eqn.params | {"jaxpr": inner.replace(jaxpr=new)})
        else:
            found = [any(flags)] * len(eqn.outvars)
        had.update(var for var, flag in zip(eqn.outvars, found, strict=True) if flag)
        eqns.append(eqn)
    outs = list(map(of, jaxpr.outvars))
    return jaxpr.replace(eqns=eqns, outvars=outs), [comes(x) for x in outs]
