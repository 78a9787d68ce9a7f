"""What follows a convolution element by element, as machine code that the convolution's threads run on a CPU.

A bias, a batch norm in `eval`, an activation, a sum with another branch: XLA:CPU makes a loop of its own of them,
through all of the images in memory. `compile` makes a function that `onednn` calls for every part of the images, right
after the part is computed, when it is in the thread's cache. (oneDNN could do some of it, but its ReLU makes 0 of a
NaN.)

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

#: for each kind of array, the number of its element beside ``%element`` of the images
_PLACES = {"images": "%element", "channels": "%channel", "number": "0"}


class Epilogue(NamedTuple):
    """A function of images, and of other arrays.

    Attributes:
        name: of the same function in every process.
        block: channels of a block.
        kinds: of the other arrays: ``"images"`` as the first ones, a number for each of the ``"channels"``, or one
            ``"number"``.
        address: where it is, in this process.
    """

    name: str
    block: int
    kinds: tuple[str, ...]
    address: int


def compile(
    images: Var, others: Mapping[Var, str], eqns: Sequence[JaxprEqn], splats: Mapping[Var, Any], block: int
) -> Epilogue | None:
    """The function that overwrites ``images`` with the result of the last one of ``eqns``.

    Args:
        images: what the convolution gives.
        others: the other arrays, in the order in which the function takes them, and their kinds.
        eqns: operations for each element.
        splats: arrays among their operands that are one number, and that number.

    Returns:
        None if there is an operation that there is no instruction for.
    """
    try:
        text = _source(images, others, eqns, splats, block)
    except llvm.Unknown:
        return None
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Epilogue(name, block, tuple(others.values()), _address(text))


@cache
def _address(text: str) -> int:
    return ffi.function("epilogue", text)


def _source(
    images: Var, others: Mapping[Var, str], eqns: Sequence[JaxprEqn], splats: Mapping[Var, Any], block: int
) -> str:
    numbers, lines = llvm.Lines("n"), llvm.Lines("v")
    env: dict[Any, str] = {}
    for k, (var, kind) in enumerate([(images, "images"), *others.items()]):
        if var.aval.dtype != np.float32:
            raise llvm.Unknown(var)
        target = numbers if kind == "number" else lines
        at = target.add(f"getelementptr float, ptr %p{k}, i64 {_PLACES[kind]}")
        env[var] = target.add(f"load float, ptr {at}")

    def value(x: Any) -> str:
        x = splats.get(x, x) if isinstance(x, Var) else x
        return llvm.constant(x.val, llvm.element_type(x.aval)) if isinstance(x, Literal) else env[x]

    for eqn in eqns:
        kinds = [llvm.element_type(x.aval) for x in (*eqn.invars, *eqn.outvars)]
        env[eqn.outvars[0]] = llvm.instruction(lines, eqn.primitive.name, list(map(value, eqn.invars)), kinds)
    result = eqns[-1].outvars[0]
    llvm.float_type(result.aval)
    at = lines.add("getelementptr float, ptr %p0, i64 %element")
    lines.lines.append(f"store float {env[result]}, ptr {at}")
    return _FUNCTION.format(
        block=block,
        numbers=numbers,
        lines=lines,
        pointers=", ".join(f"ptr noalias %p{k}" for k in range(len(others) + 1)),
        given=", ".join(f"ptr %p{k}" for k in range(len(others) + 1)),
        loads="\n".join(
            f"  %a{k} = getelementptr ptr, ptr %places, i64 {k}\n  %p{k} = load ptr, ptr %a{k}"
            for k in range(len(others) + 1)
        ),
    )


#: Of so many rows, the pixels of one block of channels of an image; the block of a row is its number modulo ``groups``.
_FUNCTION = """
define internal void @rows({pointers}, i64 %rows, i64 %groups, i64 %pixels) noinline {{
entry:
{numbers}
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.end ]
  %group = srem i64 %r, %groups
  %channels = mul nuw nsw i64 %group, {block}
  %before = mul nuw nsw i64 %r, %pixels
  br label %pixel
pixel:
  %p = phi i64 [ 0, %row ], [ %p.next, %pixel.end ]
  %here = add nuw nsw i64 %before, %p
  %elements = mul nuw nsw i64 %here, {block}
  br label %lane
lane:
  %l = phi i64 [ 0, %pixel ], [ %l.next, %lane ]
  %element = add nuw nsw i64 %elements, %l
  %channel = add nuw nsw i64 %channels, %l
{lines}
  %l.next = add nuw nsw i64 %l, 1
  %l.more = icmp slt i64 %l.next, {block}
  br i1 %l.more, label %lane, label %pixel.end, !llvm.loop !0
pixel.end:
  %p.next = add nuw nsw i64 %p, 1
  %p.more = icmp slt i64 %p.next, %pixels
  br i1 %p.more, label %pixel, label %row.end
row.end:
  %r.next = add nuw nsw i64 %r, 1
  %r.more = icmp slt i64 %r.next, %rows
  br i1 %r.more, label %row, label %out
out:
  ret void
}}

define void @epilogue(ptr %places, i64 %rows, i64 %groups, i64 %pixels) {{
{loads}
  call void @rows({given}, i64 %rows, i64 %groups, i64 %pixels)
  ret void
}}

!0 = distinct !{{!0, !1, !2}}
!1 = !{{!"llvm.loop.unroll.disable"}}
!2 = !{{!"llvm.loop.vectorize.width", i32 {block}}}
"""
