"""Sums over the processes of tensors that each has for itself, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .._array import placed, together, tracing
from .._base import contexts, meshes
from .._tensor import grad_mode
from .._tensor.node import Node
from .._tensor.tensor import Tensor, wrap
from .call import Op
from .opnode import edge_of
from .registry import ops

__all__ = ["is_own", "summed"]


def is_own(tensor: Tensor) -> bool:
    """Whether there are several processes, and a tensor is of this one alone."""
    if jax.process_count() == 1:
        return False
    if tracing.overlay:
        return tracing.overlay.across is not None and not contexts.state.joined
    return not placed.is_shared(tensor._storage) and not meshes.is_global(tensor._storage.aval())


def summed(tensor: Tensor) -> Tensor:
    """The sum of what all processes have, and so is its gradient."""
    if tracing.overlay:
        return Op(ops["_all_reduce"]).run((tensor, meshes.PROCESS, "sum"), {})  # type: ignore[no-any-return]
    out = wrap(_summed(tensor._value))
    if tensor._requires_grad and grad_mode.state.enabled:
        out._requires_grad, out._grad_fn = True, SummedBackward((edge_of(tensor),))
    return out


def _summed(value: Any) -> Any:
    return together.own_copy(together.summed([value], meshes.of_processes(jax.devices()))[0])


class SummedBackward(Node):
    """The node of `summed`."""

    __slots__ = ()

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None if g is None else _summed(g._look() if isinstance(g, Tensor) else g) for g in grads]
