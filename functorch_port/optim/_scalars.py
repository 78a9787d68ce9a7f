"""The 0-dim entries of an optimizer's state and the numbers of the rules, computed on the host where possible."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import placing, tracing
from .._base import dtypes
from .._base.bounded import Bounded
from .._base.tuning import tuning
from .._tensor.tensor import Tensor

__all__ = [
    "correction",
    "default_rounded",
    "host_number",
    "number_array",
    "number_tensor",
    "replaced",
    "wide",
]

#: id of an array made here -> the array and its value, so that nothing is read back from the device
_known: Bounded[int, tuple[jax.Array, Any]] = Bounded(tuning.cached_arrays)


def host_number(array: Any) -> Any:
    """The value of a 0-dim array as a numpy number."""
    made, value = _known.get(id(array), (None, None))
    return value if made is array else np.asarray(array)[()]


def replaced(array: Any, number: Any) -> Any:
    """A new value for a 0-dim state entry that held ``array``."""
    if isinstance(number, Tensor):
        return number._alias()._value.astype(array.dtype).reshape(array.shape)
    if isinstance(number, jax.Array):
        return number.astype(array.dtype).reshape(array.shape)
    new = number_array(float(number), array.dtype, array.shape)
    _known[id(new)] = new, np.asarray(number, array.dtype)[()]
    return new


@lru_cache(tuning.cached_arrays)
def number_array(value: float, dtype: Any, shape: tuple[int, ...] = ()) -> jax.Array:
    with tracing.x64(), jax.ensure_compile_time_eval():  # kept: it must not belong to a trace
        return jax.device_put(np.full(shape, value, dtype))  # `asarray` would compile a copy


def number_tensor(value: Any = 0.0, fused: bool | None = False) -> Tensor:
    """A new ``step`` (or other number) of the state: a 0-dim tensor."""
    kind = np.dtype(np.float64 if not fused and dtypes.get_default_dtype() is dtypes.float64 else np.float32)
    value = placing.as_array(value)
    if isinstance(value, jax.Array):
        return Tensor._wrap(jnp.asarray(value, kind).reshape(()))
    return Tensor._wrap(number_array(float(value), kind))


def correction(beta: Any, count: Any) -> Any:
    """``1 - beta**count``; for arrays in a form that is accurate in float32 too."""
    return 1 - beta**count if isinstance(count, float) else -jnp.expm1(count * jnp.log(beta))


def wide(number: Any, count: Any) -> Any:
    """A number of the state in the dtype of ``count``, in which factors are computed. A recorded one is a tensor."""
    if isinstance(number, Tensor):
        return number
    return float(number) if isinstance(count, float) else number.astype(count.dtype)


def default_rounded(x: Any) -> Any:
    """A number rounded to the default dtype, like the tensor that PyTorch creates from it."""
    kind = np.float64 if dtypes.get_default_dtype() is dtypes.float64 else np.float32
    return x if isinstance(x, Tensor) else x.astype(kind) if isinstance(x, jax.Array) else kind(x)
