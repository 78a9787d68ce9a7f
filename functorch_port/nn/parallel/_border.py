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
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._array import placed, together, tracing
from ..._array.refusal import refuse, some
from ..._base import agreement, contexts, inside, meshes
from ..._base.tuning import tuning
from ..._run.crossing import JoinedBackward, local_part
from ..._run.opnode import edge_of
from ..._tensor import grad_mode, tree
from ..._tensor.node import Edge, Node
from ..._tensor.tensor import Tensor, wrap
from ..._trace import crossings
from ..._trace.across import Across
from . import _batch

__all__ = [
    "Border", "across", "border_of", "check_group", "different", "is_global", "joined", "own_part", "run",
]  # fmt: skip


def different(mesh: Mesh, axes: Sequence[str]) -> int:
    """How many different parts the processes have of what is split over axes of a mesh (see `_holders`)."""
    return len(_holders(mesh, tuple(axes)))


@lru_cache(tuning.cached_facts)
def _holders(mesh: Mesh, axes: tuple[str, ...]) -> dict[tuple[int, ...], list[int]]:
    """The processes that have the same of what is split over axes of a mesh, by the numbers of the parts they have.

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
    holders: dict[tuple[int, ...], list[int]] = {}
    for process in sorted(found):
        holders.setdefault(tuple(sorted(found[process])), []).append(process)
    if sum(map(len, holders)) > count:
        raise NotImplementedError(
            f"over {', '.join(axes)} of the mesh {dict(mesh.shape)} processes have parts that overlap: make the "
            "mesh so that each process has a part for itself, or several have the same"
        )
    return dict(sorted(holders.items()))


@lru_cache(tuning.cached_facts)
def _parts_of(sharding: NamedSharding) -> crossings.Parts:
    """How the processes share what lies so.

    Raises:
        NotImplementedError: the parts of a process do not lie beside each other.
    """
    holders = _holders(sharding.mesh, meshes.axes_of((*sharding.spec, None)[0]))
    if sum(holders, ()) != (*range(sum(map(len, holders))),):
        raise NotImplementedError(
            f"a compiled function of several processes, and a mesh {dict(sharding.mesh.shape)} on which the rows of a "
            f"process do not lie beside each other: give the devices in another order. {_OR}"
        )
    of = {process: k for k, processes in enumerate(holders.values()) for process in processes}
    return crossings.Parts(tuple(ps[0] for ps in holders.values()), tuple(of[p] for p in sorted(of)))


_OR = (
    "Or make tensors global before the call with DTensor.from_local(x, mesh, [Shard(0)]), or call the model without "
    "compile"
)


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


def _check_fits(tensor: Tensor, sharding: Any) -> None:
    """Refuse parts of different shapes, dtypes or placements. The processes meet here."""
    mine = "; ".join((str(tuple(tensor.shape)), str(tensor.dtype), meshes.described(sharding)))
    found = [
        each.decode().split("; ") for each in agreement.everywhere("a batch of each process", mine.encode())
    ]
    for what, texts in zip(("shapes", "dtypes", "placements"), zip(*found, strict=True)):
        if len({*texts}) > 1:
            raise ValueError(
                f"the processes give batches of different {what}: {', '.join(texts)}. Give all the same number of "
                "rows, as DistributedSampler and DataLoader(drop_last=True) do, of one dtype, placed in one way"
            )


def _sum(value: Any, mesh: Mesh) -> Any:
    """The sum of what all processes have, on all devices."""
    if tracing.overlay:
        total = jax.lax.psum(value, meshes.PROCESS)
    else:
        (total,) = together.summed([value], meshes.of_processes(mesh.devices.flat))
    return placed.brought(total, NamedSharding(mesh, PartitionSpec()))


class _JoinedBackward(JoinedBackward):
    """The same in a trace, too."""

    __slots__ = ()

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None if g is None else _part(g, self.sharding, self.times) for g in grads]


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
        return [None if g is None else self._whole(g if tracing.overlay else np.asarray(g)) for g in grads]

    def _whole(self, grad: Any) -> Any:
        grad = grad * np.asarray(self.share, grad.dtype)
        return _sum(grad, self.sharding.mesh) if self.adds else _whole(grad, self.sharding)  # type: ignore[arg-type]


def _whole(value: Any, sharding: NamedSharding) -> Any:
    """The array that lies so, of which each process has such a part.

    Raises:
        ValueError: several processes have the same part, and other numbers.
    """
    if tracing.overlay:
        return placed.brought(crossings.whole(value, _parts_of(sharding)), sharding)
    made = placed.of_parts(value, sharding)
    placed.compare_parts(made)
    return made


def _part(value: Any, sharding: NamedSharding, times: int = 1) -> Any:
    """What a process has of an array, where that lies so."""
    if not tracing.overlay:
        return local_part(placed.brought(value, sharding), times)
    part = crossings.part(value, _parts_of(sharding))
    return part if times == 1 else part * np.asarray(times, part.dtype)


def joined(tensor: Tensor, sharding: NamedSharding, mesh: Any = None, times: int = 1) -> Tensor:
    """The global tensor of which each process has a part.

    Args:
        mesh: the `DeviceMesh` that it is declared on.
        times: as in `JoinedBackward`; so `OwnPartBackward.share` is taken back.

    Raises:
        ValueError: the processes have parts of different shapes, dtypes or placements, or of different values where
            they are to be the same.
    """
    if not tracing.overlay:  # there the program, which shows the shapes, is compared
        _check_fits(tensor, sharding)
    edge = _edge_of(tensor)
    value = _entering(tensor._look(), sharding) if tracing.overlay else tensor._look()
    out = wrap(placed.Placed(_whole(value, sharding), sharding, mesh))
    if edge is not None:
        out._requires_grad, out._grad_fn = True, _JoinedBackward(edge, sharding, times)
    return out


def _entering(value: Any, sharding: NamedSharding) -> Any:
    """A value of this process that is to be a part of the whole, in a trace."""
    parts = _parts_of(sharding)
    if len(parts.order) < len(parts.of):
        shape = [*value.shape]
        error = lambda *_: ValueError(
            f"several processes give different values of a tensor of shape {shape} that is to be the same in them, as "
            f"the whole lies by {meshes.described(sharding)}: give them the same batch, without a sampler that divides "
            "it between them"
        )
        theirs = crossings.of_holder(value, parts)
        is_same = (value == theirs) | ((value != value) & (theirs != theirs))
        refuse(some, error, ~is_same.all())
    return crossings.entering(value)


def own_part(tensor: Tensor, sharding: NamedSharding, share: float = 1.0, adds: bool = False) -> Tensor:
    """What a process has of a global tensor that lies so.

    Args:
        share, adds: as in `OwnPartBackward`.
    """
    edge = _edge_of(tensor)
    out = wrap(_part(tensor._value, sharding))
    if edge is not None:
        out._requires_grad, out._grad_fn = True, OwnPartBackward(edge, sharding, share, adds)
    return out


def _edge_of(tensor: Tensor) -> Edge:
    """Where the gradient of a tensor that crosses the border goes; None if it has none."""
    edge = edge_of(tensor) if grad_mode.state.enabled else None
    if tracing.overlay:
        tracing.overlay.note_inputs((tensor,))
        tracing.overlay.note_edges((tensor,), (edge,))
    return edge


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
    if not tensors or placed.sharding_of(tensors[0]._storage) is not None or is_global(tensors[0]):
        return module(*args, **kwargs)
    if tracing.overlay:
        _begin(border.mesh)
    rows, count = tensors[0].shape[0], border.count

    def enter(leaf: Any) -> Any:
        is_batch = isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == rows
        is_own = is_batch and not placed.is_shared(leaf._storage) and not is_global(leaf)
        return joined(leaf, border.rows(leaf.shape), times=count) if is_own else leaf

    def leave(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not (is_global(leaf) or (tracing.overlay and id(leaf) not in own)):
            return leaf
        if leaf.dim() and leaf.shape[0] == rows * count:
            return own_part(leaf, border.rows((rows,)), 1 / count)
        return own_part(leaf, NamedSharding(border.mesh, PartitionSpec()), 1 / jax.process_count(), True)

    with agreement.telling("a batch of each process"):
        args, kwargs = tree.map(enter, (args, kwargs))
    passed = [leaf for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    own = {id(leaf) for leaf in passed if not placed.is_shared(leaf._storage)}
    with contexts.state.having(parts=count, joined=True):
        return tree.map(leave, module(*args, **kwargs))


def _begin(mesh: Mesh) -> None:
    """Tell the trace in progress that tensors of each process meet those on the devices of all.

    Raises:
        NotImplementedError: they cannot.
    """
    overlay, devices = tracing.current(), [*mesh.devices.flat]
    told = "fully sharded parameters and tensors of each of several processes, in"
    if overlay.transforms or not overlay.local or overlay.symbols is not None:
        raise NotImplementedError(
            f"{told} a transform (torch.func), functionalize, or a function with dynamic=True: compile the whole step "
            f"with fixed sizes. {_OR}"
        )
    if inside.top_trace(None) is not overlay.top:
        raise NotImplementedError(
            f"{told} cond, while_loop, scan or map of a compiled function. Call the model outside of it. {_OR}"
        )
    of_processes = meshes.of_processes(devices)
    if devices != [*of_processes.devices.flat]:
        raise NotImplementedError(
            f"{told} a compiled function, and a mesh {dict(mesh.shape)} whose devices are not in the order of the "
            f"processes: give them so. {_OR}"
        )
    if overlay.across is None:
        overlay.across = Across(of_processes)
    overlay.across.crosses = True
