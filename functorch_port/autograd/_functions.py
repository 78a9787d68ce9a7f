"""Nodes that PyTorch writes by hand, as ``torch._C._functions`` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._run.opnode import edge_of
from .._tensor import grad_mode
from .._tensor.node import AccumulateGrad as AccumulateGrad
from .._tensor.node import Node
from .._tensor.tensor import Tensor

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]


class Error(Node):
    """Raises when a gradient reaches it."""

    __slots__ = ("message",)

    def name(self) -> str:
        return "torch::autograd::Error"

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise RuntimeError(self.message)

    apply_recorded = apply


class UndefinedGradBackward(Node):
    """Passes on no gradient."""

    __slots__ = ()

    def name(self) -> str:
        return "torch::autograd::UndefinedGradBackward"

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None] * len(self.edges)

    apply_recorded = apply


def _made_by(node: type[Node], tensors: Sequence[Any], edges: Sequence[Any]) -> tuple[list[Any], Any]:
    """The tensors with a node of this class as their history, and the node; None stays None."""
    made = node(edges, len(tensors))
    outs = [None if t is None else t.detach() for t in tensors]
    for number, out in enumerate(outs):
        if out is not None:
            out._requires_grad, out._grad_fn, out._output_nr = True, made, number
    return outs, made


class DelayedError(Node):
    """``DelayedError(text, count)(*tensors)``: the tensors, whose backward pass raises."""

    __slots__ = ("message",)

    def __init__(self, message: str, count: int) -> None:
        super().__init__((), count)
        self.message = message

    def __call__(self, *tensors: Tensor | None) -> Any:
        edges = [None if t is None else edge_of(t) for t in tensors]
        if not (grad_mode.state.enabled and any(e is not None for e in edges)):
            return tensors[0] if len(tensors) == 1 else tensors
        outs, made = _made_by(Error, tensors, edges)
        made.message = self.message
        return outs[0] if len(outs) == 1 else tuple(outs)


class UndefinedGrad(Node):
    """``UndefinedGrad()(tensor)``: the tensor, whose backward pass goes on without a gradient."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def __call__(self, tensor: Tensor) -> Tensor:  # type: ignore[override]
        edge = edge_of(tensor)
        return tensor if edge is None else _made_by(UndefinedGradBackward, [tensor], [edge])[0][0]
