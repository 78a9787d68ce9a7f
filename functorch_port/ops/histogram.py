"""Histograms in one and in several dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array.refusal import refuse, xp_of
from .._run import bind
from .._run.registry import Array, Arrays, TensorOnly, composite, op
from .._run.return_types import return_type_of
from .._tensor.tensor import Tensor
from ._common import c_name, is_inexact, not_implemented, type_name
from ._matrices import with_out

_HISTOGRAM = return_type_of("histogram", ("hist", "bin_edges"))
_HISTOGRAMDD = return_type_of("histogramdd", ("hist", "bin_edges"))

Range = tuple[float, ...] | None


@op(differentiable=False)
def histc(input: TensorOnly, bins: int = 100, min: float = 0, max: float = 0):
    """Count values in ``bins`` equal bins from ``min`` to ``max``; if these are equal, those of the data."""
    not_implemented("histogram_cpu", input, kinds="biuc")
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if min > max:
        raise RuntimeError("torch.histc: max must be larger than min")
    x = input.reshape(-1)
    if min == max and input.size:
        low, high = jnp.min(x), jnp.max(x)
    else:
        low, high = jnp.asarray(min, x.dtype), jnp.asarray(max, x.dtype)
    same = low == high
    low, high = jnp.where(same, low - 1, low), jnp.where(same, high + 1, high)
    inside = (x >= low) & (x <= high)
    position = jnp.floor((x - low) / (high - low) * bins)
    index = jnp.clip(jnp.where(inside, position, 0), 0, bins - 1).astype(np.int32)
    return jnp.zeros(bins, x.dtype).at[index].add(inside.astype(x.dtype))


def _check(input: jax.Array, weight: jax.Array | None) -> None:
    if weight is not None:
        if weight.dtype != input.dtype:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
                f"dtype, but got input(dtype={c_name(input)}), and weight(dtype={c_name(weight)})"
            )
        if weight.shape != input.shape[:-1]:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
                f"excluding its innermost dimension, but got input with shape {list(input.shape)} and weight with "
                f"shape {list(weight.shape)}"
            )
    if not is_inexact(input.dtype) or input.dtype.itemsize < 4:
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{type_name(input)}'")


def _check_edges(input: jax.Array, edges: Sequence[jax.Array]) -> None:
    for d, e in enumerate(edges):
        if e.dtype != input.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
                f"dtype {c_name(input)} and bins for dimension {d} with dtype {c_name(e)}"
            )
        if e.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {e.ndim} dimensions in the bins "
                f"tensor for dimension {d}"
            )
        if not e.size:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
                f"for dimension {d}"
            )


def _count(x: jax.Array, edges: Sequence[jax.Array], weight: jax.Array | None, density: bool) -> jax.Array:
    """The number of points (rows) in each cell; the last edge belongs to the last bin."""
    shape = tuple(e.shape[0] - 1 for e in edges)
    amount = jnp.ones(x.shape[0], x.dtype) if weight is None else weight.reshape(-1)
    if 0 in shape:
        return jnp.zeros(shape, x.dtype)
    place = jnp.zeros(x.shape[0], np.int32)
    for d, e in enumerate(edges):
        column, count = x[:, d], shape[d]
        bin_ = jnp.searchsorted(e, column, side="right").astype(np.int32) - 1
        amount = jnp.where((column >= e[0]) & (column <= e[-1]), amount, 0)
        place = place * count + jnp.clip(bin_, 0, count - 1)
    counts = jnp.zeros(math.prod(shape), x.dtype).at[place].add(amount).reshape(shape)
    if density:
        volume = functools.reduce(jnp.multiply.outer, [jnp.diff(e) for e in edges])
        counts = counts / counts.sum() / volume
    return counts


@op("_histogram_edges", where="", differentiable=False)
def _histogram_edges(input: TensorOnly, bins: tuple[int, ...], range: Range, weight: Array | None):
    """The edges of equal bins in each dimension; the default range is that of the data."""
    n = input.shape[-1]
    for d, count in enumerate(bins):
        if count <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension {d}")
    _check(input, weight)
    if range is not None:
        if len(range) != 2 * n:
            raise RuntimeError(
                f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but got "
                f"{len(range)}"
            )
        low, high = (jnp.asarray(range[i::2], input.dtype) for i in (0, 1))
    else:
        points = input.reshape(-1, n)
        low, high = (points.min(0), points.max(0)) if points.size else (jnp.zeros(n), jnp.ones(n))
    same = low == high
    low, high = jnp.where(same, low - 0.5, low), jnp.where(same, high + 0.5, high)
    return tuple(
        jnp.linspace(a, b, count + 1, dtype=input.dtype) for a, b, count in zip(low, high, bins, strict=True)
    )


@op("_histogramdd", where="", differentiable=False)
def _histogramdd(input: TensorOnly, edges: Arrays, weight: Array | None, density: bool):
    """Count points (or sum their weights) in the cells between the edges."""
    _check_edges(input, edges)
    _check(input, weight)
    return _count(input.reshape(-1, input.shape[-1]), edges, weight, density)


def _check_range(range: Any, edges: Sequence[Tensor]) -> None:
    pairs = [] if range is None else list(zip(range[::2], range[1::2], strict=False))
    for d, (low, high) in enumerate(pairs):
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {d}"
            )
    for d, e in enumerate(edges):

        def error(e: Any, d: int = d) -> Exception:
            return RuntimeError(
                f"torch.histogramdd: dimension {d}'s range [{e[0]:g}, {e[-1]:g}] is not finite"
            )

        refuse(lambda e: ~(xp_of(e).isfinite(e[0]) & xp_of(e).isfinite(e[-1])), error, e._look())


def _histogram(
    input: Tensor, bins: Any, range: Any, weight: Tensor | None, density: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    if isinstance(bins[0], Tensor):
        edges = tuple(bins)
    else:
        limits = None if range is None else tuple(float(r) for r in range)
        edges = bind.function("_histogram_edges")(input, tuple(bins), limits, weight)
        _check_range(range, edges)
    return bind.function("_histogramdd")(input, list(edges), weight, density), edges


@composite()
@with_out
def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """The number (or weight) of values in ``bins`` equal bins, or between the edges ``bins``; and the edges."""
    if not isinstance(bins, int | Tensor) or isinstance(bins, bool):
        raise TypeError(
            f"histogram(): argument 'bins' (position 2) must be Tensor or int, not {type(bins).__name__}"
        )
    flat = input.reshape(-1, 1)  # type: ignore[attr-defined]
    weights = None if weight is None else weight.reshape(-1)  # type: ignore[attr-defined]
    counts, edges = _histogram(flat, (bins,), range, weights, density)
    return _HISTOGRAM(counts, edges[0])


@composite(where="torch")
def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """The number (or weight) of points, vectors in the last dimension, in each cell; and the edges by dimension."""
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    n = input.shape[-1]
    each = [bins] * n if isinstance(bins, int) else list(bins)
    if len(each) != n:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    counts, edges = _histogram(input, each, range, weight, density)
    return _HISTOGRAMDD(counts, tuple(edges))
