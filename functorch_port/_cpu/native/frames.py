"""Calls of handlers of XLA's foreign function interface on numpy arrays, without XLA and without a program.

A handler is given a frame: addresses of the arrays and their dimensions, and functions of XLA's that ask for threads.
Here the frame is written by Python, and the threads are Python's own, which have no use for the interpreter's lock
while they work. So what is there for programs serves single calls as well, and there is no second copy of it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int64, c_void_p
from functools import cache, lru_cache
from math import prod
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..._array import tracing
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


# ------------------------------------------------------------------ what XLA's interface has for a handler

_WORD = 8


def _read(struct: int, offset: int) -> int:
    return c_int64.from_address(struct + offset).value


def _new_error(call: int) -> int:
    return 1  # it is only told from none


def _forget_error(call: int) -> None:
    pass


def _count_threads(call: int) -> None:
    c_int64.from_address(_read(call, 3 * _WORD)).value = ffi.cores()


def _schedule(call: int) -> None:
    _pool().put((_read(call, 3 * _WORD), _read(call, 4 * _WORD)))


_TAKES_CALL = CFUNCTYPE(c_void_p, c_void_p)
#: by their places in the table
_FUNCTIONS = {6: _new_error, 8: _forget_error, 17: _schedule, 18: _count_threads}


@cache
def _table() -> tuple[Any, list[Any]]:
    """XLA_FFI_Api, as far as handlers use it, and what it refers to."""
    functions = {place: _TAKES_CALL(function) for place, function in _FUNCTIONS.items()}
    words = [ctypes.cast(functions[k], c_void_p).value if k in functions else 0 for k in range(19)]
    return (c_int64 * len(words))(*words), [*functions.values()]


def _api() -> int:
    return ctypes.addressof(_table()[0])


# ------------------------------------------------------------------ threads

_lock = threading.Lock()
_tasks: SimpleQueue[tuple[int, int]] | None = None


def _pool() -> SimpleQueue[tuple[int, int]]:
    """Where threads wait for tasks: functions and what they are given. They start when they are needed first."""
    global _tasks
    with _lock:
        if _tasks is None:
            _tasks = SimpleQueue()
            tracing.own += ffi.cores() - 1
            for k in range(ffi.cores() - 1):
                threading.Thread(target=_run, args=(_tasks,), name=f"functorch_port-{k}", daemon=True).start()
        return _tasks


def _run(tasks: SimpleQueue[tuple[int, int]]) -> None:
    while True:
        function, data = tasks.get()
        CFUNCTYPE(None, c_void_p)(function)(data)


def _after_fork() -> None:
    """A child process has none of its parent's threads."""
    global _lock, _tasks
    if _tasks is not None:
        tracing.own -= ffi.cores() - 1
    _lock, _tasks = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
