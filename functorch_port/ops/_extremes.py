"""Maxima and minima along dimensions, and their indices.

On a CPU, XLA's own maximum loses a NaN in large arrays, and its loops that look for one, or for the index of a maximum,
are slow. So each of these is a primitive (`_base.lowering`), for which a platform may have a lowering of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._rows import Formula

__all__ = ["argmax", "argmin", "largest", "smallest"]

Dims = tuple[int, ...]

#: the numbers up to this are all float32 numbers
_MOST_PLACES = 1 << 24


def largest(x: jax.Array, dims: Dims, keepdims: bool = False, nans: bool = False) -> jax.Array:
    """The maximum over ``dims``, NaN if there is one; ties share the gradient, NaNs only with ``nans``."""
    return _over(_largest, x, dims, keepdims, nans)


def smallest(x: jax.Array, dims: Dims, keepdims: bool = False, nans: bool = False) -> jax.Array:
    """The minimum over ``dims``; see `largest`."""
    return _over(_smallest, x, dims, keepdims, nans)


def argmax(x: jax.Array, axis: int, dtype: Any) -> jax.Array:
    """The index of the first maximum along ``axis``, or of the first NaN."""
    return _place(_place_of_largest, lax.argmax, x, axis, dtype)


def argmin(x: jax.Array, axis: int, dtype: Any) -> jax.Array:
    """The index of the first minimum along ``axis``, or of the first NaN."""
    return _place(_place_of_smallest, lax.argmin, x, axis, dtype)


def _over(formula: Formula, x: jax.Array, dims: Dims, keepdims: bool, nans: bool) -> jax.Array:
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    out = _shared(formula, x, dims, nans) if is_float else formula(x, dims=dims)[0]
    return out if keepdims else out.squeeze(dims)


@partial(jax.custom_jvp, nondiff_argnums=(0, 2, 3))
def _shared(formula: Formula, x: jax.Array, dims: Dims, nans: bool) -> jax.Array:
    """The formula's result, whose gradient is shared by the elements equal to it.

    If the result is NaN, the gradient is NaN; with ``nans`` all NaN elements share it.
    """
    return formula(x, dims=dims)[0]


@_shared.defjvp
def _shared_jvp(formula: Formula, dims: Dims, nans: bool, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    out = _shared(formula, x, dims, nans)
    same = (x == out) | (x != x) if nans else x == out
    count = jnp.sum(same, dims, keepdims=True).astype(x.dtype)
    # NaN by itself: XLA takes the product of a NaN and a bool that is converted for 0
    share = jnp.where(count == 0, jnp.nan, same).astype(x.dtype)
    return out, jnp.sum(dx * share, dims, keepdims=True) / count


def _place(
    formula: Formula, by_xla: Callable[..., jax.Array], x: jax.Array, axis: int, dtype: Any
) -> jax.Array:
    if x.shape[axis] > _MOST_PLACES or not formula.takes(x, (axis,)):
        return by_xla(x, axis, dtype)
    return formula(x, dims=(axis,))[0].squeeze(axis).astype(dtype)


# ---------------------------------------------------------------------------- formulas


def _with_nan(reduce: Callable[..., jax.Array], x: jax.Array, *, dims: Dims) -> list[jax.Array]:
    out = reduce(x, axis=dims, keepdims=True)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return [out]
    return [jnp.where(jnp.isnan(x).any(axis=dims, keepdims=True), jnp.nan, out).astype(x.dtype)]


def _max(x: Any, *, dims: Dims) -> list[Any]:
    return [jnp.max(x, dims, keepdims=True)]


def _min(x: Any, *, dims: Dims) -> list[Any]:
    return [-jnp.max(-x, dims, keepdims=True)]


def _places(by_xla: Callable[..., jax.Array], x: Any, *, dims: Dims) -> list[Any]:
    return [jnp.expand_dims(by_xla(x, *dims, np.int32), dims).astype(x.dtype)]


def _places_of_max(x: Any, *, dims: Dims) -> list[Any]:
    is_there = (x == jnp.max(x, dims, keepdims=True)) | (x != x)
    # to subtract: a `select` of the place itself makes a slower loop
    least = lax.select(is_there, jnp.zeros_like(x), jnp.full_like(x, -np.inf))
    return [-jnp.max(least - lax.broadcasted_iota(x.dtype, x.shape, *dims), dims, keepdims=True)]


def _places_of_min(x: Any, *, dims: Dims) -> list[Any]:
    return _places_of_max(-x, dims=dims)


_largest = Formula("largest", partial(_with_nan, jnp.max), _max)
_smallest = Formula("smallest", partial(_with_nan, jnp.min), _min)
_place_of_largest = Formula("place_of_largest", partial(_places, lax.argmax), _places_of_max)
_place_of_smallest = Formula("place_of_smallest", partial(_places, lax.argmin), _places_of_min)
