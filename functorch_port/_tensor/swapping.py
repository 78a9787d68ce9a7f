"""`swap_tensors`: two tensors change places, and stay the objects they are."""

from __future__ import annotations

import weakref
from typing import Any

from .._array import tracing
from .tensor import Tensor

__all__ = ["swap_tensors"]

_CONTENT = (
    "_storage",
    "_view",
    "_base",
    "_grad_fn",
    "_kept_grad",
    "_output_nr",
    "_requires_grad",
    "__dict__",
)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Have each of two tensors of one class become what the other one was: value, gradient and attributes.

    Whoever holds ``t1`` then sees what ``t2`` was. A graph that was recorded before and ends at one of them cannot be
    walked back any more.

    Raises:
        RuntimeError: somebody has a weak reference to one of them.
        NotImplementedError: they have different classes, or a function is being compiled.

    Reference: https://docs.pytorch.org/docs/stable/notes/extending.html
    """
    if tracing.overlay:
        raise NotImplementedError(
            "swap_tensors() in a compiled function: swap them outside, or swap their .data"
        )
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if type(t1) is not type(t2):
        raise NotImplementedError(
            f"swap_tensors() of a {type(t1).__name__} and a {type(t2).__name__}: give both one class first"
        )
    for tensor in (t1, t2):
        node = None if tensor._accumulator is None else tensor._accumulator()
        if node is not None:
            node.register_prehook(_refuse)
        tensor._accumulator = None
    for name in _CONTENT:
        first, second = getattr(t1, name), getattr(t2, name)
        setattr(t1, name, second)
        setattr(t2, name, first)
    tracing.bump_epoch()


def _refuse(gradients: Any) -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the tensor that it belongs to was "
        "swapped after the forward pass. Swap (or convert a module's device or dtype) before it, or after backward()"
    )
