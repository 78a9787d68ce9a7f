"""What XLA is told of programs for a CPU."""

from __future__ import annotations

from typing import Any

from . import allocator

__all__ = ["options"]

#: Bits that XLA makes loops of. By itself it takes 256 where a processor has AVX-512, as those of 2017 slowed down for
#: more. On an AMD EPYC the derivative of GELU then takes 0.54 ms instead of 0.78 (1024, 1536), a sigmoid 0.30 instead
#: of 0.39, a training step of ResNet-18 0.91 to 0.94; a ViT's (0.96 to 1.07), a U-Net's and an LSTM's as long.
_VECTOR = 512


def options(jaxpr: Any) -> dict[str, Any] | None:
    """For `jax.jit` of a whole program, as ``compiler_options``; None where something else than a CPU may be used."""
    if not allocator.is_on_cpu():
        return None
    return {"xla_cpu_prefer_vector_width": _VECTOR, **allocator.options(jaxpr)}
