"""``torch.fx``: the names that libraries look at. There are no FX graphs: `functorch_port.compile` has JAX's.

`wrap` marks a function and gives it back; the classes are there so that ``isinstance`` can be asked and is False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .nn.module import Module

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip

_INSTEAD = (
    "there are no FX graphs here; functorch_port.functionalize(fn) gives the JAX function, which has a jaxpr"
)


def wrap(fn_or_name: Any) -> Any:
    """Gives back the function or name: it need not be kept out of any graph.

    Reference: https://docs.pytorch.org/docs/stable/fx.html#torch.fx.wrap
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Gives back the function."""
    return fn


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        """Refused: there are no FX graphs.

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
    """A class that nothing is an instance of; its subclasses can be defined and not made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch.fx.{type(self).__name__}: {_INSTEAD}")


class Graph(_Absent):
    """PyTorch's graph of operations; there is none here."""


class Node(_Absent):
    """A node of such a graph."""


class Proxy(_Absent):
    """What flows through a function while FX traces it."""


class Tracer(_Absent):
    """What traces."""


class Interpreter(_Absent):
    """What runs a graph node by node."""


class Transformer(Interpreter):
    """An interpreter that makes a new graph."""


class GraphModule(Module):
    """A module made of a graph; none can be made here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch.fx.GraphModule: {_INSTEAD}")
