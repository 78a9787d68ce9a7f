"""Sums, means and maxima over bags of embeddings."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._array.refusal import outside, refuse
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import type_name, wide
from functorch_port.ops.embedding import _TYPE_NAMES, _rows, by_frequency


def _check_offsets(rows: Any, input: Any, offsets: Any, *_: Any, **__: Any) -> None:
    """Check that the offsets increase from 0."""
    if offsets is not None and offsets.shape[0]:
        refuse(partial(_bad_offsets, input.size), partial(_offsets_error, input.size), offsets)


def _is_general(dtype: Any, mode: str, padding_idx: int) -> bool:
    """Whether PyTorch computes this without its kernel for plain sums."""
    return dtype == np.float64 or mode == "max" or padding_idx >= 0


def _check_bags(weight: Any, input: Any, offsets: Any, mode: str, padding_idx: int, **_: Any) -> None:
    """Check that the indices are in range and the offsets increase from 0."""
    _check_offsets(weight, input, offsets)
    rows, general = weight.shape[0], _is_general(weight.dtype, mode, padding_idx)

    def error(values: Any) -> Exception:
        values = values.reshape(-1)
        bad = np.flatnonzero(outside(values, 0, rows))[0]
        if general:
            return RuntimeError(
                f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {values[bad]}"
            )
        return RuntimeError(
            f"Index {bad} of input takes value {values[bad]} which is not in the valid range [0, {rows})"
        )

    refuse(partial(outside, low=0, high=rows), error, input)


def _bad_offsets(length: int, begin: Any) -> Any:
    return (begin[0] != 0) | (begin[1:] < begin[:-1]).any() | (begin[-1] > length)


def _offsets_error(length: int, begin: Any) -> Exception:
    if begin[0] != 0:
        return RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {begin[0]}"
        )
    falling = np.flatnonzero(begin[1:] < begin[:-1])
    if falling.size:  # PyTorch reads beyond the indices
        i = falling[0] + 1
        return RuntimeError(f"offsets must not decrease, but offsets[{i}] is {begin[i]} after {begin[i - 1]}")
    return RuntimeError(
        f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of {begin[-1]}"
    )


def _check_types(weight: Any, input: Any, offsets: Any, per_sample_weights: Any) -> None:
    if weight.dtype.kind not in "fV":
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, "
            f"Float, Double; but got torch.{type_name(weight)}Tensor instead (while checking arguments for "
            "embedding_bag)"
        )
    for what, value in (("indices", input), ("offsets", offsets)):
        if value is not None and value.dtype.name not in ("int64", "int32"):
            raise RuntimeError(
                f"Expected tensor for argument #1 '{what}' to have one of the following scalar types: Long, Int; but "
                f"got {_TYPE_NAMES.get(value.dtype.name, value.dtype.name)} instead (while checking arguments for "
                "embedding_bag)"
            )
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        ours, theirs = (_TYPE_NAMES.get(v.dtype.name, v.dtype.name) for v in (weight, per_sample_weights))
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {ours} does not equal {theirs} (while checking arguments for "
            "embedding_bag)"
        )


class _Bags:
    """The bag of every row: bags of one size (a matrix of indices), or given by their offsets.

    Args:
        input: the indices.
        offsets: where bags begin.
        include_last_offset: whether the last offset is where the last bag ends.
        to_the_end: let the last bag have the rest of the rows, wherever that offset is.
    """

    def __init__(self, input: Any, offsets: Any, include_last_offset: bool, to_the_end: bool = False) -> None:
        self.even = offsets is None
        if self.even:
            self.count = input.shape[0]
            return
        if include_last_offset and not offsets.shape[0]:
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        self.count = offsets.shape[0] - include_last_offset
        place = jnp.arange(input.shape[0], dtype=offsets.dtype)
        begins = offsets[: self.count] if to_the_end else offsets
        self.bag = (jnp.searchsorted(begins, place, side="right") - 1).astype(np.int32)

    def sum(self, x: jax.Array) -> jax.Array:
        if self.even:
            return jnp.sum(x, 1)
        return jax.ops.segment_sum(x, self.bag, self.count, indices_are_sorted=True)

    def first_largest(self, x: jax.Array, keep: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Per bag and column, the maximum of the elements in ``keep`` and its first index; else 0 and -1."""
        masked = jnp.where(keep[..., None], lax.stop_gradient(x), -jnp.inf)
        some = self.sum(keep.astype(np.int32))[..., None] > 0
        if self.even:
            best, at = (
                jnp.zeros((self.count, x.shape[2]), x.dtype),
                jnp.zeros((self.count, x.shape[2]), np.int32),
            )
            if x.shape[1]:
                at = jnp.argmax(masked, 1)
                best = jnp.take_along_axis(x, at[:, None], 1, mode="clip")[:, 0]
        elif not x.shape[0]:
            best, at = (
                jnp.zeros((self.count, x.shape[1]), x.dtype),
                jnp.zeros((self.count, x.shape[1]), np.int32),
            )
        else:
            peak = jax.ops.segment_max(masked, self.bag, self.count, indices_are_sorted=True)
            hit = keep[:, None] & (masked == peak.at[self.bag].get(mode="clip"))
            place = jnp.where(hit, np.arange(x.shape[0], dtype=np.int32)[:, None], x.shape[0])
            at = jax.ops.segment_min(place, self.bag, self.count, indices_are_sorted=True)
            best = jnp.take_along_axis(x, at, 0, mode="clip")
        return jnp.where(some, best, jnp.zeros((), x.dtype)), jnp.where(some, at, -1)


def _combined(
    rows: Any,
    input: Any,
    offsets: Any,
    per_sample_weights: Any,
    mode: str,
    include_last_offset: bool,
    padding_idx: int,
) -> jax.Array:
    bags = _Bags(input, offsets, include_last_offset, _is_general(rows.dtype, mode, padding_idx))
    keep = input != padding_idx if padding_idx >= 0 else jnp.ones(input.shape, bool)
    dtype = rows.dtype
    x = rows.astype(wide(dtype))
    if mode == "max":
        return bags.first_largest(x, keep)[0].astype(dtype)
    if per_sample_weights is not None:
        x = x * per_sample_weights.astype(x.dtype)[..., None]
    total = bags.sum(jnp.where(keep[..., None], x, jnp.zeros((), x.dtype)))
    if mode == "mean":
        total = total / jnp.maximum(bags.sum(keep.astype(x.dtype)), 1)[..., None]
    return total.astype(dtype)


@op("_embedding_bag", where="", node="EmbeddingBagBackward0", check=_check_bags)
def embedding_bag(
    weight: Array,
    input: Array,
    offsets: Array | None,
    per_sample_weights: Array | None,
    mode: str,
    include_last_offset: bool,
    padding_idx: int,
    scale_grad_by_freq: bool,
):
    """Rows of ``weight``, reduced over bags: the rows of a matrix, or the parts of a vector between ``offsets``."""
    _check_types(weight, input, offsets, per_sample_weights)
    rows = _rows(weight, input)
    if scale_grad_by_freq:
        rows = by_frequency(rows, input, weight.shape[0])
    return _combined(rows, input, offsets, per_sample_weights, mode, include_last_offset, padding_idx)


@op("_embedding_bag_of_rows", where="", node="EmbeddingBagBackward0", check=_check_offsets)
def embedding_bag_of_rows(
    rows: Array,
    input: Array,
    offsets: Array | None,
    per_sample_weights: Array | None,
    mode: str,
    include_last_offset: bool,
    padding_idx: int,
):
    """`embedding_bag` of rows that are already looked up, so that the weight's gradient can be sparse."""
    _check_types(rows, input, offsets, per_sample_weights)
    return _combined(rows, input, offsets, per_sample_weights, mode, include_last_offset, padding_idx)


@op("_embedding_bag_parts", where="", differentiable=False)
def embedding_bag_parts(
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: str,
    include_last_offset: bool,
    padding_idx: int,
    requires_grad: bool,
):
    """For a vector of indices: the bag of each, the number that counts in each bag, the rows of the maxima per column.

    With "sum" the last two are zeros; with "mean" the last one equals the second.
    """
    bags = _Bags(indices, offsets, include_last_offset)
    dtype = jnp.promote_types(indices.dtype, offsets.dtype)
    bag = jnp.minimum(bags.bag, max(bags.count - 1, 0)).astype(dtype)
    if mode == "sum":  # without a gradient, PyTorch counts the last offset, too
        count = jnp.zeros(bags.count if requires_grad else offsets.shape[0], dtype)
        return bag, count, count
    keep = indices != padding_idx if padding_idx >= 0 else jnp.ones(indices.shape, bool)
    count = bags.sum(keep.astype(dtype))
    if mode == "mean":
        return bag, count, count
    rows = _rows(weight, indices)
    at = bags.first_largest(rows.astype(wide(rows.dtype)), keep)[1]
    largest = (
        jnp.where(at < 0, 0, indices.at[at].get(mode="clip")) if indices.shape[0] else jnp.zeros(at.shape)
    )
    return bag, count, largest.astype(dtype)
