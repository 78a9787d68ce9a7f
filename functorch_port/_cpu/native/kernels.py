"""Elementwise updates as one loop of machine code, on a CPU.

XLA:CPU makes a loop of its own for every array that a program writes. An optimizer's step writes a parameter and its
state, so it goes through memory once for each of them, and each is compiled: AdamW over 24 million numbers takes 1.7 to
1.9 times as long as PyTorch's fused kernel. `run` turns the jaxpr of such a function into one loop, which llvmlite
compiles once for all shapes (0.1 s), and which XLA calls through its foreign function interface, for many tensors at a
time: 0.8 to 1.05 of PyTorch's.

The loop has PyTorch's rounding: a product becomes a multiply-add only with the sum whose first term it is, as the rules
in `optim` are written. XLA's own loops let LLVM choose.

llvmlite is optional (``pip install 'functorch-port[cpu]'``). Without it, with several CPU devices (XLA cannot cut what
it does not know), for types other than float32 and float64, or for operations that `llvm` has no instruction for, `run`
has no kernel, and XLA's loops do the work.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from ..._array import tracing
from ..._array.loops import New, Row, by_xla
from ..._base import cache
from ..._base.tuning import tuning
from ..._tensor import kept
from . import ffi, llvm

__all__ = ["Call", "Loop", "call_of", "loop", "run", "update_p"]


Types: TypeAlias = tuple[np.dtype, ...]


def run(
    fn: Callable[..., Any], rows: Sequence[Row], written: int, numbers: Any, joined: Row = ()
) -> New | None:
    """As `loops.update`, in one loop over the elements; None if there can be none.

    If the program is for another platform after all, it has `by_xla` instead.
    """
    if not ffi.available():
        return None
    made = call_of(fn, rows, written, numbers, joined)
    if made is None:
        return None
    call, arrays = made
    return call.split(update_p.bind(*arrays, call=call), len(rows))


def call_of(
    fn: Callable[..., Any], rows: Sequence[Row], written: int, numbers: Any, joined: Row = ()
) -> tuple[Call, list[Any]] | None:
    """The call of `run`, and its arrays."""
    types = _types(rows[0])
    if any(_types(r) != types or len({x.shape for x in r}) > 1 for r in rows):
        return None
    vector = isinstance(numbers, jax.Array | np.ndarray)
    scalars = (np.dtype(numbers.dtype),) * len(numbers) if vector else _types(numbers)
    kernel = _update(fn, types, written, _types(joined), scalars, vector)
    if kernel is None:
        return None
    common = [numbers] if vector else numbers
    call = Call(fn, *kernel, vector, len(common), len(joined), len(types), written)
    return call, [*common, *joined, *(x for row in rows for x in row)]


def _types(arrays: Row) -> Types:
    return tuple([np.dtype(x.dtype) for x in arrays])


@lru_cache(tuning.cached_programs)
def _update(
    fn: Callable[..., Any], row: Types, written: int, joined: Types, numbers: Types, vector: bool
) -> tuple[Loop, tuple[np.dtype | None, ...]] | None:
    """The loop, and the types of a new row; None if there can be none. With ``vector`` the numbers are one array."""
    exact = getattr(fn, "exact", None)
    kinds = [" ".join([t.name for t in types]) for types in (row, joined, numbers)]
    home = kept.home(f"loop {exact} {kinds} {written} {vector}") if exact else None
    found = kept.load(home) if home else None
    if home:
        cache.count(found is not None)
    if found is None:
        found = _written(fn, row, written, joined, numbers, vector)
        if home:
            kept.later(partial(kept.save, home, found))
    if not found:
        return None
    each, sources, made = found
    first = (min(len(numbers), 1) if vector else len(numbers)) + len(joined)
    made_loop = loop(fn.__name__, each, sources, first, len(row), tuning.kernel_chunk)
    return made_loop, tuple([None if name is None else np.dtype(name) for name in made])


def _written(
    fn: Callable[..., Any], row: Types, written: int, joined: Types, numbers: Types, vector: bool
) -> tuple[Any, ...]:
    """What `loop` takes, and the names of the types of a new row, for `marshal`; empty if there can be none."""
    n, j = len(numbers), len(joined)

    def flat(*values: Any) -> Any:
        new_row, new_joined = fn(values[n + j :], values[n : n + j], values[:n])
        return new_joined, new_row

    elements = [jax.ShapeDtypeStruct((), t) for t in (*numbers, *joined, *row)]
    with tracing.x64():
        closed, (new_joined, new_row) = jax.make_jaxpr(flat, return_shape=True)(*elements)
    made = tuple([None if x is None else np.dtype(x.dtype) for x in new_row])
    if _types(new_joined) != joined or made[:written] != row[:written]:
        return ()
    try:
        return *_lines(closed, n, vector, j, written), [None if t is None else t.name for t in made]
    except llvm.Unknown:
        return ()


# ---------------------------------------------------------------------- a call in a program


class Call(NamedTuple):
    """A call of a kernel, whose arrays are the numbers, the joined arrays and, row after row, those of the tensors."""

    fn: Callable[..., Any]
    loop: Loop
    made: tuple[np.dtype | None, ...]
    vector: bool
    numbers: int
    joined: int
    width: int
    written: int

    @property
    def first(self) -> int:
        """Where the rows begin."""
        return self.numbers + self.joined

    @property
    def height(self) -> int:
        """How many arrays are made for a row."""
        return sum(t is not None for t in self.made)

    def shapes(self, arrays: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype]]:
        """The shapes and types of the results."""
        joined = [(x.shape, np.dtype(x.dtype)) for x in arrays[self.numbers : self.first]]
        rows = self.rows(arrays)
        return joined + [(row[0].shape, t) for row in rows for t in self.made if t is not None]

    def rows(self, arrays: Sequence[Any]) -> list[Row]:
        return [arrays[i : i + self.width] for i in range(self.first, len(arrays), self.width)]

    def split(self, results: Sequence[Any], count: int) -> New:
        """So many new rows, with None where nothing is made, and the new joined arrays."""
        left = iter(results)
        joined = [next(left) for _ in range(self.joined)]
        return [[t if t is None else next(left) for t in self.made] for _ in range(count)], joined

    def overwrites(self, count: int) -> dict[int, int]:
        """Which of ``count`` arrays are overwritten, by which results."""
        found = {self.numbers + k: k for k in range(self.joined)}
        for i, start in enumerate(range(self.first, count, self.width)):
            found |= {start + k: self.joined + i * self.height + k for k in range(self.written)}
        return found


#: A primitive of its own, so that only the platforms that a program is for say how it is computed.
update_p = Primitive("elementwise_update")
update_p.multiple_results = True


@update_p.def_abstract_eval
def _shapes(*arrays: Any, call: Call) -> list[Any]:
    return [jax.core.ShapedArray(shape, dtype) for shape, dtype in call.shapes(arrays)]


def _elsewhere(*arrays: Any, call: Call) -> list[Any]:
    numbers = arrays[0] if call.vector else arrays[: call.numbers]
    new_rows, joined = by_xla(call.fn, call.rows(arrays), numbers, arrays[call.numbers : call.first])
    return [*joined, *(x for row in new_rows for x in row if x is not None)]


def _batched(arrays: Any, axes: Any, call: Call) -> Any:
    made = jax.vmap(partial(_elsewhere, call=call), axes)(*arrays)
    return made, [0] * len(made)


def _here(context: Any, *arrays: Any, call: Call) -> Any:
    name = call.loop.known_to_xla()
    return jax.ffi.ffi_lowering(name, operand_output_aliases=call.overwrites(len(arrays)))(context, *arrays)


update_p.def_impl(_elsewhere)  # by itself: under `jax.disable_jit`
batching.primitive_batchers[update_p] = _batched
mlir.register_lowering(update_p, mlir.lower_fun(_elsewhere, multiple_results=True))
mlir.register_lowering(update_p, _here, platform="cpu")


# ---------------------------------------------------------------------- from a jaxpr to LLVM's language


def _lines(
    closed: Any, numbers: int, vector: bool, joined: int, written: int
) -> tuple[str, list[tuple[int, int, int, int]]]:
    """Of the loop over the elements of a row's arrays the instructions and the sources (see `loop`).

    Arguments of the jaxpr are the numbers, an element of each joined array, and those of a row; its results are the new
    elements of the joined arrays and of the row.
    """
    jaxpr = closed.jaxpr
    first = min(numbers, 1) if vector else numbers
    width, height = len(jaxpr.invars) - numbers - joined, len(jaxpr.outvars) - joined
    before, inside = llvm.Lines("n"), llvm.Lines("v")
    # whether an argument, its number, how much that grows from tensor to tensor, bytes of an element if it is joined
    sources = [(0, k, 0, var.aval.dtype.itemsize) for k, var in enumerate(jaxpr.outvars[:joined])]
    sources += [(0, joined + k, height, 0) for k in range(height)]
    constant = len(sources)
    sources += [(1, i, 0, 0) for i in range(first)]
    values = []
    for i, var in enumerate(jaxpr.invars[:numbers]):
        array, place = (0, i) if vector else (i, 0)
        values.append(_load_number(before, f"%p{constant + array}", place, llvm.element_type(var.aval)))
    for i, var in enumerate(jaxpr.invars[numbers:]):
        pointer = i  # of the result that overwrites it
        if i >= joined + written:
            pointer = len(sources)
            sources.append((1, first + i, width, 0))
        kind = llvm.float_type(var.aval)
        at = inside.add(f"getelementptr {kind}, ptr %p{pointer}, i64 %i")
        values.append(inside.add(f"load {kind}, ptr {at}"))
    new = llvm.evaluate(inside, closed, values)
    for k, (var, value) in enumerate(zip(jaxpr.outvars, new, strict=True)):
        kind = llvm.float_type(var.aval)
        at = inside.add(f"getelementptr {kind}, ptr %p{k}, i64 %i")
        inside.lines.append(f"store {kind} {value}, ptr {at}")
    each = f"""
{before}
  %any = icmp slt i64 %start, %end
  br i1 %any, label %body, label %out
body:
  %i = phi i64 [ %start, %entry ], [ %next, %body ]
{inside}
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %body, label %out
out:"""
    return each, sources


class Loop:
    """A loop of machine code.

    Args:
        name: that XLA is to know it by.
        text: the loop, in LLVM's language.
        words: of the handler in ``kernels.ll``, after the address of the loop.
        left: elements that may go through it as LLVM translates it, before LLVM's passes make it fast; less than 0 for
            a loop that computes something else then, as it adds up in another order.
    """

    def __init__(self, name: str, text: str, words: Sequence[int], left: int) -> None:
        self.name, self.text, self.left = name, text, left
        self._data = ffi.kept([ffi.function("loop", text, level=0 if left >= 0 else 3), *words])

    def data(self, elements: int) -> int:
        """Of the handler, which is to be called for so many elements."""
        if self.left >= 0:
            self.left -= elements
            if self.left < 0:
                self.finish()
        return self._data

    def finish(self) -> None:
        """Have it fast."""
        self.left = -1
        ctypes.c_int64.from_address(self._data).value = ffi.function("loop", self.text)

    def known_to_xla(self) -> str:
        """The name, which XLA knows now."""
        if self.left >= 0:
            self.finish()
        ffi.register(self.name, "kernels.ll", self._data)
        return self.name


def loop(
    name: str,
    each: str,
    sources: Sequence[tuple[int, int, int, int]],
    first: int,
    width: int,
    chunk: int,
    by_rows: bool = False,
) -> Loop:
    """Compile a loop, in some 3 ms, and 20 when it is made fast.

    Args:
        name: what it does.
        each: the instructions of the block ``entry`` and of those after it, up to the return: the update of elements
            from ``%start`` to before ``%end``, of the arrays at ``%p0``, ``%p1`` and so on; ``%length`` is the length
            of a row.
        sources, first, width, chunk, by_rows: what ``kernels.ll`` wants.
    """
    count = len(sources)
    pointers = ", ".join(f"ptr noalias %p{k}" for k in range(count))
    given = ", ".join(f"ptr %p{k}" for k in range(count))
    loads = "\n".join(
        f"  %a{k} = getelementptr ptr, ptr %pointers, i64 {k}\n  %p{k} = load ptr, ptr %a{k}"
        for k in range(count)
    )
    text = f"""
define internal void @each({pointers}, i64 %start, i64 %end, i64 %length) noinline {{
entry:
{each}
  ret void
}}

define void @loop(ptr %pointers, i64 %start, i64 %end, i64 %length) {{
{loads}
  call void @each({given}, i64 %start, i64 %end, i64 %length)
  ret void
}}
"""
    words = [count, first, width, chunk, int(by_rows), *(word for source in sources for word in source)]
    digest = hashlib.sha256(f"{text}{words}".encode()).hexdigest()[:16]
    return Loop(f"functorch_port.{name}.{digest}", text, words, -1 if by_rows else tuning.loop_least)


def _load_number(lines: llvm.Lines, pointer: str, place: int, kind: str) -> str:
    stored = "i8" if kind == "i1" else kind  # a byte of memory
    at = lines.add(f"getelementptr {stored}, ptr {pointer}, i64 {place}")
    value = lines.add(f"load {stored}, ptr {at}")
    return lines.add(f"icmp ne i8 {value}, 0") if kind == "i1" else value
