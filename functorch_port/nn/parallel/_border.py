"""The border between tensors of one process and those on the devices of all.

A script that runs in several processes has tensors of its own in each, as in PyTorch. What is computed together is one
program on global tensors: `joined` makes one of the parts of all processes, and `own_part` gives a process its part
back. Gradients cross the border the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._array import executor, placed, tracing
from ..._base.tuning import tuning
from ..._run.opnode import edge_of
from ..._tensor import grad_mode, tree
from ..._tensor.node import Edge, Node
from ..._tensor.tensor import Tensor, wrap

__all__ = ["across", "by_process", "from_first", "is_global", "joined", "own_part"]

_PROCESS, _OWN = "process", "own"


def by_process(mesh: Mesh) -> Mesh:
    """The devices of a mesh, a row for each process."""
    devices = sorted(mesh.devices.flat, key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(devices).reshape(jax.process_count(), -1), (_PROCESS, _OWN))


def is_global(tensor: Tensor) -> bool:
    """Whether a tensor lies in several processes."""
    return not getattr(tensor._look(), "is_fully_addressable", True)


def from_first(value: Any) -> np.ndarray:
    """What the first process has, in all of them."""
    with tracing.x64():
        return multihost_utils.broadcast_one_to_all(np.asarray(value))  # type: ignore[no-any-return]


@lru_cache(tuning.cached_facts)
def _check_equal(shape: tuple[int, ...]) -> None:
    """Refuse parts of different shapes. The processes meet here when a shape is new to them."""
    found = multihost_utils.process_allgather(np.array(shape, np.int64))
    if (found != found[0]).any():
        raise ValueError(
            f"the processes give batches of different shapes: {[tuple(map(int, row)) for row in found]}. Give all the "
            "same number of rows: DistributedSampler and DataLoader(drop_last=True) do"
        )


def _global(value: Any, mesh: Mesh) -> Any:
    """The rows of all processes as one array; each device has some, or those of its process."""
    _check_equal(tuple(value.shape))
    own = mesh.shape[_OWN]
    spec = PartitionSpec((_PROCESS, _OWN) if value.shape[0] % own == 0 else _PROCESS)
    with tracing.x64():
        return jax.make_array_from_process_local_data(NamedSharding(mesh, spec), np.asarray(value))


def _local(value: Any) -> Any:
    """The rows of this process."""
    rows = {shard.index[0].start or 0 if shard.index else 0: shard.data for shard in value.addressable_shards}
    parts = [np.asarray(rows[start]) for start in sorted(rows)]
    return executor.current.place(np.concatenate(parts) if len(parts) > 1 else np.array(parts[0]))


@lru_cache(tuning.cached_facts)
def _summing(mesh: Mesh) -> Any:
    return jax.jit(lambda rows: jnp.sum(rows, 0), out_shardings=NamedSharding(mesh, PartitionSpec()))


def _sum(value: Any, mesh: Mesh) -> Any:
    """The sum of what all processes have, on all devices."""
    where = NamedSharding(mesh, PartitionSpec(_PROCESS))
    with tracing.x64():
        return _summing(mesh)(jax.make_array_from_process_local_data(where, np.asarray(value)[None]))


class JoinedBackward(Node):
    """The node of a global tensor: a process gets the gradient of its rows."""

    __slots__ = ()

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None if g is None else _local(g) for g in grads]


class OwnPartBackward(Node):
    """The node of a process's part: the gradients of all parts, each times ``share``, are that of the whole.

    Attributes:
        mesh: the devices by process.
        split: whether the processes have different rows; else they have the same, and gradients are added up.
        share: what each counts for.
    """

    __slots__ = ("mesh", "share", "split")

    def __init__(self, edge: Edge, mesh: Mesh, split: bool, share: float) -> None:
        super().__init__((edge,))
        self.mesh, self.split, self.share = mesh, split, share

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        way = _global if self.split else _sum
        with tracing.x64():
            return [
                None if g is None else way(np.asarray(g) * np.asarray(self.share, g.dtype), self.mesh)
                for g in grads
            ]


def joined(tensor: Tensor, mesh: Mesh) -> Tensor:
    """The rows of all processes, in their order, as one tensor on all devices.

    Args:
        tensor: the rows of this process; all have as many.
        mesh: made by `by_process`.

    Raises:
        ValueError: the processes have different shapes.
    """
    made = _global(tensor._look(), mesh)
    out = wrap(placed.Placed(made, made.sharding))
    if tensor.requires_grad and grad_mode.state.enabled:
        out._requires_grad, out._grad_fn = True, JoinedBackward((edge_of(tensor),))
    return out


def own_part(tensor: Tensor, mesh: Mesh, rows: int, share: float = 1.0) -> Tensor:
    """What a process has of a global tensor: its rows, or all if there are not ``rows``.

    Args:
        tensor: the global tensor.
        mesh: made by `by_process`.
        rows: of the joined batch.
        share: what the gradient of each process counts for.
    """
    split = bool(tensor.dim()) and tensor.shape[0] == rows
    sharding = NamedSharding(mesh, PartitionSpec(_PROCESS) if split else PartitionSpec())
    out = wrap(_local(placed.brought(tensor._value, sharding)))
    if tensor.requires_grad and grad_mode.state.enabled:
        out._requires_grad, out._grad_fn = True, OwnPartBackward(edge_of(tensor), mesh, split, share)
    return out


def across(module: Any, args: Any, kwargs: Any, mesh: Mesh) -> Any:
    """Call a module, whose parameters are on all devices, with the batches of all processes; give each its part.

    All tensors with as many rows as the first one are rows of the batch. What is on all devices already is computed
    with as it is, and so is the result then.

    Args:
        module: takes and gives tensors in nested containers.
        mesh: made by `by_process`.
    """
    tensors = [leaf for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.dim()]
    if not tensors or placed.sharding_of(tensors[0]._storage) is not None:
        return module(*args, **kwargs)
    if tracing.overlay:
        raise NotImplementedError(
            "a compiled function of several processes is given global tensors: make them before the call with "
            "DTensor.from_local(x, mesh, [Shard(0)]), or call the model without compile"
        )
    rows, count = tensors[0].shape[0], jax.process_count()

    def enter(leaf: Any) -> Any:
        is_batch = isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == rows and not is_global(leaf)
        return joined(leaf, mesh) if is_batch else leaf

    def leave(leaf: Any) -> Any:
        return (
            own_part(leaf, mesh, rows * count, 1 / count)
            if isinstance(leaf, Tensor) and is_global(leaf)
            else leaf
        )

    args, kwargs = tree.map(enter, (args, kwargs))
    return tree.map(leave, module(*args, **kwargs))
