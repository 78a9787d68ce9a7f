"""What a compiled program communicates: its collectives, their axes of the mesh, how often they run, and what for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .hlo import Program
from .instructions import Instruction
from .places import module_of, of_hlo, phase_of

__all__ = ["Collective", "axes_of", "collectives", "groups_of"]

_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast",
          "ragged-all-to-all")  # fmt: skip


@dataclass(frozen=True)
class Collective:
    """A collective of a program, as each device takes part in it.

    Attributes:
        name: of the instruction.
        kind: all-reduce, all-gather, reduce-scatter, all-to-all, collective-permute, ...
        dtypes: of its arrays.
        nbytes: on one device: of what is reduced, of the gathered whole, of what is exchanged or sent on.
        axes: of the mesh along which it goes.
        exact: whether a group is the devices along these axes, all of them and no others.
        size: devices of a group.
        times: how often it runs in a step.
        module, phase: what it is for.
        group: the first group, by the devices' numbers in the mesh.
        pairs: of a permutation: who sends to whom.
        slices: if it goes through the network: how many it joins. Else 1.
    """

    name: str
    kind: str
    dtypes: tuple[str, ...]
    nbytes: int
    axes: tuple[str, ...]
    exact: bool
    size: int
    times: int
    module: str
    phase: str
    group: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    slices: int = 1

    @property
    def sent(self) -> float:
        """Bytes that a device sends each time, if the data goes around in a ring."""
        share = (self.size - 1) / self.size
        factors = {"all-reduce": 2 * share, "collective-permute": 1, "collective-broadcast": 1}
        return self.nbytes * factors.get(self.kind, share)


def collectives(program: Program, mesh: Mapping[str, int], slices: int = 1) -> list[Collective]:
    """The collectives of a program, each once.

    Args:
        program: partitioned and optimised, of a TPU or a CPU.
        mesh: the sizes of the axes by name, in their order; device k of the program is the k-th of the mesh.
        slices: of TPUs, joined by the network; the first axes of the mesh lead from one to the other. The program is
            that of one slice then, and has transfers of the hosts for what goes to others.

    Raises:
        ValueError: the program is for another number of devices, or has groups in an unknown form.
    """
    if math.prod(mesh.values()) != program.devices * slices:
        raise ValueError(
            f"the program is for {program.devices} devices, and the mesh {dict(mesh)} has {math.prod(mesh.values())}"
            + (f" in {slices} slices" if slices > 1 else "")
        )
    inner = _within(mesh, slices)
    between = tuple(name for name, size in mesh.items() if inner[name] != size)
    found = [
        _collective(body, instruction, kind, name, program, inner)
        for name, body in program.computations.items()
        if program.times[name]
        for instruction in body.values()
        if (kind := instruction.opcode.removesuffix("-start")) in _KINDS and not instruction.goes_on
    ]
    found = [one for one in found if one.axes]  # others go nowhere
    return found + [
        _transfer(program, name, instruction, slices, between)
        for name, body in program.computations.items()
        if program.times[name]
        for instruction in body.values()
        if instruction.opcode == "send" and "_xla_megascale_transfer_type" in instruction.rest
    ]


def _within(mesh: Mapping[str, int], slices: int) -> dict[str, int]:
    """The mesh of one slice: the first axes lead from slice to slice."""
    left, found = slices, {}
    for name, size in mesh.items():
        common = math.gcd(size, left)
        if left > 1 and common != min(size, left):
            raise ValueError(
                f"the first axes of the mesh {dict(mesh)} must lead from one of the {slices} slices to the next"
            )
        found[name], left = size // common, left // common
    return found


def _transfer(
    program: Program, computation: str, instruction: Instruction, slices: int, axes: tuple[str, ...]
) -> Collective:
    """What the hosts of a slice exchange with those of others."""
    sent = program.computations[computation][instruction.operands[0]]
    asked = re.search(r'_xla_megascale_transfer_type="(\w+)"', instruction.rest)
    kind = asked[1].lower().replace("_", "-") if asked else ""
    place = _place(program, computation, instruction, kind)
    return Collective(
        instruction.name, "collective-permute" if kind == "one-to-one" else kind,
        tuple(dict.fromkeys(shape.dtype for shape in sent.results)),
        sent.nbytes * (slices if kind == "all-gather" else 1), axes, True, slices, program.times[computation],
        module_of(place), phase_of(place), (), slices=slices,
    )  # fmt: skip


def _collective(
    body: dict[str, Instruction], instruction: Instruction, kind: str, computation: str, program: Program,
    mesh: Mapping[str, int],
) -> Collective:  # fmt: skip
    given = [body[name] for name in instruction.operands]
    if kind == "ragged-all-to-all" or "slice_sizes=" in instruction.rest:
        given = given[:1]  # others are what it writes into, and where
    shapes = [shape for operand in given for shape in operand.results]
    nbytes = sum(shape.nbytes for shape in shapes)
    pairs: tuple[tuple[int, int], ...] = ()
    if kind == "collective-permute":
        pairs = _pairs(instruction.rest)
        groups = np.array(pairs)
    else:
        groups = groups_of(instruction.rest, program.devices)
    axes, exact = axes_of(groups, mesh)
    if kind == "all-gather":
        nbytes *= groups.shape[1]
    fused_with_the_slice = computation.startswith("all-reduce-scatter")  # as TPUs have it
    if kind == "all-reduce" and fused_with_the_slice:
        kind = "reduce-scatter"
    place = _place(program, computation, instruction, kind)
    return Collective(
        instruction.name, kind, tuple(dict.fromkeys(shape.dtype for shape in shapes)), nbytes, axes,
        bool(pairs) or exact, math.prod(mesh[a] for a in axes) if pairs else groups.shape[1],
        program.times[computation], module_of(place), phase_of(place), tuple(map(int, groups[0])), pairs,
    )  # fmt: skip


def _place(program: Program, computation: str, instruction: Instruction, kind: str) -> str:
    """Its stack of names. One without a module has those of what takes the result, or of what makes the operands."""
    body, near = program.computations[computation], [instruction]
    own = of_hlo(instruction.place if "/" in instruction.place else "")  # else it is an argument's
    for _ in range(_FAR):
        for each in near:
            place = of_hlo(each.place)
            if module_of(place) and "/" in each.place:
                return place
        if kind == "all-gather":
            near = [user for each in near for user in program.users(computation).get(each.name, ())]
        else:
            near = [body[name] for each in near for name in each.operands if name in body]
    return own


#: how many instructions away the module of a collective may be
_FAR = 6


def axes_of(groups: np.ndarray, mesh: Mapping[str, int]) -> tuple[tuple[str, ...], bool]:
    """The axes along which devices of a group differ, and whether each group is all devices along them."""
    places = np.array(np.unravel_index(groups, tuple(mesh.values())))  # (axis, group, member)
    differ = (places != places[:, :, :1]).any(axis=2)
    axes = tuple(name for name, along in zip(mesh, differ) if along.any())
    return axes, groups.shape[1] == math.prod(mesh[name] for name in axes)


# ------------------------------------------------------------------ groups


_IOTA = r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?"
_GROUPS = re.compile(r"\breplica_groups=(?:(\{\{.*?\}\}|\{\})|" + _IOTA + r"|(mesh\[.*?\{.*?\}))")


#: in which order a mesh has the devices: numbers in a shape and transposed, or one by one
_ORDER = re.compile(r"device_ids=\((?:\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))\)")


def groups_of(text: str, devices: int) -> np.ndarray:
    """The groups of a collective: a row for each.

    Args:
        text: with the attribute ``replica_groups``: a list of lists; ``[2,4]<=[4,2]T(1,0)``, numbers in a shape and
            transposed; or ``mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}``, the axes of a mesh.
        devices: how many there are.

    Raises:
        ValueError: the form is another one.

    Example:
        >>> groups_of("replica_groups=[2,2]<=[2,2]T(1,0)", 4).tolist()
        [[0, 2], [1, 3]]
    """
    found = _GROUPS.search(text)
    if found is None:
        form = re.search(r"replica_groups=.{0,60}", text)
        raise ValueError(f"groups of devices in an unknown form: {form[0] if form else 'there are none'}")
    listed, shape, counted, order, mesh = found.groups()
    if mesh:
        return _of_mesh(mesh)
    if listed:
        rows = [_numbers(row) for row in re.findall(r"\{([\d,]+)\}", listed[1:])] or [[*range(devices)]]
        if len({*map(len, rows)}) > 1:
            raise ValueError(f"groups of different sizes: {listed}")
        return np.array(rows)
    return _iota(counted, order).reshape(_numbers(shape))


def _iota(shape: str, order: str | None) -> np.ndarray:
    found = np.arange(math.prod(_numbers(shape))).reshape(_numbers(shape))
    return found.transpose(_numbers(order)) if order else found


def _of_mesh(text: str) -> np.ndarray:
    """Of ``mesh['a'=2,'b'=4] {'b','a':(1)2}``: an axis may be split in a part before, its own, one behind."""
    sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", text)}
    named, _, along = text.rpartition("{")
    order = _ORDER.search(named)
    if order is None and "device_ids" in named:
        raise ValueError(f"groups of devices in an unknown form: {text}")
    if order is None:
        devices = np.arange(math.prod(sizes.values()))
    else:
        shape_of_all, turned, one_by_one = order.groups()
        devices = np.array(_numbers(one_by_one)) if one_by_one else _iota(shape_of_all, turned).reshape(-1)
    chosen = re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", along)
    shape: list[int] = []
    at: dict[tuple[str, int], int] = {}
    for name, size in sizes.items():
        cuts = sorted(
            {1, size, *(c for n, b, s in chosen if n == name and b for c in (int(b), int(b) * int(s)))}
        )
        for before, after in pairwise(cuts):
            at[name, before] = len(shape)
            shape.append(after // before)
    taken = []
    for name, before, size in chosen:
        start, end = int(before or 1), int(before or 1) * int(size or sizes[name])
        taken += [k for (n, cut), k in at.items() if n == name and start <= cut < end]
    rest = [k for k in range(len(shape)) if k not in taken]
    count = math.prod(shape[k] for k in taken)
    return devices.reshape(shape).transpose(rest + taken).reshape(-1, count)


def _pairs(text: str) -> tuple[tuple[int, int], ...]:
    found = re.search(r"source_target_pairs=\{(.*?)\}\}", text)
    pairs = re.findall(r"\{(\d+),(\d+)", found[1] + "}") if found else []
    if not pairs:
        raise ValueError("a permutation without pairs of devices")
    return tuple((int(a), int(b)) for a, b in pairs)


def _numbers(text: str | Sequence[str]) -> list[int]:
    return [int(n) for n in (text.split(",") if isinstance(text, str) else text)]
