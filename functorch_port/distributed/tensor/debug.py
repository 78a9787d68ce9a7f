"""Pictures of how tensors lie on meshes: ``torch.distributed.tensor.debug``."""

from __future__ import annotations

import jax

from ..._array import placed
from ..._base import meshes
from ..._tensor.tensor import Tensor
from ._api import found_sharding

__all__ = ["visualize_sharding"]


def visualize_sharding(dtensor: Tensor, header: str = "", use_rich: bool = False) -> None:
    """Print which devices have which part of a tensor, as a table of its rows and columns.

    Process 0 prints. An empty tensor prints nothing.

    Args:
        dtensor: a tensor on a mesh, of one or two dimensions.
        header: is printed above, unless empty.
        use_rich: print blocks in colours; this needs rich.

    Raises:
        RuntimeError: the tensor has no dimension, or more than two.
        TypeError: the tensor lies on one device.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.tensor import Shard, distribute_tensor
        >>> from functorch_port.distributed.tensor.debug import visualize_sharding
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> visualize_sharding(distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]))
                 Col 0-1
        Row 0-3  cpu:0

    Reference: https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/debug/_visualize_sharding.py
    """
    sharding = found_sharding(dtensor)
    if sharding is None:
        raise TypeError("visualize_sharding: the tensor lies on one device: see distribute_tensor")
    if not dtensor.numel():
        return
    if dtensor.dim() not in (1, 2):
        raise RuntimeError(
            f"visualize sharding supports only 1D or 2D DTensor, got {dtensor.dim()} dimensions"
        )
    if jax.process_index():
        return
    if header:
        print(header)
    if use_rich:
        jax.debug.visualize_sharding(tuple(dtensor.shape), sharding)
        return
    numbers = {device: i for i, device in enumerate(meshes.by_process(jax.devices()))}
    shape = (*dtensor.shape, 1)[:2]
    owners = placed.owners_of(sharding, tuple(dtensor.shape))
    blocks = {(*start, 0)[:2]: [numbers.get(d, d.id) for d in devices] for start, devices in owners.items()}
    rows, columns = (sorted({start[d] for start in blocks}) for d in range(2))
    named = lambda name, starts, size: [
        f"{name} {start}-{end - 1}" for start, end in zip(starts, [*starts[1:], size], strict=True)
    ]
    cells = [
        [f"{dtensor.device.type}:{','.join(map(str, blocks[row, column]))}" for column in columns]
        for row in rows
    ]
    table = [
        ["", *named("Col", columns, shape[1])],
        *([name, *line] for name, line in zip(named("Row", rows, shape[0]), cells, strict=True)),
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
