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

from ..._array import placed, tracing
from ..._base import agreement, contexts, memory, meshes
from ..._base.tuning import tuning
from ..._run.crossing import JoinedBackward, local_part
from ..._run.opnode import edge_of
from ..._tensor import grad_mode, tree
from ..._tensor.node import Edge, Node
from ..._tensor.tensor import Tensor, wrap
from . import _batch

__all__ = [
    "Border", "across", "border_of", "check_group", "different", "is_global", "joined", "own_part", "run",
]  # fmt: skip


def different(mesh: Mesh, axes: Sequence[str]) -> int:
    """How many different parts the processes have of what is split over axes of a mesh.

    Raises:
        NotImplementedError: the parts of two processes overlap.
    """
    names = [*axes, *[name for name in mesh.axis_names if name not in axes]]
    devices = mesh.devices.transpose([mesh.axis_names.index(name) for name in names])
    count = int(np.prod([mesh.shape[name] for name in axes]))
    found: dict[int, set[int]] = {}
    for part, row in enumerate(devices.reshape(count, -1)):
        for device in row:
            found.setdefault(device.process_index, set()).add(part)
    kinds = {frozenset(parts) for parts in found.values()}
    if sum(map(len, kinds)) > count:
        raise NotImplementedError(
            f"over {', '.join(axes)} of the mesh {dict(mesh.shape)} processes have parts that overlap: make the "
            "mesh so that each process has a part for itself, or several have the same"
        )
    return len(kinds)


def check_group(group: Any, name: str) -> None:
    """Refuse a process group that has not all processes.

    Raises:
        NotImplementedError: the group has some of them, or is none.
    """
    size = getattr(group, "size", None)
    if group is not None and (size is None or size() != jax.process_count()):
        raise NotImplementedError(
            f"{name}: process_group= of some of the processes is not supported: leave it out, or give a device_mesh "
            "of all devices where that is an argument"
        )


class Border:
    """How the batches of all processes lie on a mesh: rows are split over axes.

    Attributes:
        mesh: has devices of all processes.
        axes: the axes; the devices of a process share its rows if they can.
        count: how many different batches the processes have: those along other axes have the same.
    """

    def __init__(self, mesh: Mesh, axes: Sequence[str]) -> None:
        self.mesh, self.axes = mesh, tuple(axes)
        self.count = different(mesh, self.axes)
        self._parts = int(np.prod([mesh.shape[name] for name in self.axes]))
        #: those along which the rows of a process are split only if its devices can share them
        self._own = tuple([name for name in self.axes if different(mesh, (name,)) == 1])

    def rows(self, shape: Sequence[int]) -> NamedSharding:
        """Where the rows of all processes lie, of which each has such a part.

        Raises:
            ValueError: the devices of a process cannot share its rows.
        """
        axes, own = self.axes, self._parts // self.count
        if shape[0] % own:
            axes = tuple([name for name in axes if name not in self._own])
            own = int(np.prod([self.mesh.shape[name] for name in axes])) // self.count
        if shape[0] % own:
            raise ValueError(
                f"a batch of {shape[0]} rows cannot be shared by {own} devices of a process: make it a multiple"
            )
        return NamedSharding(self.mesh, PartitionSpec(axes))


@lru_cache(tuning.cached_facts)
def border_of(mesh: Mesh, axes: tuple[str, ...]) -> Border:
    """That of a batch which is split over axes of a mesh."""
    devices = meshes.of_processes(mesh.devices.flat)
    if {*axes} == {*mesh.axis_names} and [*devices.devices.flat] == [*mesh.devices.flat]:
        return Border(devices, devices.axis_names)  # so it may stay whole in a process
    return Border(mesh, axes)


def is_global(tensor: Tensor) -> bool:
    """Whether a tensor lies in several processes."""
    return meshes.is_global(tensor._look())


def _check_equal(shape: Sequence[int]) -> None:
    """Refuse parts of different shapes. The processes meet here."""
    mine = f"{tuple(shape)}".ljust(_TEXT).encode()
    found = [each.decode().strip() for each in agreement.everywhere("a batch of each process", mine)]
    if len({*found}) > 1:
        raise ValueError(
            f"the processes give batches of different shapes: {', '.join(found)}. Give all the same number of rows: "
            "DistributedSampler and DataLoader(drop_last=True) do"
        )


_TEXT = 256


@lru_cache(tuning.cached_facts)
def _summing(mesh: Mesh) -> Any:
    return jax.jit(lambda rows: jnp.sum(rows, 0), out_shardings=NamedSharding(mesh, PartitionSpec()))


def _sum(value: Any, mesh: Mesh) -> Any:
    """The sum of what all processes have, on all devices."""
    own = np.zeros((len(mesh.local_devices), *value.shape), value.dtype)
    own[0] = value
    rows = placed.of_parts(own, NamedSharding(mesh, PartitionSpec(mesh.axis_names)))
    with tracing.x64():
        return memory.run(_summing(mesh), (rows,))


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
        if self.adds:
            return _sum(grad, self.sharding.mesh)  # type: ignore[arg-type]
        value = placed.of_parts(grad, self.sharding)
        placed.compare_parts(value)
        return value


def joined(tensor: Tensor, sharding: NamedSharding, mesh: Any = None, times: int = 1) -> Tensor:
    """The global tensor of which each process has a part.

    Args:
        mesh: the `DeviceMesh` that it is declared on.
        times: as in `JoinedBackward`; so `OwnPartBackward.share` is taken back.

    Raises:
        ValueError: the processes have parts of different shapes, or other numbers for the same part.
    """
    _check_equal(tuple(tensor.shape))
    value = placed.of_parts(tensor._look(), sharding)
    placed.compare_parts(value)
    out = wrap(placed.Placed(value, sharding, mesh))
    if tensor.requires_grad and grad_mode.state.enabled:
        out._requires_grad, out._grad_fn = True, JoinedBackward(edge_of(tensor), sharding, times)
    return out


def own_part(tensor: Tensor, sharding: NamedSharding, share: float = 1.0, adds: bool = False) -> Tensor:
    """What a process has of a global tensor that lies so.

    Args:
        share, adds: as in `OwnPartBackward`.
    """
    out = wrap(local_part(placed.brought(tensor._value, sharding)))
    if tensor.requires_grad and grad_mode.state.enabled:
        out._requires_grad, out._grad_fn = True, OwnPartBackward(edge_of(tensor), sharding, share, adds)
    return out


def run(module: Any, mesh: Mesh, axes: tuple[str, ...], args: Any, kwargs: Any) -> Any:
    """A module's result for a batch that is split over axes of a mesh; in several processes, each for its own."""
    if jax.process_count() > 1:
        return across(module, args, kwargs, border_of(mesh, axes))
    return _batch.run(module, mesh, axes, args, kwargs)


def across(module: Any, args: Any, kwargs: Any, border: Border) -> Any:
    """Call a module, whose parameters are on all devices, with the batches of all processes; give each its part.

    All tensors with as many rows as the first one are rows of the batch. What is on all devices already is computed
    with as it is, and so is the result then.

    Args:
        module: takes and gives tensors in nested containers.
        border: where the batches lie.
    """
    tensors = [leaf for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.dim()]
    if not tensors or placed.sharding_of(tensors[0]._storage) is not None:
        return module(*args, **kwargs)
    if tracing.overlay:
        raise NotImplementedError(
            "a compiled function of several processes is given global tensors: make them before the call with "
            "DTensor.from_local(x, mesh, [Shard(0)]), or call the model without compile"
        )
    if is_global(tensors[0]):
        return module(*args, **kwargs)
    rows, count = tensors[0].shape[0], border.count

    def enter(leaf: Any) -> Any:
        is_batch = isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == rows and not is_global(leaf)
        return joined(leaf, border.rows(leaf.shape), times=count) if is_batch else leaf

    def leave(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not is_global(leaf):
            return leaf
        if leaf.dim() and leaf.shape[0] == rows * count:
            return own_part(leaf, border.rows((rows,)), 1 / count)
        return own_part(leaf, NamedSharding(border.mesh, PartitionSpec()), 1 / jax.process_count(), True)

    args, kwargs = tree.map(enter, (args, kwargs))
    with contexts.state.having(parts=count, joined=True):
        return tree.map(leave, module(*args, **kwargs))
