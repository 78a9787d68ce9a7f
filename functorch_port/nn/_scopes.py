"""The names of modules in a compiled program."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from .._array import tracing
from .._base import scopes

__all__ = ["name_in", "of_call"]


def of_call(module: Any) -> AbstractContextManager[None] | None:
    """The scope of a call of a module in a trace; None within it."""
    if scopes.state.module is module:
        return None
    tracing.overlay.note_stateful(module)
    return scopes.named(_name(module), module)


def _name(module: Any) -> str:
    """What the module that calls this one has it as; of the outermost the name of the traced function's variable, else
    that of its class.
    """
    outer = scopes.state.module
    if outer is not None:
        return name_in(outer, module, "/")
    return tracing.overlay.variable_of(module) or type(module).__name__


def name_in(outer: Any, module: Any, dot: str) -> str:
    """What a module has another as, its children first; the class of that if it has not.

    Args:
        outer: the module.
        module: the other one.
        dot: what is between the parts of the name.
    """
    seen = level = {outer: ""}
    while level:
        inner: dict[Any, str] = {}
        for parent, start in level.items():
            for name, child in parent._modules.items():
                if child is module:
                    return f"{start}{name}"
                if child is not None and child not in seen:
                    inner.setdefault(child, f"{start}{name}{dot}")
        seen, level = seen | inner, inner
    return type(module).__name__
