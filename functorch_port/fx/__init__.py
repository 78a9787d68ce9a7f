"""``torch.fx``, for libraries that use its names. There are no FX graphs: `functorch_port.compile` uses jaxprs.

`wrap` returns its argument; the classes exist for ``isinstance``, which is always False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._base.refused import refused_class, refused_function
from ..nn._module import Module

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip

_INSTEAD = (
    "there are no FX graphs here; functorch_port.functionalize(fn) gives the JAX function, which has a jaxpr"
)


def wrap(fn_or_name: Any) -> Any:
    """Return the function or name unchanged; there is no graph to exclude it from.

    Reference: https://docs.pytorch.org/docs/stable/fx.html#torch.fx.wrap
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function unchanged."""
    return fn


symbolic_trace, replace_pattern, map_arg = (
    refused_function(f"torch.fx.{n}", _INSTEAD) for n in ("symbolic_trace", "replace_pattern", "map_arg")
)
Graph, Node, Proxy, Tracer, Interpreter, CodeGen = (
    refused_class(f"torch.fx.{n}", _INSTEAD)
    for n in ("Graph", "Node", "Proxy", "Tracer", "Interpreter", "CodeGen")
)
Transformer = refused_class("torch.fx.Transformer", _INSTEAD, base=Interpreter)
GraphModule = refused_class("torch.fx.GraphModule", _INSTEAD, base=Module)
