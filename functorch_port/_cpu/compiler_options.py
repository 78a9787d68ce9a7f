"""What XLA is told of programs for a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .._base import cache, memory
from .._base.tuning import tuning
from . import allocator

__all__ = ["Jitted", "options"]


def options(jaxpr: Any, often: bool) -> dict[str, Any] | None:
    """For `jax.jit` of a whole program, as ``compiler_options``; None where something else than a CPU may be used.

    Args:
        often: whether the program has run often. Otherwise the persistent cache, if there is one, can have it.
    """
    if not allocator.is_on_cpu():
        return None
    parts = allocator.options(jaxpr) if often or cache.directory() is None else {}
    return {"xla_cpu_prefer_vector_width": tuning.vector_bits, **parts}


class Jitted:
    """A function with this jaxpr, jitted; compiled once more when it has run often, if it needs much memory."""

    def __init__(self, fn: Callable[..., Any], jaxpr: Any) -> None:
        self.fn, self.jaxpr = fn, jaxpr
        self.options = options(jaxpr, often=False)
        self.jit: Any = jax.jit(fn, compiler_options=self.options)
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls == tuning.parts_after and memory.of(self.jit.lower(*args).compile())[0]:
            told = options(self.jaxpr, often=True)
            if told != self.options:
                self.jit = jax.jit(self.fn, compiler_options=told)
        return self.jit(*args)
