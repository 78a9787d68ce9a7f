"""A module that is the same in all processes, each of which calls it with tensors of its own.

A process computes with its own copies of the parameters, as in PyTorch. Their gradients meet in one node, which adds
those of all processes up in one program. In a compiled function the program of all processes does that
(`_trace.across`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._array import placed, together, tracing
from ..._base import meshes
from ..._base.meshes import OWN, PROCESS
from ..._base.tuning import tuning
from ..._tensor import grad_mode, tree
from ..._tensor.node import Edge, Node, accumulator
from ..._tensor.tensor import Tensor, wrap
from ..._trace.across import Across
from ...func._functional_call import _swapped
from . import _batch

__all__ = ["run"]


def run(module: Any, mesh: Mesh, sync: bool, args: Any, kwargs: Any) -> Any:
    """Call a module whose parameters and buffers are on all devices.

    Args:
        mesh: one of `meshes.of_processes`.
        sync: whether gradients are to be means over the processes at once.
    """
    if any(_is_global(leaf) for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, Tensor)):
        return module(*args, **kwargs)  # what all have together is computed together
    params = {name: p for name, p in module.named_parameters() if placed.sharding_of(p._storage) is not None}
    buffers = {name: b for name, b in module.named_buffers() if placed.sharding_of(b._storage) is not None}
    if tracing.overlay:
        _note(params.values(), buffers.values(), mesh, sync)
        return module(*args, **kwargs)
    own, axes = _own_mesh(mesh), (OWN,)
    copies = {name: wrap(_copy(tensor, own)) for name, tensor in {**params, **buffers}.items()}
    wanted = [name for name, p in params.items() if p._requires_grad and grad_mode.state.enabled]
    if wanted:
        node = ReplicasBackward([params[name] for name in wanted], mesh)
        for k, name in enumerate(wanted):
            copies[name]._requires_grad, copies[name]._grad_fn, copies[name]._output_nr = True, node, k
    if own.size > 1:
        (args, kwargs), _ = _batch.split((args, kwargs), own, axes)
    given = dict(copies)
    with _swapped(module, given, True, False):
        out = module(*args, **kwargs)
    changed = [n for n in buffers if given[n] is not copies[n] or copies[n]._storage.version]
    if changed:
        values = together.of_rank(0, [given[name]._look() for name in changed], mesh)
        for name, value in zip(changed, values, strict=True):
            buffers[name]._storage.value = value
    return out


def _is_global(tensor: Tensor) -> bool:
    return placed.sharding_of(tensor._storage) is not None or meshes.is_global(tensor._storage.aval())


def _note(params: Any, buffers: Any, mesh: Mesh, sync: bool) -> None:
    """Tell the trace in progress that each process computes with tensors of its own, and what is the same in all."""
    overlay = tracing.current()
    if overlay.transforms or not overlay.local or overlay.symbols is not None:
        raise NotImplementedError(
            "DistributedDataParallel of several processes with the tensors of each, in a transform (torch.func) or "
            "with dynamic=True: compile the whole step with fixed sizes, or give global tensors (DTensor.from_local)"
        )
    if overlay.across is None:
        overlay.across = Across(mesh)
    across: Across = overlay.across
    across.averaged.update((p._storage, sync) for p in params)
    for cell in dict.fromkeys(b._storage for b in buffers):
        if cell in across.first and cell in overlay.written:
            cell.value = across.of_first(cell.value)
        across.first[cell] = None


@lru_cache(tuning.cached_facts)
def _own_mesh(mesh: Mesh) -> Mesh:
    """The devices of this process."""
    (row,) = [row for row in mesh.devices if row[0].process_index == jax.process_index()]
    return meshes.mesh_of(row, (OWN,))


def _copy(tensor: Tensor, own: Mesh) -> Any:
    """What this process has of a tensor that is on all devices."""
    value = tensor._value
    if not value.is_fully_replicated:
        raise NotImplementedError(
            f"DistributedDataParallel: a parameter of shape {list(tensor.shape)} is split over the processes: give the "
            "model global tensors (DTensor.from_local(x, mesh, [Shard(0)]))"
        )
    data = {shard.device: shard.data for shard in value.addressable_shards}
    if own.size == 1:
        return data[own.devices[0]]
    everywhere = NamedSharding(own, PartitionSpec())
    made = jax.make_array_from_single_device_arrays(value.shape, everywhere, [data[d] for d in own.devices])
    return placed.Placed(made, everywhere)


class ReplicasBackward(Node):
    """The node of a process's copies of parameters: the gradients of all processes are averaged.

    A parameter has no gradient if it has none in any process, as with PyTorch's ``find_unused_parameters``.
    """

    __slots__ = ("kinds", "mesh")

    def __init__(self, params: Sequence[Tensor], mesh: Mesh) -> None:
        edges: list[Edge] = [(accumulator(p), 0) for p in params]
        super().__init__(edges, len(params))
        self.mesh, self.kinds = mesh, [(p._storage.aval().shape, p._storage.aval().dtype) for p in params]

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        if any(isinstance(g, Tensor) and g.is_sparse for g in grads):
            raise NotImplementedError(
                "DistributedDataParallel with sparse gradients in several processes: Embedding(sparse=False)"
            )
        there = [g is not None for g in grads]
        given = [np.zeros(*kind) if g is None else g for g, kind in zip(grads, self.kinds, strict=True)]
        given.append(np.asarray(there, given[0].dtype) * self.mesh.shape[PROCESS])
        *found, count = together.summed(given, self.mesh, self.mesh.shape[PROCESS])
        known = there if all(there) else np.asarray(together.own_copy(count))
        return [g if n else None for g, n in zip(found, known, strict=True)]

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise NotImplementedError(
            "create_graph=True through DistributedDataParallel of several processes: use the module itself"
        )
