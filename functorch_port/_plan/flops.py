"""FLOPs of a step: forward, backward, computed again, and of the optimizer; by module."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .._base import flops
from .places import module_of, phase_of

__all__ = ["Flops", "of"]


@dataclass(frozen=True)
class Flops:
    """Operations of products of matrices and convolutions, of all devices together.

    Attributes:
        forward, backward: of the passes, without what is computed again.
        recomputed: by activation checkpointing, in the backward pass.
        update: by the optimizer.
        executed: the sum of these.
        model: forward and backward: what the model needs, whatever is computed again.
        modules: for each module, these by phase.
    """

    forward: int
    backward: int
    recomputed: int
    update: int
    executed: int
    model: int
    modules: dict[str, dict[str, int]]


def of(jaxpr: Any) -> Flops:
    """Count the operations of a step.

    Loops count as often as they run, the longest branch of a condition counts, attention counts with what a mask
    leaves out.

    Args:
        jaxpr: of the whole step, before it is partitioned.

    Raises:
        NotImplementedError: a loop of unknown length multiplies matrices.
    """
    phases: Counter[str] = Counter()
    modules: dict[str, Counter[str]] = {}
    for place, count in flops.by_place(jaxpr).items():
        phase = phase_of(place)
        phases[phase] += count
        modules.setdefault(module_of(place), Counter())[phase] += count
    return Flops(
        phases["forward"], phases["backward"], phases["recomputed"], phases["update"],
        executed=phases.total(), model=phases["forward"] + phases["backward"],
        modules={name: dict(counts) for name, counts in sorted(modules.items())},
    )  # fmt: skip
