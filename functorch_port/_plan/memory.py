"""What a compiled program keeps in memory while it runs, read from its text: values from their making to the last use.

XLA tells the sum of temporary memory, and not what is in it. The text of a scheduled program has the operations of one
device in their order, with their shapes and the names of modules. So the values that live at the worst moment are known
well, though not to the byte: XLA lets some share memory, and fills gaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .hlo import Program, parse
from .instructions import Instruction

__all__ = ["Kept", "at_the_peak", "scope_of"]

#: what gives a value that was there before, under another name
_SAME = frozenset({
    "bitcast", "optimization-barrier", "copy-done", "all-gather-done", "all-reduce-done", "collective-permute-done",
    "async-done", "async-update", "send-done", "recv-done", "slice-done", "while", "domain",
})  # fmt: skip
_WRITES_INTO_FIRST = frozenset({"dynamic-update-slice", "scatter"})
#: what begins a transfer has its operand among its results, too: at which place
_KEEPS = {"async-start": 0, "all-gather-start": 0, "collective-permute-start": 0, "copy-start": 1}
#: parts of names that JAX adds for control flow
_NOT_MODULES = frozenset({
    "while", "body", "cond", "closed_call", "eval_jaxpr", "checkpoint", "rematted_computation", "custom_jvp_call",
    "custom_vjp_call",
})  # fmt: skip
_JITTED, _WRAPPED = re.compile(r"\bp?jit\([^()]*\)"), re.compile(r"\b\w+\(")
_NAME = re.compile(r"%([\w.\-]+)")


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


def scope_of(op_name: str) -> str:
    """The modules in the name of an operation of a program, without JAX's transforms and the operation itself."""
    path = _WRAPPED.sub("", _JITTED.sub("", op_name)).replace(")", "")
    scope = "/".join(part for part in path.split("/")[:-1] if part and part not in _NOT_MODULES)
    if "transpose(" in op_name and not _is_backward(scope):  # JAX's derivative of what the user wrote in JAX
        return f"backward/{scope}" if scope else "backward"
    return scope


class _Reader:
    """Reads the computations of a program."""

    def __init__(self, program: Program) -> None:
        self.computations = program.computations
        self._inner: dict[str, tuple[int, list[Kept]]] = {}

    def peak(self, computation: str) -> tuple[int, list[Kept]]:
        """The most that lives at a time in a computation beside its arguments and results, and what that is."""
        found = self._inner.get(computation)
        if found is None:
            self._inner[computation] = (0, [])  # should one call itself
            found = self._inner[computation] = self._peak([*self.computations.get(computation, {}).values()])
        return found

    def _peak(self, operations: Sequence[Instruction]) -> tuple[int, list[Kept]]:
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

    def _scope(self, one: Instruction) -> str:
        """The scope of an operation; of a fusion without one, that of what it computes last."""
        scope, called = scope_of(one.place), one.attribute("calls")
        if not scope and called is not None:
            inner = reversed(self.computations.get(called, {}).values())
            scope = next(filter(None, (scope_of(part.place) for part in inner)), "")
        return scope

    def _value(
        self, one: Instruction, values: dict[str, Any], buffers: list[_Buffer], scope: str, i: int
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
        made = []
        shared = _shared(one, values)
        for k, shape in enumerate(one.results if one.opcode != "call" else ()):
            if k in shared:
                made.append(shared[k])
                continue
            buffer = _Buffer(shape.laid_out, str(shape), scope, i)
            buffers.append(buffer)
            made.append(buffer)
        return made if one.is_tuple else (made[0] if made else None)


def _shared(one: Instruction, values: dict[str, Any]) -> dict[int, Any]:
    """The results of an operation that it writes into what it was given, by their numbers."""
    found: dict[int, Any] = {}
    text = re.search(r"output_to_operand_aliasing=\{(.*?\))\}", one.rest)
    for out, operand in re.findall(r"\{(\d*)\}: \((\d+)", text.group(1)) if text else ():
        if int(operand) < len(one.operands):
            found[int(out or 0)] = values.get(one.operands[int(operand)])
    if one.opcode in _KEEPS and len(one.operands) == 1 and len(one.results) > 1:
        found[_KEEPS[one.opcode]] = values.get(one.operands[0])
    return found


def _called(one: Instruction) -> list[str]:
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
    program = parse(text)
    return sorted(_Reader(program).peak(program.entry)[1], key=lambda kept: -kept.nbytes)
