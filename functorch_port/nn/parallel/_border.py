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
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._array import executor, placed, tracing
from ..._base import contexts, memory, meshes
from ..._base.tuning import tuning
from ..._run.opnode import edge_of
from ..._tensor import grad_mode, tree
from ..._tensor.node import Edge, Node
from ..._tensor.tensor import Tensor, wrap

__all__ = ["across", "by_process", "is_global", "joined", "own_part"]

_PROCESS, _OWN = "process", "own"


def by_process(mesh: Mesh) -> Mesh:
    """The devices of a mesh, a row for each process."""
    devices = meshes.by_process(mesh.devices.flat)
    return meshes.mesh_of(devices.reshape(jax.process_count(), -1), (_PROCESS, _OWN))


def is_global(tensor: Tensor) -> bool:
    """Whether a tensor lies in several processes."""
    return not getattr(tensor._look(), "is_fully_addressable", True)


@lru_cache(tuning.cached_facts)
def _check_equal(shape: tuple[int, ...]) -> None:
    """Refuse parts of different shapes. The processes meet here when a shape is new to them."""
    from jax.experimental.multihost_utils import process_allgather

    found = process_allgather(np.array(shape, np.int64))
    if (found != found[0]).any():
        raise ValueError(
            f"the processes give batches of different shapes: {[tuple(map(int, row)) for row in found]}. Give all the "
            "same number of rows: DistributedSampler and DataLoader(drop_last=True) do"
        )


def _rows(shape: Sequence[int], mesh: Mesh) -> NamedSharding:
    """Where the rows of all processes lie: each device has some, or those of its process."""
    own = shape[0] % mesh.shape[_OWN] == 0
    return NamedSharding(mesh, PartitionSpec((_PROCESS, _OWN) if own else _PROCESS))


@lru_cache(tuning.cached_facts)
def _summing(mesh: Mesh) -> Any:
    return jax.jit(lambda rows: jnp.sum(rows, 0), out_shardings=NamedSharding(mesh, PartitionSpec()))


def _sum(value: Any, mesh: Mesh) -> Any:
    """The sum of what all processes have, on all devices."""
    rows = placed.of_parts(np.asarray(value)[None], NamedSharding(mesh, PartitionSpec(_PROCESS)))
    with tracing.x64():
        return memory.run(_summing(mesh), (rows,))


class JoinedBackward(Node):
    """The node of a global tensor: a process gets the gradient of its part.

    Attributes:
        sharding: where the parts lie.
    """

    __slots__ = ("sharding",)

    def __init__(self, edge: Edge, sharding: NamedSharding) -> None:
        super().__init__((edge,))
        self.sharding = sharding

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None if g is None else _local(placed.brought(g, self.sharding)) for g in grads]


class OwnPartBackward(Node):
    """The node of a process's part: the gradients of all parts make up that of the whole.

    Attributes:
        sharding: where the parts lie.
        share: what the gradient of each process counts for.
        adds: processes have the same part, and their gradients are added up; else they are the same, too.
    """

    __slots__ = ("adds", "sharding", "share")

    def __init__(self, edge: Edge, sharding: NamedSharding, share: float, adds: bool) -> None:
        super().__init__((edge,))
        self.sharding, self.share, self.adds = sharding, share, adds

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None if g is None else self._whole(np.asarray(g)) for g in grads]

    def _whole(self, grad: np.ndarray) -> Any:
        grad = grad * np.asarray(self.share, grad.dtype)
        return _sum(grad, self.sharding.mesh) if self.adds else placed.of_parts(grad, self.sharding)  # type: ignore[arg-type]


def _local(value: Any) -> Any:
    return executor.current.place(placed.local_part(value))


def joined(tensor: Tensor, sharding: NamedSharding, mesh: Any = None) -> Tensor:
    """The global tensor of which each process has a part; the mesh is the `DeviceMesh` that it is declared on.

    Raises:
        ValueError: the processes have parts of different shapes.
    """
    _check_equal(tuple(tensor.shape))
    out = wrap(placed.Placed(placed.of_parts(tensor._look(), sharding), sharding, mesh))
    if tensor.requires_grad and grad_mode.state.enabled:
        out._requires_grad, out._grad_fn = True, JoinedBackward(edge_of(tensor), sharding)
    return out


def own_part(tensor: Tensor, sharding: NamedSharding, share: float = 1.0, adds: bool = False) -> Tensor:
    """What a process has of a global tensor that lies so.

    Args:
        share, adds: as in `OwnPartBackward`.
    """
    out = wrap(_local(placed.brought(tensor._value, sharding)))
    if tensor.requires_grad and grad_mode.state.enabled:
        out._requires_grad, out._grad_fn = True, OwnPartBackward(edge_of(tensor), sharding, share, adds)
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
        return joined(leaf, _rows(leaf.shape, mesh)) if is_batch else leaf

    def leave(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not is_global(leaf):
            return leaf
        split = bool(leaf.dim()) and leaf.shape[0] == rows * count
        where = NamedSharding(mesh, PartitionSpec(_PROCESS) if split else PartitionSpec())
        return own_part(leaf, where, 1 / count, not split)

    args, kwargs = tree.map(enter, (args, kwargs))
    with contexts.state.having(parts=count):
        return tree.map(leave, module(*args, **kwargs))
