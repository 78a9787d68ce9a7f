"""How a tensor lies along a dimension of a mesh: `Shard`, `Replicate`, `Partial`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jax.sharding import NamedSharding, PartitionSpec

from ..._base import meshes
from ..device_mesh import DeviceMesh

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is split, along a certain dimension of the tensor if that is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether every position has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the positions have summands of it."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """The tensor is split along its dimension ``dim``, into parts of one size.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.placement_types.Shard
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """The size of one of several parts of a dimension, and where it begins, as `torch.chunk` splits.

        Args:
            curr_local_size: the size of the dimension.
            num_chunks: the number of parts.
            rank: which part.
        """
        part = -(-curr_local_size // num_chunks)
        start = min(curr_local_size, part * rank)
        return min(part, curr_local_size - start), start


class _StridedShard(Placement):
    """Not supported: a tensor that is split in an order of its own; `Shard` splits in order."""

    def __init__(self, dim: int, *, split_factor: int) -> None:
        raise NotImplementedError("_StridedShard: a dimension is split in order here; use Shard")


@dataclass(frozen=True)
class Replicate(Placement):
    """Every position of the mesh's dimension has the whole tensor.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.placement_types.Replicate
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each position has a part of a sum that is still to be made, or of another reduction.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.placement_types.Partial
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


def sharding_for(mesh: DeviceMesh, placements: Sequence[Placement] | None, ndim: int) -> NamedSharding:
    """The `jax.sharding.NamedSharding` of a tensor with so many dimensions that is placed so on a mesh.

    Raises:
        ValueError: there is not one placement for each dimension of the mesh.
        AssertionError: a placement splits a dimension that the tensor has not.
        NotImplementedError: for `Partial`.
    """
    placements = tuple(placements) if placements is not None else (Replicate(),) * mesh.ndim
    for placement in placements:
        if isinstance(placement, Shard) and not -ndim <= placement.dim < ndim:
            raise AssertionError(
                f"Sharding dim {placement.dim} greater than tensor ndim {ndim}: the placements {list(placements)} are "
                f"for a tensor of more dimensions; this one has {ndim}, numbered from 0"
            )
    counted = [Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in placements]
    return NamedSharding(mesh.jax_mesh, spec_for(mesh, counted))


def spec_for(mesh: DeviceMesh, placements: Sequence[Placement]) -> PartitionSpec:
    """The `jax.sharding.PartitionSpec` for placements with dimensions counted from the first.

    Raises:
        ValueError: there is not one placement for each dimension of the mesh.
        NotImplementedError: for `Partial`.
    """
    if len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}. "
            f"{list(placements)} was given for {mesh}: give a placement for each dimension of the mesh (Replicate() "
            "where nothing is split), or a part of the mesh, as mesh['tp']"
        )
    axes: dict[int, list[str]] = {}
    for axis, placement in zip(mesh.axes, placements, strict=True):
        if isinstance(placement, Shard):
            axes.setdefault(placement.dim, []).append(axis)
        elif isinstance(placement, Partial):
            raise NotImplementedError(
                "a tensor with the placement Partial is not supported outside of local_map: a tensor here is the "
                "whole one, and a sum is made where it is written. Use Replicate() or Shard(dim); what several "
                "processes have summands of is added up by torch.distributed.nn.functional.all_reduce before"
            )
    return meshes.spec_of([axes.get(d, ()) for d in range(max(axes, default=-1) + 1)])


def placements_of(sharding: NamedSharding, mesh: DeviceMesh) -> tuple[Placement, ...]:
    """The placements on a mesh that a sharding says."""
    at = {name: d for d, names in enumerate(sharding.spec) for name in meshes.axes_of(names)}
    return tuple([Shard(at[axis]) if axis in at else Replicate() for axis in mesh.axes])
