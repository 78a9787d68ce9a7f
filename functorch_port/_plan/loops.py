"""How often loops of compiled programs run: their counters are computed, and nothing else of them.

A counter of 64 bits is two numbers of 32 on a TPU, and its comparison is several operations, so no pattern of them is
looked for: what a condition depends on is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .instructions import Instruction, Shape

__all__ = ["trips"]

Body = Mapping[str, Instruction]
#: computations by name
Program = Mapping[str, Body]

#: a loop that runs longer counts as one of unknown length
LONGEST = 100_000

_SAME = frozenset(
    {"copy", "bitcast", "reshape", "convert", "bitcast-convert", "optimization-barrier", "copy-done"}
)
_TWO: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "maximum": max,
    "minimum": min,
}
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
}


def trips(program: Program, name: str, loop: Instruction) -> int | None:
    """How often a loop in a computation runs; None if that cannot be known."""
    said = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.rest)
    if said:
        return int(said[1])
    body, condition = (program.get(loop.attribute(part) or "") for part in ("body", "condition"))
    if body is None or condition is None:
        return None
    after = _root(body)
    if after.opcode != "tuple":
        return None
    wanted = _elements(condition, _root(condition).name)
    while True:
        more = wanted.union(*(_elements(body, after.operands[k]) for k in wanted))
        if more == wanted:
            break
        wanted = more
    now = {k: _start(program, name, loop, k) for k in wanted}
    for count in range(LONGEST):
        goes_on = _Values(program, condition, now).of(_root(condition).name)
        if goes_on is None:
            return None
        if not goes_on:
            return count
        values = _Values(program, body, now)
        now = {k: values.of(after.operands[k]) for k in wanted}
    return None


def _root(body: Body) -> Instruction:
    return next(instruction for instruction in body.values() if instruction.is_root)


def _elements(body: Body, name: str) -> set[int]:
    """The elements of the computation's parameter that a value depends on."""
    found, seen, stack = set(), set(), [name]
    while stack:
        instruction = body[stack.pop()]
        if instruction.name in seen:
            continue
        seen.add(instruction.name)
        if instruction.opcode == "get-tuple-element" and body[instruction.operands[0]].opcode == "parameter":
            found.add(int(instruction.attribute("index") or 0))
        else:
            stack += [operand for operand in instruction.operands if operand in body]
    return found


def _start(program: Program, name: str, loop: Instruction, index: int) -> int | None:
    """What an element of a loop is before it; of a loop within one maybe what the outer one has, and never changes."""
    where, made = _tuple(program, name, loop.operands[0])
    if made is None or made.opcode != "tuple" or index >= len(made.operands):
        return None
    here = program[where]
    needed = _elements(here, made.operands[index])
    return _Values(program, here, {k: _kept(program, where, k) for k in needed}).of(made.operands[index])


def _tuple(program: Program, name: str, operand: str) -> tuple[str, Instruction | None]:
    """What makes a tuple, and in which computation: that of a parameter is made by the one that calls this."""
    here = program[name]
    made = here.get(operand)
    while made is not None and made.opcode in _SAME:
        made = here.get(made.operands[0])
    if made is not None and made.opcode == "parameter":
        for outer, instructions in program.items():
            for instruction in instructions.values():
                if instruction.opcode == "call" and instruction.attribute("to_apply") == name:
                    return _tuple(program, outer, instruction.operands[int(made.given)])
    return name, made


def _kept(program: Program, name: str, index: int) -> int | None:
    """What an element of a loop's body is if the loop hands it on as it is."""
    body = program[name]
    after = _root(body)
    if after.opcode != "tuple" or index >= len(after.operands):
        return None
    made = body[after.operands[index]]
    if made.opcode != "get-tuple-element" or made.attribute("index") != str(index):
        return None
    for outer, instructions in program.items():
        for instruction in instructions.values():
            if instruction.opcode == "while" and instruction.attribute("body") == name:
                return _start(program, outer, instruction, index)
    return None


class _Values:
    """Values of whole numbers in a computation, with those of its parameter's elements or of its parameters."""

    def __init__(
        self,
        program: Program,
        body: Body,
        elements: Mapping[int, int | None],
        given: tuple[int | None, ...] = (),
    ) -> None:
        self.program, self.body, self.elements, self.given = program, body, elements, given
        self.known: dict[str, int | None] = {}

    def of(self, name: str) -> int | None:
        """None if it is not known."""
        if name not in self.known:
            self.known[name] = None
            instruction = self.body.get(name)
            if instruction is not None and not any(shape.dims for shape in instruction.results[:1]):
                value = self._computed(instruction)
                self.known[name] = None if value is None else _within(value, instruction.results[0])
        return self.known[name]

    def _computed(self, instruction: Instruction) -> int | None:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode == "constant":
            return _number(instruction.given)
        if opcode == "parameter":
            number = int(instruction.given)
            return self.given[number] if number < len(self.given) else None
        if opcode == "get-tuple-element":
            index, of = int(instruction.attribute("index") or 0), self.body[operands[0]]
            if of.opcode == "parameter":
                return self.elements.get(index)
            return self._fused(of, index) if of.opcode == "fusion" else None
        if opcode == "fusion":
            return self._fused(instruction, None)
        values = [self.of(operand) for operand in operands]
        if opcode == "select" and values[0] is not None:
            return values[1] if values[0] else values[2]
        known = [value for value in values if value is not None]
        if len(known) < len(values) or not known:
            return None
        if opcode in _SAME:
            return known[0]
        if opcode == "not":
            return 1 - known[0] if instruction.results[0].dtype == "pred" else ~known[0]
        if opcode == "compare":
            return int(_COMPARED[instruction.attribute("direction") or "EQ"](*known))
        return _TWO[opcode](*known) if opcode in _TWO else None

    def _fused(self, fusion: Instruction, index: int | None) -> int | None:
        inner = self.program.get(fusion.attribute("calls") or "")
        if inner is None:
            return None
        root = _root(inner)
        if (root.opcode == "tuple") != (index is not None):
            return None
        given = tuple(self.of(operand) for operand in fusion.operands)
        return _Values(self.program, inner, {}, given).of(
            root.name if index is None else root.operands[index]
        )


def _number(text: str) -> int | None:
    if text in ("true", "false"):
        return int(text == "true")
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _within(value: int, shape: Shape) -> int | None:
    """A number as its type has it; None of a type that has no whole numbers."""
    found = re.fullmatch(r"([su])(\d+)", shape.dtype)
    if found is None:
        return value & 1 if shape.dtype == "pred" else None
    bits = int(found[2])
    value &= (1 << bits) - 1
    return value - (1 << bits) if found[1] == "s" and value >> (bits - 1) else value
