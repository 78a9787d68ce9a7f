"""The steps of a recurrent layer as one call of machine code, on a CPU.

XLA:CPU goes through a scan one small operation after the other, each with all threads that wait for it or on one: of
the 107 us that a step of an LSTM of 20 x 256 took, 47 were its product. The rows of the batch do not depend on each
other, so `run` gives each thread of XLA's pool some rows, which it takes through all steps: the product by oneDNN, with
weights that were put into its layout once, and what happens to each unit by a loop made of the layer's formula.

oneDNN, the compiler and the conditions are those of `onednn` and `kernels`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from ..._array import tracing
from ..._base.tuning import tuning
from . import dnnl, ffi, llvm, onednn

__all__ = ["Made", "Recurrence", "RecurrencePlan", "Sizes", "plan", "run", "suits"]

#: one array, or one value of a unit, for each gate
Gates = Sequence[Any]
#: the results, the last states, and the product of the last step, or None if that comes first
Made: TypeAlias = tuple[Sequence[Any], Sequence[Any], Any]


class Sizes(NamedTuple):
    """Of a recurrence."""

    steps: int
    batch: int
    units: int


class Recurrence(NamedTuple):
    """What happens in one step. Arrays are (T, N, gates * units) if there is a row for every step, (gates * units) if
    one is for all.

    Attributes:
        formula: of the gates of the step's arrays, of the arrays for all steps, and of the product, and of the states:
            the gates of the results, and the new states; elementwise. The same object means the same formula.
        steps, whole: how many gates the arrays have of which a step has a row, and those for all steps.
        product: how many gates the product has.
        results: how many gates the results have, which are arrays with a row for every step.
        states: how many there are, (N, units) each.
        first: whether the product of the first state with the weights comes before the formula; if not, that of the
            first result comes after it, for the next step, and the first step has zeros.
    """

    formula: Callable[..., tuple[Sequence[Gates], Gates]]
    steps: tuple[int, ...]
    whole: tuple[int, ...]
    product: int
    results: tuple[int, ...]
    states: int
    first: bool

    @property
    def source(self) -> int:
        """How many gates that has which is multiplied."""
        return 1 if self.first else self.results[0]

    def shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        """Those of the results, of the last states, and of the last product if it comes after the formula."""
        steps, batch, units = sizes
        shapes: list[tuple[int, ...]] = [(steps, batch, gates * units) for gates in self.results]
        shapes += [(batch, units)] * self.states
        return shapes if self.first else [*shapes, (batch, self.product * units)]

    def split(self, found: Sequence[Any]) -> Made:
        """Arrays of these shapes, as `run` returns them."""
        results, end = len(self.results), len(self.results) + self.states
        return found[:results], found[results:end], None if self.first else found[end]


def suits(steps: int, batch: int, units: int, gates: int, *arrays: Any) -> bool:
    """Whether a layer of such arrays is left to `run`, in this program."""
    work = steps * batch * units * units * gates
    return steps >= tuning.recurrence_steps and work >= tuning.recurrence_least and onednn.takes(*arrays)


def run(
    what: Recurrence, reverse: bool, arrays: Sequence[Any], states: Sequence[Any], weight: Any
) -> Made | None:
    """Go through the steps, in a program for a CPU.

    Args:
        reverse: from the last step to the first.
        arrays: those of which a step has a row, and those for all steps.
        states: the first ones.
        weight: (gates * units, units); what is multiplied is multiplied with its transpose if it is a state.

    Returns:
        None if there is an operation that is not known.
    """
    sizes = Sizes(arrays[0].shape[0], *states[0].shape)
    planned = _known_to_xla(what, reverse, sizes)
    if planned is None:
        return None
    name, room, packing, packed = planned

    def made(shape: tuple[int, ...]) -> Any:
        return jax.ShapeDtypeStruct(shape, np.float32)

    weights = onednn.call(packing, (packed // 4,), weight)
    shapes = [*map(made, what.shapes(sizes)), jax.ShapeDtypeStruct((room,), np.uint8)]
    *found, _ = jax.ffi.ffi_call(name, shapes)(*arrays, *states, weights)
    return what.split(found)


@lru_cache(tuning.handlers)
def _known_to_xla(
    what: Recurrence, reverse: bool, sizes: Sizes
) -> tuple[str, int, onednn.Planned, int] | None:
    """The name of the handler, bytes that it works in, and the plan and size of the weights in their layout."""
    made = None if ffi.are_enough() else plan(what, reverse, sizes)
    if made is None:
        return None
    digest = hashlib.sha256(repr((_source(what), reverse, sizes)).encode()).hexdigest()[:16]
    name = f"functorch_port.recurrence.{digest}"
    ffi.register(name, "recurrence.ll", onednn.kept(made.words))
    packing = onednn.known_to_xla("packing", (_source(what), sizes), made.packing)
    return name, made.scratch, packing, made.packed


class RecurrencePlan(NamedTuple):
    """What computes a recurrence of one size.

    Attributes:
        words: of the data for the handler in ``recurrence.ll``.
        scratch: bytes that it works in.
        packing: a plan that puts the weights into their layout before.
        packed: bytes of that.
    """

    words: list[int]
    scratch: int
    packing: onednn.Plan
    packed: int


def plan(what: Recurrence, reverse: bool, sizes: Sizes) -> RecurrencePlan | None:
    """The plan of a recurrence; None if there is an operation that is not known, or oneDNN does not have it."""
    try:
        function = _function(what)
    except llvm.Unknown:
        return None
    steps, batch, units = sizes
    inner, columns = what.source * units, what.product * units
    work = steps * batch * inner * columns
    parts = max(min(onednn.cores(), batch, work // tuning.recurrence_part), 1)
    size = -(-batch // parts)
    starts = range(0, batch, size)
    rows = [min(size, batch - start) for start in starts]
    made = onednn.matmuls(rows, inner, columns)
    if made is None:
        return None
    given = (1, inner) if what.first else (columns, 1)
    packing = onednn.plan_packing((inner, columns), given, made.weights)
    plan = onednn.Plan()
    table: list[int] = []
    for start, count, primitive in zip(starts, rows, made.primitives, strict=True):
        places = [plan.reserve(4 * count * units * what.states), plan.reserve(4 * count * columns)]
        table += [start, count, *primitive[:4], *places, plan.reserve(primitive.room)]
    words = [onednn.engine(), len(rows), *sizes, int(reverse), len(what.steps) + len(what.whole), what.states]
    words += [len(what.results), inner, columns, made.weights.value or 0, made.arity]
    words += [function, int(what.first), *table]
    return RecurrencePlan(words, plan.scratch, packing, dnnl.size(made.weights))


# ------------------------------------------------------ from a formula to LLVM's language


@cache
def _function(what: Recurrence) -> int:
    """Where the function is that ``recurrence.ll`` wants."""
    return ffi.function("rows", _source(what))


@cache
def _source(what: Recurrence) -> str:
    """That function: what happens to some rows in a step."""
    groups = [*what.steps, *what.whole, what.product, *[1] * what.states]

    def flat(*values: Any) -> Any:
        rest = iter(values)
        *arrays, product = [[next(rest) for _ in range(n)] for n in groups[: len(groups) - what.states]]
        at = len(what.steps)
        return what.formula(arrays[:at], arrays[at:], product, tuple(rest))

    numbers = [jax.ShapeDtypeStruct((), np.float32)] * sum(groups)
    with tracing.x64():
        closed = jax.make_jaxpr(lambda *values: jax.tree.leaves(flat(*values)))(*numbers)
    # of every value of a unit: where its row begins
    states = [_state(s) for s in range(what.states)]
    read = [p for a, n in enumerate(what.steps) for p in _of_step("args", a, n)]
    read += [p for a, n in enumerate(what.whole) for p in _of_all(len(what.steps) + a, n)]
    read += [*_of_product(what.product), *states]
    written = [p for r, n in enumerate(what.results) for p in _of_step("rets", r, n)] + states
    streams = list(dict.fromkeys([*read, *written]))
    pointers, calls = llvm.Lines("q"), []
    for stream in streams:
        at, base = stream.compute(pointers)
        calls.append(pointers.add(f"getelementptr float, ptr {base}, i64 {at}"))
    inside = llvm.Lines("v")

    def place(stream: _Stream) -> str:
        return inside.add(f"getelementptr float, ptr %p{streams.index(stream)}, i64 %j")

    values = [inside.add(f"load float, ptr {place(stream)}") for stream in read]
    new = llvm.evaluate(inside, closed, values)
    for stream, value in zip(written, new, strict=True):
        inside.lines.append(f"store float {value}, ptr {place(stream)}")
    parameters = ", ".join(f"ptr noalias %p{k}" for k in range(len(streams)))
    given = ", ".join(f"ptr {p}" for p in calls)
    return f"""
define internal void @unit({parameters}, i64 %units) noinline {{
entry:
  br label %body
body:
  %j = phi i64 [ 0, %entry ], [ %next, %body ]
{inside}
  %next = add nuw nsw i64 %j, 1
  %more = icmp slt i64 %next, %units
  br i1 %more, label %body, label %out
out:
  ret void
}}

define void @rows(ptr %args, ptr %rets, i64 %at, i64 %rows, i64 %units, ptr %states, ptr %product) {{
entry:
  br label %row
row:
  %n = phi i64 [ 0, %entry ], [ %n.next, %row ]
  %place = add i64 %at, %n
{pointers}
  call void @unit({given}, i64 %units)
  %n.next = add nuw nsw i64 %n, 1
  %more = icmp slt i64 %n.next, %rows
  br i1 %more, label %row, label %out
out:
  ret void
}}
"""


class _Stream(NamedTuple):
    """Numbers of one unit after the other: row ``row * gates + gate`` of what ``base`` is."""

    base: str
    which: int
    row: str
    gates: int
    gate: int

    def compute(self, lines: llvm.Lines) -> tuple[str, str]:
        """Add the instructions for the first number and the array."""
        base = self.base
        if base in ("%args", "%rets"):
            place = lines.add(f"getelementptr ptr, ptr {base}, i64 {self.which}")
            buffer = lines.add(f"load ptr, ptr {place}")
            place = lines.add(f"getelementptr i8, ptr {buffer}, i64 24")  # of its data
            base = lines.add(f"load ptr, ptr {place}")
        rows = lines.add(f"mul i64 {self.row}, {self.gates}")
        if base == "%states":
            before = lines.add(f"mul i64 %rows, {self.which}")
            rows = lines.add(f"add i64 {rows}, {before}")
        row = lines.add(f"add i64 {rows}, {self.gate}")
        return lines.add(f"mul i64 {row}, %units"), base


def _of_step(of: str, which: int, gates: int) -> list[_Stream]:
    return [_Stream(f"%{of}", which, "%place", gates, gate) for gate in range(gates)]


def _of_all(which: int, gates: int) -> list[_Stream]:
    return [_Stream("%args", which, "0", gates, gate) for gate in range(gates)]


def _of_product(gates: int) -> list[_Stream]:
    return [_Stream("%product", 0, "%n", gates, gate) for gate in range(gates)]


def _state(which: int) -> _Stream:
    return _Stream("%states", which, "%n", 1, 0)
