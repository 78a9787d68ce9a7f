"""Primitives of `ops` computed at once on numpy arrays: without XLA, and without compiling anything for their sizes.

What a program has for them is called on numpy arrays (`frames`): loops and oneDNN's primitives. oneDNN makes a
primitive for new shapes in some 0.2 ms. What these do not have is left to numpy, or to the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Primitive

from ..._array import loops
from ..._base import lowering
from ..._base.tuning import tuning
from ...ops._convolution import Convolution, convolution_p
from ...ops._product import multiply_p
from ...ops._rows import FORMULAS, Formula
from . import dnnl, ffi, frames, kernels, numpy_convolution, onednn, recurrence, rows
from .lowerings import RECURRENCES
from .recurrence import Recurrence, Sizes

__all__ = ["convolution", "forget", "install", "matmul", "of", "update"]


def of(primitive: Primitive) -> Callable[..., Any] | None:
    """What computes a primitive at once: ``(arrays, **params) -> an array``, a tuple of them if it has several results.

    It is None for primitives that there is nothing for, and gives None where the caller is to evaluate the primitive's
    formula itself (`lowering.formula_of`).
    """
    return _WAYS.get(primitive)


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
    return plan.run("onednn.ll", arrays, [shape])[0]


#: kind -> what the arrays are, and what the result is
_SHAPES = {
    "forward": (("input", "weight"), "output"),
    "input": (("output", "weight"), "input"),
    "weight": (("input", "output"), "weight"),
}


class _Plan(NamedTuple):
    """A plan that a handler is called with, or words that tell it what to do.

    Attributes:
        data: where the plan is, or 0.
        scratch: bytes that it works in.
        owner: of the plan and of what it refers to.
        words: instead of a plan.
    """

    data: int
    scratch: int
    owner: dnnl.Owner | None
    words: tuple[int, ...] = ()

    @classmethod
    def of(cls, plan: onednn.Plan, owner: dnnl.Owner) -> _Plan:
        return cls(onednn.kept(plan.words()), plan.scratch, owner)

    def run(
        self, runtime: str, arrays: Sequence[np.ndarray], shapes: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        """Results of these shapes, of float32."""
        made = [frames.empty(shape, np.float32) for shape in shapes]
        room = frames.room(self.scratch) if self.scratch else _NO_ROOM
        given = [*map(np.ascontiguousarray, arrays)]
        frames.call(runtime, given, [*made, room], data=self.data, words=self.words)
        return made


_NO_ROOM = frames.room(dnnl.ALIGNMENT)


@lru_cache(tuning.cached_primitives)
def _convolution_plan(kind: str, how: Convolution) -> _Plan | None:
    """None if oneDNN does not have it."""
    work = prod(how.output) * prod(how.weight[1:])
    parts = onednn.parts_of(kind, how) if work >= tuning.convolution_shared else 1
    if _is_child:
        parts = max(parts, 1)
    try:
        with dnnl.Owner() as owner:
            return _Plan.of(onednn.plan_convolution(kind, how, parts), owner)
    except dnnl.NoPrimitive:
        return None


# ------------------------------------------------------------------ products


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As `numpy.matmul`. Large products of float32, and batches of them, are oneDNN's, whose parts our threads take.

    Numpy takes a batch one by one, and its threads wait for each other: on two cores where something else computes, it
    takes 40 ms for 512 x 512 by 512 x 512, and this 1.4.
    """
    if a.size * b.shape[-1] < tuning.single_product:  # all multiply-adds, if there are rows and columns
        return np.matmul(a, b)
    product = _product(a, b)
    if product is not None and not _has_onednn.cache_info().currsize:
        made = _by_numpy(a, b, product)
        if made is not None:
            return made
    if product is None or not _has_onednn():
        return np.matmul(a, b)
    given = [a.swapaxes(-1, -2) if product.left else a, b.swapaxes(-1, -2) if product.right else b]
    return _product_plan(product).run("onednn.ll", given, [(*a.shape[:-1], b.shape[-1])])[0]


#: multiply-adds of such products by numpy
_done = 0


def _by_numpy(a: np.ndarray, b: np.ndarray, product: onednn.Product) -> np.ndarray | None:
    """The product in parts, each of which numpy leaves to one thread; None where it is to be oneDNN's."""
    global _done
    rows, inner, columns = product.rows, product.inner, product.columns
    each = rows * inner * columns
    _done += product.batch * each
    if _done > tuning.products_least or each > tuning.product_by_numpy:
        return None
    if each < tuning.single_product:
        return np.matmul(a, b)
    by_rows = rows >= columns
    size = max(tuning.single_product * max(rows, columns) // each, 1)
    out = np.empty((*a.shape[:-1], columns), a.dtype)
    shapes = (-1, rows, inner), (-1, inner, columns), (-1, rows, columns)
    for x, y, z in zip(*[v.reshape(shape) for v, shape in zip((a, b, out), shapes)], strict=True):
        for start in range(0, rows if by_rows else columns, size):
            part = slice(start, start + size)
            if by_rows:
                np.matmul(x[part], y, out=z[part])
            else:
                np.matmul(x, y[:, part], out=z[:, part])
    return out


def _product(a: np.ndarray, b: np.ndarray) -> onednn.Product | None:
    """What is large enough for oneDNN."""
    if a.dtype != np.float32 or b.dtype != np.float32 or min(a.ndim, b.ndim) < 2:
        return None
    if a.shape[-1] != b.shape[-2] or (b.ndim > 2 and a.shape[:-2] != b.shape[:-2]):
        return None
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    left = a.ndim == b.ndim and not a.flags.c_contiguous and a.swapaxes(-1, -2).flags.c_contiguous
    right = not b.flags.c_contiguous and b.swapaxes(-1, -2).flags.c_contiguous
    batch = prod(b.shape[:-2])
    if b.ndim == 2:
        rows = prod(a.shape[:-1])
    each = rows * inner * columns
    if batch * each < tuning.single_product or each < tuning.small_product_least:
        return None
    return onednn.Product(batch, rows, inner, columns, left, right)


@lru_cache(tuning.cached_primitives)
def _product_plan(product: onednn.Product) -> _Plan:
    """By oneDNN's matmul, if its loops gain what it takes to make them; ``sgemm`` has loops for all shapes."""
    if product.batch == 1 and product.rows * product.inner * product.columns >= tuning.planned_product:
        with dnnl.Owner() as owner:
            made = onednn.by_matmul(product)
            if made is not None:
                return _Plan.of(made, owner)
    words, scratch = onednn.by_sgemm(product)
    return _Plan(0, scratch, None, tuple(words))


def _multiplied(arrays: Sequence[np.ndarray], *, left: bool, right: bool, precision: Any) -> np.ndarray:
    a, b = arrays
    a = a.swapaxes(-1, -2) if left else a
    return matmul(a, b.swapaxes(-1, -2) if right else b)


# ------------------------------------------------------------------ formulas of rows


def _rows(formula: Formula, arrays: Sequence[np.ndarray], **how: Any) -> tuple[np.ndarray, ...] | None:
    x = arrays[0]
    if x.shape[1] < 2 or not x.size or not ffi.compiles():
        return None
    found = rows.loop(formula, arrays, how)
    if found is None:
        return None
    made = [frames.empty(x.shape if is_row else (len(x), 1), dtype) for is_row, dtype in found.results]
    frames.call("kernels.ll", [*map(np.ascontiguousarray, arrays)], made, data=found.loop.data(x.size))
    return tuple(made)


# ------------------------------------------------------------------ elementwise updates


def update(
    fn: Callable[..., Any],
    rows: Sequence[loops.Row],
    written: int,
    numbers: Any,
    joined: loops.Row = (),
    in_place: bool = False,
) -> loops.New | None:
    """As `loops.update`, of numpy arrays. What is overwritten is overwritten only if ``in_place``: then these arrays
    must be contiguous and writeable, and they are returned. None if there is no loop for it.
    """
    if not rows or not ffi.compiles():
        return None
    call = kernels.call_of(fn, rows, written, numbers, joined)
    return call and call[0].split(_updated(call[1], call=call[0], in_place=in_place), len(rows))


def _updated(
    arrays: Sequence[np.ndarray], *, call: kernels.Call, in_place: bool = False
) -> tuple[np.ndarray, ...]:
    made = call.shapes(arrays)
    results: list[Any] = [None] * len(made)
    given = [np.ascontiguousarray(x) for x in arrays]
    for source, target in call.overwrites(len(arrays)).items():
        old = arrays[source]
        if in_place:
            if not (old.flags.c_contiguous and old.flags.writeable):
                raise ValueError("an array to be overwritten is not contiguous, or read-only")
        else:
            old = frames.empty(old.shape, old.dtype)
            old[...] = arrays[source]
        results[target] = old
    for k, (shape, dtype) in enumerate(made):
        if results[k] is None:
            results[k] = frames.empty(shape, dtype)
    elements = sum([x.size for x in results])
    frames.call("kernels.ll", given, results, data=call.loop.data(elements))
    return tuple(results)


# ------------------------------------------------------------------ recurrences


def _recurrence(
    way: Callable[..., Any], arrays: Sequence[np.ndarray], **how: Any
) -> tuple[np.ndarray, ...] | None:
    if not _has_onednn() or any(x.dtype != np.float32 or not x.size for x in arrays):
        return None
    made = way(_run, *arrays, **how)
    return None if made is None else tuple(made)


def _run(
    what: Recurrence, reverse: bool, arrays: Sequence[Any], states: Sequence[Any], weight: Any
) -> recurrence.Made | None:
    """As `recurrence.run`."""
    sizes = Sizes(arrays[0].shape[0], *states[0].shape)
    plans = _recurrence_plans(what, reverse, sizes)
    if plans is None:
        return None
    packing, packed, plan = plans
    weights = packing.run("onednn.ll", [weight], [(packed // 4,)])
    return what.split(plan.run("recurrence.ll", [*arrays, *states, *weights], what.shapes(sizes)))


@lru_cache(tuning.cached_primitives)
def _recurrence_plans(what: Recurrence, reverse: bool, sizes: Sizes) -> tuple[_Plan, int, _Plan] | None:
    """The plan that puts the weights into their layout, the bytes of that, and the plan of the steps."""
    with dnnl.Owner() as owner:
        made = recurrence.plan(what, reverse, sizes)
        if made is None:
            return None
        plan = _Plan(onednn.kept(made.words), made.scratch, owner)
        return _Plan.of(made.packing, owner), made.packed, plan


# ------------------------------------------------------------------ all of them


def forget() -> None:
    """Have no plan any more."""
    _convolution_plan.cache_clear()
    _recurrence_plans.cache_clear()
    _product_plan.cache_clear()


#: whether this process is a fork of one that may have used OpenMP's threads: it hangs if it asks for them
_is_child = False


def _after_fork() -> None:
    global _is_child
    _is_child = True
    forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_WAYS: dict[Primitive, Callable[..., Any]] = {
    convolution_p: convolution,
    multiply_p: _multiplied,
    kernels.update_p: _updated,
    **{formula.primitive: partial(_rows, formula) for formula in FORMULAS},
    **{primitive: partial(_recurrence, way) for primitive, way in RECURRENCES.items()},
}


def _suits_convolution(x: Any, w: Any, how: Convolution) -> bool:
    return x.dtype == w.dtype and x.dtype in (np.float32, np.float64)


def _suits_product(a: Any, b: Any, transposed: bool) -> bool:
    return a.dtype == b.dtype == np.float32 and 0 not in (*a.shape, *b.shape)


def _suits_recurrence(mode: str, x: Any, states: Any) -> bool:
    return _has_onednn() and all(a.dtype == np.float32 and 0 not in a.shape for a in (x, *states))


def install() -> None:
    """Register what computes primitives at once, for what runs by numpy (see `lowering.for_numpy`)."""
    suits: dict[Primitive, Callable[..., bool]] = {
        convolution_p: _suits_convolution,
        multiply_p: _suits_product,
        **dict.fromkeys(RECURRENCES, _suits_recurrence),
    }
    for primitive, suited in suits.items():
        time = 4.0 if primitive is multiply_p else 50.0
        lowering.register_at_once(primitive, lowering.AtOnce(_WAYS[primitive], suited, time))
