"""``torch.fx``, for libraries that use its names. There are no FX graphs: `functorch_port.compile` uses jaxprs.

`wrap` returns its argument; the classes exist for ``isinstance``, which is always False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .nn._module import Module

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


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        """Not supported: there are no FX graphs.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"torch.fx.{name}: {_INSTEAD}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


symbolic_trace, replace_pattern, map_arg = (
    _refused(n) for n in ("symbolic_trace", "replace_pattern", "map_arg")
)


class _Absent:
    """A class without instances; subclasses can be defined, but not instantiated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch.fx.{type(self).__name__}: {_INSTEAD}")


class Graph(_Absent):
    """PyTorch's graph of operations; it has no instances here."""


class Node(_Absent):
    """A node of a `Graph`."""


class Proxy(_Absent):
    """PyTorch's traced value."""


class Tracer(_Absent):
    """PyTorch's tracer."""


class Interpreter(_Absent):
    """PyTorch's interpreter of a graph."""


class Transformer(Interpreter):
    """PyTorch's interpreter that makes a new graph."""


class GraphModule(Module):
    """A module made of a graph; it cannot be instantiated here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch.fx.GraphModule: {_INSTEAD}")
