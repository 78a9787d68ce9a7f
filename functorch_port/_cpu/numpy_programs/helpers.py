"""What written programs call besides numpy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..._array import tracing
from ..._base.sizes import ARITHMETIC
from ..._base.tuning import tuning

__all__ = ["HELPERS", "ones_of", "pad", "summed_rows"]


def _full(x: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    out = np.empty(shape, dtype)
    out[...] = x
    return out


def _take_along(x: Any, axis: int, others: tuple[Any, ...], at: Any) -> Any:
    at = at.clip(0, x.shape[axis] - 1)
    return x[(*others[:axis], at, *others[axis:])]


def _add_along(x: Any, axis: int, others: tuple[Any, ...], at: Any, update: Any) -> Any:
    at = np.minimum(np.maximum(at, 0), x.shape[axis] - 1)
    out = x.copy()
    if axis == 0 and not others and at.ndim == 1 and x.dtype.kind == "f" and update.size > 1024:
        return out + summed_rows(at, update, len(x))
    np.add.at(out, (*others[:axis], at, *others[axis:]), update)
    return out


def summed_rows(at: Any, update: Any, count: int) -> np.ndarray:
    """The sum of the rows of ``update`` for each place. `numpy.add.at` of rows takes 10 times as long as of numbers, of
    which a complex one is two; `scipy.sparse` a third of that, but 45 ms to import.
    """
    out, rows = np.zeros((count, *update.shape[1:]), update.dtype), np.ascontiguousarray(update)
    sums, width = out.reshape(-1), rows[0].size
    if width % 2 == 0:
        width, pair = width // 2, np.result_type(np.complex64, update.dtype)
        sums, rows = sums.view(pair), rows.reshape(-1).view(pair)
    places = at.astype(np.int64)[:, None] * width + np.arange(width)
    np.add.at(sums, places.reshape(-1), rows.reshape(-1))
    return out


def _start(at: Any, size: int, extent: int) -> int:
    return min(max(int(at), 0), extent - size)


def _put(x: Any, block: Any, *starts: Any) -> Any:
    begin = [_start(s, n, e) for s, n, e in zip(starts, block.shape, x.shape)]
    out = x.copy()
    out[tuple([slice(b, b + n) for b, n in zip(begin, block.shape)])] = block
    return out


def pad(x: Any, value: Any, config: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    shape, place, source = [], [], []
    for n, (low, high, inner) in zip(x.shape, config):
        spread = n + max(n - 1, 0) * inner
        total = low + spread + high
        first = max(0, -(low // (inner + 1))) if low < 0 else 0
        last = min(n, -(-(total - low) // (inner + 1)))
        shape.append(total)
        source.append(slice(first, max(last, first)))
        begin = low + first * (inner + 1)
        place.append(slice(begin, begin + max(last - first, 0) * (inner + 1), inner + 1))
    out = np.empty(tuple(shape), x.dtype)
    out.fill(value)
    out[tuple(place)] = x[tuple(source)]
    return out


@functools.cache
def _many_ones(dtype: np.dtype, bits: int) -> np.ndarray:
    return np.ones(1 << bits, dtype)


def ones_of(count: int, dtype: np.dtype) -> np.ndarray:
    return _many_ones(dtype, count.bit_length())[:count]


#: elements from which on numpy's products start threads, which wait for each other where something else computes
_THREADS = 8192


def _sum_last(x: Any, shape: tuple[int, ...], kept: int, dtype: np.dtype) -> Any:
    """The sums over all dimensions but the first ``kept``. Few are a product with ones, which takes a third of the time
    that `numpy.add.reduce` takes; that adds up in pairs, which only long rows need.
    """
    count, rest = math.prod(shape[kept:]), math.prod(shape[:kept])
    rows = x.reshape(rest, count)
    if x.size <= _THREADS:
        found = rows.dot(ones_of(count, dtype))
    elif count <= tuning.row_part:
        found = np.einsum("ij->i", rows)
    else:
        found = np.add.reduce(rows, 1)
    return found.reshape(shape[:kept]) if kept else found[0]


def _sum_first(x: Any, shape: tuple[int, ...], gone: int, dtype: np.dtype) -> Any:
    """The sums over the first dimensions. Sums of very many are added up in parts, and these in float64."""
    count, rest = math.prod(shape[:gone]), math.prod(shape[gone:])
    rows, part = x.reshape(count, rest), tuning.row_part
    if x.size <= _THREADS:
        found = ones_of(count, dtype).dot(rows)
    elif count <= part:
        found = np.add.reduce(rows, 0)
    else:
        whole = count // part * part
        parts = np.add.reduce(rows[:whole].reshape(-1, part, rest), 1)
        found = (parts.sum(0, np.float64) + rows[whole:].sum(0, np.float64)).astype(dtype)
    return found.reshape(shape[gone:])


def _reduce_last(ufunc: np.ufunc, x: Any, shape: tuple[int, ...], kept: int) -> Any:
    """`numpy.ufunc.reduce` over all dimensions but the first ``kept``, in a third of the time for short rows."""
    if not x.flags.c_contiguous:
        return ufunc.reduce(x, tuple(range(kept, x.ndim)))
    starts = np.arange(0, x.size, math.prod(shape[kept:]))
    return ufunc.reduceat(x.reshape(-1), starts).reshape(shape[:kept])


def _dot(a: Any, b: Any) -> Any:
    """The product of a row with a column."""
    count = b.shape[0]
    if count <= _THREADS:
        return a.dot(b)
    parts = [a[:, k : k + _THREADS].dot(b[k : k + _THREADS]) for k in range(0, count, _THREADS)]
    return sum(parts[1:], parts[0])


def _count_up(size: int, dim: int, rank: int, dtype: np.dtype) -> np.ndarray:
    return np.arange(size, dtype=dtype).reshape([-1 if d == dim else 1 for d in range(rank)])


def _to_integers(x: Any, dtype: np.dtype) -> Any:
    """Rounded toward zero; what is out of range becomes the nearest number in it, NaN 0."""
    x = np.asarray(x)
    info = np.iinfo(dtype)
    low, high = (
        float(info.min),
        float(info.max) + 1 if info.bits < 64 else 2.0 ** (info.bits - (info.min < 0)),
    )
    whole = np.trunc(x)
    inside = (whole >= low) & (whole < high)
    if inside.all():
        return x.astype(dtype)
    out = np.where(inside, x, 0).astype(dtype)
    out[x >= high] = info.max
    out[whole < low] = info.min
    return out[()]


def _grids(shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, ...]:
    """Indices that leave all dimensions but one as they are."""
    rank = len(shape)
    return tuple([_count_up(n, d, rank, np.dtype(np.int64)) for d, n in enumerate(shape) if d != axis])


#: elements that a program of XLA takes at a time, from few to many
_CHUNKS = 1024, 16384


@functools.cache
def _program(fn: Callable[..., Any], dtype: np.dtype) -> Any:
    return jax.jit(fn)


def _by_xla(fn: Callable[..., Any], x: Any) -> Any:
    """An operation for each element that numpy has not: a program of XLA for a part of fixed size, again and again."""
    x = np.asarray(x)
    flat = np.ascontiguousarray(x).reshape(-1)
    size = _CHUNKS[x.size > _CHUNKS[0]]
    program, out = _program(fn, x.dtype), np.empty(flat.shape, x.dtype)
    with tracing.outside():
        for at in range(0, len(flat), size):
            part = flat[at : at + size]
            count = len(part)
            if count < size:
                part = np.concatenate([part, np.zeros(size - count, x.dtype)])
            out[at : at + count] = np.asarray(program(part))[:count]
    return out.reshape(x.shape)[()]


def _bits(x: Any, kind: np.dtype) -> Any:
    return np.asarray(x).view(kind)


def _chosen(mask: Any, yes: Any, no: Any, dtype: np.dtype) -> Any:
    """``yes`` where ``mask``, ``no`` elsewhere. `numpy.where` takes 20 times as long where the mask is random."""
    if mask.size < 2048 or dtype.itemsize not in _WORDS:
        return np.where(mask, yes, no)
    word = _WORDS[dtype.itemsize]
    take = np.negative(mask.view(np.int8)).astype(word)  # all bits, or none
    old = _bits(np.asarray(no, dtype), word)
    take = take & (_bits(np.asarray(yes, dtype), word) ^ old)
    take ^= old
    return take.view(dtype)


_WORDS: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


HELPERS = {
    "np": np, **ARITHMETIC, "_dot": _dot, "_sum_last": _sum_last, "_sum_first": _sum_first,
    "_reduce_last": _reduce_last,
    "_count_up": _count_up, "_to_integers": _to_integers, "_grids": _grids, "_full": _full, "_chosen": _chosen,
    "_take_along": _take_along, "_add_along": _add_along, "_start": _start, "_put": _put, "_pad": pad,
    "_by_xla": _by_xla,
}  # fmt: skip
