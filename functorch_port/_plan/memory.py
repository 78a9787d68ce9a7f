"""What a compiled program keeps in memory while it runs, read from its text: values from their making to the last use.

XLA tells the sum of temporary memory, and not what is in it. The text of a scheduled program has the operations of one
device in their order, with their shapes and the names of modules. So the values that live at the worst moment are known
well, though not to the byte: XLA lets some share memory, and fills gaps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Kept", "at_the_peak", "scope_of"]

_BYTES = {"pred": 1, "token": 0, "s4": 0.5, "u4": 0.5, "bf16": 2, "c64": 8, "c128": 16}
#: what gives a value that was there before, under another name
_SAME = frozenset({
    "bitcast", "optimization-barrier", "copy-done", "all-gather-done", "all-reduce-done", "collective-permute-done",
    "async-done", "async-update", "send-done", "recv-done", "slice-done", "while", "domain",
})  # fmt: skip
_WRITES_INTO_FIRST = frozenset({"dynamic-update-slice", "scatter"})
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=]*)\](?:\{([^{}]*)\})?")
_HEAD = re.compile(r"^\s*(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_NAME = re.compile(r"%([\w.\-]+)")
#: parts of names that JAX adds for control flow
_NOT_MODULES = frozenset({
    "while", "body", "cond", "closed_call", "checkpoint", "rematted_computation", "custom_jvp_call", "custom_vjp_call",
})  # fmt: skip
_JITTED, _WRAPPED = re.compile(r"\bp?jit\([^()]*\)"), re.compile(r"\b\w+\(")
_OP_NAME = re.compile(r'op_name="([^"]*)"')


class Kept(NamedTuple):
    """A value that lives at the worst moment.

    Attributes:
        nbytes: of one device, as the compiler lays it out.
        shape: with its dtype, of one device.
        scope: the module and pass that made it, as ``net/layers/0`` or ``backward/net/head``.
        for_backward: whether the forward pass made it, and the backward pass reads it.
    """

    nbytes: int
    shape: str
    scope: str
    for_backward: bool


class _Buffer:
    """Memory that an operation fills.

    Attributes:
        made, last: numbers of the operations that make it, and that read it last.
        scope, reader: theirs. Of what is empty until a loop fills it, that of the loop.
        is_filled: whether it is no such.
    """

    __slots__ = ("is_filled", "last", "made", "nbytes", "reader", "scope", "shape")

    def __init__(self, nbytes: int, shape: str, scope: str, made: int) -> None:
        self.nbytes, self.shape, self.scope = nbytes, shape, scope
        self.made = self.last = made
        self.reader, self.is_filled = scope, bool(scope)


class _Operation(NamedTuple):
    name: str
    shape: str
    opcode: str
    operands: list[str]
    rest: str
    is_root: bool


def scope_of(op_name: str) -> str:
    """The modules in the name of an operation of a program, without JAX's transforms and the operation itself."""
    path = _WRAPPED.sub("", _JITTED.sub("", op_name)).replace(")", "")
    scope = "/".join(part for part in path.split("/")[:-1] if part and part not in _NOT_MODULES)
    if "transpose(" in op_name and not _is_backward(scope):  # JAX's derivative of what the user wrote in JAX
        return f"backward/{scope}" if scope else "backward"
    return scope


def _nbytes(dtype: str, sizes: str, layout: str) -> int:
    """Bytes of an array in the devices' main memory; those in another memory count as none."""
    if re.search(r"S\([1-9]", layout):
        return 0
    shape = [int(n.lstrip("<=")) for n in sizes.split(",") if n]
    order, _, rest = layout.partition(":")
    tile = re.search(r"T\(([\d,]+)\)", rest)
    if tile is not None and shape and order:
        of_tile = [int(n) for n in tile.group(1).split(",")]
        minor = [int(n) for n in order.split(",")]
        for axis, step in zip(minor, reversed(of_tile)):
            shape[axis] = -(-shape[axis] // step) * step
    width = _BYTES.get(dtype)
    if width is None:
        digits = re.search(r"\d+", dtype)
        width = int(digits.group()) / 8 if digits else 0
    return math.ceil(math.prod(shape) * width)


def _closed(text: str, start: int) -> int:
    """Where the bracket closes that opens at ``start``."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if not depth:
            return i
    return len(text) - 1


def _operation(line: str) -> _Operation | None:
    head = _HEAD.match(line)
    if head is None:
        return None
    at = head.end()
    end = _closed(line, at) + 1 if line[at] == "(" else line.find(" ", at)
    opcode = _OPCODE.match(line, end)
    if opcode is None:
        return None
    close = _closed(line, opcode.end() - 1)
    operands = _NAME.findall(line[opcode.end() : close])
    return _Operation(
        head.group(2), line[at:end], opcode.group(1), operands, line[close + 1 :], bool(head.group(1))
    )


def _computations(text: str) -> tuple[dict[str, list[_Operation]], str]:
    """The operations of each computation, and the name of the entry."""
    found: dict[str, list[_Operation]] = {}
    entry, now = "", None
    for line in text.splitlines():
        if line[:1] in ("%", "E"):
            name = _NAME.search(line)
            if name is not None and line.rstrip().endswith("{"):
                now = found.setdefault(name.group(1), [])
                entry = name.group(1) if line.startswith("ENTRY") else entry
        elif line.startswith("}"):
            now = None
        elif now is not None and (operation := _operation(line)) is not None:
            now.append(operation)
    return found, entry


class _Reader:
    """Reads the computations of a program."""

    def __init__(self, text: str) -> None:
        self.computations, self.entry = _computations(text)
        self._inner: dict[str, tuple[int, list[Kept]]] = {}

    def peak(self, computation: str) -> tuple[int, list[Kept]]:
        """The most that lives at a time in a computation beside its arguments and results, and what that is."""
        found = self._inner.get(computation)
        if found is None:
            self._inner[computation] = (0, [])  # should one call itself
            found = self._inner[computation] = self._peak(self.computations.get(computation, []))
        return found

    def _peak(self, operations: Sequence[_Operation]) -> tuple[int, list[Kept]]:
        values: dict[str, Any] = {}
        buffers: list[_Buffer] = []
        within: dict[int, tuple[int, list[Kept]]] = {}
        results: set[int] = set()
        for i, one in enumerate(operations):
            scope = self._scope(one)
            for operand in one.operands:
                for buffer in _leaves(values.get(operand)):
                    buffer.last, buffer.reader = i, scope or buffer.reader
                    if one.opcode == "while" and not buffer.is_filled:
                        buffer.scope, buffer.is_filled = scope, True
            values[one.name] = self._value(one, values, buffers, scope, i)
            inner = [self.peak(name) for name in _called(one)]
            if inner:
                within[i] = max(inner, key=lambda pair: pair[0])
            if one.is_root:
                results = {id(buffer) for buffer in _leaves(values[one.name])}
        own = [buffer for buffer in buffers if id(buffer) not in results and buffer.nbytes]
        return _worst(own, within, len(operations))

    def _scope(self, one: _Operation) -> str:
        """The scope of an operation; of a fusion without one, that of what it computes last."""
        name = _OP_NAME.search(one.rest)
        scope = scope_of(name.group(1)) if name else ""
        called = re.search(r"calls=%([\w.\-]+)", one.rest)
        if not scope and called is not None:
            inner = (
                _OP_NAME.search(part.rest) for part in reversed(self.computations.get(called.group(1), []))
            )
            scope = next(filter(None, (scope_of(found.group(1)) for found in inner if found)), "")
        return scope

    def _value(
        self, one: _Operation, values: dict[str, Any], buffers: list[_Buffer], scope: str, i: int
    ) -> Any:
        """What an operation gives: a buffer, a list for a tuple, or None for what takes no memory of its own."""
        first = values.get(one.operands[0]) if one.operands else None
        if one.opcode in ("parameter", "constant", "partition-id", "replica-id", "after-all"):
            return None
        if one.opcode == "tuple":
            return [values.get(operand) for operand in one.operands]
        if one.opcode == "get-tuple-element":
            index = int(re.search(r"index=(\d+)", one.rest).group(1))  # type: ignore[union-attr]
            return first[index] if isinstance(first, list) and index < len(first) else first
        if one.opcode in _SAME:
            if one.opcode.endswith("-done") and isinstance(first, list):
                return first[1] if len(first) > 1 and one.opcode != "copy-done" else first[0]
            return first
        if one.opcode in _WRITES_INTO_FIRST and isinstance(first, _Buffer) and first.last == i:
            return first
        shapes = list(_ARRAY.finditer(one.shape))
        if one.opcode == "call":
            shapes = []
        made = []
        shared = _shared(one, values)
        for k, shape in enumerate(shapes):
            if k in shared:
                made.append(shared[k])
                continue
            dtype, sizes, layout = shape.group(1), shape.group(2), shape.group(3) or ""
            buffer = _Buffer(_nbytes(dtype, sizes, layout), f"{dtype}[{sizes}]", scope, i)
            buffers.append(buffer)
            made.append(buffer)
        return made if one.shape.startswith("(") else (made[0] if made else None)


def _shared(one: _Operation, values: dict[str, Any]) -> dict[int, Any]:
    """The results of an operation that it writes into what it was given, by their numbers."""
    found: dict[int, Any] = {}
    text = re.search(r"output_to_operand_aliasing=\{(.*?\))\}", one.rest)
    for out, operand in re.findall(r"\{(\d*)\}: \((\d+)", text.group(1)) if text else ():
        if int(operand) < len(one.operands):
            found[int(out or 0)] = values.get(one.operands[int(operand)])
    return found


def _called(one: _Operation) -> list[str]:
    """The computations that an operation runs, whose values take memory of the devices."""
    if one.opcode not in ("while", "conditional", "call"):
        return []
    names = re.findall(r"(?:body|to_apply|true_computation|false_computation)=%([\w.\-]+)", one.rest)
    many = re.search(r"branch_computations=\{([^}]*)\}", one.rest)
    return [*names, *(_NAME.findall(many.group(1)) if many else ())]


def _leaves(value: Any) -> Iterator[_Buffer]:
    if isinstance(value, _Buffer):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)


def _worst(
    buffers: Sequence[_Buffer], within: dict[int, tuple[int, list[Kept]]], count: int
) -> tuple[int, list[Kept]]:
    """The most that lives at a time, and what that is."""
    change = [0] * (count + 2)
    for buffer in buffers:
        change[buffer.made] += buffer.nbytes
        # an operation may write over what it reads for the last time
        change[max(buffer.last, buffer.made + 1)] -= buffer.nbytes
    best, at, now = 0, 0, 0
    for i in range(count):
        now += change[i]
        total = now + within.get(i, (0, []))[0]
        if total > best:
            best, at = total, i
    living = [b for b in buffers if b.made <= at < max(b.last, b.made + 1)]
    kept = [Kept(b.nbytes, b.shape, b.scope, _is_saved(b)) for b in living]
    return best, [*kept, *within.get(at, (0, []))[1]]


def _is_saved(buffer: _Buffer) -> bool:
    return not _is_backward(buffer.scope) and _is_backward(buffer.reader)


def _is_backward(scope: str) -> bool:
    return scope.split("/")[0] == "backward"


def at_the_peak(text: str) -> list[Kept]:
    """What lives at the worst moment of a program beside its arguments and results, the largest first.

    Args:
        text: of a compiled program (``as_text()``), in which operations are in the order in which they run.
    """
    reader = _Reader(text)
    return sorted(reader.peak(reader.entry)[1], key=lambda kept: -kept.nbytes)
