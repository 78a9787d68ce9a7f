"""Conversions between tensors and host arrays: loaders index a whole batch without an operation per sample."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._array import executor, tracing
from functorch_port._tensor.grad_mode import is_grad_enabled
from functorch_port._tensor.tensor import Tensor


def host_view(tensor: Any) -> np.ndarray | None:
    """The tensor's values as a numpy array without a copy; None if that is impossible or would lose a gradient."""
    if tracing.overlay or type(tensor) is not Tensor:  # a subclass decides itself
        return None
    value = tensor._look()
    if not isinstance(value, jax.Array | np.ndarray) or isinstance(value, jax.core.Tracer):
        return None
    if isinstance(value, jax.Array) and (len(value.devices()) != 1 or _device(value).platform != "cpu"):
        return None
    if tensor.requires_grad and is_grad_enabled():
        return None
    return np.asarray(value)


def like(array: np.ndarray, tensor: Tensor) -> Tensor:
    """A new tensor with ``array``'s values, on the device of ``tensor``."""
    value = tensor._look()
    if executor.current.leaves(array) and (isinstance(value, np.ndarray) or not value.committed):
        return Tensor._wrap(array)
    device = None if isinstance(value, np.ndarray) else _device(value)
    with tracing.x64():
        if jax.default_backend() != "cpu":
            return Tensor._wrap(jax.device_put(array, device))
        made = jnp.asarray(array)  # twice as fast as device_put to the default device
        moved = device is not None and _device(made) is not device
        return Tensor._wrap(jax.device_put(made, device) if moved else made)


def stacked(tensors: Any) -> Tensor | None:
    """``torch.stack(tensors)`` with numpy, without a compiled program per batch size; None if not possible."""
    arrays = [host_view(tensor) for tensor in tensors]
    first = arrays[0]
    if first is None or any(a is None or a.shape != first.shape or a.dtype != first.dtype for a in arrays):
        return None
    return like(np.stack(arrays), tensors[0])  # type: ignore[arg-type]


def taken(tensor: Tensor, indices: np.ndarray) -> Tensor | None:
    """The rows of ``tensor`` at ``indices``; None if they must be indexed one by one."""
    array = host_view(tensor)
    return None if array is None else like(array[indices], tensor)


def _device(value: jax.Array) -> jax.Device:
    return next(iter(value.devices()))
