"""What a compiled step communicates: collectives by kind, the bytes of their results, whether a loop has them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from functorch_port._array.donation import Donating
from functorch_port._plan.topology import devices_of

KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_LINE = re.compile(rf"= (.*?) ({KINDS})(?:-start)?\(")
_SHAPE = re.compile(r"(pred|[a-z]+\d+)\[([\d,]*)\]")


def text_of(step: Any, *args: Any) -> str:
    """The optimised HLO of a function that `compile` has made, as it runs with these arguments."""
    jit, given = called_by(step, *args)
    with jax.enable_x64(True):
        return str(jit.lower(*given).compile().as_text())


def called_by(step: Any, *args: Any) -> tuple[Any, Any]:
    """What `jax.jit` made, that runs when such a function is called; with what it is given, but shapes for arrays."""
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
    donating, given = called[-1]
    return donating.jit, given


class Collective(NamedTuple):
    """A collective of a program.

    Attributes:
        shapes: of its results.
        size: their bytes; of a reduce-scatter those of the whole.
        looped: whether it is in a loop.
    """

    kind: str
    shapes: list[tuple[int, ...]]
    size: int
    looped: bool


_HEAD = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", re.MULTILINE)
_CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|branch_computations|called_computations)=\{?((?:%?[\w.-]+(?:, )?)+)"
)
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s64": 8, "u64": 8, "f64": 8}


def collectives(text: str) -> list[Collective]:
    """The collectives of optimised HLO, each once: one that is begun and ended apart, or in steps, has one channel."""
    heads = [*_HEAD.finditer(text)]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    bodies = {head[1]: text[head.end() : end] for head, end in zip(heads, ends, strict=True)}
    calls = {
        name: {c.lstrip("%") for some in _CALLED.findall(body) for c in some.split(", ")}
        for name, body in bodies.items()
    }
    looped: set[str] = set()
    reached = {name for body in bodies.values() for name in re.findall(r"body=%?([\w.-]+)", body)}
    while reached:
        looped |= reached
        reached = {inner for name in reached for inner in calls.get(name, ())} - looped
    found: dict[str, Collective] = {}
    for name, body in bodies.items():
        for line in body.splitlines():
            made = _LINE.search(line)
            if not made:
                continue
            results = _SHAPE.findall(made[1])
            if "-start(" in line and made[2] != "all-reduce":  # operands, results, and maybe counters
                results = [r for r in results if r != ("u32", "")]
                results = results[len(results) // 2 :]
            shapes = [tuple(int(n) for n in dims.split(",") if n) for _, dims in results]
            size = sum(
                _BYTES.get(kind, 4) * int(np.prod(s)) for (kind, _), s in zip(results, shapes, strict=True)
            )
            kind = made[2]
            if kind == "reduce-scatter":
                size *= _parts(line)
            if kind == "all-reduce" and name.startswith(
                "all-reduce-scatter"
            ):  # a TPU's, fused with the slice
                kind = "reduce-scatter"
            channel = re.search(r"channel_id=(\d+)", line)
            found.setdefault(
                channel[1] if channel else f"{name} {line}", Collective(kind, shapes, size, name in looped)
            )
    return [*found.values()]


def _parts(line: str) -> int:
    """How many devices are in a group of a collective."""
    listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
    if listed:
        return listed[1].count(",") + 1
    counted = re.search(r"replica_groups=\[\d+,(\d+)\]", line)
    return int(counted[1]) if counted else 1


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


def chips(sizes: dict[str, int]) -> Any:
    """A mesh of a TPU v5e of 16 or 8 chips, which need not be there."""
    count = int(np.prod([*sizes.values()]))
    found = devices_of({16: "v5e:4x4", 8: "v5e:2x4"}[count])
    return Mesh(
        np.array(found).reshape([*sizes.values()]), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes)
    )


def elsewhere(jit: Any, given: Any, donated: tuple[int, ...], mesh: Any) -> Any:
    """A program of virtual CPU devices, lowered for as many other devices."""

    def moved(a: Any) -> Any:
        spec = a.sharding.spec if isinstance(a.sharding, NamedSharding) else PartitionSpec()
        return jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, spec))

    call = jax.export.export(jit, platforms=("tpu",))(*given).call
    shapes = jax.tree.map(lambda a: moved(a) if hasattr(a, "sharding") else a, given)
    return jax.jit(call, donate_argnums=donated).lower(*shapes)
