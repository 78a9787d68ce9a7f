"""Formulas of rows of numbers, with sums over them, as one loop of machine code, on a CPU.

XLA:CPU ends a loop at every sum over a dimension: a layer norm is four of its loops, each through all rows in memory,
its gradient six. `define` turns the formula of a primitive into one loop over the rows, which stay in the processor's
cache from the first sum to the result.

The compiler, the conditions and the threads are those of `kernels`; without them XLA computes the same formula. A sum
is taken in several strands, as XLA does, but in as many as the processor's registers hold: the last bits may differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend.core import Literal, Primitive

from . import ffi, host, kernels, llvm, primitives, storage

__all__ = ["define", "takes"]

#: rows shorter than this are not worth a loop of their own
SHORTEST = 16
#: elements that a thread takes at a time, in whole rows: some 20 us
CHUNK = 32768

#: numbers of a row, and type
Aval: TypeAlias = tuple[int, np.dtype]


def takes(array: Any, length: int) -> bool:
    """Whether a formula over the array's rows, of that length, is computed here, in this program."""
    return (
        array.dtype in (np.float32, np.float64)
        and length >= SHORTEST
        and array.size > 0
        and storage.may_use_kernels()
        and ffi.available()
    )


def define(primitive: Primitive, formula: Callable[..., Any]) -> None:
    """Say how a primitive is computed: on a CPU row by row, elsewhere and under `jax.vmap` by XLA.

    Args:
        formula: of the primitive's arrays and parameters, a list of arrays. They all are of shape (rows, n), the first
            one for sure, or (rows, 1); operations are elementwise or sums over the last dimension. The same parameters
            mean the same formula.
    """
    primitive.multiple_results = True
    host.formulas[primitive] = formula

    @primitive.def_abstract_eval
    def shapes(*arrays: Any, **how: Any) -> list[Any]:
        given = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
        made = jax.eval_shape(partial(formula, **how), *given)
        return [jax.core.ShapedArray(x.shape, x.dtype) for x in made]

    def on_cpu(arrays: Any, results: Any, **how: Any) -> Any:
        given = tuple([(x.shape[1], np.dtype(x.dtype)) for x in arrays])
        name = _kernel(formula, given, tuple(sorted(how.items())))
        return None if name is None else jax.ffi.ffi_lowering(name)

    primitives.define(primitive, formula, on_cpu)


@cache
def _kernel(
    formula: Callable[..., Any], given: tuple[Aval, ...], how: tuple[tuple[str, Any], ...]
) -> str | None:
    """The name that XLA knows the loop by; None if there is an operation that no loop has."""
    with storage.x64():
        row = [jax.ShapeDtypeStruct((1, n), dtype) for n, dtype in given]
        closed = jax.make_jaxpr(partial(formula, **dict(how)))(*row)
    try:
        text = _source(closed.jaxpr, given[0][0])
        name = f"functorch_port.{formula.__name__}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        ffi.register(name, "kernels.ll", text)
    except llvm.Unknown:
        return None
    return name


def _source(jaxpr: Any, length: int) -> str:
    """The definitions that ``kernels.ll`` wants, for the jaxpr of one row.

    What lies between two sums is one loop over the row; numbers of the row are computed between the loops.
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
            if eqn.primitive.name == "reduce_sum":
                if stages[result] == stage + 1:
                    sums.append(eqn)
            elif result.aval.size == 1 and stages[result] == stage:
                writer.number(eqn)
        if sums:
            writer.sum(sums)
    writer.write(list(enumerate(jaxpr.outvars)))
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
    chunk = max(CHUNK // length, 1) * length
    return kernels.definitions(each, sources, 0, len(jaxpr.invars), chunk)


def _stages(jaxpr: Any) -> dict[Any, int]:
    """For every value how many sums, one of the other, come before it."""
    stages = dict.fromkeys(jaxpr.invars, 0)
    for eqn in jaxpr.eqns:
        before = max((stages[x] for x in eqn.invars if not isinstance(x, Literal)), default=0)
        stages |= dict.fromkeys(eqn.outvars, before + (eqn.primitive.name == "reduce_sum"))
    return stages


#: operations that change nothing of a row or a number but its shape
_SHAPING = frozenset({"broadcast_in_dim", "reshape", "squeeze"})


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
        self.places = {v: f"%p{len(jaxpr.outvars) + i}" for i, v in enumerate(jaxpr.invars)}
        self.numbers: dict[Any, str] = {}
        self.loops = 0

    def number(self, eqn: Any) -> None:
        """Compute a number of the row."""
        self.numbers[eqn.outvars[0]] = self._compute(eqn, self.numbers, "%number")

    def sum(self, eqns: list[Any]) -> None:
        """Compute sums over the row, in one loop."""
        kinds = [llvm.float_type(eqn.outvars[0].aval) for eqn in eqns]
        new = [f"%sum{self.loops}.{i}" for i in range(len(eqns))]
        parts = ((f"{s}.before", f"{s}", kind) for s, kind in zip(new, kinds, strict=True))
        place = self._begin(*parts)
        elements: dict[Any, str] = {}
        for eqn, result, kind in zip(eqns, new, kinds, strict=True):
            if eqn.invars[0].aval.size != self.length:
                raise llvm.Unknown(eqn)
            value = self._value(eqn.invars[0], elements, place)
            self.lines.lines.append(f"{result} = fadd reassoc {kind} {result}.before, {value}")
            self.numbers[eqn.outvars[0]] = result
        self._end()

    def write(self, results: list[tuple[int, Any]]) -> None:
        """Store the results: rows in one loop, numbers after it."""
        rows = [(k, var) for k, var in results if var.aval.size == self.length]
        if rows:
            place = self._begin()
            elements: dict[Any, str] = {}
            for k, var in rows:
                self._store(k, var, self._value(var, elements, place), place)
            self._end()
        for k, var in results:
            if var.aval.size != self.length:
                self._store(k, var, self._value(var, self.numbers, "%number"), "%number")

    def _begin(self, *sums: tuple[str, str, str]) -> str:
        """Open a loop over the row; returns where its element is."""
        k, before = self.loops, self.block
        self.block = f"loop{k}"
        self.lines.lines += [f"br label %{self.block}", f"{self.block}:"]
        self.lines.lines.append(f"%j{k} = phi i64 [ 0, %{before} ], [ %j{k}.next, %{self.block} ]")
        for old, new, kind in sums:
            zero = llvm.constant(0, kind)
            self.lines.lines.append(f"{old} = phi {kind} [ {zero}, %{before} ], [ {new}, %{self.block} ]")
        return self.lines.add(f"add nuw nsw i64 %at, %j{k}")

    def _end(self) -> None:
        k, self.block = self.loops, f"after{self.loops}"
        self.loops += 1
        self.lines.lines += [
            f"%j{k}.next = add nuw nsw i64 %j{k}, 1",
            f"%j{k}.more = icmp slt i64 %j{k}.next, {self.length}",
            f"br i1 %j{k}.more, label %loop{k}, label %{self.block}",
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
