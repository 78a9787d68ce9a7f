"""Gathers and scatters written in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._base import sizes
from .helpers import summed_rows
from .primitives import in_shape
from .values import Unsupported, Value

if TYPE_CHECKING:
    from .writer import Writer

__all__ = ["INDEXING"]


class _Places(NamedTuple):
    """Which elements of an array a gather reads, or a scatter writes.

    Attributes:
        where: the dimensions that the numbers of an index are of.
        window: the dimensions in which blocks extend.
        batch: pairs of a dimension, and that of the indices that runs beside it.
        block: the dimensions of the result, or of the updates, that are those of a block.
        clip: whether an index out of bounds means the nearest block within.
    """

    where: tuple[int, ...]
    window: tuple[int, ...]
    batch: tuple[tuple[int, int], ...]
    block: tuple[int, ...]
    clip: bool

    def whole(self, shape: Sequence[int], extent: Sequence[int]) -> list[int]:
        """The dimensions that blocks have whole, without an index."""
        return [d for d in self.window if d not in self.where and extent[d] == shape[d]]


def _places(eqn: Any, rank: int) -> _Places:
    d, mode = eqn.params["dimension_numbers"], str(eqn.params["mode"])
    if hasattr(d, "update_window_dims"):
        where, gone, block = d.scatter_dims_to_operand_dims, d.inserted_window_dims, d.update_window_dims
        rows = d.scatter_indices_batching_dims
    else:
        where, gone, block = d.start_index_map, d.collapsed_slice_dims, d.offset_dims
        rows = d.start_indices_batching_dims
    whole = [map(int, dims) for dims in (where, d.operand_batching_dims, rows, gone, block)]
    where, batch, rows, gone, block = map(tuple, whole)
    window = tuple([dim for dim in range(rank) if dim not in gone and dim not in batch])
    return _Places(where, window, tuple(zip(batch, rows, strict=True)), block, "FILL" not in mode)


def _positions(
    shape: Sequence[int], at: np.ndarray, extent: Sequence[int], places: _Places
) -> tuple[np.ndarray, np.ndarray | None]:
    """Positions in the flattened dimensions that blocks do not have whole, and which of the blocks are within.

    The positions have the indices' dimensions, then the blocks'. Blocks that are not within are moved there.
    """
    whole = places.whole(shape, extent)
    spread = [d for d in places.window if d not in whole]
    outer = at.ndim - 1
    rank = outer + len(spread)
    if at.dtype == np.uint64:
        at = np.minimum(at, np.uint64(2**63 - 1))
    inside = None
    total: Any = np.zeros((1,) * rank, np.int64)
    for d in range(len(shape)):
        if d in whole:
            continue
        total = total * shape[d]
        if d in places.where:
            start = at[..., places.where.index(d)].astype(np.int64)
            last = shape[d] - extent[d]
            if not places.clip:
                good = (start >= 0) & (start <= last)
                inside = good if inside is None else inside & good
            start = np.minimum(np.maximum(start, 0), last)
            total = total + start.reshape(start.shape + (1,) * len(spread))
        for dim, row in places.batch:
            if dim == d:
                total = total + _count(shape[d], row, rank)
        if d in spread:
            total = total + _count(extent[d], outer + spread.index(d), rank)
    full = (*at.shape[:-1], *[extent[d] for d in spread])
    return np.broadcast_to(total, full), inside


def _count(size: int, dim: int, rank: int) -> np.ndarray:
    return np.arange(size).reshape([-1 if d == dim else 1 for d in range(rank)])


def _order(places: _Places, whole: Sequence[int], outer: int) -> list[int]:
    """For each dimension of the result, or the updates, where it is among the indices', the blocks' and the whole."""
    inner = [d for d in places.window if d not in whole] + list(whole)
    order, dims = [], iter(range(outer))
    for dim in range(outer + len(places.block)):
        if dim in places.block:
            order.append(outer + inner.index(places.window[places.block.index(dim)]))
        else:
            order.append(next(dims))
    return order


def _gathered(x: np.ndarray, at: np.ndarray, *, places: _Places, extent: Sequence[int], fill: Any) -> Any:
    whole = places.whole(x.shape, extent)
    positions, inside = _positions(x.shape, at, extent, places)
    rest = [d for d in range(x.ndim) if d not in whole]
    kept = [x.shape[d] for d in whole]
    flat = x.transpose(*rest, *whole).reshape(prod([x.shape[d] for d in rest]), *kept)
    if positions.size and flat.size:
        found = flat.take(positions, 0, mode="clip")
    else:
        found = np.zeros((*positions.shape, *kept), x.dtype)
    if inside is not None and not inside.all():
        found[~inside] = fill
    return found.transpose(_order(places, whole, at.ndim - 1))


_INTO: dict[str, Callable[..., None]] = {
    "scatter": lambda x, at, updates: x.__setitem__(at, updates),
    "scatter-add": np.add.at,
    "scatter-max": np.maximum.at,
    "scatter-min": np.minimum.at,
    "scatter-mul": np.multiply.at,
    "scatter-sub": np.subtract.at,
}


def _scattered(x: np.ndarray, at: np.ndarray, updates: np.ndarray, *, places: _Places, kind: str) -> Any:
    extent = [1] * x.ndim
    for d, dim in zip(places.window, places.block, strict=True):
        extent[d] = updates.shape[dim]
    whole = places.whole(x.shape, extent)
    rest = [d for d in range(x.ndim) if d not in whole]
    kept, turned = [x.shape[d] for d in whole], [*rest, *whole]
    positions, inside = _positions(x.shape, at, extent, places)
    flat = x.transpose(turned).copy(order="C").reshape(prod([x.shape[d] for d in rest]), *kept)
    if positions.size and flat.size:
        order = _order(places, whole, at.ndim - 1)
        updates = updates.transpose(np.argsort(order)).reshape(positions.size, *kept)
        if inside is not None and not inside.all():
            inside = inside.reshape(inside.shape + (1,) * (positions.ndim - inside.ndim))
            chosen = np.broadcast_to(inside, positions.shape).reshape(-1)
            positions, updates = positions.reshape(-1)[chosen], updates[chosen]
        positions = positions.reshape(-1)
        if kind == "scatter-add" and x.dtype.kind == "f" and updates.size > 1024:
            flat = flat + summed_rows(positions, updates, len(flat))
        else:
            _INTO[kind](flat, positions, updates)
    return flat.reshape([x.shape[d] for d in turned]).transpose(np.argsort(turned))


# ------------------------------------------------------------------ rules


def _along(
    w: Writer, x: Value, at: Value, places: _Places, extent: Sequence[Any]
) -> tuple[int, str, Value] | None:
    """The dimension, where one index each is of single numbers or whole slices, as an index of numpy's: with what
    stands for the other dimensions, and the index. None for others.
    """
    shape, count = tuple(x.aval.shape), at.aval.ndim - 1
    if len(places.where) != 1 or not places.clip or places.where[0] in places.window:
        return None
    (axis,) = places.where
    if at.aval.shape[-1] != 1 or shape[axis] == 0:
        return None
    rest = [d for d in range(len(shape)) if d != axis]
    if places.batch:
        if places.window or places.batch != tuple(zip(rest, rest)) or count != len(shape):
            return None
        others = f"_grids({sizes.text(shape)}, {axis})"
        if sizes.is_known(shape):
            others = w._named(eval(others, w.names))
    else:
        block = (*range(axis), *range(axis + count, len(rest) + count))
        if places.block != block or any(extent[d] != shape[d] for d in rest):
            return None
        others = "(" + "slice(None), " * axis + ")"
    return axis, others, in_shape(w, at, at.aval, tuple(at.aval.shape[:-1]))


def _gather(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    x, at = map(w._whole, ins)
    extent, places = tuple(eqn.params["slice_sizes"]), _places(eqn, x.aval.ndim)
    aval, fill = eqn.outvars[0].aval, eqn.params["fill_value"]
    found = _along(w, x, at, places, extent)
    if found is None:
        if not places.clip and fill is None:
            raise Unsupported("gather")
        return w._call(
            _gathered, eqn, [x, at], 20.0, (aval.shape, 5e-3), places=places, extent=extent, fill=fill
        )
    axis, others, index = found
    if places.batch:
        text = f"_take_along({w._array(x)}, {axis}, {others}, {w._array(index)})"
        return w._emit(text, aval, aval.shape, [x, index], 5.0)
    text = f"{w._array(x)}.take({w._array(index)}, {axis}, mode='clip')"
    return w._emit(text, aval, aval.shape, [x, index], 1.0)


def _scatter(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    kind, change, aval = eqn.primitive.name, eqn.params["update_jaxpr"], eqn.outvars[0].aval
    if kind == "scatter" and change is not None and (change.eqns or change.outvars != change.invars[1:]):
        raise Unsupported("scatter")
    x, at, updates = map(w._whole, ins)
    places, shape = _places(eqn, x.aval.ndim), updates.aval.shape
    extent = [1] * x.aval.ndim
    for d, dim in zip(places.window, places.block, strict=True):
        extent[d] = shape[dim]
    found = _along(w, x, at, places, extent) if kind == "scatter-add" else None
    if found is None:
        cost = 2e-3 if kind == "scatter" else 0.01
        return w._call(_scattered, eqn, [x, at, updates], 25.0, (shape, cost), places=places, kind=kind)
    axis, others, index = found
    text = f"_add_along({w._array(x)}, {axis}, {others}, {w._array(index)}, {w._array(updates)})"
    return w._emit(text, aval, aval.shape, [x, index, updates], 8.0, (shape, 0.01))


INDEXING: dict[str, Callable[..., Any]] = {"gather": _gather, **dict.fromkeys(_INTO, _scatter)}
