"""Functions of images as pure functions of arrays, written once, for numpy and for JAX.

A tensor whose values are on the host, and of which no gradient is recorded, is computed in numpy: an eager program
of XLA would have to be compiled for every size that a random crop has. For any other tensor the same function is an
operation of the library: it is recorded, traced by `compile`, and runs on an accelerator.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._array import executor, tracing
from functorch_port._run.bind import function_of
from functorch_port._run.registry import Array
from functorch_port._tensor.tensor import Tensor
from functorch_port.utils.data._arrays import host_view, like

__all__ = ["Array", "fresh", "kernel", "namespace", "on_host", "tensor_of"]


def namespace(x: Any) -> Any:
    """``numpy`` or ``jax.numpy``, whichever computes with this array."""
    return np if isinstance(x, np.ndarray) else jnp


def on_host(tensor: Tensor) -> np.ndarray | None:
    """The values of a tensor as a numpy array; None if there is no such array, or a gradient would be lost."""
    found = host_view(tensor)
    if found is None and not tracing.overlay:
        tensor._value  # noqa: B018  (computes what is pending)
        found = host_view(tensor)
    return found


def tensor_of(array: np.ndarray, model: Tensor, *sources: np.ndarray) -> Tensor:
    """A new tensor on the device of ``model``, which shares no memory with ``sources``."""
    if any(np.may_share_memory(array, source) for source in sources):
        array = array.copy()
    array = np.ascontiguousarray(array)
    return fresh(array) if _is_on_default(model._look()) else like(array, model)


def _is_on_default(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return True
    return jax.config.jax_default_device is None and value.devices() == {jax.devices()[0]}


def fresh(array: np.ndarray) -> Tensor:
    """A new tensor of an array that nobody else has: unlike `from_numpy` it need not copy it."""
    if executor.current.leaves(array):
        return Tensor._wrap(array)
    with tracing.x64():
        return Tensor._wrap(jax.device_put(array))  # `jnp.asarray` would compile a copy for each shape


def kernel(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of Tensors of a pure function of arrays.

    The first parameter is an array, and so are those annotated as ``Array``, which may also be given as numpy arrays.
    All others are static. ``.array`` is the function itself, for other kernels to call.
    """
    arrays = [i for i, p in enumerate(inspect.signature(fn).parameters.values()) if p.annotation == "Array"]

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        values = list(args)
        for i in arrays:
            if not isinstance(args[i], np.ndarray):
                values[i] = on_host(args[i])
        if any(values[i] is None for i in arrays):
            return operation()(*(fresh(a) if isinstance(a, np.ndarray) else a for a in args))
        return tensor_of(fn(*values), args[0], *(values[i] for i in arrays))

    @functools.cache
    def operation() -> Callable[..., Any]:
        return function_of(__name__)(fn)

    call.array = fn  # type: ignore[attr-defined]
    return call
