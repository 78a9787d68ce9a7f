"""The names of modules: in a compiled program, and while an eager one runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .._array import tracing
from .._base import scopes
from . import _hooks as hooks

__all__ = ["Place", "name_in", "of_call"]


def of_call(module: Any) -> AbstractContextManager[None]:
    """The scope of a call of a module in a trace."""
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


class Place:
    """In which module an eager program is, between `start` and `stop`.

    Args:
        root: from a module that no other calls to its name.
        dot: what is between the parts of a name.
    """

    def __init__(self, root: Callable[[Any], str], dot: str) -> None:
        self._root, self._dot = root, dot
        self._open: list[tuple[Any, str]] = []
        self._handles: list[hooks.RemovableHandle] = []

    @property
    def now(self) -> str:
        """The module's name; empty outside of modules."""
        return self._open[-1][1] if self._open else ""

    def start(self) -> None:
        """Begin outside of modules."""
        self._open = []
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def _enter(self, module: Any, args: Any) -> None:
        if not self._open:
            name = self._root(module)
        else:
            outer, path = self._open[-1]
            name = f"{path}{self._dot}{name_in(outer, module, self._dot)}"
        self._open.append((module, name))

    def _leave(self, *_: Any) -> None:
        self._open.pop()
