"""In which module an eager program is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _hooks as hooks
from ._scopes import name_in

__all__ = ["Place"]


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
