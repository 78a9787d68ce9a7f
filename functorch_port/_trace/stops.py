"""Where JAX's derivative of a pure function stops: at what the function's own tape has no history of.

`_run.traced` marks such operands while the function runs. Whether a mark has a meaning shows when all is traced: what
comes of tensors that require grad had a history and lost it (`no_grad`, ``.data``, a gradient), and is a constant as
in PyTorch. What comes of none of them never had one: that the tape does not record it says nothing about a JAX user's
``jax.grad`` by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._base.jaxprs import CALLS, is_literal, rewritten, scan_parts
from .._run.traced import NO_HISTORY

__all__ = ["settled"]


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
    comes = lambda x: not is_literal(x) and x in had

    def change(eqn: Any) -> Any:
        flags = [comes(x) for x in eqn.invars]
        name = eqn.primitive.name
        if eqn.params.get("name") == NO_HISTORY:
            if not any(flags):
                return eqn.invars[0]
            (stop,) = eqn.params["jaxpr"].eqns
            eqn, found = stop.replace(invars=eqn.invars, outvars=eqn.outvars), flags
        elif name in CALLS:
            eqn, found = _within(eqn, CALLS[name], flags)
        elif name == "scan":
            consts, count = scan_parts(eqn)
            carried = slice(consts, consts + count)
            new, found = _within(eqn, "jaxpr", flags)
            while (more := [a or b for a, b in zip(flags[carried], found)]) != flags[carried]:
                flags[carried] = more
                new, found = _within(eqn, "jaxpr", flags)
            eqn = new
        else:
            found = [any(flags)] * len(eqn.outvars)
        had.update(var for var, flag in zip(eqn.outvars, found, strict=True) if flag)
        return eqn

    made = rewritten(jaxpr, change)
    return made, list(map(comes, made.outvars))


def _within(eqn: Any, parameter: str, learned: Sequence[bool]) -> tuple[Any, list[bool]]:
    """An operation with what it runs settled, and for each result whether it comes of what is learned."""
    inner = eqn.params[parameter]
    closed = hasattr(inner, "jaxpr")
    new, found = _settled(inner.jaxpr if closed else inner, learned)
    return eqn.replace(params=eqn.params | {parameter: inner.replace(jaxpr=new) if closed else new}), found
