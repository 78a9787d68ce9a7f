"""``torch.distributed.tensor._utils``: which part of a tensor a process has."""

from __future__ import annotations

from collections.abc import Sequence

from ..device_mesh import DeviceMesh
from .placement_types import Placement, Shard

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the part that this process has of a tensor, and where in the tensor it begins.

    Args:
        global_shape: the shape of the whole tensor.
        mesh: where it lies.
        placements: how, one for each dimension of the mesh.
    """
    shape, offset = list(global_shape), [0] * len(global_shape)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    for size, at, placement in zip(mesh.shape, coordinate, placements, strict=True):
        if isinstance(placement, Shard):
            shape[placement.dim], start = Shard.local_shard_size_and_offset(shape[placement.dim], size, at)
            offset[placement.dim] += start
    return tuple(shape), tuple(offset)
