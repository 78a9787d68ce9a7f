"""Tensors of one process that meet tensors on the devices of all.

What is the same in all processes is there in each: a process computes with its own copy, and has the result for itself.
Its gradient is then the mean over the processes, as `DistributedDataParallel` has it. What is split over the processes
is computed with by all: a tensor of one process that meets it has to be the same in all, which is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .._array import placed, together
from .._array.value import HOST, LAZY
from .._base import agreement, meshes, settings
from .._base.bounded import Bounded
from .._base.tuning import tuning
from .._tensor.node import Edge, Node
from .._tensor.tensor import Tensor

__all__ = ["joined"]

#: the kinds of tensors that were compared
_compared: Bounded[Any, bool] = Bounded(tuning.cached_facts)


def joined(name: str, values: list[Any], edges: list[Edge], dyn: Sequence[Any]) -> None:
    """Change the values of an operation, and where their gradients go, so that all are of one process or of all."""
    wide = [i for i, v in enumerate(values) if meshes.is_global(v)]
    own = [i for i, v in enumerate(values) if i not in wide and _is_array(v)]
    if not wide or not own:
        return
    if all(values[i].is_fully_replicated for i in wide):
        for i in wide:
            if edges[i] is not None:
                edges[i] = (OwnCopyBackward(edges[i], values[i].sharding), 0)
            values[i] = together.own_copy(values[i])
        return
    for i in own:
        _check(name, values[i], dyn[i])


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array) or value.__class__ in HOST or value.__class__ in LAZY


def _check(name: str, value: Any, given: Any) -> None:
    """Refuse what is not the same in all processes, when its kind is new, or always (``FUNCTORCH_PORT_AGREE``)."""
    what = f"{name}: a tensor of one process, of shape {list(value.shape)}, meets one that is split over the processes."
    instead = "Make it global with DTensor.from_local(x, mesh, placements)"
    if isinstance(given, Tensor) and given._requires_grad:
        raise NotImplementedError(f"{what} It requires a gradient, which would be of all. {instead}")
    kind = name, value.shape, str(value.dtype)
    if kind not in _compared or settings.get("AGREE") == "always":
        _compared[kind] = True
        array = value.array() if value.__class__ in LAZY else value
        agreement.check({f"{what} {instead}; else it": [array]})


class OwnCopyBackward(Node):
    """The node of a process's copy of a tensor that is the same in all: the mean of the gradients goes on."""

    __slots__ = ("sharding",)

    def __init__(self, edge: Edge, sharding: Any) -> None:
        super().__init__((edge,))
        self.sharding = sharding

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        if grads[0] is None:
            return [None]
        value = grads[0]._look() if isinstance(grads[0], Tensor) else grads[0]
        if meshes.is_global(value):
            return [value]
        mesh = meshes.of_processes(self.sharding.device_set)
        (mean,) = together.summed([value], mesh, jax.process_count())
        return [placed.brought(mean, self.sharding)]
