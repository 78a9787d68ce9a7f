"""Memory that a program has freed stays with the process, on a CPU, for the next step to use.

XLA's programs on a CPU take every intermediate array from the C library's allocator and give it back. glibc returns
large blocks to the system at once, and those of XLA's threads when the end of their heap is free; the system then hands
out the same pages anew, zeroed, with a fault for each 4 KB. A training step of a GPT of 0.8M parameters has 10,300 such
faults and takes 32 ms; with the settings of `keep` it has few and takes 24. A CNN's takes 29 and 22.

Threads have heaps of their own. With a single one for all of them they wait for each other: 80 us for a step of a
small MLP that takes 35. So what a thread frees serves that thread alone, and memory peaks up to a third higher. A heap
holds blocks of less than 64 MB; larger ones come from the system. So `options` has XLA divide what a program works in.

Reference: mallopt(3) of the Linux manual pages.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import warnings
from functools import cache
from typing import Any

import jax

from .._base import settings
from .._base.jaxprs import largest, peak

__all__ = ["is_on_cpu", "keep", "options"]

# malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8

#: bytes; blocks beyond this still come from the system and go back to it
_LARGEST = 1 << 30
#: bytes at the end of the heap that may stay free
_MOST_FREE = (1 << 31) - 1
#: bytes of a thread's heap: asked for as spare room, so that no heap that has become free is given back
_HEAP = 1 << 26
#: Heaps at most, on a machine of any number of cores: the memory kept is at most what so many steps need. With
#: four, two of the six threads or so that work on two cores share one, and a small step takes up to twice as long.
_HEAPS = 8
#: bytes of the parts of what a program works in, and of all of them
_PART, _MOST_KEPT = 3 << 24, 1 << 30
#: JAX's words for a program of several parts
_NOT_CACHED = "Error writing persistent compilation cache entry.*Multiple temp buffer allocations"


@cache
def keep() -> bool:
    """Let the process keep memory that is freed; returns whether it does.

    It does not where something else than a CPU may be used, where the C library is not glibc or another allocator is
    loaded, where an environment variable of glibc's sets the allocator, and with ``FUNCTORCH_PORT_KEEP_MEMORY=0``.
    """
    if not settings.get("KEEP_MEMORY"):
        return False
    if not sys.platform.startswith("linux") or not is_on_cpu() or _is_set_elsewhere():
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    numbers = (
        (_M_ARENA_MAX, _HEAPS),
        (_M_TRIM_THRESHOLD, _MOST_FREE),
        (_M_TOP_PAD, _HEAP),
        (_M_MMAP_THRESHOLD, _LARGEST),
    )
    done = [library.mallopt(which, value) for which, value in numbers]
    if not done[-1]:  # before glibc 2.35 there is an upper limit
        done[-1] = library.mallopt(_M_MMAP_THRESHOLD, 1 << 25)
    return all(done)


def options(jaxpr: Any) -> dict[str, Any]:
    """For XLA's compiler: memory to work in comes in parts that fit into a thread's heap.

    Training steps of ResNet-18 at 224 pixels, a ViT and a GPT of 10M parameters have 31,000, 94,000 and 66,000 page
    faults otherwise, and take 195, 347 and 324 ms instead of 176, 269 and 272. A program of several parts is not kept
    in the persistent cache, which cannot have it.
    """
    if not keep() or peak(jaxpr) > _MOST_KEPT:  # several threads may come to keep as much
        return {}
    warnings.filterwarnings("ignore", _NOT_CACHED)
    # XLA warns of every buffer that is larger than a part, and what an operation works in may be three arrays
    return {"xla_multiheap_size_constraint_per_heap": max(_PART, 3 * largest(jaxpr))}


def is_on_cpu() -> bool:
    """Whether JAX has no other platform here; asking JAX itself would start it."""
    if settings.PLAIN:
        return False
    chosen = jax.config.jax_platforms
    if chosen:
        return chosen == "cpu"
    return all(importlib.util.find_spec(name) is None for name in ("libtpu", "jax_plugins"))


def _is_set_elsewhere() -> bool:
    return (
        any(name.startswith("MALLOC_") for name in os.environ)
        or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
        or "malloc" in os.environ.get("LD_PRELOAD", "")
    )
