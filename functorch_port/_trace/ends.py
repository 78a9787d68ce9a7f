"""Arrays with padding at the border of a program: arguments get it, and results are cut to the sizes of the call."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import placing, tracing
from .._array.donation import on_one_cpu
from .._base.sizes import evaluated

if TYPE_CHECKING:
    from .padded import Axis

__all__ = ["Ends", "cut_to", "padded_to", "shape_now", "told"]

#: of a dtype, what is put into padding: zero, which no result depends on. Tests put something worse there.
padding_of: Any = lambda dtype: 0


def padded_to(array: Any, shape: tuple[int, ...]) -> Any:
    """An array with more elements at the end of some axes. On a CPU nothing is compiled for that."""
    if array.shape == shape:
        return array
    if not _is_at_hand(array):
        with tracing.x64():
            return _pad(array, shape, padding_of(array.dtype))
    whole = np.full(shape, padding_of(array.dtype), array.dtype)
    whole[tuple(map(slice, array.shape))] = np.asarray(array)
    return placing.put(whole)


def cut_to(array: Any, shape: tuple[int, ...]) -> Any:
    """The first elements of some axes."""
    if array.shape == shape:
        return array
    if not _is_at_hand(array):
        return _cut(array, shape)
    return placing.put(np.ascontiguousarray(np.asarray(array)[tuple(map(slice, shape))]))


def _is_at_hand(array: Any) -> bool:
    return isinstance(array, np.ndarray) or on_one_cpu(array)


@partial(jax.jit, static_argnums=1)
def _pad(array: Any, shape: tuple[int, ...], value: Any) -> Any:
    more = [(0, n - m, 0) for n, m in zip(shape, array.shape, strict=True)]
    return lax.pad(array, jnp.asarray(value, array.dtype), more)


@partial(jax.jit, static_argnums=1)
def _cut(array: Any, shape: tuple[int, ...]) -> Any:
    return lax.slice(array, [0] * array.ndim, shape)


class Ends:
    """Where results of a program end.

    Args:
        layouts: by number of the output what its axes are (see `padded`).
    """

    def __init__(self, layouts: dict[int, tuple[Axis, ...]]) -> None:
        self.layouts = layouts

    def moved(self, order: Sequence[int]) -> Ends:
        """The same for outputs in another order, of which this lists the numbers."""
        return Ends({k: self.layouts[i] for k, i in enumerate(order) if i in self.layouts})

    def cut(self, outs: Sequence[Any], env: dict[Any, Any]) -> Sequence[Any]:
        """The outputs at a call with these numbers by name, as they are without padding."""
        if not self.layouts:
            return outs
        outs = list(outs)
        for k, axes in self.layouts.items():
            if k < len(outs):  # gradients that are pending are not there
                outs[k] = cut_to(outs[k], shape_now([axis[0].size for axis in axes], env))
        return outs


def shape_now(shape: Sequence[Any], env: dict[Any, Any]) -> tuple[int, ...]:
    """A shape with the sizes of a call, from the numbers by name."""
    if all(type(n) is int for n in shape):
        return tuple(shape)
    values = {key[1]: n for key, n in env.items() if type(key) is tuple and key[0] == "size"}
    return tuple(evaluated(n, values) for n in shape)


def told(error: BaseException) -> str:
    """Why a function was not traced with unknown sizes, in one line: the error, and where the user's code has it."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if _is_users(frame.filename):
            where = f" (line {frame.lineno} of {os.path.basename(frame.filename)}: {frame.line})"
    return text + where


def _is_users(filename: str) -> bool:
    """Whether a file is neither of this library, nor of JAX, nor of Python's own."""
    return not filename.startswith(_OURS) and (
        "site-packages" in filename or not filename.startswith(_PYTHONS)
    )


_OURS = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(jax.__file__))
_PYTHONS = os.path.dirname(os.__file__)
