"""What XLA is told of programs for a CPU."""

from __future__ import annotations

from typing import Any

from .._base.tuning import tuning
from . import allocator

__all__ = ["options"]


def options(jaxpr: Any) -> dict[str, Any] | None:
    """For `jax.jit` of a whole program, as ``compiler_options``; None where something else than a CPU may be used."""
    if not allocator.is_on_cpu():
        return None
    return {"xla_cpu_prefer_vector_width": tuning.vector_bits, **allocator.options(jaxpr)}
