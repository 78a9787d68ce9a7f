"""The names of modules in a compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._array import tracing
from .._base import scopes

__all__ = ["call"]


def call(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a module in a trace, in a scope of its name."""
    tracing.overlay.note_stateful(module)
    with scopes.named(_name(module), module):
        called = module._compiled_call_impl or module._call_impl
        return called(*args, **kwargs)


def _name(module: Any) -> str:
    """What the module that calls this one has it as, with ``/`` in place of dots; else the name of the traced
    function's variable, else that of its class.
    """
    outer = scopes.state.module
    if outer is None:
        return tracing.overlay.variable_of(module) or type(module).__name__
    for name, child in outer._modules.items():
        if child is module:
            return name
    for name, child in outer.named_modules():
        if child is module and name:
            return name.replace(".", "/")
    return type(module).__name__
