"""Sorting, searching and counting."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import executor
from .._array.refusal import outside, refuse
from .._base import dtypes, lowering
from .._base.layout import first_order
from .._base.promotion import promote
from .._run import bind
from .._run.opnode import edge_of
from .._run.registry import Array, TensorOnly, composite, op
from .._tensor import grad_mode
from .._tensor.node import NoDerivative
from .._tensor.tensor import Tensor
from ._common import (
    INT64,
    at_least_1d,
    is_inexact,
    no_complex,
    not_implemented,
    stable_order,
    take_along,
    type_name,
    wrap_dim,
)

# order


def _picked(input: jax.Array, x: jax.Array, index: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """The values at ``index`` and the index itself, 0-dim if the input was."""
    values = take_along(x, index, axis)
    return (
        (values, index.astype(INT64)) if input.ndim else (values.reshape(()), index.astype(INT64).reshape(()))
    )


@op(returns=("values", "indices"), order=first_order)
def sort(input: TensorOnly, dim: int = -1, descending: bool = False, stable: bool = False):
    """Sort along ``dim``: the values and their indices. The sort is always stable; NaN is the largest value."""
    no_complex(" Sort does not support complex dtypes on CPU", input)
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    return _picked(input, x, stable_order(x, axis, descending), axis)


@op(order=first_order)  # PyTorch's is `sort`, which looks at the history of a view
def argsort(input: TensorOnly, dim: int = -1, descending: bool = False, stable: bool = False):
    """The indices that sort along ``dim``; see `sort`."""
    no_complex(" Sort does not support complex dtypes on CPU", input)
    axis = wrap_dim(dim, input.ndim)
    return stable_order(at_least_1d(input), axis, descending).astype(INT64).reshape(input.shape)


@op(node="SortBackward0", order=first_order)
def msort(input: TensorOnly):
    """Sort along the first dimension."""
    return sort(input, 0)[0]


@op(returns=("values", "indices"))
def topk(input: TensorOnly, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """The ``k`` largest (or smallest) values along ``dim``, always sorted, and their indices."""
    no_complex(" topk does not support complex dtypes on CPU", input)
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    if not 0 <= k <= x.shape[axis]:
        raise RuntimeError("selected index k out of range")
    if x.dtype.kind in "bc" or k == 0:
        return _picked(input, x, lax.slice_in_dim(stable_order(x, axis, largest), 0, k, axis=axis), axis)
    keys = lax.stop_gradient(jnp.moveaxis(x, axis, -1))
    if is_inexact(
        x.dtype
    ):  # on a CPU, `lax.top_k` takes a NaN for more than inf, and -NaN for less than -inf
        ranked = functools.partial(_ranked, largest=largest)
        keys = lowering.by_platform(
            keys, cpu=functools.partial(ranked, nan=jnp.nan), default=functools.partial(ranked, nan=jnp.inf)
        )
    elif not largest:
        keys = ~keys
    _, index = lax.top_k(keys, k)
    index = jnp.moveaxis(index, -1, axis)
    if k == 1 and not input.ndim:
        index = index.reshape(1)
    return _picked(input, x, index, axis)


def _ranked(x: jax.Array, largest: bool, nan: float) -> jax.Array:
    """``x``, or ``-x`` for the smallest values, with ``nan`` or ``-nan`` in the place of NaN."""
    return jnp.where(x == x, x if largest else -x, jnp.copysign(nan, 1 if largest else -1)).astype(x.dtype)


@op(returns=("values", "indices"))
def kthvalue(input: TensorOnly, k: int, dim: int = -1, keepdim: bool = False):
    """The ``k``-th smallest value along ``dim`` and its index."""
    not_implemented("kthvalue_cpu", input, kinds="bc")
    axis = wrap_dim(dim, input.ndim)
    x = at_least_1d(input)
    if not 1 <= k <= x.shape[axis]:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    index = lax.slice_in_dim(stable_order(x, axis, False), k - 1, k, axis=axis)
    values, index = _picked(input, x, index, axis)
    return (values, index) if keepdim or not input.ndim else (values.squeeze(axis), index.squeeze(axis))


# searching


def _search(boundaries: jax.Array, values: jax.Array, side: str, out_int32: bool) -> jax.Array:
    boundaries, values = promote(boundaries, values)

    def rows(edges: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.searchsorted(edges, x, side=side)

    find = rows
    if boundaries.ndim > 1:
        for _ in range(boundaries.ndim - 1):
            find = jax.vmap(find)
    return find(boundaries, values).astype(np.int32 if out_int32 else INT64)


def _side(right: bool, side: str | None, name: str) -> str:
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.{name}(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"torch.{name}(): side and right can't be set to opposites, got side of left while right was True"
        )
    return side or ("right" if right else "left")


def _check_sorter(sorted_sequence: Any, input: Any, *, sorter: Any = None, **_: Any) -> None:
    if sorter is not None:
        within = functools.partial(outside, low=0, high=sorted_sequence.shape[-1])
        text = "torch.searchsorted(): sorter index out of range"
        refuse(within, lambda sorter: RuntimeError(text), sorter)


@op(differentiable=False, check=_check_sorter)
def searchsorted(
    sorted_sequence: TensorOnly,
    input: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
):
    """The indices at which to insert values into the last dimension of ``sorted_sequence``, to keep it sorted."""
    edges = sorted_sequence
    if sorter is not None:
        if sorter.shape != edges.shape:
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                f"{list(edges.shape)}and got sorter tensor {list(sorter.shape)}"
            )
        if sorter.dtype != INT64:
            raise RuntimeError(
                f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {type_name(sorter)}"
            )
        edges = take_along(edges, sorter, edges.ndim - 1)
    shape = getattr(input, "shape", ())
    if edges.ndim != 1 and (not shape or edges.shape[:-1] != shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(edges.shape)} and input "
            f"value tensor {list(shape)}"
        )
    return _search(edges, input, _side(right, side, "searchsorted"), out_int32)


@op(differentiable=False, numbers=True)
def bucketize(input: Array, boundaries: TensorOnly, *, out_int32: bool = False, right: bool = False):
    """The index of the bucket that each value falls into, between sorted ``boundaries``."""
    not_implemented("searchsorted_out_cpu", input, boundaries, kinds="c")
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _search(boundaries, input, "right" if right else "left", out_int32)


# distinct values: their number depends on the data, so these run on the host


@op("_unique", where="", eager="sort(), whose neighbours tell which values are new", differentiable=False)
def _unique(input: TensorOnly, dim: int | None = None):
    """The sorted distinct values (or slices along ``dim``), the index of each element in them, and their counts."""
    not_implemented("unique", input, kinds="c")
    x = np.asarray(input)
    if dim is not None:
        dim = wrap_dim(dim, x.ndim)
        _check_unique(x.shape, dim)
        x = np.moveaxis(x, dim, 0)
        if x.size == 0:
            return _on_device(np.asarray(input), *_EMPTY)
        flat = x.reshape(x.shape[0], -1)
        _, first, inverse, counts = np.unique(
            flat, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        values = np.moveaxis(x[first], 0, dim)
        return _on_device(values, inverse.reshape(-1), counts)
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)
    return _on_device(values, inverse.reshape(x.shape), counts)


def _on_device(
    values: np.ndarray, inverse: np.ndarray, counts: np.ndarray
) -> tuple[jax.Array, jax.Array, jax.Array]:
    place = executor.current.place
    return place(values), place(inverse.astype(INT64)), place(counts.astype(INT64))


_EMPTY = (np.zeros(0, INT64), np.zeros(0, INT64))


def _check_unique(shape: tuple[int, ...], dim: int) -> None:
    if shape.count(0) > 1:
        raise RuntimeError("Number of zero sized dimensions is more than one, so unique cannot be applied ")
    if 0 in shape and shape[dim] != 0:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )


@op("_unique_consecutive", where="", eager="a mask of where neighbours differ", differentiable=False)
def _unique_consecutive(input: TensorOnly, dim: int | None = None):
    """The values of runs of equal neighbours, the index of each element's run, and the lengths of the runs."""
    x = np.asarray(input)
    axis = 0 if dim is None else wrap_dim(dim, x.ndim)
    if dim is not None:
        _check_unique(x.shape, axis)
    if x.size == 0:
        inverse = np.zeros(x.shape, INT64) if dim is None else _EMPTY[0]
        return _on_device(x.reshape(-1) if dim is None else x, inverse, _EMPTY[1])
    rows = x.reshape(-1) if dim is None else np.moveaxis(x, axis, 0)
    new = np.ones(rows.shape[0], bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
    inverse = np.cumsum(new) - 1
    values = np.moveaxis(rows[new], 0, axis)
    return _on_device(values, inverse.reshape(x.shape) if dim is None else inverse, np.bincount(inverse))


def _asked(
    input: Tensor, found: tuple[Tensor, ...], kind: tuple[str, str], return_inverse: bool, return_counts: bool
) -> Any:
    values, inverse, counts = found
    if input.requires_grad and grad_mode.is_grad_enabled():  # PyTorch has no derivative
        values._grad_fn, values._requires_grad = NoDerivative(edge_of(input), *kind), True
    out = (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return out if len(out) > 1 else values


@composite()
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct values, or the distinct slices along ``dim``; always sorted."""
    found = bind.function("_unique")(input, dim)
    kind = ("Unique2Backward0", "_unique2") if dim is None else ("UniqueDimBackward0", "unique_dim")
    return _asked(input, found, kind, return_inverse, return_counts)


@composite()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The values, with each run of equal neighbours reduced to one."""
    found = bind.function("_unique_consecutive")(input, dim)
    kind = ("UniqueConsecutiveBackward0", "unique_consecutive")
    return _asked(input, found, kind, return_inverse, return_counts)


# counting


_COUNTS = "torch.zeros(length).scatter_add(0, input, weights)"


@op("_bincount", where="", differentiable=False)
def _bincount(input: TensorOnly, length: int, weights: Array | None = None):
    """The counts of 0 to ``length - 1``, or the sums of their weights."""
    if weights is None:
        return jnp.zeros(length, INT64).at[input].add(1)
    kind = weights.dtype if weights.dtype == np.float32 else np.dtype(np.float64)
    return jnp.zeros(length, kind).at[input].add(weights.astype(kind))


@composite()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """The number of times that each integer from 0 on occurs, or the sum of its weights."""
    if input.dtype not in (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64):
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype.scalar_name}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.ndim != 1 or (input.numel() and input.min()._as_size("bincount", _COUNTS) < 0):  # type: ignore[attr-defined]
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    largest = input.max()._as_size("bincount", _COUNTS) + 1 if input.numel() else 0  # type: ignore[attr-defined]
    return bind.function("_bincount")(input, max(largest, minlength), weights)
