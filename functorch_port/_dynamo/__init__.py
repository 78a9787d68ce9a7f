"""``torch._dynamo``: the names that libraries use of PyTorch's tracer. The tracer here is `functorch_port.compiler`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .._trace.compiled import compile as compile_function
from ..compiler import allow_in_graph as allow_in_graph
from ..compiler import assume_constant_result as assume_constant_result
from ..compiler import disable as disable
from ..compiler import is_compiling as is_compiling
from ..compiler import reset as reset
from ..nn._compiled import OptimizedModule as OptimizedModule
from . import utils as utils

__all__ = [
    "OptimizedModule", "allow_in_graph", "config", "disable", "disallow_in_graph", "graph_break", "is_compiling",
    "is_dynamo_supported", "list_backends", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "optimize", "reset",
]  # fmt: skip


class Settings(SimpleNamespace):
    """Settings of a compiler that is not here: they keep what is written to them."""

    def patch(self, changes: Any = None, value: Any = None, **more: Any) -> contextlib.ExitStack:
        """Settings for a ``with`` block: a dict of them, a name and a value, or keywords."""
        named = {changes: value} if isinstance(changes, str) else changes or {}
        stack = contextlib.ExitStack()
        for name, new in {**named, **more}.items():
            stack.callback(setattr, self, name, getattr(self, name))
            setattr(self, name, new)
        return stack


#: accepted settings; none of them changes anything
config: Any = Settings(
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


def mark_dynamic(
    t: Any, index: Any, *, min: int | None = None, max: int | None = None, **kwargs: Any
) -> None:
    """Have functions compiled for this tensor take the size of a dimension as a number: few programs serve all sizes.

    The mark counts for the first call that gets it, and for all later ones of the same function.

    Args:
        t: an argument of a compiled function.
        index: the dimension, or several.
        max: the most that the size may be. One program then serves all sizes from 2 on.
        min, kwargs: accepted for PyTorch's sake.

    Reference: https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
    """
    dims = index if isinstance(index, list | tuple) else [index]
    marks = t.__dict__.setdefault("_dynamic_sizes", {})
    marks.update({d % t.ndim: max or 0 for d in dims})


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Any, index: Any = None) -> None:
    """Take back `mark_dynamic`, of one dimension, several, or all."""
    marks = t.__dict__.get("_dynamic_sizes", {})
    dims = range(t.ndim) if index is None else index if isinstance(index, list | tuple) else [index]
    for d in dims:
        marks.pop(d % t.ndim, None)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Does nothing: arrays have no addresses."""


def optimize(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator: `functorch_port.compile`."""
    return compile_function


def is_dynamo_supported() -> bool:
    """Return True: `functorch_port.compile` compiles."""
    return True


def list_backends(exclude_tags: Any = None) -> list[str]:
    """The names of compilers: XLA alone."""
    return ["openxla"]


disallow_in_graph = disable

from . import eval_frame as eval_frame  # it takes names from here
