"""What a backward pass starts from: its arguments, the places in the graph that they mean, and the first gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._array import placed, placing, tracing
from .._array.value import HOST, LAZY
from .._base.tuning import tuning
from .._run import crossing
from .._tensor.node import Node, accumulator
from .._tensor.tensor import Tensor

__all__ = ["Place", "as_tuple", "root_gradients", "root_places", "target_place"]

#: (node, output number): where a gradient enters the walk, or is caught
Place = tuple[Node, int]


def _place(tensor: Tensor) -> Place:
    node = tensor.grad_fn
    return (accumulator(tensor), 0) if node is None else (node, tensor._output_nr)


def as_tuple(x: Any) -> tuple[Any, ...]:
    single = isinstance(x, Tensor) or (isinstance(x, tuple) and x and isinstance(x[0], Node))
    return (x,) if single else tuple(x)


def target_place(x: Any) -> Place:
    """Where to catch the gradient of an ``inputs=`` element: a Tensor or a `GradientEdge`."""
    if isinstance(x, Tensor):
        return _place(x)
    if isinstance(x, tuple) and len(x) > 1 and isinstance(x[0], Node):
        return (x[0], x[1])
    raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(x).__name__}")


def root_gradients(outputs: Sequence[Any], given: Any, batched: bool = False) -> list[Any]:
    """Check the gradients given for the outputs (None: none at all), and make the implicit ones of scalars."""
    gradients = (None,) * len(outputs) if given is None else as_tuple(given)
    checked = []
    for index, (output, gradient) in enumerate(zip(outputs, gradients)):
        if gradient is None:
            checked.append(_implicit(output) if isinstance(output, Tensor) and output.requires_grad else None)
        elif not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
        else:
            checked.append(
                _fitting(gradient, output, index, batched) if isinstance(output, Tensor) else gradient
            )
    if len(checked) < len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(checked)} gradients")
    return checked


def _implicit(output: Tensor) -> Any:
    value = output._aval()
    if math.prod(value.shape) != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not output.is_floating_point():
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
        )
    if value.__class__ in HOST:
        return _host_ones(value.shape, value.dtype)
    if value.__class__ in LAZY:
        return _ones[value.shape, value.dtype, None]
    if tracing.overlay or not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        with tracing.x64():
            return jax.numpy.ones(value.shape, value.dtype)
    # an array put somewhere on purpose is committed, and what is computed with it, which compiled programs notice
    return _ones[value.shape, value.dtype, value.sharding if value.committed else None]


class _Ones(dict):
    """Arrays of ones by shape, dtype and place; arrays are immutable, so one of each is enough."""

    def __missing__(self, key: Any) -> Any:
        shape, dtype, sharding = key
        one = self[key] = placing.put(np.ones(shape, dtype), sharding)
        return one


_ones = _Ones()


@functools.lru_cache(tuning.cached_arrays)
def _host_ones(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.ones(shape, dtype)


def _fitting(gradient: Tensor, output: Tensor, index: int, batched: bool) -> Tensor:
    if gradient._sparse or output._sparse:
        if gradient.shape != output.shape:
            raise RuntimeError(f"Mismatch in shape: {_mismatch(gradient.shape, output.shape, index)}")
        return output._gradient_of_values(gradient) if output._sparse and not output.is_leaf else gradient
    if placed.several and not tracing.overlay:
        gradient = crossing.given_for(output, gradient)
    given, made = gradient._look(), output._aval()
    if given.shape == made.shape and given.dtype == made.dtype and not batched:
        return gradient
    shape = gradient.shape[1:] if batched else gradient.shape
    if shape != output.shape:
        found = _mismatch(shape, output.shape, index)
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
                f"corresponding output, but a mismatch was detected: {found} If you only want some tensors "
                "in `grad_output` to be considered batched, consider using vmap."
            )
        raise RuntimeError(f"Mismatch in shape: {found}")
    if gradient.is_complex() != output.is_complex():
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
            f"in dtype: grad_output[{index}] has a dtype of {gradient.dtype} and output[{index}] has a dtype "
            f"of {output.dtype}."
        )
    return gradient if gradient.dtype is output.dtype else gradient.to(output.dtype)


def _mismatch(given: Sequence[int], made: Sequence[int], index: int) -> str:
    return f"grad_output[{index}] has a shape of {given} and output[{index}] has a shape of {made}."


def root_places(outputs: Sequence[Any]) -> list[Place]:
    places = []
    for index, output in enumerate(outputs):
        if isinstance(output, Tensor) and not output.requires_grad:
            raise RuntimeError(
                f"element {index} of tensors does not require grad and does not have a grad_fn"
            )
        places.append(target_place(output))
    return places
