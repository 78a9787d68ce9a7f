"""Formulas of rows of numbers, with sums or maxima of them, as one loop of machine code, on a CPU.

XLA:CPU ends a loop at every sum over a dimension: a layer norm is four of its loops, each through all rows in memory,
its gradient six. A `Formula` becomes one loop over the rows, which stay in the processor's cache from the first sum to
the result.

The compiler, the conditions and the threads are those of `kernels`; without them XLA computes the same formula. A sum
is taken in several strands, as XLA does, but in as many as the processor's registers hold: the last bits may differ.
Of a long row it is taken part by part, or else that of ten million numbers would be off by 1e-4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend.core import Literal

from ..._array import tracing
from ..._base import lowering
from ..._base.tuning import tuning
from ...ops import _extremes, _normalized, _softmax  # noqa: F401  (`install` is called once: all formulas must be there)
from ...ops._rows import FORMULAS, Formula
from . import ffi, kernels, llvm

__all__ = ["install", "takes"]


#: numbers of a row, and type
Aval: TypeAlias = tuple[int, np.dtype]


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
        lowering.register(formula.primitive, "cpu", partial(_loop, formula), takes)


def _loop(formula: Formula, arrays: Any, results: Any, **how: Any) -> Any:
    given = tuple([(x.shape[1], np.dtype(x.dtype)) for x in arrays])
    name = _kernel(formula, given, tuple(sorted(how.items())))
    return None if name is None else jax.ffi.ffi_lowering(name)


@lru_cache(tuning.handlers)
def _kernel(formula: Formula, given: tuple[Aval, ...], how: tuple[tuple[str, Any], ...]) -> str | None:
    """The name that XLA knows the loop by; None if there is an operation that no loop has."""
    if ffi.are_enough():
        return None
    with tracing.x64():
        row = [jax.ShapeDtypeStruct((1, n), dtype) for n, dtype in given]
        closed = jax.make_jaxpr(partial(formula.loop, dims=(1,), **dict(how)))(*row)
    try:
        text = _source(closed.jaxpr, given[0][0])
        name = f"functorch_port.{formula.primitive.name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        ffi.register(name, "kernels.ll", text)
    except llvm.Unknown:
        return None
    return name


def _source(jaxpr: Any, length: int) -> str:
    """The definitions that ``kernels.ll`` wants, for the jaxpr of one row.

    What lies between two reductions is one loop over the row; numbers of the row are computed between the loops.
    """
    if jaxpr.constvars or any(v.aval.size not in (1, length) for v in jaxpr.invars):
        raise llvm.Unknown(jaxpr)
    results = len(jaxpr.outvars)
    writer, stages = _Writer(jaxpr, length), _stages(jaxpr)
    last = max(stages.values(), default=0)
    for stage in range(last + 1):
        sums = []
        for eqn in jaxpr.eqns:
            result = eqn.outvars[0]
            if eqn.primitive.name in _REDUCTIONS:
                if stages[result] == stage + 1:
                    sums.append(eqn)
            elif result.aval.size == 1 and stages[result] == stage:
                writer.number(eqn)
        if sums:
            writer.reduce(sums)
    writer.write()
    sources = [(0, k, 0, 0) for k in range(results)] + [(1, i, 0, 0) for i in range(len(jaxpr.invars))]
    each = f"""
  %any = icmp slt i64 %start, %end
  br i1 %any, label %row, label %out
row:
  %at = phi i64 [ %start, %entry ], [ %after, %{writer.block} ]
  %number = sdiv exact i64 %at, {length}
{writer.lines}
  %after = add nuw nsw i64 %at, {length}
  %more = icmp slt i64 %after, %end
  br i1 %more, label %row, label %out
out:"""
    chunk = max(tuning.row_chunk // length, 1) * length
    return kernels.definitions(each, sources, 0, len(jaxpr.invars), chunk)


def _stages(jaxpr: Any) -> dict[Any, int]:
    """For every value how many reductions, one of the other, come before it."""
    stages = dict.fromkeys(jaxpr.invars, 0)
    for eqn in jaxpr.eqns:
        before = max((stages[x] for x in eqn.invars if not isinstance(x, Literal)), default=0)
        stages |= dict.fromkeys(eqn.outvars, before + (eqn.primitive.name in _REDUCTIONS))
    return stages


_REDUCTIONS = frozenset({"reduce_sum", "reduce_max"})
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

    def result(self, lines: llvm.Lines, folded: bool) -> str:
        if not folded:
            return self.name
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

    def result(self, lines: llvm.Lines, folded: bool) -> str:
        return llvm.from_ordered(lines, f"{self.name}.folded" if folded else self.name, self.float)


class _Writer:
    """Instructions for one row, as they come together.

    Attributes:
        block: the basic block that they have come to.
    """

    def __init__(self, jaxpr: Any, length: int) -> None:
        self.length = length
        self.lines = llvm.Lines("v")
        self.block = "row"
        self.made = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns}
        self.results = jaxpr.outvars
        self.places = {v: f"%p{len(jaxpr.outvars) + i}" for i, v in enumerate(jaxpr.invars)}
        needed = {
            x
            for eqn in jaxpr.eqns
            if eqn.primitive.name not in _REDUCTIONS
            for x in eqn.invars
            if not isinstance(x, Literal)
        }
        #: rows that take longer to compute again than to keep
        self.costly = {v for v in needed.intersection(self.made) if self.made[v].primitive.name in _COSTLY}
        self.numbers: dict[Any, str] = {}
        self.loops = 0

    def number(self, eqn: Any) -> None:
        """Compute a number of the row."""
        self.numbers[eqn.outvars[0]] = self._compute(eqn, self.numbers, "%number")

    def reduce(self, eqns: list[Any]) -> None:
        """Compute sums and maxima of the row, in one loop."""
        kinds = [llvm.float_type(eqn.outvars[0].aval) for eqn in eqns]
        accumulators = [
            _Sum(f"%r{self.loops}.{i}", kind)
            if eqn.primitive.name == "reduce_sum"
            else _Max(f"%r{self.loops}.{i}", kind)
            for i, (eqn, kind) in enumerate(zip(eqns, kinds, strict=True))
        ]
        place = self._begin(accumulators)
        elements: dict[Any, str] = {}
        for eqn, accumulator in zip(eqns, accumulators, strict=True):
            if eqn.invars[0].aval.size != self.length:
                raise llvm.Unknown(eqn)
            accumulator.take(self.lines, self._value(eqn.invars[0], elements, place))
        for var in self.costly.intersection(elements):
            k = self._row_of_results(var)
            if k is not None:
                self._store(k, var, elements[var], place)
                self.places[var] = f"%p{k}"
        self._end(accumulators)
        for eqn, accumulator in zip(eqns, accumulators, strict=True):
            self.numbers[eqn.outvars[0]] = accumulator.result(self.lines, self.length > tuning.row_part)

    def _row_of_results(self, var: Any) -> int | None:
        """A result that can hold a row until it is written, and holds none yet."""
        free = (
            k
            for k, out in enumerate(self.results)
            if out.aval.size == self.length
            and out.aval.dtype == var.aval.dtype
            and f"%p{k}" not in self.places.values()
        )
        return next(free, None)

    def write(self) -> None:
        """Store the results: rows in one loop, numbers after it."""
        results = list(enumerate(self.results))
        rows = [(k, var) for k, var in results if var.aval.size == self.length]
        if rows:
            place = self._begin()
            elements: dict[Any, str] = {}
            values = [self._value(var, elements, place) for _, var in rows]
            for (k, var), value in zip(rows, values, strict=True):
                self._store(k, var, value, place)
            self._end()
        for k, var in results:
            if var.aval.size != self.length:
                self._store(k, var, self._value(var, self.numbers, "%number"), "%number")

    def _begin(self, accumulators: Sequence[_Sum] = ()) -> str:
        """Open a loop over the row; returns where its element is."""
        k, before, start = self.loops, self.block, "0"
        if accumulators and self.length > tuning.row_part:
            self.lines.lines += [f"br label %part{k}", f"part{k}:"]
            self.lines.lines.append(f"%b{k} = phi i64 [ 0, %{before} ], [ %b{k}.next, %folded{k} ]")
            for a in accumulators:
                came = f"[ {a.whole_start}, %{before} ], [ {a.name}.folded, %folded{k} ]"
                self.lines.lines.append(f"{a.name}.whole = phi {a.whole} {came}")
            self.lines.lines += [
                f"%b{k}.next = add nuw nsw i64 %b{k}, {tuning.row_part}",
                f"%b{k}.end = call i64 @llvm.smin.i64(i64 %b{k}.next, i64 {self.length})",
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
        parts = bool(accumulators) and self.length > tuning.row_part
        end, following = (f"%b{k}.end", f"folded{k}") if parts else (self.length, self.block)
        self.lines.lines += [
            f"%j{k}.next = add nuw nsw i64 %j{k}, 1",
            f"%j{k}.more = icmp slt i64 %j{k}.next, {end}",
            f"br i1 %j{k}.more, label %loop{k}, label %{following}",
            f"{following}:",
        ]
        if parts:
            for a in accumulators:
                a.fold(self.lines)
            self.lines.lines += [
                f"%b{k}.more = icmp slt i64 %b{k}.next, {self.length}",
                f"br i1 %b{k}.more, label %part{k}, label %{self.block}",
                f"{self.block}:",
            ]

    def _value(self, x: Any, known: dict[Any, str], place: str) -> str:
        """An element, or a number of the row; ``known`` are those that have been computed where this is."""
        if isinstance(x, Literal):
            return llvm.constant(x.val, llvm.element_type(x.aval))
        if x in self.numbers:
            return self.numbers[x]
        if x not in known:
            known[x] = self._load(x, place) if x in self.places else self._compute(self.made[x], known, place)
        return known[x]

    def _compute(self, eqn: Any, known: dict[Any, str], place: str) -> str:
        operands = [self._value(x, known, place) for x in eqn.invars]
        if eqn.primitive.name in _SHAPING:
            return operands[0]
        if eqn.primitive.name == "iota":  # of a row, not of a number
            place = self.lines.add(f"trunc i64 %j{self.loops} to i32")
            return self.lines.add(f"sitofp i32 {place} to {llvm.float_type(eqn.outvars[0].aval)}")
        kinds = [llvm.element_type(x.aval) for x in (*eqn.invars, *eqn.outvars)]
        return llvm.instruction(self.lines, eqn.primitive.name, operands, kinds)

    def _load(self, var: Any, place: str) -> str:
        kind = llvm.float_type(var.aval)
        at = place if var.aval.size == self.length else "%number"
        return self.lines.add(f"load {kind}, ptr {self._address(self.places[var], kind, at)}")

    def _store(self, k: int, var: Any, value: str, place: str) -> None:
        kind = llvm.float_type(var.aval)
        self.lines.lines.append(f"store {kind} {value}, ptr {self._address(f'%p{k}', kind, place)}")

    def _address(self, pointer: str, kind: str, place: str) -> str:
        return self.lines.add(f"getelementptr {kind}, ptr {pointer}, i64 {place}")
