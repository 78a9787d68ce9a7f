"""Formulas of rows of numbers, with sums or maxima of them, as one loop of machine code, on a CPU.

XLA:CPU ends a loop at every sum over a dimension: a layer norm is four of its loops, each through all rows in memory,
its gradient six. A `Formula` becomes one loop over the rows, which stay in the processor's cache from the first sum to
the result.

The compiler, the conditions and the threads are those of `kernels`; without them XLA computes the same formula. A sum
is taken in several strands, as XLA does, but in as many as the processor's registers hold: the last bits may differ.
Of a long row it is taken part by part, or else that of ten million numbers would be off by 1e-4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from ..._array import tracing
from ..._base import lowering
from ..._base.jaxprs import inlined, is_literal, walk
from ..._base.tuning import tuning
from ...ops import _extremes, _normalized, _softmax  # noqa: F401  (`install` is called once: all formulas must be there)
from ...ops._rows import FORMULAS, Formula
from . import ffi, kernels, llvm

__all__ = ["RowLoop", "install", "loop", "takes"]


#: whether it is a row or a number of one, and its type
Aval: TypeAlias = tuple[bool, np.dtype]


def takes(array: Any, dims: Sequence[int]) -> bool:
    """Whether a formula over these dimensions of the array is computed row by row here, in this program."""
    first = array.ndim - len(dims)
    return (
        array.dtype in (np.float32, np.float64)
        and tuple(dims) == tuple(range(first, array.ndim))
        and prod(array.shape[first:]) >= tuning.row_least
        and array.size > 0
        and tracing.is_local()
        and ffi.available()
    )


def install() -> None:
    """Have every formula computed in a loop."""
    for formula in FORMULAS:
        lowering.register(formula.primitive, "cpu", partial(_lowering, formula), takes)


def _lowering(formula: Formula, arrays: Any, results: Any, **how: Any) -> Any:
    found = None if ffi.are_enough() else loop(formula, arrays, how)
    return None if found is None else jax.ffi.ffi_lowering(found.loop.known_to_xla())


class RowLoop(NamedTuple):
    """The loop of a formula, and of its results whether they are rows, and their types."""

    loop: kernels.Loop
    results: tuple[Aval, ...]


def loop(formula: Formula, arrays: Sequence[Any], how: dict[str, Any]) -> RowLoop | None:
    """The loop of a formula for such arrays, (rows, n) or (rows, 1), of which the first has the full length: the same
    for all sizes. None if there is an operation that no loop has.
    """
    length = arrays[0].shape[1]
    given = tuple([(x.shape[1] == length, np.dtype(x.dtype)) for x in arrays])
    return _compiled(formula, given, tuple(sorted(how.items())))


@lru_cache(tuning.handlers)
def _compiled(formula: Formula, given: tuple[Aval, ...], how: tuple[tuple[str, Any], ...]) -> RowLoop | None:
    (length,) = jax.export.symbolic_shape("n", constraints=["n >= 2"])
    with tracing.x64():
        row = [jax.ShapeDtypeStruct((1, length if is_row else 1), dtype) for is_row, dtype in given]
        closed = jax.make_jaxpr(partial(formula.loop, dims=(1,), **dict(how)))(*row)
    try:
        made = _loop(formula.primitive.name, closed.jaxpr, length)
    except llvm.Unknown:
        return None
    return RowLoop(made, tuple([(x.shape[1] == length, np.dtype(x.dtype)) for x in closed.out_avals]))


def _loop(name: str, jaxpr: Any, length: Any) -> kernels.Loop:
    """The loop for the jaxpr of one row."""
    if jaxpr.constvars:
        raise llvm.Unknown(jaxpr)
    writer = _Writer(jaxpr, length)
    writer.write()
    sources = [(0, k, 0, 0) for k in range(len(jaxpr.outvars))] + [
        (1, i, 0, 0) for i in range(len(jaxpr.invars))
    ]
    each = f"""
  %any = icmp slt i64 %start, %end
  br i1 %any, label %row, label %out
row:
  %at = phi i64 [ %start, %entry ], [ %after, %{writer.block} ]
  %number = sdiv exact i64 %at, %length
{writer.lines}
  %after = add nuw nsw i64 %at, %length
  %more = icmp slt i64 %after, %end
  br i1 %more, label %row, label %out
out:"""
    return kernels.loop(name, each, sources, 0, len(jaxpr.invars), tuning.row_chunk, by_rows=True)


_COSTLY = frozenset({"exp", "tanh"})
#: operations that change nothing of a row or a number but its shape
_SHAPING = frozenset({"broadcast_in_dim", "reshape", "squeeze"})


class _Sum:
    """What a loop over a row adds its elements to."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind, self.start = name, kind, llvm.constant(0, kind)
        #: the type that parts of a row are put together in, and its start
        self.whole, self.whole_start = "double", llvm.constant(0, "double")

    def take(self, lines: llvm.Lines, element: str) -> None:
        lines.lines.append(f"{self.name} = fadd reassoc {self.kind} {self.name}.before, {element}")

    def fold(self, lines: llvm.Lines) -> None:
        """Add a part to what the parts before it have given."""
        part = self.name if self.kind == "double" else lines.add(f"fpext {self.kind} {self.name} to double")
        lines.lines.append(f"{self.name}.folded = fadd double {self.name}.whole, {part}")

    def result(self, lines: llvm.Lines) -> str:
        whole = f"{self.name}.folded"
        return whole if self.kind == "double" else lines.add(f"fptrunc double {whole} to {self.kind}")


class _Max(_Sum):
    """The largest element, a NaN if there is one: of whole numbers in their order, as LLVM takes one float after the
    other.
    """

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.float, self.kind = name, kind, llvm.whole(kind)
        self.start = str(-(1 << int(self.kind[1:]) - 1))
        self.whole, self.whole_start = self.kind, self.start

    def take(self, lines: llvm.Lines, element: str) -> None:
        self._larger(lines, "", f"{self.name}.before", llvm.ordered(lines, element, self.float))

    def fold(self, lines: llvm.Lines) -> None:
        self._larger(lines, ".folded", f"{self.name}.whole", self.name)

    def _larger(self, lines: llvm.Lines, suffix: str, a: str, b: str) -> None:
        call = f"call {self.kind} @llvm.smax.{self.kind}({self.kind} {a}, {self.kind} {b})"
        lines.lines.append(f"{self.name}{suffix} = {call}")

    def result(self, lines: llvm.Lines) -> str:
        return llvm.from_ordered(lines, f"{self.name}.folded", self.float)


_REDUCTIONS = {"reduce_sum": _Sum, "reduce_max": _Max}


class _Value:
    """A row, whose elements are computed where they are asked for, or a number of the row.

    Attributes:
        stage: how many reductions, one of the other, come before it.
        compute: of the place of an element: its name.
        known: by their places those that were computed.
    """

    def __init__(self, aval: Any, stage: int, compute: Callable[[str], str]) -> None:
        self.aval, self.stage, self.compute = aval, stage, compute
        self.known: dict[str, str] = {}

    def at(self, place: str) -> str:
        if place not in self.known:
            self.known[place] = self.compute(place)
        return self.known[place]

    def is_now(self, name: str) -> None:
        """It is known everywhere from here on."""
        self.compute = lambda place: name


class _Writer:
    """Instructions for one row, as they come together.

    Attributes:
        block: the basic block that they have come to.
    """

    def __init__(self, jaxpr: Any, length: Any) -> None:
        self.length = length
        self.lines = llvm.Lines("v")
        self.block = "row"
        self.loops = 0
        self.numbers: list[_Value] = []
        #: operations, their rows and their results
        self.reductions: list[tuple[Any, _Value, _Value]] = []
        #: rows that take longer to compute again than to keep
        self.costly: list[_Value] = []
        jaxpr = inlined(jaxpr)
        self.again = {
            x
            for eqn in jaxpr.eqns
            if eqn.primitive.name not in _REDUCTIONS
            for x in eqn.invars
            if not is_literal(x)
        }
        first = len(jaxpr.outvars)
        inputs = [self._input(first + k, v.aval) for k, v in enumerate(jaxpr.invars)]
        self.results = walk(jaxpr, inputs, self._operation, self._constant)
        #: results that can hold a row until they are written
        self.free = [k for k, value in enumerate(self.results) if value.aval.size == length]

    def _input(self, pointer: int, aval: Any) -> _Value:
        value = _Value(aval, 0, partial(self._load, pointer, aval))
        if aval.size != self.length:
            self.numbers.append(value)
        return value

    def _constant(self, value: Any, aval: Any) -> _Value:
        return _Value(aval, 0, lambda place: llvm.number(value, aval))

    def _operation(self, eqn: Any, ins: list[_Value]) -> list[_Value]:
        name, aval = eqn.primitive.name, eqn.outvars[0].aval
        stage = max((value.stage for value in ins), default=0)
        value = _Value(aval, stage, partial(self._compute, eqn, ins))
        if name in _REDUCTIONS:
            value.stage += 1
            self.reductions.append((eqn, *ins, value))
        elif aval.size == 1:
            self.numbers.append(value)
        elif name in _COSTLY and eqn.outvars[0] in self.again:
            self.costly.append(value)
        return [value] * len(eqn.outvars)  # there is no instruction where there are several

    def write(self) -> None:
        """What lies between two reductions is one loop over the row; numbers are computed between the loops."""
        for stage in range(1 + max((value.stage for *_, value in self.reductions), default=0)):
            for value in self.numbers:
                if value.stage == stage:
                    value.is_now(value.at("%number"))
            reductions = [r for r in self.reductions if r[-1].stage == stage + 1]
            if reductions:
                self._reduce(reductions)
        rows = [(k, value) for k, value in enumerate(self.results) if value.aval.size == self.length]
        if rows:
            place = self._begin()
            elements = [value.at(place) for _, value in rows]
            for (k, value), element in zip(rows, elements, strict=True):
                self._store(k, value, element, place)
            self._end()
        for k, value in enumerate(self.results):
            if value.aval.size != self.length:
                self._store(k, value, value.at("%number"), "%number")

    def _reduce(self, reductions: Sequence[tuple[Any, _Value, _Value]]) -> None:
        """Compute sums and maxima of the row, in one loop."""
        accumulators = [
            _REDUCTIONS[eqn.primitive.name](f"%r{self.loops}.{i}", llvm.float_type(value.aval))
            for i, (eqn, _, value) in enumerate(reductions)
        ]
        place = self._begin(accumulators)
        for (_, row, _), accumulator in zip(reductions, accumulators, strict=True):
            if row.aval.size != self.length:
                raise llvm.Unknown(row)
            accumulator.take(self.lines, row.at(place))
        for value in [value for value in self.costly if place in value.known]:
            k = next((k for k in self.free if self.results[k].aval.dtype == value.aval.dtype), None)
            if k is not None:
                self.free.remove(k)
                self.costly.remove(value)
                self._store(k, value, value.at(place), place)
                value.compute = partial(self._load, k, value.aval)
        self._end(accumulators)
        for (*_, value), accumulator in zip(reductions, accumulators, strict=True):
            value.is_now(accumulator.result(self.lines))

    def _begin(self, accumulators: Sequence[_Sum] = ()) -> str:
        """Open a loop over the row; returns where its element is."""
        k, before, start = self.loops, self.block, "0"
        if accumulators:
            self.lines.lines += [f"br label %part{k}", f"part{k}:"]
            self.lines.lines.append(f"%b{k} = phi i64 [ 0, %{before} ], [ %b{k}.next, %folded{k} ]")
            for a in accumulators:
                came = f"[ {a.whole_start}, %{before} ], [ {a.name}.folded, %folded{k} ]"
                self.lines.lines.append(f"{a.name}.whole = phi {a.whole} {came}")
            self.lines.lines += [
                f"%b{k}.next = add nuw nsw i64 %b{k}, {tuning.row_part}",
                f"%b{k}.end = call i64 @llvm.smin.i64(i64 %b{k}.next, i64 %length)",
            ]
            before, start = f"part{k}", f"%b{k}"
        self.block = f"loop{k}"
        self.lines.lines += [f"br label %{self.block}", f"{self.block}:"]
        self.lines.lines.append(f"%j{k} = phi i64 [ {start}, %{before} ], [ %j{k}.next, %{self.block} ]")
        for a in accumulators:
            self.lines.lines.append(
                f"{a.name}.before = phi {a.kind} [ {a.start}, %{before} ], [ {a.name}, %{self.block} ]"
            )
        return self.lines.add(f"add nuw nsw i64 %at, %j{k}")

    def _end(self, accumulators: Sequence[_Sum] = ()) -> None:
        k, self.block = self.loops, f"after{self.loops}"
        self.loops += 1
        end, following = (f"%b{k}.end", f"folded{k}") if accumulators else ("%length", self.block)
        self.lines.lines += [
            f"%j{k}.next = add nuw nsw i64 %j{k}, 1",
            f"%j{k}.more = icmp slt i64 %j{k}.next, {end}",
            f"br i1 %j{k}.more, label %loop{k}, label %{following}",
            f"{following}:",
        ]
        if accumulators:
            for a in accumulators:
                a.fold(self.lines)
            self.lines.lines += [
                f"%b{k}.more = icmp slt i64 %b{k}.next, %length",
                f"br i1 %b{k}.more, label %part{k}, label %{self.block}",
                f"{self.block}:",
            ]

    def _compute(self, eqn: Any, ins: list[_Value], place: str) -> str:
        operands = [value.at(place) for value in ins]
        if eqn.primitive.name == "dim_as_value":
            if eqn.params["dim"] != self.length:
                raise llvm.Unknown(eqn)
            return "%length"
        if eqn.primitive.name in _SHAPING:
            return operands[0]
        if eqn.primitive.name == "iota":  # of a row, not of a number
            position = self.lines.add(f"trunc i64 %j{self.loops} to i32")
            return self.lines.add(f"sitofp i32 {position} to {llvm.float_type(eqn.outvars[0].aval)}")
        return llvm.element(self.lines, eqn, operands)

    def _load(self, pointer: int, aval: Any, place: str) -> str:
        kind = llvm.float_type(aval)
        return self.lines.add(f"load {kind}, ptr {self._address(pointer, kind, place)}")

    def _store(self, pointer: int, value: _Value, element: str, place: str) -> None:
        kind = llvm.float_type(value.aval)
        self.lines.lines.append(f"store {kind} {element}, ptr {self._address(pointer, kind, place)}")

    def _address(self, pointer: int, kind: str, place: str) -> str:
        return self.lines.add(f"getelementptr {kind}, ptr %p{pointer}, i64 {place}")
