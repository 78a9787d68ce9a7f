"""A module that is the same in all processes, each of which calls it with tensors of its own.

A process computes with its own copies of the parameters, as in PyTorch. Their gradients meet in one node, which adds
those of all processes up in one program. In a compiled function the program of all processes does that
(`_trace.across`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._array import placed, together, tracing
from ..._base import agreement, alive, contexts, meshes
from ..._base.meshes import OWN, PROCESS
from ..._base.tuning import tuning
from ..._tensor import grad_mode, tree
from ..._tensor.node import Edge, Node, accumulator
from ..._tensor.tensor import Tensor, wrap
from ..._trace.across import Across
from ...func._functional_call import swapped
from . import _batch

__all__ = ["Joining", "finish", "follow", "run"]


class Joining(NamedTuple):
    """The processes that have batches, and by what sums of gradients are divided (see `_join`)."""

    active: list[int]
    by: int


def run(module: Any, mesh: Mesh, sync: bool, joining: Joining | None, args: Any, kwargs: Any) -> Any:
    """Call a module whose parameters and buffers are on all devices.

    Args:
        mesh: one of `meshes.of_processes`.
        sync: whether gradients are to be means over the processes at once.
        joining: if processes may have different numbers of batches.
    """
    if any(_is_global(leaf) for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, Tensor)):
        return module(*args, **kwargs)  # what all have together is computed together
    params, buffers = _tensors(module)
    if tracing.overlay:
        _note(params.values(), buffers.values(), mesh, sync, joining)
        return module(*args, **kwargs)
    own, count = _own_mesh(mesh), mesh.shape[PROCESS]
    copies = {name: wrap(_copy(tensor, own)) for name, tensor in {**params, **buffers}.items()}
    wanted = [name for name, p in params.items() if p._requires_grad and grad_mode.state.enabled]
    if wanted:
        by = count if joining is None else joining.by
        node = ReplicasBackward([params[name] for name in wanted], mesh, by)
        for k, name in enumerate(wanted):
            copies[name]._requires_grad, copies[name]._grad_fn, copies[name]._output_nr = True, node, k
    if own.size > 1:
        (args, kwargs), _ = _batch.split((args, kwargs), own, (OWN,))

    @contextmanager
    def again() -> Iterator[None]:
        with _computing_with(module, copies, params) as changed:
            yield
        if changed and joining is not None:
            raise NotImplementedError("join() and buffers that a checkpointed part of the model writes to")
        fill(changed, 0)

    def fill(changed: Sequence[str], source: int) -> None:
        if changed:
            _fill(
                [buffers[name] for name in changed], [copies[name]._look() for name in changed], source, mesh
            )

    with contexts.state.having(around=again), _computing_with(module, copies, params) as changed:
        out = module(*args, **kwargs)
    if joining is not None:
        told = {"active": joining.active, "by": joining.by, "changed": changed, "wanted": wanted}
        agreement.everywhere("a step in a join context", json.dumps(told).encode())
    fill(changed, 0 if joining is None else max(joining.active))
    return out


@contextmanager
def _computing_with(module: Any, copies: dict[str, Tensor], params: dict[str, Tensor]) -> Iterator[list[str]]:
    """The module has these copies for a block; gives the names of those that it writes to, at the end."""
    given, changed = dict(copies), list[str]()
    versions = {name: copy._storage.version for name, copy in copies.items()}
    with swapped(module, given, True, False):
        yield changed
    for name, copy in copies.items():
        if given[name] is not copy or copy._storage.version != versions[name]:
            changed.append(name)
    if any(name in params for name in changed):
        raise NotImplementedError(
            f"DistributedDataParallel of several processes: forward() writes to the parameter {changed[0]!r}, of which "
            "each process has a copy: write to it outside of forward()"
        )
    copies.update(given)


def _tensors(module: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers that are on the devices of all, by name."""
    is_placed = lambda item: placed.is_shared(item[1]._storage)
    params, buffers = module.named_parameters(), module.named_buffers()
    return dict(filter(is_placed, params)), dict(filter(is_placed, buffers))


def _fill(tensors: Sequence[Tensor], values: Sequence[Any], source: int, mesh: Mesh) -> None:
    """Write what one process has to tensors of all."""
    for tensor, value in zip(tensors, together.of_rank(source, values, mesh), strict=True):
        tensor._storage.value = value


def follow(module: Any, mesh: Mesh) -> None:
    """Make the collectives that the processes make in a step that have batches still: a forward and a backward pass."""
    found = agreement.everywhere("a step in a join context", b"")
    told = json.loads(next(each for each in found if each))
    params, buffers = _tensors(module)
    changed, wanted = [buffers[name] for name in told["changed"]], [params[name] for name in told["wanted"]]
    if changed:
        _fill(changed, [together.own_copy(t._value) for t in changed], max(told["active"]), mesh)
    if wanted:
        _mean([None] * len(wanted), _kinds(wanted), mesh, told["by"])


def finish(module: Any, mesh: Mesh, is_last: bool) -> None:
    """Have all processes get the parameters, the buffers, and the state of optimizers of one that had most batches.

    Raises:
        RuntimeError: a process has made no step, so that its optimizer has no state to be filled.
    """
    params, buffers = _tensors(module)
    tensors, names = [*params.values(), *buffers.values()], [*params, *buffers]
    tables = {
        (name, k): optimizer.state.get(p, {})
        for name, p in params.items()
        for k, optimizer in enumerate(alive.optimizers)
        if any(p is q for group in optimizer.param_groups for q in group["params"])
    }
    numbers: dict[str, Any] = {}
    for (name, k), table in tables.items():
        for key, value in table.items():
            if isinstance(value, Tensor) and placed.is_shared(value._storage):
                tensors.append(value)
                names.append(f"{key} of {name} ({k})")
            elif type(value) in (int, float):
                numbers[f"{name} {k} {key}"] = value
    mine = json.dumps([is_last, names, numbers]).encode()
    found = [json.loads(each) for each in agreement.everywhere("the end of a join context", mine)]
    if any(each[1] != names for each in found):
        raise RuntimeError(
            "join: the optimizers of the processes have different state; a process has made no step at all. Give each "
            "at least one batch"
        )
    source = max(rank for rank, each in enumerate(found) if each[0])
    _fill(tensors, [together.own_copy(t._value) for t in tensors], source, mesh)
    for (name, k), table in tables.items():
        table.update({key: found[source][2].get(f"{name} {k} {key}", v) for key, v in table.items()})


def _is_global(tensor: Tensor) -> bool:
    return placed.is_shared(tensor._storage) or meshes.is_global(tensor._storage.aval())


def _note(params: Any, buffers: Any, mesh: Mesh, sync: bool, joining: Joining | None) -> None:
    """Tell the trace in progress that each process computes with tensors of its own, and what is the same in all."""
    overlay = tracing.current()
    if joining is not None:
        raise NotImplementedError("join() and a compiled function: call the model uncompiled in the context")
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

    __slots__ = ("by", "kinds", "mesh")

    def __init__(self, params: Sequence[Tensor], mesh: Mesh, by: int) -> None:
        edges: list[Edge] = [(accumulator(p), 0) for p in params]
        super().__init__(edges, len(params))
        self.mesh, self.by, self.kinds = mesh, by, _kinds(params)

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        if any(isinstance(g, Tensor) and g._sparse for g in grads):
            raise NotImplementedError(
                "DistributedDataParallel with sparse gradients in several processes: Embedding(sparse=False)"
            )
        return _mean(grads, self.kinds, self.mesh, self.by)

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise NotImplementedError(
            "create_graph=True through DistributedDataParallel of several processes: use the module itself"
        )


def _kinds(tensors: Sequence[Tensor]) -> list[Any]:
    return [(t._storage.aval().shape, t._storage.aval().dtype) for t in tensors]


def _mean(grads: Sequence[Any], kinds: Sequence[Any], mesh: Mesh, by: int) -> list[Any]:
    """The means of gradients over the processes, of which some may have none."""
    there = [g is not None for g in grads]
    values = [np.zeros(*kind) if g is None else g for g, kind in zip(grads, kinds, strict=True)]
    values.append(np.asarray(there, values[0].dtype))
    *found, count = together.summed(values, mesh, by)
    known = there if all(there) else np.asarray(together.own_copy(count))
    return [g if n else None for g, n in zip(found, known, strict=True)]
