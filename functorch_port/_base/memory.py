"""Whether there is memory for a program, and PyTorch's error where there is not.

An accelerator allocates in the call, and tells how much there is. Without one XLA allocates when a program runs, and
has taken over the arrays that it was given: where that fails, they are lost, and what the program returned raises
whenever it is looked at. So what a large program needs is asked of the system before a call (a mapping that is never
touched).
"""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import re
import sys
import time
import weakref
from collections.abc import Sequence
from typing import Any

import jax

from . import meshes
from .bounded import Bounded
from .tuning import tuning

__all__ = ["OutOfMemoryError", "explain", "fits", "of", "require", "room", "started"]

#: bytes beside its arguments from which on a program is looked at before every call
LARGE = 1 << 26


class OutOfMemoryError(RuntimeError):
    """There is no memory for what was asked for. What is there has not changed; a smaller batch may fit."""


def of(compiled: Any) -> tuple[int, int]:
    """Bytes that a compiled program takes beside its arguments: 0 if they are few, and in any case."""
    found = compiled.memory_analysis()
    if found is None:
        return 0, 0
    takes = found.temp_size_in_bytes + max(found.output_size_in_bytes - found.alias_size_in_bytes, 0)
    return (takes if takes >= LARGE else 0), takes


def run(fn: Any, args: Any, elements: int = 0) -> Any:
    """``fn(*args)`` of a jitted function, with this error where there is no memory.

    Without an accelerator that shows when the results are looked at, and whatever is computed of them by then is lost
    too: what is large is waited for.

    Args:
        elements: of what the program computes besides its results.
    """
    if meshes.unnamed:
        fn = meshes.unnamed.get((fn, meshes.mesh_in(args)), fn)
    try:
        out = fn(*args)
        outs = out if type(out) is tuple or type(out) is list else (out,)
        for x in outs:
            kind = getattr(x, "aval", None)
            if kind is not None and not _few.get(kind.shape):
                elements = max(elements, _elements(kind.shape))
        if in_order:
            jax.block_until_ready(out)
        if elements > _MANY:
            device = _device(out)
            if device is not None and device.platform == "cpu":
                jax.block_until_ready(out)
        return out
    except Exception as error:
        if (wider := meshes.joined(error, args)) is not None:
            return run(fn, wider, elements)
        if meshes.made_whole(fn, error, args):
            return run(fn, args, elements)
        meshes.elsewhere(error, args)
        explain(error, args)
        raise


#: Whether to wait for every program, as several processes with CPUs need (see `distributed._connection`).
in_order = False

#: elements that are waited for
_MANY = 1 << 24
#: shapes of fewer
_few: Bounded[tuple[int, ...], bool] = Bounded(tuning.cached_facts)


def _elements(shape: tuple[int, ...]) -> int:
    found = math.prod(shape)
    if found <= _MANY:
        _few[shape] = True
    return found


def require(size: int, args: Any) -> None:
    """Raises `OutOfMemoryError` if there are not so many bytes where the arrays in ``args`` are.

    Without an accelerator a program that is still running may not have taken yet what it needs. So what computes
    ``args`` is waited for, and so is the large program before (`started`).
    """
    device = _device(args)
    on_host = device is None or device.platform == "cpu"
    if on_host:
        jax.block_until_ready(args)
        _wait_for_latest()
    if _may_have(size, device):
        return
    gc.collect()
    if on_host:
        _give_back()
    for _ in range(_TRIES):
        if _may_have(size, device):
            return
        time.sleep(0.01)  # XLA gives back what a program took a moment after its results are there
    raise OutOfMemoryError(_text(size, device))


_TRIES = 10
_latest: Any = None


def started(results: Any) -> None:
    """Note that a large program runs, which gives these."""
    global _latest
    found = _first_array(results)
    _latest = None if found is None else weakref.ref(found)


def _wait_for_latest() -> None:
    array = None if _latest is None else _latest()
    if array is not None and not array.is_deleted():
        jax.block_until_ready(array)


def fits(size: int, args: Any) -> bool:
    """Whether so many bytes are free where the arrays in ``args`` are."""
    device = _device(args)
    if not _may_have(size, device):
        return False
    return device is None or device.platform != "cpu" or size <= _free_on_host()


def room(shape: Sequence[int], np_dtype: Any) -> None:
    """Raises PyTorch's error if there is no room on the host for an array that is to be made there."""
    size = math.prod(shape) * np_dtype.itemsize
    if size == 0 and math.prod(n or 1 for n in shape) >= 1 << 63:
        raise RuntimeError("Stride calculation overflowed")
    if type(size) is not int or size < LARGE:  # in a trace it may not be known
        return
    if size >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    if _may_have(size, None):
        if size <= _free_on_host():
            return
        gc.collect()
        _give_back()
        if size <= _free_on_host():
            return
    raise OutOfMemoryError(_text(size, None))


def explain(error: BaseException, args: Any) -> None:
    """Raises `OutOfMemoryError` if that is what JAX's error says."""
    text = str(error)
    if not isinstance(error, MemoryError) and not (
        isinstance(error, jax.errors.JaxRuntimeError) and _EXHAUSTED.search(text)
    ):
        return
    found = _BYTES.search(text)
    size = None if found is None else int(float(found[1]) * _UNITS[found[2][:1]])
    raise OutOfMemoryError(_text(size, _device(args))) from error


_EXHAUSTED = re.compile("RESOURCE_EXHAUSTED|[Oo]ut of memory")
_BYTES = re.compile(r"([\d.]+) ?([KMGT]?)i?(?:B|bytes)\b")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _first_array(tree: Any) -> Any:
    """An array of JAX, if there is one that is no tracer."""
    leaves = jax.tree.leaves(tree)
    arrays = (x for x in leaves if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer))
    return next(arrays, None)


def _device(args: Any) -> Any:
    array = _first_array(args)
    return None if array is None else next(iter(array.sharding.device_set))


def _may_have(size: int, device: Any) -> bool:
    if device is not None and device.platform != "cpu":
        free, _ = _on_device(device)
        return free is None or size <= free
    if size <= 0:
        return True
    try:
        flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        mmap.mmap(-1, size, **flags).close()
    except (OSError, OverflowError, ValueError, MemoryError):
        return False
    return True


def _on_device(device: Any) -> tuple[int | None, int | None]:
    """Bytes free and in all, if the platform tells."""
    stats = device.memory_stats() or {}
    total, used = stats.get("bytes_limit"), stats.get("bytes_in_use")
    return (None if total is None or used is None else total - used), total


def _free_on_host() -> int:
    """Bytes that can be used before something must go to a disk."""
    try:
        with open("/proc/meminfo") as file:
            found = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
    except OSError:
        found = None
    return sys.maxsize if found is None else int(found[1]) << 10


def _give_back() -> None:
    """Have the C library return what is free to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


def _text(size: int | None, device: Any) -> str:
    """PyTorch's words, with what there is."""
    if device is None or device.platform == "cpu":
        asked = "" if size is None else f" you tried to allocate {size} bytes."
        return (
            f"DefaultCPUAllocator: can't allocate memory:{asked} {_free_on_host()} bytes are free. "
            "What was there before is unchanged: try a smaller batch"
        )
    free, total = _on_device(device)
    asked = "" if size is None else f" Tried to allocate {_readable(size)}."
    there = "" if free is None or total is None else (
        f" GPU {device.id} has a total capacity of {_readable(total)} of which {_readable(free)} is free."
    )  # fmt: skip
    name = "CUDA" if device.platform in ("gpu", "cuda", "rocm") else device.platform.upper()
    return f"{name} out of memory.{asked}{there}"


def _readable(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.2f} MiB"
