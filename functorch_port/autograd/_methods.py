"""What autograd gives to the classes below it. The engine is imported when it is first needed."""

from __future__ import annotations

from typing import Any

from .._tensor.node import AccumulateGrad
from .._tensor.tensor import Tensor, attach
from ._accumulation import accumulate

__all__: list[str] = []


def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Compute the gradients of this tensor with respect to the graph's leaves and add them to their ``.grad``.

    Args:
        gradient: gradient of this tensor, of its shape; may be None for a scalar.
        retain_graph: keep what the graph saved for another backward. Default: the value of ``create_graph``.
        create_graph: record the backward itself, for higher derivatives.
        inputs: accumulate into these tensors only.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.tensor([1., 2.], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html
    """
    from . import _calls

    _calls.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


attach(backward)
AccumulateGrad.add = staticmethod(accumulate)
