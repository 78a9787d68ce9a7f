"""What follows a convolution element by element, as machine code that the convolution's threads run on a CPU.

A bias, a batch norm in `eval`, an activation, a sum with another branch, the larger ones of some pixels: XLA:CPU makes
a loop of its own of them, through all of the images in memory. `compile` makes a function that `onednn` calls for every
part of the images, right after the part is computed, when it is in the thread's cache. (oneDNN could do some of it, but
its ReLU and its max-pooling make a number of a NaN.)

Images have their channels in blocks: shape (N, C / block, H, W, block).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn

from ..._base.jaxprs import walk
from . import ffi, llvm

__all__ = ["Epilogue", "compile"]

#: pixels that may be looked at for one pixel of the result: windows of 3 by 3
_MANY = 9


class Epilogue(NamedTuple):
    """A function of images, and of other arrays.

    Attributes:
        name: of the same function in every process.
        block: channels of a block.
        kinds: of the other arrays: ``"images"`` as the first ones, a number for each of the ``"channels"``, or one
            ``"number"``.
        sizes: height and width of the result; None if it has the images' and overwrites them.
        address: where it is, in this process.
    """

    name: str
    block: int
    kinds: tuple[str, ...]
    sizes: tuple[int, int] | None
    address: int


def compile(jaxpr: Jaxpr, kinds: Sequence[str], block: int) -> Epilogue | None:
    """The function that a program is of images, what a convolution gives, and other arrays.

    Args:
        jaxpr: operations for each element, and slices and paddings of pixels.
        kinds: of the other arrays.

    Returns:
        None if there is an operation that there is no instruction for, or if too many pixels are looked at.
    """
    images, (result,) = jaxpr.invars[0].aval, jaxpr.outvars
    overwrites = all(x.aval.shape == images.shape for eqn in jaxpr.eqns for x in eqn.outvars)
    try:
        text = _Writer(block).text(jaxpr, ("images", *kinds), overwrites)
    except llvm.Unknown:
        return None
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    sizes = None if overwrites else result.aval.shape[2:]
    return Epilogue(name, block, tuple(kinds), sizes, _address(text))


@cache
def _address(text: str) -> int:
    return ffi.function("epilogue", text)


#: An element of an array, of names of numbers: of its row and its column of pixels.
_Element = Callable[[str, str], str]


class _Writer:
    """Instructions for one element of the result, as they come together."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.numbers, self.lines = llvm.Lines("n"), llvm.Lines("v")
        self.once: dict[str, str] = {}
        self.pixels = 0

    def text(self, jaxpr: Jaxpr, kinds: Sequence[str], overwrites: bool) -> str:
        """The function; raises `llvm.Unknown`."""
        given = [
            cache(partial(self._load, k, kind, x.aval))
            for k, (kind, x) in enumerate(zip(kinds, jaxpr.invars, strict=True), 1)
        ]
        (result,) = walk(jaxpr, given, self._operation, self._constant)
        value = result("%y", "%x")
        if self.pixels > _MANY or llvm.float_type(jaxpr.outvars[0].aval) != "float":
            raise llvm.Unknown(jaxpr)
        # the same number as what is loaded from, or LLVM would have to look whether they overlap
        above, width = ("%above", "%width") if overwrites else ("%made.above", "%columns")
        place = self._pixel(above, "%y", width, "%x")
        target = 1 if overwrites else 0
        pointers = range(target, len(given) + 1)
        return _FUNCTION.format(
            target=target,
            place=place,
            value=value,
            block=self.block,
            vectors=llvm.vectors(self.block),
            numbers=self.numbers,
            lines=self.lines,
            pointers=", ".join(f"ptr noalias %p{k}" for k in pointers),
            given=", ".join(f"ptr %p{k}" for k in pointers),
            loads="\n".join(
                f"  %a{k} = getelementptr ptr, ptr %places, i64 {k}\n  %p{k} = load ptr, ptr %a{k}"
                for k in pointers
            ),
        )

    def _constant(self, value: Any, aval: Any) -> _Element:
        return lambda y, x: llvm.number(value, aval)

    def _operation(self, eqn: JaxprEqn, ins: Sequence[_Element]) -> list[_Element]:
        rule = {"slice": self._slice, "pad": self._pad}.get(eqn.primitive.name, self._each)
        return [cache(partial(rule, eqn, ins))]

    def _each(self, eqn: JaxprEqn, ins: Sequence[_Element], y: str, x: str) -> str:
        return llvm.element(self.lines, eqn, [value(y, x) for value in ins])

    def _slice(self, eqn: JaxprEqn, ins: Sequence[_Element], y: str, x: str) -> str:
        starts, strides = eqn.params["start_indices"], eqn.params["strides"] or (1,) * 4
        return ins[0](self._moved(y, starts[2], strides[2]), self._moved(x, starts[3], strides[3]))

    def _pad(self, eqn: JaxprEqn, ins: Sequence[_Element], y: str, x: str) -> str:
        array, fill = ins
        operand = eqn.invars[0].aval
        inside, places = [], []
        for position, size, (low, high, _) in zip(
            (y, x), operand.shape[2:], eqn.params["padding_config"][2:], strict=True
        ):
            moved = self._moved(position, -low, 1)
            if low > 0 or high > 0:
                there = self._once(f"icmp ult i64 {moved}, {size}")
                moved = self._once(f"select i1 {there}, i64 {moved}, i64 0")
                inside.append(there)
            places.append(moved)
        kind, value = llvm.element_type(operand), array(*places)
        for there in inside:
            value = self.lines.add(f"select i1 {there}, {kind} {value}, {kind} {fill('0', '0')}")
        return value

    def _moved(self, position: str, start: int, stride: int) -> str:
        if stride != 1:
            position = self._once(f"mul i64 {position}, {stride}")
        return self._once(f"add i64 {position}, {start}") if start else position

    def _load(self, k: int, kind: str, aval: Any, y: str, x: str) -> str:
        if aval.dtype != np.float32:
            raise llvm.Unknown(aval)
        if kind == "number":
            return self.numbers.add(f"load float, ptr %p{k}")
        self.pixels += kind == "images"
        place = self._pixel("%above", y, "%width", x) if kind == "images" else "%channel"
        return self.lines.add(f"load float, ptr {self._once(f'getelementptr float, ptr %p{k}, i64 {place}')}")

    def _pixel(self, above: str, y: str, width: str, x: str) -> str:
        """The number of an element: of a pixel beneath so many rows of so many pixels each."""
        row = self._once(f"add i64 {above}, {y}")
        before = self._once(f"mul i64 {row}, {width}")
        pixel = self._once(f"add i64 {before}, {x}")
        first = self._once(f"mul i64 {pixel}, {self.block}")
        return self._once(f"add i64 {first}, %lane")

    def _once(self, instruction: str) -> str:
        if instruction not in self.once:
            self.once[instruction] = self.lines.add(instruction)
        return self.once[instruction]


#: Of so many planes, the pixels of one block of channels of an image; the block is the plane's number modulo
#: ``groups``.
_FUNCTION = """
define internal void @planes({pointers},
    i64 %planes, i64 %groups, i64 %height, i64 %width, i64 %rows, i64 %columns) noinline {{
entry:
{numbers}
  br label %plane
plane:
  %p = phi i64 [ 0, %entry ], [ %p.next, %plane.end ]
  %group = srem i64 %p, %groups
  %channels = mul i64 %group, {block}
  %above = mul i64 %p, %height
  %made.above = mul i64 %p, %rows
  br label %row
row:
  %y = phi i64 [ 0, %plane ], [ %y.next, %row.end ]
  br label %column
column:
  %x = phi i64 [ 0, %row ], [ %x.next, %column.end ]
  br label %lanes
lanes:
  %lane = phi i64 [ 0, %column ], [ %lane.next, %lanes ]
  %channel = add nuw nsw i64 %channels, %lane
{lines}
  %made.at = getelementptr float, ptr %p{target}, i64 {place}
  store float {value}, ptr %made.at
  %lane.next = add nuw nsw i64 %lane, 1
  %lane.more = icmp slt i64 %lane.next, {block}
  br i1 %lane.more, label %lanes, label %column.end, !llvm.loop !0
column.end:
  %x.next = add nuw nsw i64 %x, 1
  %x.more = icmp slt i64 %x.next, %columns
  br i1 %x.more, label %column, label %row.end
row.end:
  %y.next = add nuw nsw i64 %y, 1
  %y.more = icmp slt i64 %y.next, %rows
  br i1 %y.more, label %row, label %plane.end
plane.end:
  %p.next = add nuw nsw i64 %p, 1
  %p.more = icmp slt i64 %p.next, %planes
  br i1 %p.more, label %plane, label %out
out:
  ret void
}}

define void @epilogue(ptr %places, i64 %planes, i64 %groups, i64 %height, i64 %width, i64 %rows, i64 %columns) {{
{loads}
  call void @planes({given}, i64 %planes, i64 %groups, i64 %height, i64 %width, i64 %rows, i64 %columns)
  ret void
}}

{vectors}
"""
