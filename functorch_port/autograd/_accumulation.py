"""Gradients are added up: those that meet in the graph, and those that arrive at a leaf."""

from __future__ import annotations

import operator
from typing import Any

import jax

from .._array import placed, tracing
from .._array.value import HOST
from .._base import scopes
from .._base.layout import memory_order
from .._base.quiet import quietly
from .._run import crossing
from .._tensor import creation
from .._tensor.tensor import Tensor, wrap
from .._tensor.view import is_dense, laid

__all__ = ["accumulate", "array_of", "check_shapes", "summed", "tensor_of"]


@jax.jit
def _add(a: Any, b: Any) -> Any:
    return a + b


def summed(a: Any, b: Any) -> Any:
    """Add two gradients: arrays, or Tensors when the backward is recorded."""
    check_shapes(a, b)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        a, b = tensor_of(a), tensor_of(b)
        return b + a if a._sparse else a + b
    if tracing.overlay:
        with scopes.backward(""):
            return a + b
    if isinstance(a, jax.ShapeDtypeStruct):
        return a
    if a.__class__ in HOST and b.__class__ in HOST:
        return quietly(operator.add, a, b)
    with tracing.x64():
        return _add(a, b)


def check_shapes(a: Any, b: Any) -> None:
    """Refuse to add gradients of two shapes: one of them is from before the tensor was given another one in place."""
    if a.shape != b.shape:
        raise RuntimeError(
            f"an operation returned an invalid gradient - got {list(b.shape)} but expected shape compatible with "
            f"{list(a.shape)}"
        )


def tensor_of(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)


def array_of(value: Any) -> Any:
    return value._look() if isinstance(value, Tensor) and not value._sparse else value


def accumulate(variable: Tensor, value: Any, create_graph: bool = False) -> None:
    """Add a gradient to ``variable.grad``, in place unless the backward is recorded."""
    with tracing.turn:
        if variable._requires_grad:  # still
            _add_to(variable, value, create_graph)


def _add_to(variable: Tensor, value: Any, create_graph: bool) -> None:
    old = variable._get_grad()
    across = tracing.overlay.across if tracing.overlay else None
    if across is not None and variable._storage in across.averaged:
        total = _arriving(across, variable, None if old is None else old._look(), value, create_graph)
        if old is None:
            variable._set_grad(tensor_of(total)._alias())
        else:
            old._set_value(total)
        return
    if not (create_graph or variable._sparse) and placed.sharding_of(variable._storage) is not None:
        value = _as_placed(variable, value)
    if old is None:
        new = tensor_of(value)
        if create_graph and new.requires_grad and not new._sparse:  # the graph has its own
            new = creation.empty_like(variable, requires_grad=False).copy_(new)
        elif not create_graph:
            new = new._alias() if variable._view is None or new._sparse else _laid_as(variable, new)
        variable._set_grad(new)
    elif create_graph:
        variable._set_grad(summed(old, value))
    elif old._sparse:  # stays the same tensor unless it becomes dense
        total = summed(value, old)
        variable._set_grad(old._take(total) if total._sparse and not tracing.overlay else total)
    elif isinstance(value, Tensor) and value._sparse:
        old._set_value((old._alias() + value)._value)
    else:
        old._set_value(summed(old._look(), array_of(value)))


def _laid_as(variable: Tensor, value: Tensor) -> Tensor:
    """A gradient that lies in memory as its tensor does, if that fills a block of it."""
    order = memory_order(variable)
    if order is None or not is_dense(variable.shape, variable._strides()):
        return value._alias()
    return laid(wrap(value._look()), order)  # type: ignore[no-any-return]


def _arriving(across: Any, variable: Tensor, old: Any, value: Any, create_graph: bool) -> Any:
    """The gradient in a program of several processes, each of which has computed ``value`` for itself."""
    if create_graph or (isinstance(value, Tensor) and value._sparse):
        raise NotImplementedError(
            "sparse gradients, and create_graph=True, in a compiled function of several processes: call it uncompiled"
        )
    return across.arriving(variable, old, array_of(value))


def _as_placed(variable: Tensor, value: Any) -> Any:
    """A gradient where its tensor is, which may be on several devices."""
    if isinstance(value, Tensor):
        if value._sparse:
            return value
        value = value._value
    if not tracing.overlay and placed.is_shared(variable._storage):
        value = crossing.mean(value, placed.sharding_of(variable._storage))
    return wrap(placed.like(variable._storage, value))
