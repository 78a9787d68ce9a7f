"""Calls of handlers of XLA's foreign function interface on numpy arrays, without XLA and without a program.

A handler is given a frame: addresses of the arrays and their dimensions, and functions of XLA's that ask for threads.
Here the frame is written by Python, and the threads are those of `threads.ll`, which have no use for the interpreter's
lock. So what is there for programs serves single calls as well, and there is no second copy of it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int64, c_void_p
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..._base.tuning import tuning
from . import ffi

__all__ = ["call", "empty", "room"]

_ALIGNMENT = 64
#: bytes that are copied as fast as their place is found
_LARGE = 4096


def room(size: int) -> np.ndarray:
    """So many bytes, the first of which lies where the widest vectors begin."""
    room = np.empty(size + _ALIGNMENT, np.uint8)
    skipped = -room.__array_interface__["data"][0] % _ALIGNMENT
    return room[skipped : skipped + size]


def empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array; a large one lies where JAX takes it without a copy."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * prod(shape)
    return np.empty(shape, dtype) if size < _LARGE else room(size).view(dtype).reshape(shape)


#: words of a XLA_FFI_CallFrame, a XLA_FFI_Buffer and a XLA_FFI_Array (xla/ffi/api/c_api.h, version 0.3)
_FRAME, _BUFFER, _ARRAY = 21, 6, 3


def call(
    runtime: str,
    arrays: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    *,
    text: str = "",
    data: int = 0,
    words: Sequence[int] = (),
) -> None:
    """Call a handler; the lock of the interpreter is free meanwhile.

    Args:
        runtime, text, data: as `ffi.register` has them.
        arrays, results: contiguous ones; the handler may write to the results alone.
        words: what the handler is told by this call.

    Raises:
        RuntimeError: if it fails.
    """
    all_ = (*arrays, *results)
    form = _form(len(arrays), tuple([a.ndim for a in all_]), len(words))
    try:
        frame = form.free.pop()
    except IndexError:
        frame = form.new()
    block = frame.block
    sizes: list[Any] = []
    for place, a in zip(form.pointers, all_):
        block[place] = a.__array_interface__["data"][0]
        sizes += a.shape
    block[form.dims :] = sizes
    block[form.told : form.buffers] = [*words]
    failed = _serve(runtime, text)(frame.base, data)
    form.free.append(frame)
    if failed:
        raise RuntimeError(f"what {runtime} calls has failed")


class _Frame:
    """A frame, whose arrays are those of the latest call."""

    __slots__ = ("base", "block")

    def __init__(self, size: int) -> None:
        self.block = (c_int64 * size)()
        self.base = ctypes.addressof(self.block)


class _Form:
    """Frames for arrays of certain ranks, the first ``count`` of which are arguments, and for so many words.

    Attributes:
        pointers: where in a frame the address of each array is.
        dims: where their dimensions begin.
        told: where the words begin.
        buffers: where they end.
        free: frames that no call uses now.
    """

    def __init__(self, count: int, ranks: Sequence[int], words: int) -> None:
        self.count, self.ranks, self.words = count, ranks, words
        self.places = _FRAME + len(ranks)
        self.told = self.places + (2 + _ARRAY if words else 0)
        self.buffers = self.told + words
        self.dims = self.buffers + _BUFFER * len(ranks)
        self.pointers = range(self.buffers + 3, self.dims, _BUFFER)
        self.free: list[_Frame] = []

    def new(self) -> _Frame:
        """Another frame."""
        frame = _Frame(self.dims + sum(self.ranks))
        count, words = self.count, self.words
        results = len(self.ranks) - count
        at = lambda place: frame.base + 8 * place
        filled: list[Any] = [0, 0, _api(), 0, 0, 0, 0, count, 0, at(_FRAME), 0, 0, results]
        filled += [0, at(_FRAME + count), 0, 0, int(bool(words)), 0, 0, at(self.places)]
        filled += range(at(self.buffers), at(self.dims), 8 * _BUFFER)
        if words:
            filled += [at(self.places + 2), 0, 0, words, at(self.told), *[0] * words]
        dims = self.dims
        for rank in self.ranks:
            filled += (0, 0, 0, 0, rank, at(dims))
            dims += rank
        frame.block[: self.dims] = filled
        return frame


_form = lru_cache(tuning.cached_facts)(_Form)


@cache
def _serve(runtime: str, text: str) -> Any:
    return CFUNCTYPE(c_void_p, c_void_p, c_void_p)(ffi.serving(runtime, text))


@cache
def _api() -> int:
    """Where the table of XLA's functions is; the threads start when it is needed first."""
    text = (Path(__file__).parent / "threads.ll").read_text()
    return CFUNCTYPE(c_int64, c_int64)(ffi.function("start", text, 0))(ffi.cores() - 1)


def _after_fork() -> None:
    """A child process has none of its parent's threads."""
    _api.cache_clear()
    _form.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
