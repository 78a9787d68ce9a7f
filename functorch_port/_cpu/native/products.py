"""Small products of matrices, as machine code of our own, on a CPU.

A product of (16, 64) by (64, 64) is 1.2 us of arithmetic for a core with AVX-512. XLA:CPU takes 3.3 us for it, oneDNN's
sgemm 3.8, as they are made for large ones; this takes 1.6. Rows of the result are sums, in registers, of rows of the
second matrix; if that is given as its transpose, squares of it are transposed in registers before.

The compiler and the conditions are those of `kernels`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ..._array import tracing
from . import ffi, onednn

__all__ = ["plan", "takes"]

#: rows that are computed together: enough for the processor's pipeline, and fewer than it has registers
_ROWS = (8, 4, 2, 1)


def takes(*arrays: Any) -> bool:
    """Whether the product of such matrices, in this program, can be computed here."""
    return all(a.dtype == np.float32 for a in arrays) and tracing.is_local() and ffi.available()


def plan(rows: int, inner: int, columns: int, left: bool, right: bool) -> onednn.Planned:
    """The call that multiplies (rows, inner) by (inner, columns) of float32, for `onednn.call`.

    Args:
        left, right: whether the first and the second matrix are given as their transposes.
    """
    lanes = ffi.lanes()
    name = f"functorch_port.small_product.{lanes}"
    ffi.register(name, "products.ll", 0, _source(lanes))
    words = (rows, inner, columns, int(left), int(right))
    return onednn.Planned(name, 4 * lanes * -(-inner // lanes) * lanes, words)


@cache
def _source(lanes: int) -> str:
    """The definitions that ``products.ll`` wants."""
    vector, mask = f"<{lanes} x float>", f"<{lanes} x i1>"
    return "\n".join(
        [
            f"@lanes = internal constant i64 {lanes}",
            f"declare {vector} @llvm.masked.load.v{lanes}f32.p0(ptr, i32, {mask}, {vector})",
            f"declare void @llvm.masked.store.v{lanes}f32.p0({vector}, ptr, i32, {mask})",
            f"declare {vector} @llvm.fmuladd.v{lanes}f32({vector}, {vector}, {vector})",
            *(_some_rows(lanes, count) for count in _ROWS),
            _all_rows(),
            _transposed(lanes),
            # longer loops are no faster, and take LLVM half as long again
            "!0 = distinct !{!0, !1}",
            '!1 = !{!"llvm.loop.unroll.disable"}',
        ]
    )


_GIVEN = "ptr %a, i64 %row, i64 %step, ptr %panel, i64 %stride, ptr %out, i64 %columns, i64 %inner, i64 %wide"


def _mask(lanes: int, of: str, name: str) -> list[str]:
    """Which lanes are less than a number."""
    numbers = ", ".join(f"i64 {k}" for k in range(lanes))
    wide = f"<{lanes} x i64>"
    return [
        f"%{name}.one = insertelement {wide} poison, i64 {of}, i64 0",
        f"%{name}.all = shufflevector {wide} %{name}.one, {wide} poison, <{lanes} x i32> zeroinitializer",
        f"%{name} = icmp slt {wide} <{numbers}>, %{name}.all",
    ]


def _some_rows(lanes: int, count: int) -> str:
    vector, mask, rows = f"<{lanes} x float>", f"<{lanes} x i1>", range(count)
    load = f"call {vector} @llvm.masked.load.v{lanes}f32.p0"
    return "\n".join(
        [
            f"define internal void @rows.{count}({_GIVEN}) alwaysinline {{",
            "entry:",
            *_mask(lanes, "%wide", "there"),
            *(f"%skipped.{r} = mul i64 %row, {r}" for r in rows),
            *(f"%a.{r} = getelementptr float, ptr %a, i64 %skipped.{r}" for r in rows),
            "br label %loop",
            "loop:",
            "%k = phi i64 [ 0, %entry ], [ %k.next, %loop ]",
            *(f"%sum.{r} = phi {vector} [ zeroinitializer, %entry ], [ %more.{r}, %loop ]" for r in rows),
            "%b.skipped = mul i64 %k, %stride",
            "%b.at = getelementptr float, ptr %panel, i64 %b.skipped",
            f"%b = {load}(ptr %b.at, i32 4, {mask} %there, {vector} zeroinitializer)",
            "%a.skipped = mul i64 %k, %step",
            *(
                line
                for r in rows
                for line in (
                    f"%a.at.{r} = getelementptr float, ptr %a.{r}, i64 %a.skipped",
                    f"%one.{r} = load float, ptr %a.at.{r}",
                    f"%first.{r} = insertelement {vector} poison, float %one.{r}, i64 0",
                    f"%each.{r} = shufflevector {vector} %first.{r}, {vector} poison, <{lanes} x i32> zeroinitializer",
                    f"%more.{r} = call {vector} @llvm.fmuladd.v{lanes}f32("
                    f"{vector} %each.{r}, {vector} %b, {vector} %sum.{r})",
                )
            ),
            "%k.next = add nuw nsw i64 %k, 1",
            "%again = icmp slt i64 %k.next, %inner",
            "br i1 %again, label %loop, label %end, !llvm.loop !0",
            "end:",
            *(
                line
                for r in rows
                for line in (
                    f"%out.skipped.{r} = mul i64 %columns, {r}",
                    f"%out.{r} = getelementptr float, ptr %out, i64 %out.skipped.{r}",
                    f"call void @llvm.masked.store.v{lanes}f32.p0("
                    f"{vector} %more.{r}, ptr %out.{r}, i32 4, {mask} %there)",
                )
            ),
            "ret void",
            "}",
        ]
    )


def _all_rows() -> str:
    """The rows of a panel, first as many together as there can be."""
    lines = [f"define internal void @all({_GIVEN}, i64 %rows) {{", "entry:", f"br label %try.{_ROWS[0]}"]
    before = "entry"
    for count, after in zip(_ROWS, (*(f"try.{n}" for n in _ROWS[1:]), "end"), strict=True):
        given = _GIVEN.replace("ptr %a,", f"ptr %a.{count},").replace("ptr %out,", f"ptr %out.{count},")
        start = "0" if before == "entry" else f"%r.{before}"
        lines += [
            f"try.{count}:",
            f"%r.{count} = phi i64 [ {start}, %{before if before == 'entry' else f'try.{before}'} ], "
            f"[ %r.{count}.next, %do.{count} ]",
            f"%r.{count}.next = add i64 %r.{count}, {count}",
            f"%fits.{count} = icmp sle i64 %r.{count}.next, %rows",
            f"br i1 %fits.{count}, label %do.{count}, label %{after}",
            f"do.{count}:",
            f"%a.skipped.{count} = mul i64 %r.{count}, %row",
            f"%a.{count} = getelementptr float, ptr %a, i64 %a.skipped.{count}",
            f"%out.skipped.{count} = mul i64 %r.{count}, %columns",
            f"%out.{count} = getelementptr float, ptr %out, i64 %out.skipped.{count}",
            f"call void @rows.{count}({given})",
            f"br label %try.{count}",
        ]
        before = str(count)
    return "\n".join([*lines, "end:", "ret void", "}"])


def _transposed(lanes: int) -> str:
    """Squares of the matrix, transposed in registers by interleaving halves of the rows as often as there are bits."""
    vector, mask = f"<{lanes} x float>", f"<{lanes} x i1>"
    load = f"call {vector} @llvm.masked.load.v{lanes}f32.p0"
    lines = [
        "define internal void @transposed(ptr %b, i64 %inner, i64 %wide, ptr %panel) {",
        "entry:",
        "%last = add i64 %wide, -1",
    ]
    for r in range(lanes):
        lines += [
            f"%r.{r} = call i64 @llvm.smin.i64(i64 {r}, i64 %last)",
            f"%skipped.{r} = mul i64 %r.{r}, %inner",
            f"%b.{r} = getelementptr float, ptr %b, i64 %skipped.{r}",
        ]
    lines += ["br label %square", "square:", "%k = phi i64 [ 0, %entry ], [ %k.next, %square ]"]
    lines += ["%left = sub i64 %inner, %k", *_mask(lanes, "%left", "there")]
    for r in range(lanes):
        lines += [
            f"%at.{r} = getelementptr float, ptr %b.{r}, i64 %k",
            f"%v.0.{r} = {load}(ptr %at.{r}, i32 4, {mask} %there, {vector} zeroinitializer)",
        ]
    rounds = lanes.bit_length() - 1
    for step in range(rounds):
        for r, half, which in _interleaved(lanes):
            order = ", ".join(f"i32 {i}" for i in which)
            lines.append(
                f"%v.{step + 1}.{r} = shufflevector {vector} %v.{step}.{half}, {vector} %v.{step}.{half + lanes // 2}, "
                f"<{lanes} x i32> <{order}>"
            )
    lines += [f"%done = mul i64 %k, {lanes}", "%to = getelementptr float, ptr %panel, i64 %done"]
    for r in range(lanes):
        lines += [
            f"%to.{r} = getelementptr float, ptr %to, i64 {r * lanes}",
            f"store {vector} %v.{rounds}.{r}, ptr %to.{r}, align 4",
        ]
    lines += [
        f"%k.next = add nuw nsw i64 %k, {lanes}",
        "%again = icmp slt i64 %k.next, %inner",
        "br i1 %again, label %square, label %end, !llvm.loop !0",
        "end:",
        "ret void",
        "}",
    ]
    return "\n".join(lines)


def _interleaved(lanes: int) -> Iterator[tuple[int, int, list[int]]]:
    """Of every new row: its number, the one of the first half that it is made of, and which of both rows' elements."""
    for half in range(lanes // 2):
        for upper in range(2):
            start = upper * lanes // 2
            yield (
                2 * half + upper,
                half,
                [x for i in range(lanes // 2) for x in (start + i, start + i + lanes)],
            )
