"""Optimised HLO text: its computations, and how often each of them runs.

Reference: https://openxla.org/xla/operation_semantics
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .instructions import Instruction, Shape
from .loops import trips

__all__ = ["Program", "parse"]


@dataclass
class Program:
    """A program of one device.

    Attributes:
        computations: the instructions by name, by the computation's name.
        entry: the name of the one that is run.
        devices: how many run it.
    """

    computations: dict[str, dict[str, Instruction]]
    entry: str
    devices: int = 1
    _unknown: list[str] = field(default_factory=list)
    _users: dict[str, dict[str, list[Instruction]]] = field(default_factory=dict)

    @cached_property
    def times(self) -> dict[str, int]:
        """How often each computation runs. Each branch of a condition counts as if it ran."""
        calls: dict[str, list[tuple[str, int]]] = {}
        for name, body in self.computations.items():
            for instruction in body.values():
                for called, count in self._calls(name, instruction):
                    calls.setdefault(called, []).append((name, count))
        found = {self.entry: 1}

        def times(name: str) -> int:
            if name not in found:
                found[name] = 0  # if it is nowhere called
                found[name] = sum(times(caller) * count for caller, count in calls.get(name, ()))
            return found[name]

        return {name: times(name) for name in self.computations}

    @property
    def unknown(self) -> list[str]:
        """The loops of which it is not known how often they run: they count once."""
        return self._unknown if self.times else []

    @cached_property
    def uses_hosts(self) -> bool:
        """Whether arrays lie in the memory of the hosts."""
        instructions = (instruction for body in self.computations.values() for instruction in body.values())
        return any(shape.space == _HOST for instruction in instructions for shape in instruction.results)

    def count(self, opcode: str, *without: str) -> int:
        """How many instructions there are of a kind, without those that have some text in them."""
        return sum(
            instruction.opcode == opcode and not any(text in instruction.rest for text in without)
            for name, body in self.computations.items()
            if self.times[name]
            for instruction in body.values()
        )

    def users(self, name: str) -> dict[str, list[Instruction]]:
        """Of a computation: the instructions that have another one as an operand."""
        if name not in self._users:
            found = self._users[name] = {}
            for instruction in self.computations[name].values():
                for operand in dict.fromkeys(instruction.operands):
                    found.setdefault(operand, []).append(instruction)
        return self._users[name]

    @cached_property
    def fused(self) -> set[str]:
        """Computations that are within an instruction: what they read and write is that instruction's."""
        found = set()
        for body in self.computations.values():
            for instruction in body.values():
                if instruction.opcode == "fusion" and (called := instruction.attribute("calls")):
                    found.add(called)
        return found

    def _calls(self, name: str, instruction: Instruction) -> Iterator[tuple[str, int]]:
        opcode, rest = instruction.opcode, instruction.rest
        if opcode in _WITHIN or opcode.endswith(("-update", "-done")):  # the start has called it
            return
        if opcode == "while":
            count = trips(self.computations, name, instruction)
            if count is None:
                self._unknown.append(instruction.name)
                count = 1
            for attribute, times in (("body", count), ("condition", count + 1)):
                if (called := instruction.attribute(attribute)) is not None:
                    yield called, times
            return
        for found in _CALLED.finditer(rest):
            for called in (found[1] or found[2]).split(","):
                yield called.strip().lstrip("%"), 1


#: the memory of the host, as TPUs number it
_HOST = 5
_WITHIN = {"all-reduce", "reduce-scatter", "all-reduce-start", "reduce", "reduce-window", "scatter", "sort", "map",
           "select-and-scatter"}  # fmt: skip
_CALLED = re.compile(
    r"(?:calls|to_apply|true_computation|false_computation)=(%?[\w.-]+)|"
    r"(?:branch_computations|called_computations)=\{([^}]*)\}"
)
_HEAD = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_LINE = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.+?) ([a-z][\w-]*)\((.*)$")
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_SPACE = re.compile(r"S\((\d+)\)")
#: an instruction, or an element of one that is a tuple
_NAME = re.compile(r"%([\w.-]+(?:#\d+)*)")


def parse(text: str) -> Program:
    """Read a module: what ``compiled.as_text()`` gives.

    Raises:
        ValueError: there is no entry computation.
    """
    computations: dict[str, dict[str, Instruction]] = {}
    entry, body = "", None
    made_of: dict[str, str] = {}
    for line in text.splitlines():
        if body is None or line[:1] not in (" ", "\t"):
            head = _HEAD.match(line)
            if head:
                body = computations[head[2]] = {}
                made_of = {}
                entry = head[2] if head[1] else entry
            continue
        found = _LINE.match(line)
        if found:
            root, name, made, opcode, rest = found.groups()
            end = _closing(rest)
            given = rest[:end]
            operands = tuple(_NAME.findall(given))
            made_of[name] = made
            for operand in operands:
                _add_element(operand, body, made_of)
            body[name] = Instruction(
                name,
                opcode,
                tuple(_shapes(made)),
                operands,
                given,
                rest[end + 1 :],
                bool(root),
                made.startswith("("),
            )
    if not entry:
        raise ValueError(
            "the text of a compiled program (compiled.as_text()) has an ENTRY, and this has none"
        )
    counts = re.findall(r"\b(?:num_partitions|replica_count)=(\d+)", text.partition("\n")[0])
    return Program(computations, entry, math.prod(map(int, counts)))


def _add_element(name: str, body: dict[str, Instruction], made_of: dict[str, str]) -> None:
    """Have the instruction that ``x#2`` stands for, where the text (of JAX from 0.12 on) has none."""
    of, _, index = name.rpartition("#")
    if not of or name in body:
        return
    _add_element(of, body, made_of)
    made = made_of[name] = _parts(made_of[of])[int(index)]
    body[name] = Instruction(
        name,
        "get-tuple-element",
        tuple(_shapes(made)),
        (of,),
        f"%{of}",
        f", index={index}",
        False,
        made[0] == "(",
    )


def _parts(text: str) -> list[str]:
    """The types of a tuple's elements."""
    parts, depth = [""], 0
    for letter in text[1 : _closing(text[1:]) + 1]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _closing(text: str) -> int:
    """Where the parenthesis ends that is open at the start."""
    depth = 1
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return len(text)


def _shapes(text: str) -> Iterator[Shape]:
    for dtype, dims, layout in _ARRAY.findall(text):
        space = _SPACE.search(layout)
        sizes = tuple(int(n.lstrip("<=")) for n in dims.split(",") if n)
        yield Shape(dtype, sizes, int(space[1]) if space else 0, layout)
