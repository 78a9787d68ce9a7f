"""Programs that compute on the devices of several processes, and what of them a process has for itself.

All processes have it, and it is the same in all: the program takes it from each, and each gets it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._array import together
from .._array.placed import sharding_of
from .._base import meshes

if TYPE_CHECKING:
    from .draft import Draft
    from .places import Arguments

__all__ = ["Whole", "whole_of"]


class Whole:
    """
    Args:
        mesh: has devices of all processes.
        outs: the outputs that are written to what a process has for itself.
    """

    def __init__(self, mesh: Mesh, outs: Sequence[int]) -> None:
        self.mesh, self.outs = mesh, outs
        self.everywhere = NamedSharding(mesh, PartitionSpec())
        self.alike = together.Alike()

    def moved(self, outs: Sequence[int]) -> Whole:
        """The same for a program with other outputs, of which this lists the numbers."""
        return Whole(self.mesh, [k for k, i in enumerate(outs) if i in self.outs])

    def enter(self, values: Sequence[Any]) -> list[Any]:
        """Inputs of the program, on the devices of all."""
        is_own = lambda v: isinstance(v, jax.Array) and not meshes.is_global(v)
        return [self.alike.enter(v, self.everywhere) if is_own(v) else v for v in values]

    def leave(self, outs: Sequence[Any]) -> list[Any]:
        """What a process gets of the outputs."""
        found = [*outs]
        for i in self.outs:
            if i < len(found) and meshes.is_global(found[i]):  # others may be computed later
                found[i] = self.alike.leave(found[i])
        return found


def whole_of(mesh: Mesh, draft: Draft, arguments: Arguments, shared: Iterable[int]) -> Whole:
    """How the program of a trace computes on the devices of several processes.

    Args:
        shared: outputs that are written to what is placed.
    """
    by_position = {i: cell for cell, i in arguments.cells.items()}
    cells = [(cell, i) for cell, i, _ in draft.cells] + [(by_position[k], i) for k, i, _ in draft.args]
    for target, i in (*draft.grads.computed, *draft.grads.in_place):
        tensor = arguments.leaves[target] if type(target) is int else target
        cells.append((tensor._storage, i))
    own = {i for cell, i in cells if sharding_of(cell) is None and not meshes.is_global(cell.held)}
    return Whole(mesh, sorted(own - {*shared, *(i for stage in draft.stages for i in stage.residuals)}))
