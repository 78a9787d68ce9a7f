"""Layouts and memory formats, and what lies in memory in one of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from .strides import contiguous
from .tuning import tuning

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "legacy_contiguous_format",
    "jagged",
    "layout",
    "memory_format",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]


class SparseOperand(NotImplementedError):
    """Something that knows only dense tensors met a sparse one."""

    def __init__(self) -> None:
        super().__init__(
            "this is not supported for sparse tensors (layout torch.sparse_coo): use .to_dense()"
        )


class layout:
    """The kind of a tensor's storage: `strided`, `sparse_coo`, `sparse_csr` or `sparse_csc`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(layout):
    """A dimension order hint."""


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = (
    layout(name) for name in ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
)
#: the layouts of matrices sorted by row, or by column; of the three that are left no tensor is here
COMPRESSED = (sparse_csr, sparse_csc)
contiguous_format = memory_format("contiguous_format")
legacy_contiguous_format = contiguous_format
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_CHANNELS_LAST = {4: channels_last, 5: channels_last_3d}


def memory_order(tensor: Any, kind: memory_format | None = None) -> Sequence[int] | None:
    """The dimensions, from the outermost in memory to the innermost, of what PyTorch makes like a tensor.

    Args:
        tensor: the tensor.
        kind: the memory format that is asked for; None or `preserve_format`: the tensor's own order.

    Returns:
        The dimensions, or None if they are in order.

    Raises:
        RuntimeError: the format is one of tensors with another number of dimensions.
    """
    if kind is not None and kind is not preserve_format:
        if kind is contiguous_format:
            return None
        n = tensor.dim()
        if _CHANNELS_LAST.get(n) is not kind:
            wanted = 4 if kind is channels_last else 5
            raise RuntimeError(f"required rank {wanted} tensor to use {kind._name} format")
        return (0, *range(2, n), 1)
    if tensor._view is None:
        return None
    shape, strides = tensor._aval().shape, tensor._strides()
    if any(s == 0 and n > 1 for n, s in zip(shape, strides, strict=True)):
        return None
    order = sorted(range(len(shape)), key=lambda d: -strides[d])
    wide = [d for d in order if shape[d] != 1]
    return None if wide == sorted(wide) else order


def joint_order(shape: Sequence[int], tensors: Iterable[Any]) -> Sequence[int] | None:
    """As `memory_order`, of what PyTorch computes element by element from these tensors (its ``TensorIterator``).

    Args:
        shape: of the result.
        tensors: what it is computed from. Those before have precedence.
    """
    steps: list[Sequence[int]] = []
    for tensor in tensors:
        view = tensor._view
        own = tensor._aval().shape
        if view is None and own == shape and not steps:
            return None
        strides = contiguous(own) if view is None else view.strides(tensor._storage)
        if own != shape:  # it is stretched
            missing = len(shape) - len(own)
            kept = [0 if n == 1 != m else s for n, m, s in zip(own, shape[missing:], strides, strict=True)]
            strides = (*[0] * missing, *kept)
        steps.append(strides)
    return _ordered(tuple(shape), tuple(steps))


@functools.lru_cache(tuning.cached_facts)
def _ordered(shape: tuple[int, ...], steps: tuple[tuple[int, ...], ...]) -> Sequence[int] | None:
    def is_inside(a: int, b: int) -> int:
        """Whether dimension ``a`` lies inside of ``b``: 1, or -1 for outside, or 0 if nothing says it."""
        for strides in steps:
            if strides[a] and strides[b]:
                if strides[a] != strides[b]:
                    return 1 if strides[a] < strides[b] else -1
                if shape[a] < shape[b]:
                    return 1
        return 0

    order = list(range(len(shape)))[::-1]  # from the innermost, as they are compared in PyTorch
    for last in range(1, len(order)):
        at = last
        for i in range(last - 1, -1, -1):
            found = is_inside(order[at], order[i])
            if found > 0:
                order[at], order[i] = order[i], order[at]
                at = i
            elif found < 0:
                break
    wide = [d for d in order[::-1] if shape[d] != 1]
    return None if wide == sorted(wide) else order[::-1]


def format_order(shape: Sequence[int], tensors: Iterable[Any]) -> Sequence[int] | None:
    """As `joint_order`, of operations that give ``channels_last`` if one of the tensors looks like it."""
    if not any(_suggests_channels_last(tensor) for tensor in tensors):
        return None
    return (0, *range(2, len(shape)), 1) if len(shape) in _CHANNELS_LAST else None


def common_format_order(shape: Sequence[int], tensors: Iterable[Any]) -> Sequence[int] | None:
    """As `joint_order`, of operations that give ``channels_last`` if all of the tensors look like it."""
    return format_order(shape, tensors) if all(map(_suggests_channels_last, tensors)) else None


def convolution_order(shape: Sequence[int], tensors: Sequence[Any]) -> Sequence[int] | None:
    """As `format_order`, of convolutions of images and volumes, which may have no batch dimension."""
    input, weight = tensors[:2]
    n, alone = weight.dim(), input.dim() < weight.dim()
    if not (_suggests_channels_last(weight) or _suggests_channels_last(input, 0 if alone else None)):
        return None
    order = (0, *range(2, n), 1)
    return tuple([d - 1 for d in order[1:]]) if alone else order


def line_order(shape: Sequence[int], tensors: Sequence[Any]) -> Sequence[int] | None:
    """As `format_order`, of operations on lines, ``(batch, channels, length)``, which PyTorch computes on images."""
    return (0, 2, 1) if len(shape) == 3 and _suggests_channels_last(tensors[0], 2) else None


def first_order(shape: Sequence[int], tensors: Sequence[Any]) -> Sequence[int] | None:
    """As `joint_order`, of operations that give something like the first tensor."""
    return memory_order(tensors[0]) if tensors[0].dim() == len(shape) else None


def suggested_format(tensor: Any) -> memory_format:
    """The format that PyTorch takes a tensor to be in; it may have gaps."""
    return _CHANNELS_LAST[tensor.dim()] if _suggests_channels_last(tensor) else contiguous_format


def _suggests_channels_last(tensor: Any, new: int | None = None) -> bool:
    """Whether PyTorch takes a tensor for one in ``channels_last``; it may have gaps.

    Args:
        tensor: the tensor.
        new: the place of a dimension of size 1 that it is to have first.
    """
    if tensor._view is None:
        return False
    shape, strides = tensor._aval().shape, tensor._strides()
    if new is not None:
        shape, strides = (
            (*shape[:new], 1, *shape[new:]),
            (*strides[:new], shape[new] * strides[new], *strides[new:]),
        )
    if len(shape) not in _CHANNELS_LAST or 0 in shape or strides[1] == 0:
        return False
    least = 0
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(shape[d], 1)
    return True


def is_in_format(shape: Sequence[int], strides: Sequence[int], kind: memory_format) -> bool:
    """Whether elements with these strides lie in the order of `channels_last` or `channels_last_3d`."""
    if _CHANNELS_LAST.get(len(shape)) is not kind:
        return False
    step = 1
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[d] != 1 and strides[d] != step:
            return False
        step *= shape[d]
    return True
