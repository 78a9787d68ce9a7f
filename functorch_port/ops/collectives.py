"""Operations between the parts of a tensor, for functions that run on each part (`local_map`)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from .._run.registry import Array, op

__all__ = ["all_gather", "all_reduce", "all_to_all", "axis_index", "broadcast", "permute", "reduce_scatter"]


@op("_all_reduce", where="", node="AllReduceBackward0")
def all_reduce(input: Array, axis: Any, how: str) -> Any:
    """The sum (or another reduction) of the parts."""
    return reduced(input, axis, how)


def reduced(x: Any, axis: Any, how: str) -> Any:
    if how == "product":
        return lax.all_gather(x, axis).prod(0)
    return {"sum": lax.psum, "avg": lax.pmean, "max": lax.pmax, "min": lax.pmin}[how](x, axis)


@op("_all_gather", where="", node="AllGatherIntoTensorBackward0")
def all_gather(input: Array, axis: Any, dim: int) -> Any:
    """The parts one after the other along a dimension."""
    return lax.all_gather(input, axis, axis=dim, tiled=True)


@op("_reduce_scatter", where="", node="ReduceScatterTensorBackward0")
def reduce_scatter(input: Array, axis: Any, how: str, dim: int) -> Any:
    """This part's share of the sum of the parts."""
    if how in ("sum", "avg"):
        total = lax.psum_scatter(input, axis, scatter_dimension=dim, tiled=True)
        return total / lax.axis_size(axis) if how == "avg" else total
    size = input.shape[dim] // lax.axis_size(axis)
    return lax.dynamic_slice_in_dim(reduced(input, axis, how), lax.axis_index(axis) * size, size, dim)


@op("_all_to_all", where="", node="AllToAllSingleBackward0")
def all_to_all(input: Array, axis: Any) -> Any:
    """The shares that the parts have for this one."""
    return lax.all_to_all(input, axis, 0, 0, tiled=True)


@op("_permute", where="", node="PermuteTensorBackward0")
def permute(input: Array, axis: Any, pairs: Any) -> Any:
    """The part that another one sends; zeros if none does."""
    return lax.ppermute(input, axis, pairs)


@op("_broadcast_from", where="", node="BroadcastBackward0")
def broadcast(input: Array, axis: Any, source: int) -> Any:
    """The part ``source``."""
    return lax.psum(jnp.where(lax.axis_index(axis) == source, input, jnp.zeros_like(input)), axis)


@op("_axis_index", where="", differentiable=False)
def axis_index(like: Array, axis: Any) -> Any:
    """Where this part stands along an axis."""
    return lax.axis_index(axis).astype(jnp.int64)
