"""What follows a convolution element by element, as machine code that the convolution's threads run on a CPU.

A bias, a batch norm in `eval`, an activation, a sum with another branch, the larger ones of some pixels: XLA:CPU makes
a loop of its own of them, through all of the images in memory. `compile` makes a function that `onednn` calls for every
part of the images, right after the part is computed, when it is in the thread's cache. (oneDNN could do some of it, but
its ReLU and its max-pooling make a number of a NaN.)

Images have their channels in blocks: shape (N, C / block, H, W, block).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import JaxprEqn, Literal, Var

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


def compile(
    images: Var, others: Mapping[Var, str], eqns: Sequence[JaxprEqn], splats: Mapping[Var, Any], block: int
) -> Epilogue | None:
    """The function of ``images``, what a convolution gives, whose result is that of the last one of ``eqns``.

    Args:
        others: the other arrays, in the order in which the function takes them, and their kinds.
        eqns: operations for each element; and slices and paddings of pixels.
        splats: arrays among their operands that are one number, and that number.

    Returns:
        None if there is an operation that there is no instruction for, or if too many pixels are looked at.
    """
    overwrites = all(x.aval.shape == images.aval.shape for eqn in eqns for x in eqn.outvars)
    writer = _Writer(images, others, eqns, splats, block)
    try:
        text = writer.text(overwrites)
    except llvm.Unknown:
        return None
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    sizes = None if overwrites else eqns[-1].outvars[0].aval.shape[2:]
    return Epilogue(name, block, tuple(others.values()), sizes, _address(text))


@cache
def _address(text: str) -> int:
    return ffi.function("epilogue", text)


class _Writer:
    """Instructions for one element of the result, as they come together.

    Positions are names of numbers: of a row and a column of pixels, from which others are computed.
    """

    def __init__(
        self,
        images: Var,
        others: Mapping[Var, str],
        eqns: Sequence[JaxprEqn],
        splats: Mapping[Var, Any],
        block: int,
    ) -> None:
        self.block, self.splats, self.result = block, splats, eqns[-1].outvars[0]
        self.given = {
            var: (k, kind) for k, (var, kind) in enumerate([(images, "images"), *others.items()], 1)
        }
        self.made = {eqn.outvars[0]: eqn for eqn in eqns}
        self.numbers, self.lines = llvm.Lines("n"), llvm.Lines("v")
        self.values: dict[Any, str] = {}
        self.once: dict[str, str] = {}

    def text(self, overwrites: bool) -> str:
        """The function; raises `llvm.Unknown`."""
        value = self._value(self.result, "%y", "%x")
        if llvm.float_type(self.result.aval) != "float":
            raise llvm.Unknown(self.result)
        if sum(self.given.get(key[0], (0, ""))[1] == "images" for key in self.values) > _MANY:
            raise llvm.Unknown(self.result)
        # the same number as what is loaded from, or LLVM would have to look whether they overlap
        above, width = ("%above", "%width") if overwrites else ("%made.above", "%columns")
        place = self._pixel(above, "%y", width, "%x")
        target = 1 if overwrites else 0
        pointers = range(target, len(self.given) + 1)
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

    def _value(self, x: Any, y: str, column: str) -> str:
        """An element of an array, at a position."""
        x = self.splats.get(x, x) if isinstance(x, Var) else x
        if isinstance(x, Literal):
            return llvm.constant(x.val, llvm.element_type(x.aval))
        key = (x, y, column)
        if key not in self.values:
            eqn = self.made.get(x)
            self.values[key] = self._load(x, y, column) if eqn is None else self._compute(eqn, y, column)
        return self.values[key]

    def _compute(self, eqn: JaxprEqn, y: str, x: str) -> str:
        name, operand = eqn.primitive.name, eqn.invars[0]
        if name == "slice":
            starts, strides = eqn.params["start_indices"], eqn.params["strides"] or (1,) * 4
            return self._value(
                operand, self._moved(y, starts[2], strides[2]), self._moved(x, starts[3], strides[3])
            )
        if name == "pad":
            kind = llvm.element_type(operand.aval)
            inside, places = [], []
            for position, size, (low, high, _) in zip(
                (y, x), operand.aval.shape[2:], eqn.params["padding_config"][2:], strict=True
            ):
                moved = self._moved(position, -low, 1)
                if low > 0 or high > 0:
                    there = self._once(f"icmp ult i64 {moved}, {size}")
                    moved = self._once(f"select i1 {there}, i64 {moved}, i64 0")
                    inside.append(there)
                places.append(moved)
            value = self._value(operand, *places)
            for there in inside:
                fill = self._value(eqn.invars[1], "0", "0")
                value = self.lines.add(f"select i1 {there}, {kind} {value}, {kind} {fill}")
            return value
        kinds = [llvm.element_type(v.aval) for v in (*eqn.invars, *eqn.outvars)]
        return llvm.instruction(self.lines, name, [self._value(v, y, x) for v in eqn.invars], kinds)

    def _moved(self, position: str, start: int, stride: int) -> str:
        if stride != 1:
            position = self._once(f"mul i64 {position}, {stride}")
        return self._once(f"add i64 {position}, {start}") if start else position

    def _load(self, x: Any, y: str, column: str) -> str:
        k, kind = self.given[x]
        if x.aval.dtype != np.float32:
            raise llvm.Unknown(x)
        if kind == "number":
            return self.numbers.add(f"load float, ptr %p{k}")
        place = self._pixel("%above", y, "%width", column) if kind == "images" else "%channel"
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
