"""What a compiled step communicates: its collectives by kind, and the bytes of their results."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from unittest import mock

import jax

from functorch_port._array.donation import Donating

KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_LINE = re.compile(rf"= (.*?) ({KINDS})(?:-start)?\(")
_SHAPE = re.compile(r"(pred|[a-z]+\d+)\[([\d,]*)\]")


def text_of(step: Any, *args: Any) -> str:
    """The optimised HLO of a function that `compile` has made, as it runs with these arguments."""
    step(*args)
    for program in step.programs():
        program.quick = None  # the short way of a call
    called = []
    into = Donating.into

    def noted(self: Any, results: Any, given: Any, kind: Any) -> None:
        place = lambda a: a.sharding if len(a.sharding.device_set) > 1 else None
        like = lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place(a))
        called.append((self, jax.tree.map(lambda a: like(a) if isinstance(a, jax.Array) else a, given)))
        into(self, results, given, kind)

    with mock.patch.object(Donating, "into", noted):
        step(*args)
    (program,) = called[-1:]
    with jax.enable_x64(True):
        return str(program[0].jit.lower(*program[1]).compile().as_text())


def shapes_of(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """The kinds of the collectives of a program, each with the shape of a result."""
    return [
        (kind, tuple(int(n) for n in dims.split(",") if n))
        for result, kind in _LINE.findall(text)
        for _, dims in _SHAPE.findall(result)
    ]


def counted(text: str) -> Counter[str]:
    """How many collectives of each kind there are; one that takes several arrays counts once."""
    return Counter(kind for _, kind in _LINE.findall(text))


def elements(text: str) -> Counter[str]:
    """How many numbers the results of the collectives of each kind have."""
    found: Counter[str] = Counter()
    for kind, shape in shapes_of(text):
        size = 1
        for n in shape:
            size *= n
        found[kind] += size
    return found
