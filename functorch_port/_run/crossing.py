"""Tensors of one process that meet tensors on the devices of all.

What is the same in all processes is there in each: a process computes with its own copy, and has the result for itself.
Its gradient is then the mean over the processes, as `DistributedDataParallel` has it. What is split over the processes
is computed with by all: a tensor of one process that meets it has to be the same in all, which is compared. So it is in
a fully sharded module with all that it makes itself, such as positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._array import executor, placed, together
from .._array.value import HOST, LAZY
from .._base import agreement, contexts, meshes
from .._tensor.node import Edge, Node
from .._tensor.tensor import Tensor, wrap

__all__ = ["JoinedBackward", "given_for", "joined", "local_part", "mean", "of_own_copy", "passed"]


def joined(name: str, values: list[Any], edges: list[Edge], dyn: Sequence[Any]) -> None:
    """Change the values of an operation, and where their gradients go, so that all are of one process or of all."""
    wide = [i for i, v in enumerate(values) if meshes.is_global(v)]
    own = [i for i, v in enumerate(values) if i not in wide and _is_array(v)]
    if not wide or not own:
        return
    is_within = contexts.state.joined and not any(_requires_grad(dyn[i]) for i in own)
    if not is_within and all(values[i].is_fully_replicated for i in wide):
        for i in wide:
            edges[i] = of_own_copy(edges[i], values[i].sharding)
            values[i] = together.own_copy(values[i])
        return
    for i in own:
        _check(name, values[i], dyn[i])
        values[i] = _on_all(values[i], values[wide[0]].sharding)


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array) or value.__class__ in HOST or value.__class__ in LAZY


def _requires_grad(given: Any) -> bool:
    return isinstance(given, Tensor) and given._requires_grad


def _check(name: str, value: Any, given: Any) -> None:
    """Refuse what is not the same in all processes."""
    what = f"{name}: a tensor of one process, of shape {list(value.shape)}, meets one that is on the devices of all."
    instead = "Make it global with DTensor.from_local(x, mesh, placements)"
    if _requires_grad(given):
        module = "a module by functorch_port.distributed.sharding.shard(module, {}, mesh)"
        raise NotImplementedError(
            f"{what} It requires a gradient, which would be of all. {instead}, {module}"
        )
    agreement.check({f"{what} {instead}; else it": [value.array() if value.__class__ in LAZY else value]})


def _on_all(value: Any, sharding: Any) -> Any:
    """A value that is the same in all processes on the devices of a sharding: on its mesh, whose names results get."""
    named = isinstance(sharding, NamedSharding)
    mesh = sharding.mesh if named else meshes.of_processes(sharding.device_set)
    return placed.brought(value, NamedSharding(mesh, PartitionSpec()))


def given_for(output: Tensor, gradient: Tensor) -> Tensor:
    """The gradient that somebody gives for a tensor, where that is on the devices of all, and the gradient is not."""
    value, given = output._look(), gradient._look()
    if not meshes.is_global(value) or meshes.is_global(given) or isinstance(given, jax.core.Tracer):
        return gradient
    if value.is_fully_replicated:
        return wrap(mean(given, value.sharding))
    placed.agreed("a gradient of one process that is given for a tensor split over the processes", given)
    return wrap(_on_all(given, value.sharding))


def of_own_copy(edge: Edge, sharding: Any) -> Edge:
    """Where the gradient of a process's copy of a tensor goes, whose own goes to ``edge``."""
    return None if edge is None else (OwnCopyBackward(edge, sharding), 0)


def passed(edge: Edge, have: Any, given: Any) -> Edge:
    """Where the gradient of a program's input goes, which is ``given`` for a value that a tensor has."""
    if edge is None or meshes.is_global(have) is meshes.is_global(given):
        return edge
    return (
        of_own_copy(edge, have.sharding)
        if meshes.is_global(have)
        else (JoinedBackward(edge, given.sharding), 0)
    )


def mean(value: Any, sharding: Any) -> Any:
    """The mean over the processes of a gradient of a tensor that has this sharding; one of all stays as it is."""
    if meshes.is_global(value):
        return value
    (found,) = together.summed([value], meshes.of_processes(sharding.device_set), jax.process_count())
    return placed.brought(found, sharding)


class OwnCopyBackward(Node):
    """The node of a process's copy of a tensor that is the same in all: the mean of the gradients goes on."""

    __slots__ = ("sharding",)

    def __init__(self, edge: Edge, sharding: Any) -> None:
        super().__init__((edge,))
        self.sharding = sharding

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        values = [g._look() if isinstance(g, Tensor) else g for g in grads]
        return [None if v is None else mean(v, self.sharding) for v in values]


class JoinedBackward(Node):
    """The node of a tensor on all devices that each process has a part of: it gets the gradient of that.

    Attributes:
        sharding: where the parts lie.
        times: what the gradient is multiplied by.
    """

    __slots__ = ("sharding", "times")

    def __init__(self, edge: Edge, sharding: NamedSharding, times: int = 1) -> None:
        super().__init__((edge,))
        self.sharding, self.times = sharding, times

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [
            None if g is None else local_part(placed.brought(g, self.sharding), self.times) for g in grads
        ]


def local_part(value: Any, times: int = 1) -> Any:
    """What this process has of an array on a mesh, times a number."""
    part = placed.local_part(value)
    return executor.current.place(part if times == 1 else part * np.asarray(times, part.dtype))
