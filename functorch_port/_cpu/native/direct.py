"""Primitives of `ops` computed at once on numpy arrays: without XLA, and without compiling anything for their sizes.

What a program has for them is called on numpy arrays (`frames`): loops and oneDNN's primitives. oneDNN makes a
primitive for new shapes in some 0.2 ms. What these do not have is left to numpy, or to the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np
from jax.extend.core import Primitive

from ..._base.tuning import tuning
from ...ops._convolution import Convolution, convolution_p
from . import dnnl, ffi, frames, numpy_convolution, onednn

__all__ = ["WAYS", "convolution", "forget"]


@cache
def _has_onednn() -> bool:
    return ffi.compiles() and dnnl.library() is not None


# ------------------------------------------------------------------ convolutions


def convolution(arrays: Sequence[np.ndarray], *, kind: str, how: Convolution) -> np.ndarray:
    """As `convolution_p`, of float32 or float64.

    Raises:
        ValueError: if the shapes of the arrays are not those that ``how`` says.
        NotImplementedError: for other types.
    """
    a, b = arrays
    given, made = _SHAPES[kind]
    shapes = {"input": how.input, "weight": how.weight, "output": how.output}
    if any(x.shape != shapes[name] for x, name in zip(arrays, given, strict=True)):
        raise ValueError(f"arrays of shapes {a.shape} and {b.shape} do not fit {how}")
    if a.dtype != b.dtype or a.dtype not in (np.float32, np.float64):
        raise NotImplementedError(f"a convolution of {a.dtype} and {b.dtype}")
    shape = shapes[made]
    if not (a.size and b.size and prod(shape)):
        return np.zeros(shape, a.dtype)
    plan = _convolution_plan(kind, how) if a.dtype == np.float32 and _has_onednn() else None
    if plan is None:
        return numpy_convolution.convolve(kind, how, a, b)
    return plan.run(shape, a, b)


#: kind -> what the arrays are, and what the result is
_SHAPES = {
    "forward": (("input", "weight"), "output"),
    "input": (("output", "weight"), "input"),
    "weight": (("input", "output"), "weight"),
}


class _Plan:
    """A plan of oneDNN's primitives and what it refers to, which go together."""

    def __init__(self, make: Callable[[], onednn.Plan]) -> None:
        self.owner = dnnl.Owner()
        with self.owner:
            plan = make()
            self.words = onednn.kept(plan.words())
        self.scratch = max(plan.scratch, dnnl.ALIGNMENT)

    def run(self, shape: Sequence[int], *arrays: np.ndarray) -> np.ndarray:
        out, room = frames.empty(shape, np.float32), frames.empty((self.scratch,), np.uint8)
        given = [np.ascontiguousarray(x) for x in arrays]
        frames.call("onednn.ll", given, [out, room], data=self.words)
        return out


@lru_cache(tuning.cached_convolutions)
def _convolution_plan(kind: str, how: Convolution) -> _Plan | None:
    """None if oneDNN does not have it."""
    work = prod(how.output) * prod(how.weight[1:])
    parts = onednn.parts_of(kind, how) if work >= tuning.convolution_shared else 1
    if _is_child:
        parts = max(parts, 1)
    try:
        return _Plan(lambda: onednn.plan_convolution(kind, how, parts))
    except dnnl.NoPrimitive:
        return None


def forget() -> None:
    """Have no plan any more."""
    _convolution_plan.cache_clear()


#: whether this process is a fork of one that may have used OpenMP's threads: it hangs if it asks for them
_is_child = False


def _after_fork() -> None:
    global _is_child
    _is_child = True
    forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _suits_convolution(x: Any, w: Any, how: Convolution) -> bool:
    return x.dtype == w.dtype and x.dtype in (np.float32, np.float64)


#: primitive -> what computes it at once, and whether it does, of the arguments of `lowering.has_way`
WAYS: dict[Primitive, tuple[Callable[..., Any], Callable[..., bool]]] = {
    convolution_p: (convolution, _suits_convolution)
}
