"""PyTorch's strides of views: one rule per view op, from the layout before to the layout after.

A rule gets the shape, element strides and offset of the tensor that is viewed, and the op's arguments by
name. The shape
after is known (from JAX); the rule gives strides and offset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["RULES", "Layout", "contiguous", "viewed"]

Ints = tuple[int, ...]
#: shape, element strides, offset
Layout = tuple[Ints, Ints, int]


def contiguous(shape: Sequence[int]) -> Ints:
    """Element strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def viewed(shape: Ints, strides: Ints, new: Ints) -> Ints | None:
    """The strides of the same elements in another shape; None where only a copy can have that shape."""
    if 0 in shape or math.prod(new) == 0:
        return strides if shape == new else contiguous(new)
    out: list[int] = []
    dim = len(new) - 1
    block, step = 1, strides[-1] if strides else 1  # a run of dimensions that lie evenly in memory
    for k in range(len(shape) - 1, -1, -1):
        block *= shape[k]
        if k > 0 and (shape[k - 1] == 1 or strides[k - 1] == block * step):
            continue
        taken = 1
        while dim >= 0 and (taken != block or new[dim] == 1):  # not ``<``, which symbols may leave open
            out.append(taken * step)
            taken *= new[dim]
            dim -= 1
        if taken != block:
            return None
        if k > 0:
            block, step = 1, strides[k - 1]
    while dim >= 0:
        out.append(step)
        dim -= 1
    return tuple(reversed(out))


def _wrapped(dims: Any, ndim: int) -> list[int]:
    return [d % ndim for d in ((dims,) if isinstance(dims, int) else dims)]


def _view(at: Layout, size: Ints) -> tuple[Ints, int]:
    shape, strides, offset = at
    return viewed(shape, strides, size) or contiguous(size), offset


def _squeeze(at: Layout, dim: Any = None) -> tuple[Ints, int]:
    shape, strides, offset = at
    dims = range(len(shape)) if dim is None else _wrapped(dim, max(len(shape), 1))
    return tuple(s for d, (n, s) in enumerate(zip(shape, strides)) if d not in dims or n != 1), offset


def _unsqueeze(at: Layout, dim: int) -> tuple[Ints, int]:
    shape, strides, offset = at
    dim %= len(shape) + 1
    step = shape[dim] * strides[dim] if dim < len(shape) else 1
    return (*strides[:dim], step, *strides[dim:]), offset


def _permute(at: Layout, dims: Ints) -> tuple[Ints, int]:
    _, strides, offset = at
    return tuple(strides[d] for d in _wrapped(dims, max(len(strides), 1))) if strides else (), offset


def _transpose(at: Layout, dim0: int, dim1: int) -> tuple[Ints, int]:
    order = list(range(len(at[0])))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(at, tuple(order))


def _movedim(at: Layout, source: Any, destination: Any) -> tuple[Ints, int]:
    ndim = len(at[0])
    if not ndim:
        return (), at[2]
    moved, to = _wrapped(source, ndim), _wrapped(destination, ndim)
    rest = iter(d for d in range(ndim) if d not in moved)
    return _permute(at, tuple(moved[to.index(d)] if d in to else next(rest) for d in range(ndim)))


def _expand(at: Layout, size: Ints, implicit: bool = False) -> tuple[Ints, int]:
    shape, strides, offset = at
    if not shape:
        return (0,) * len(size), offset
    new = len(size) - len(shape)
    out: list[int] = []
    for d in range(len(size) - 1, -1, -1):
        n = shape[d - new] if d >= new else 1
        wanted = n if size[d] == -1 else size[d]
        if n != wanted:
            out.append(0)
        elif d >= new:
            out.append(strides[d - new])
        else:  # a new dimension of size 1
            out.append(out[-1] * (size[d + 1] if size[d + 1] != -1 else shape[d + 1 - new]) if out else 1)
    return tuple(reversed(out)), offset


def _narrow(at: Layout, dim: int, start: int, length: int) -> tuple[Ints, int]:
    shape, strides, offset = at
    start = start + shape[dim] if start < 0 else start
    return strides, offset + start * strides[dim]


def _select(at: Layout, dim: int, index: int) -> tuple[Ints, int]:
    shape, strides, offset = at
    dim %= len(shape)
    index = index + shape[dim] if index < 0 else index
    return strides[:dim] + strides[dim + 1 :], offset + index * strides[dim]


def _diagonal(at: Layout, offset: int = 0, dim1: int = 0, dim2: int = 1) -> tuple[Ints, int]:
    shape, strides, start = at
    dim1, dim2 = dim1 % len(shape), dim2 % len(shape)
    rest = tuple(s for d, s in enumerate(strides) if d not in (dim1, dim2))
    length = min(shape[dim1], shape[dim2] - offset) if offset >= 0 else min(shape[dim1] + offset, shape[dim2])
    if length > 0:
        start += offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]
    return (*rest, strides[dim1] + strides[dim2]), start


def _unfold(at: Layout, dimension: int, size: int, step: int) -> tuple[Ints, int]:
    shape, strides, offset = at
    if not shape:
        return (1,), offset
    dimension %= len(shape)
    return (
        *strides[:dimension],
        strides[dimension] * step,
        *strides[dimension + 1 :],
        strides[dimension],
    ), offset


def _basic_index(at: Layout, starts: Ints, spec: tuple[Any, ...]) -> tuple[Ints, int]:
    """Ints, slices and new dimensions, one after the other as PyTorch applies them."""
    shape, strides, offset = at
    it = iter(starts)
    out: list[int] = []
    dim = 0
    for part in spec:
        if part[0] == "n":
            out.append(shape[dim] * strides[dim] if dim < len(shape) else 1)
            continue
        if part[0] == ":":
            out.append(strides[dim])
        else:
            start = next(it)
            offset += (start + shape[dim] if start < 0 else start) * strides[dim]
            if part[0] == "s":
                out.append(strides[dim] * part[2])
        dim += 1
    return (*out, *strides[dim:]), offset


def _scaled(at: Layout, ratio: float) -> tuple[list[int], int]:
    """Strides and offset counted in elements that are ``ratio`` times as many."""
    return [int(s * ratio) for s in at[1]], int(at[2] * ratio)


def _view_dtype(at: Layout, dtype: Any, ratio: float = 1) -> tuple[Ints, int]:
    strides, offset = _scaled(at, ratio)
    if strides and ratio != 1:
        strides[-1] = 1
    return tuple(strides), offset


def _real(at: Layout, ratio: float = 1) -> tuple[Ints, int]:
    strides, offset = _scaled(at, ratio)
    return tuple(strides), offset


def _imag(at: Layout, ratio: float = 1) -> tuple[Ints, int]:
    strides, offset = _scaled(at, ratio)
    return tuple(strides), offset + 1


def _view_as_real(at: Layout, ratio: float = 1) -> tuple[Ints, int]:
    strides, offset = _scaled(at, ratio)
    return (*strides, 1), offset


def _view_as_complex(at: Layout, ratio: float = 1) -> tuple[Ints, int]:
    strides, offset = _scaled(at, ratio)
    return tuple(strides[:-1]), offset


#: view op -> its rule. Ops that reinterpret elements also get ``ratio``, how many elements one becomes.
RULES: dict[str, Callable[..., tuple[Ints, int]]] = {
    "laid_out": lambda at, strides: (strides, at[2]),
    "alias": lambda at: (at[1], at[2]),
    "basic_index": _basic_index,
    "_view": _view,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "permute": _permute,
    "transpose": _transpose,
    "t": lambda at: (at[1][::-1], at[2]),
    "movedim": _movedim,
    "expand": _expand,
    "narrow": _narrow,
    "_split_part": _narrow,
    "_split_sizes_part": _narrow,
    "select": _select,
    "_unbind_part": _select,
    "diagonal": _diagonal,
    "unfold": _unfold,
    "_as_strided": lambda at, size, stride, storage_offset=0: (stride, storage_offset),
    "_part": lambda at, size, start: (contiguous(size), at[2] + start),
    "_view_dtype": _view_dtype,
    "_real": _real,
    "imag": _imag,
    "_view_as_real": _view_as_real,
    "_view_as_complex": _view_as_complex,
    "_conj": lambda at: (at[1], at[2]),
    "_neg_view": lambda at: (at[1], at[2]),
}
#: rules that need ``ratio``
REINTERPRET = frozenset({"_view_dtype", "_real", "imag", "_view_as_real", "_view_as_complex"})
