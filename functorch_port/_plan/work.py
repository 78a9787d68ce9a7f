"""What a compiled program does on each device: operations of its products, and bytes to and from HBM.

XLA's own figures (`cost_analysis`) count the body of a loop once. Here it counts as often as it runs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np

from .hlo import Program
from .instructions import Instruction, Shape

__all__ = ["cycles", "products", "traffic", "without_cycles"]

#: how often a TPU multiplies parts of bfloat16 for a product of float32, by the precision that is asked for
PASSES = {"default": 1, "high": 3, "highest": 6}

#: cycles that the compiler writes where it has no model of the cost, as of gathers that a SparseCore does
_UNKNOWN = (1 << 63) - 1


def products(program: Program) -> Counter[str]:
    """Operations of products of matrices and convolutions of one device, by what the unit for them computes with.

    A multiplication and an addition are two. Multiplications with the zeros around an image, or with which a product
    of several matrices becomes a convolution on a TPU, do not count.

    Returns:
        ``bf16`` (anything in one pass), ``int8``, ``fp8``, or float32 in several passes: ``bf16x3``, ``bf16x6``.
    """
    found: Counter[str] = Counter()
    for name, body in program.computations.items():
        for instruction in body.values() if program.times[name] else ():
            if instruction.opcode in ("dot", "convolution"):
                found[_unit(body, instruction)] += program.times[name] * _flops(body, instruction)
    return found


def cycles(program: Program) -> int:
    """The clock cycles that a TPU's compiler expects its instructions to take, as often as they run; 0 elsewhere."""
    return sum(times * count for _, times, count in _expected(program) if count != _UNKNOWN)


def without_cycles(program: Program) -> list[Instruction]:
    """Instructions of which a TPU's compiler knows no cycles."""
    return [instruction for instruction, _, count in _expected(program) if count == _UNKNOWN]


def _expected(program: Program) -> Iterator[tuple[Instruction, int, int]]:
    """Instructions, how often they run, and the cycles that the compiler writes."""
    for name, body in program.computations.items():
        if program.times[name] and name not in program.fused:
            for instruction in body.values():
                if said := re.search(r'"estimated_cycles":"(\d+)"', instruction.rest):
                    yield instruction, program.times[name], int(said[1])


def _unit(body: dict[str, Instruction], instruction: Instruction) -> str:
    dtypes = {body[name].results[0].dtype for name in instruction.operands[:2]}
    if dtypes <= {"s8", "u8", "s4", "u4"}:
        return "int8"
    if all(dtype.startswith("f8") for dtype in dtypes):
        return "fp8"
    asked = re.search(r"operand_precision=\{(\w+)", instruction.rest)
    passes = PASSES.get(asked[1], 1) if asked and "f32" in dtypes else 1
    return "bf16" if passes == 1 else f"bf16x{passes}"


def _flops(body: dict[str, Instruction], instruction: Instruction) -> int:
    left, right = (body[name].results[0].dims for name in instruction.operands[:2])
    out = instruction.results[0].dims
    if instruction.opcode == "dot":
        return 2 * math.prod(out) * math.prod(left[d] for d in instruction.numbers("lhs_contracting_dims"))
    labels = re.split("_|->", instruction.attribute("dim_labels") or "")
    spatial = [d for d in labels[0] if d.isdigit()]
    window = _window(instruction.rest, len(spatial))
    pairs = math.prod(
        _pairs(left[labels[0].index(d)], out[labels[2].index(d)], *window[int(d)]) for d in spatial
    )
    places = math.prod(out[labels[2].index(d)] for d in spatial)
    return 2 * math.prod(out) // places * right[labels[1].index("i")] * pairs


def _window(rest: str, dimensions: int) -> list[tuple[int, int, int, int, int]]:
    """For each dimension the size of the window, its stride, the zeros before it, and both dilations."""
    text = re.search(r"window=\{([^}]*)\}", rest)
    given = dict(part.split("=") for part in text[1].split()) if text else {}

    def each(name: str, default: str) -> list[int]:
        return [int(n.split("_")[0]) for n in given.get(name, "x".join([default] * dimensions)).split("x")]

    names = {"size": "1", "stride": "1", "pad": "0_0", "lhs_dilate": "1", "rhs_dilate": "1"}
    return list(zip(*(each(name, default) for name, default in names.items()))) if dimensions else []


@cache
def _pairs(length: int, places: int, size: int, stride: int, before: int, of_left: int, of_right: int) -> int:
    """How many pairs of a place of the result and one of the window meet an element, and not a zero."""
    at = np.arange(places)[:, None] * stride + np.arange(size) * of_right - before
    return int(((at % of_left == 0) & (at >= 0) & (at < length * of_left)).sum())


# ------------------------------------------------------------------ memory


#: what moves nothing, or whose parts do
_FREE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all",
    "partition-id", "replica-id", "optimization-barrier", "domain", "add-dependency", "async-start",
})  # fmt: skip
_COLLECTIVE = re.compile("all-|reduce-scatter|collective-|ragged-all-")


def traffic(program: Program, of: str = "") -> int:
    """Bytes that instructions read from HBM and write to it, of one device.

    Each instruction reads its operands and writes its results once; what is within a fusion stays within the chip, and
    so does what the compiler places there. Of an array of which only a part is read or replaced, only that counts.

    Args:
        of: only computations whose names contain it count.
    """
    memory = _Memory(program)
    return sum(
        program.times[name] * sum(memory.moved(name, instruction) for instruction in body.values())
        for name, body in program.computations.items()
        if program.times[name] and name not in program.fused and of in name
    )


class _Memory:
    def __init__(self, program: Program) -> None:
        self.program = program

    def moved(self, name: str, instruction: Instruction) -> int:
        """By an instruction of a computation."""
        body, opcode = self.program.computations[name], instruction.opcode
        if opcode in _FREE or opcode.endswith(("-done", "-update")):
            return 0
        made = _hbm(instruction.results)
        if opcode == "copy-start":
            return _hbm(instruction.results[:2])
        if opcode in ("slice-start", "dynamic-slice-start"):
            part = instruction.results[len(instruction.operands)]
            return _hbm((part,)) + part.nbytes * (instruction.results[0].space == 0)
        if opcode.endswith("-start") and opcode != "all-reduce-start":  # operands are among the results
            return made
        taken = [_hbm(body[o].results) if o in body else 0 for o in instruction.operands]
        if opcode == "fusion":
            inner = instruction.attribute("calls") or ""
            read = [min(size, self.read(inner, k)) if size else 0 for k, size in enumerate(taken)]
            return sum(read) + self.written(inner, instruction)
        if opcode in ("dynamic-slice", "slice", "gather"):
            return made + instruction.nbytes * (taken[0] > 0)
        if opcode == "dynamic-update-slice":
            return taken[1] + body[instruction.operands[1]].nbytes * (made > 0)
        return sum(taken) + made

    def read(self, name: str, number: int) -> int:
        """Bytes that a fused computation reads of a parameter."""
        body = self.program.computations[name]
        given = next(i for i in body.values() if i.opcode == "parameter" and i.given == str(number))
        return self._read(name, given)

    def _read(self, name: str, value: Instruction) -> int:
        return min(
            value.nbytes,
            sum(self._by(name, user, value) for user in self.program.users(name).get(value.name, ())),
        )

    def _by(self, name: str, user: Instruction, value: Instruction) -> int:
        if user.opcode == "bitcast":
            return self._read(name, user)
        if user.opcode == "tuple" or user.goes_on:
            return 0
        if user.opcode == "fusion":
            inner = user.attribute("calls") or ""
            places = [k for k, operand in enumerate(user.operands) if operand == value.name]
            on = self._read(name, user) if self.passed(inner) in places else 0
            return on + sum(self.read(inner, k) for k in places)
        if user.operands[0] == value.name and value.name not in user.operands[1:]:
            if user.opcode in ("dynamic-slice", "slice", "gather"):
                return user.nbytes
            if user.opcode == "dynamic-update-slice":
                return 0
        return value.nbytes

    def written(self, name: str, fusion: Instruction) -> int:
        """Bytes of the results of a fusion that are new."""
        body = self.program.computations[name]
        root = next(i for i in body.values() if i.is_root)
        made = [body[o] for o in root.operands] if root.opcode == "tuple" else [root]
        if len(made) != len(fusion.results):
            begun = [i for i in body.values() if _COLLECTIVE.match(i.opcode) and not i.goes_on]
            return sum(_hbm(i.results) for i in begun) if begun else _hbm(fusion.results)
        return sum(min(_hbm((shape,)), self._new(name, each)) for each, shape in zip(made, fusion.results))

    def _new(self, name: str, value: Instruction) -> int:
        body = self.program.computations[name]
        while value.opcode == "bitcast":
            value = body[value.operands[0]]
        if value.opcode == "parameter" or value.goes_on:
            return 0
        if value.opcode == "dynamic-update-slice":
            return body[value.operands[1]].nbytes
        if value.opcode == "fusion":
            inner = value.attribute("calls") or ""
            passed = self.passed(inner)
            return (
                self.written(inner, value)
                if passed is None
                else self._new(name, body[value.operands[passed]])
            )
        return value.nbytes

    def passed(self, name: str) -> int | None:
        """Which parameter of a fused computation is its result, under another shape."""
        body = self.program.computations[name]
        value = next(i for i in body.values() if i.is_root)
        while value.opcode in ("bitcast", "fusion"):
            number = self.passed(value.attribute("calls") or "") if value.opcode == "fusion" else 0
            if number is None:
                return None
            value = body[value.operands[number]]
        return int(value.given) if value.opcode == "parameter" else None


def _hbm(shapes: tuple[Shape, ...]) -> int:
    return sum(shape.nbytes for shape in shapes if shape.space == 0)
