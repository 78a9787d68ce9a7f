"""``torch._dynamo``: the names that libraries use of PyTorch's tracer. The tracer here is `functorch_port.compiler`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .._trace.compiled import compile as compile_function
from ..compiler import allow_in_graph as allow_in_graph
from ..compiler import assume_constant_result as assume_constant_result
from ..compiler import disable as disable
from ..compiler import is_compiling as is_compiling
from ..compiler import reset as reset

__all__ = [
    "allow_in_graph", "config", "disable", "disallow_in_graph", "graph_break", "is_compiling",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize", "reset",
]  # fmt: skip

#: accepted settings; none of them changes anything
config: Any = SimpleNamespace(
    suppress_errors=False,
    cache_size_limit=8,
    recompile_limit=8,
    accumulated_cache_size_limit=256,
    capture_scalar_outputs=False,
    capture_dynamic_output_shape_ops=False,
    optimize_ddp=True,
    verbose=False,
    allow_unspec_int_on_nn_module=False,
)


def graph_break(msg: str = "") -> None:
    """Does nothing: a compiled function is one program."""


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Does nothing: every shape has its own program."""


maybe_mark_dynamic = mark_static = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Does nothing: arrays have no addresses."""


def optimize(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator: `functorch_port.compile`."""
    return compile_function


disallow_in_graph = disable
