"""Reductions of consecutive segments of a dimension."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._array.refusal import refuse
from functorch_port._run.registry import Scalar, TensorOnly, op
from functorch_port.ops._common import type_name, wrap_dim

_REDUCES = {
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "min": "min",
    "prod": "prod",
    "amax": "max",
    "amin": "min",
}


@jax.custom_jvp
def _extreme(x: jax.Array, ids: jax.Array, best: jax.Array) -> jax.Array:
    """``best``, whose gradient is shared equally by the elements of the segment that are equal to it."""
    return best


@_extreme.defjvp
def _extreme_jvp(primals: Any, tangents: Any) -> Any:
    x, ids, best = primals
    padded = jnp.concatenate([best, jnp.zeros_like(best[:1])])
    chosen = padded[ids]
    hit = (x == chosen) | (jnp.isnan(x) & jnp.isnan(chosen))
    count = jax.ops.segment_sum(hit.astype(x.dtype), ids, best.shape[0])
    total = jax.ops.segment_sum(jnp.where(hit, tangents[0], 0), ids, best.shape[0])
    return best, total / jnp.maximum(count, 1)


@jax.custom_jvp
def _product(x: jax.Array, ids: jax.Array, like: jax.Array) -> jax.Array:
    """The products of the segments; ``like`` has one row per segment."""
    return jax.ops.segment_prod(x, ids, like.shape[0])


@_product.defjvp
def _product_jvp(primals: Any, tangents: Any) -> Any:
    x, ids, like = primals
    count = like.shape[0]
    zero = x == 0
    zeros = jax.ops.segment_sum(zero.astype(x.dtype), ids, count + 1)[ids]
    filled = jnp.where(zero, 1, x)
    product = jax.ops.segment_prod(filled, ids, count + 1)[ids]
    others = jnp.where(zeros == zero, product / filled, 0)  # no zero among the others
    return _product(x, ids, like), jax.ops.segment_sum(others * tangents[0], ids, count)


def _check_segments(data: Any, reduce: str, lengths: Any = None, offsets: Any = None, **rest: Any) -> None:
    if lengths is None or offsets is not None or lengths.ndim > data.ndim:
        return
    refuse(lambda n: n < 0, lambda n: RuntimeError("lengths contains negative value!"), lengths)
    if not rest.get("unsafe"):
        total = data.shape[lengths.ndim - 1]
        text = (
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
        refuse(lambda n: n.sum(-1) != total, lambda n: RuntimeError(text), lengths)


@op("segment_reduce", where="torch", check=_check_segments)
def segment_reduce(
    data: TensorOnly,
    reduce: str,
    *,
    lengths: TensorOnly | None = None,
    indices: TensorOnly | None = None,
    offsets: TensorOnly | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Scalar | None = None,
):
    """Reduce consecutive segments of a dimension.

    Args:
        data: the input, floating point.
        reduce: "sum", "mean", "amax" (or "max"), "amin" (or "min"), or "prod".
        lengths: the lengths of the segments: the shape of ``data`` before ``axis``, then one number per segment.
        indices: not supported, as in PyTorch.
        offsets: the starts of the segments and the end of the last one, instead of ``lengths``.
        axis: the dimension; must be the last one of ``lengths`` or ``offsets``.
        unsafe: whether to skip the check that the lengths add up to the size.
        initial: the initial value of every reduction.

    Raises:
        RuntimeError: the lengths do not add up to the size, or one is negative.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.segment_reduce.html
    """
    axis = wrap_dim(axis, data.ndim)
    if reduce not in _REDUCES:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    reduce = _REDUCES[reduce]
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    given = offsets if offsets is not None else lengths
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if data.ndim < given.ndim:
        what = "offsets" if offsets is not None else "lengths"
        raise RuntimeError(
            f"Expected data.dim() >= {what}_value.dim() to be true, but got false.  (Could this error message be "
            "improved?  If so, please report an enhancement request to PyTorch.)"
        )
    if axis != given.ndim - 1:
        what = "offsets" if offsets is not None else "lengths"
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {what} but got {axis}."
        )
    if not jnp.issubdtype(data.dtype, jnp.floating):
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{type_name(data)}'")
    rows = data.reshape(-1, *data.shape[axis:])  # (batch, n, ...)
    if offsets is None:
        ends = jnp.cumsum(given, -1)
        bounds = jnp.concatenate([jnp.zeros_like(ends[..., :1]), ends], -1)
    else:
        bounds = offsets
    bounds = bounds.reshape(rows.shape[0], -1)
    reduced = jax.vmap(lambda x, b: _reduced(x, b, reduce, initial))(rows, bounds)
    return reduced.reshape(*data.shape[:axis], *reduced.shape[1:])


def _reduced(x: jax.Array, bounds: jax.Array, reduce: str, initial: Any) -> jax.Array:
    """Reduce the parts of ``x`` (n, ...) between ``bounds`` (segments + 1) to (segments, ...)."""
    count = bounds.shape[0] - 1
    ids = jnp.searchsorted(bounds, jnp.arange(x.shape[0], dtype=bounds.dtype), side="right") - 1
    ids = jnp.where((ids < 0) | (ids >= count), count, ids)  # outside of all parts
    if reduce in ("max", "min"):
        better = jnp.maximum if reduce == "max" else jnp.minimum
        worst = jnp.asarray(-np.inf if reduce == "max" else np.inf, x.dtype)
        segment = jax.ops.segment_max if reduce == "max" else jax.ops.segment_min
        best = better(segment(jax.lax.stop_gradient(x), ids, count), worst)
        best = best if initial is None else better(best, jnp.asarray(initial, x.dtype))
        return _extreme(x, ids, best)
    if reduce == "prod":
        total = _product(x, ids, jnp.zeros((count,), x.dtype))
        return total if initial is None else total * jnp.asarray(initial, x.dtype)
    total = jax.ops.segment_sum(x, ids, count)
    if initial is not None:
        total = total + jnp.asarray(initial, x.dtype)
    if reduce == "sum":
        return total
    sizes = (bounds[1:] - bounds[:-1]).astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1))
    empty = jnp.asarray(np.nan, x.dtype) if initial is None else total
    return jnp.where(sizes > 0, total / jnp.maximum(sizes, 1), empty)
