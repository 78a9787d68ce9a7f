"""Programs that compute on the devices of several processes, and what of them a process has for itself.

All processes have it, and it is the same in all: the program takes it from each, and each gets it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._array import together
from .._array.placed import sharding_of
from .._array.storage import Storage
from .._base import meshes
from .across import name_of
from .comparing import Flags, differ

if TYPE_CHECKING:
    from .draft import Draft
    from .places import Arguments

__all__ = ["Whole", "whole_of"]


class Whole:
    """
    Args:
        mesh: has devices of all processes.
        outs: the outputs that are written to what a process has for itself.
        own: the inputs that a process has for itself, with their names.
    """

    def __init__(self, mesh: Mesh, outs: Sequence[int], own: dict[int, Callable[[], str]]) -> None:
        self.mesh, self.outs, self.own = mesh, outs, own
        self.everywhere = NamedSharding(mesh, PartitionSpec())
        self.alike, self.flags = together.Alike(), Flags([*own.values()])

    def moved(self, ins: Sequence[int], draws: int, outs: Sequence[int]) -> Whole:
        """The same for other orders of inputs and outputs, of which these list the numbers, and draws at the end."""
        own = {k: self.own[i] for k, i in enumerate(ins) if i in self.own}
        own |= {len(ins) + k: lambda: "random numbers" for k in range(draws)}
        return Whole(self.mesh, [k for k, i in enumerate(outs) if i in self.outs], own)

    def compared(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """The program with another output: what differs of what the processes have for themselves."""

        def compares(donated: list[Any], kept: list[Any]) -> list[Any]:
            given = [*donated, *kept]
            each = jax.shard_map(
                lambda *values: differ(values, self.mesh.axis_names),
                mesh=self.mesh,
                in_specs=PartitionSpec(),
                out_specs=PartitionSpec(),
                check_vma=False,
            )
            return [*run(donated, kept), each(*[given[k] for k in self.own])]

        return compares if self.own else run

    def enter(self, values: Sequence[Any]) -> list[Any]:
        """Inputs of the program, on the devices of all."""
        is_own = lambda v: isinstance(v, jax.Array) and not meshes.is_global(v)
        return [self.alike.enter(v, self.everywhere) if is_own(v) else v for v in values]

    def leave(self, outs: Sequence[Any]) -> list[Any]:
        """What a process gets of the outputs."""
        found = [*outs]
        if self.own:
            self.flags.note(found.pop())
        for i in self.outs:
            if i < len(found) and meshes.is_global(found[i]):  # others may be computed later
                found[i] = self.alike.leave(found[i])
        return found


def whole_of(
    mesh: Mesh,
    draft: Draft,
    arguments: Arguments,
    shared: Iterable[int],
    cells: Sequence[Storage],
    names: Sequence[Any],
    arrays: Sequence[int],
) -> Whole:
    """How the program of a trace computes on the devices of several processes.

    Args:
        shared: outputs that are written to what is placed.
        cells, names, arrays: the inputs: Storages, numbers, and arguments that are arrays.
    """
    by_position = {i: cell for cell, i in arguments.cells.items()}
    written = [(cell, i) for cell, i, _ in draft.cells] + [(by_position[k], i) for k, i, _ in draft.args]
    for target, i in (*draft.grads.computed, *draft.grads.in_place):
        tensor = arguments.leaves[target] if type(target) is int else target
        written.append((tensor._storage, i))
    is_own = lambda cell: sharding_of(cell) is None and not meshes.is_global(cell.held)
    outs = {i for cell, i in written if is_own(cell)}
    start = len(cells) + len(names)
    own = {k: name_of(k, cells, names) for k in range(start) if k >= len(cells) or is_own(cells[k])}
    own |= {
        k: lambda: "an argument"
        for k, i in enumerate(arrays, start)
        if not meshes.is_global(arguments.leaves[i])
    }
    left = {*shared, *(i for stage in draft.stages for i in stage.residuals)}
    return Whole(mesh, sorted(outs - left), own)
