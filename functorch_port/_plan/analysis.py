"""`analyse`: what a step costs, from its jaxpr and the compiled program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from . import chips, work
from . import flops as counting
from . import hlo as reading
from . import roofline as limiting
from .collectives import Collective, collectives
from .flops import Flops
from .roofline import Price, Roofline
from .wires import Wires

__all__ = ["Analysis", "Communication", "analyse"]


@dataclass(frozen=True)
class Communication:
    """Collectives of one kind, along the same axes, for one module and phase.

    Attributes:
        kind: of the collectives.
        axes: of the mesh.
        exact: whether the groups are all devices along these axes.
        size: devices of a group.
        dtypes: of the arrays.
        count: how many run in a step.
        nbytes: of all of them, on one device.
        seconds: that the links need.
        module, phase: what they are for.
    """

    kind: str
    axes: tuple[str, ...]
    exact: bool
    size: int
    dtypes: tuple[str, ...]
    count: int
    nbytes: int
    seconds: float
    module: str
    phase: str


@dataclass(frozen=True)
class Analysis:
    """What a step costs.

    Attributes:
        topology: its name.
        chip: for people.
        chips, devices: how many there are.
        mesh: sizes of the axes by name.
        memory: bytes of HBM that programs of a device may use.
        flops: of the step, on all devices.
        device_flops: that one device does: by the compiled program if there is one, else an equal share.
        units: the same by what computes them: see `work.products`.
        traffic: bytes that it moves to and from HBM; None without a program.
        cycles: of the clock, that a TPU's compiler expects, without communication; 0 if it says nothing.
        communication: what it communicates, the longest first.
        roofline: the limits.
        price: tokens per second and what they cost; None without ``tokens``.
        warnings: what may make figures wrong.
    """

    topology: str
    chip: str
    chips: int
    devices: int
    mesh: dict[str, int]
    memory: int
    flops: Flops
    device_flops: float
    units: dict[str, float]
    traffic: int | None
    cycles: int
    communication: list[Communication]
    roofline: Roofline
    price: Price | None
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists and numbers, for JSON."""
        return asdict(self)


def analyse(
    jaxpr: Any,
    hlo: str | None,
    mesh_axes: Mapping[str, int],
    topology: str,
    tokens: int | None = None,
    price: float | None = None,
    *,
    coordinates: Sequence[Sequence[int]] | None = None,
    dtype: str = "bf16",
) -> Analysis:
    """What a step costs on chips that are not there.

    Args:
        jaxpr: of the step, before it is partitioned.
        hlo: ``compiled.as_text()`` of the program of one device, for as many devices; None: without
            communication and traffic.
        mesh_axes: sizes of the mesh's axes by name, in their order.
        topology: see `chips.topology`. For GPUs the program is one for TPUs or CPUs, and all is an estimate.
        tokens: (or pictures) of a step, on all devices together.
        price: of a chip for an hour, in any currency.
        coordinates: for each device of the mesh in its order: the slice, and the place in the torus.
        dtype: by which the chip has its peak: bf16, int8 or fp8.

    Raises:
        ValueError: the mesh and the topology have different numbers of devices, or there is no such topology.
        NotImplementedError: a loop of unknown length multiplies matrices.
    """
    where = chips.topology(topology)
    count = math.prod(mesh_axes.values())
    if count != where.devices:
        raise ValueError(
            f"the mesh {dict(mesh_axes)} has {count} devices, and {where.name} has {where.devices}: {where.chips} chips"
            f"{f' with {where.chip.devices} devices each' if where.chip.devices > 1 else ''}"
        )
    if tokens is not None and tokens < 1:
        raise ValueError(f"tokens of a step: expected a number of at least 1, got {tokens}")
    counted = counting.of(jaxpr)
    share = counted.executed / count
    program = None if hlo is None else reading.parse(hlo)
    done = _Done({}, None, 0, 0, []) if program is None else _done(program, mesh_axes, where.slices)
    units, products = dict(done.units), sum(done.units.values())
    if products < share and (done.kernels or not products or (program is not None and program.unknown)):
        units["bf16"] = units.get("bf16", 0) + share - products
    wires = Wires(where, coordinates)
    limits = limiting.roofline(
        where, counted.model, units, done.traffic, done.collectives, wires, done.cycles, dtype
    )
    warnings = [] if program is None else _warnings(program, done, share)
    if coordinates is None and done.collectives and where.chip.is_tpu:
        warnings.append(
            "Where the devices of the mesh lie is not given: the last axis is taken to lie along the last dimension of "
            "the torus."
        )
    return Analysis(
        where.name, where.chip.title, where.chips, count, dict(mesh_axes), where.chip.usable // where.chip.devices,
        counted, sum(units.values()), units, done.traffic, done.cycles, _grouped(done.collectives, wires), limits,
        None if tokens is None else limiting.price(limits, where.chips, tokens, price), warnings,
    )  # fmt: skip


class _Done(NamedTuple):
    """What a device does by its program.

    Attributes:
        units: operations of products, see `work.products`.
        traffic: see `work.traffic`; None without a program.
        cycles: see `work.cycles`.
        kernels: custom calls that may multiply.
        collectives: what it communicates.
    """

    units: Mapping[str, float]
    traffic: int | None
    cycles: int
    kernels: int
    collectives: list[Collective]


#: what the compiler calls the loops in which it does a product with the parts of an array
_IN_PARTS = "windowed_dot_general_body"
#: in custom calls that compute nothing
_NO_KERNELS = (
    "AsyncCollective", "AllocateBuffer", "ConsumeBuffer", '"Sharding"', "SPMD", "MoveTo", "annotate_device", '"X64',
    "ConcatBitcast", "GatherIndices", "GatherScatter", "TopK", "Pad",
)  # fmt: skip


def _done(program: reading.Program, mesh: Mapping[str, int], slices: int) -> _Done:
    return _Done(
        work.products(program), work.traffic(program), work.cycles(program),
        program.count("custom-call", *_NO_KERNELS), collectives(program, mesh, slices),
    )  # fmt: skip


def _grouped(found: Sequence[Collective], wires: Wires) -> list[Communication]:
    groups: dict[tuple[Any, ...], list[Collective]] = {}
    for each in found:
        key = (each.kind, each.axes, each.exact, each.size, each.dtypes, each.module, each.phase)
        groups.setdefault(key, []).append(each)
    rows = [
        Communication(
            *key[:5],
            count=sum(each.times for each in some),
            nbytes=sum(each.times * each.nbytes for each in some),
            seconds=sum(each.times * wires.seconds(each) for each in some),
            module=key[5],
            phase=key[6],
        )
        for key, some in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.seconds, row.kind, row.module))


def _warnings(program: reading.Program, done: _Done, share: float) -> list[str]:
    """What may make figures wrong; ``share`` is that of a device of the step's FLOPs."""
    products, unknown, warnings = sum(done.units.values()), program.unknown, []
    if unknown:
        warnings.append(
            f"It is not known how often {len(unknown)} loop(s) run ({', '.join(unknown[:3])}): what they move and "
            "communicate counts once, and their products are the rest of the step's."
        )
    elif done.kernels and products < share:
        warnings.append(
            f"What {done.kernels} kernels compute is not known: they are taken to do what the step has beyond the "
            f"program, {1 - products / share:.0%} of its FLOPs."
        )
    elif share and not products:
        warnings.append(
            "No products of matrices were found in the compiled program: each device is taken to do an equal share."
        )
    elif products > 1.05 * share:
        warnings.append(
            f"The devices together do {products / share if share else math.inf:.2f} times the step's FLOPs: some "
            "compute the same, or the compiler computes again."
        )
    in_parts = work.traffic(program, _IN_PARTS) / (done.traffic or 1)
    if in_parts > 0.1:
        warnings.append(
            "The compiler does products in parts, as the parts of a split array arrive, and adds them up: that is "
            f"{in_parts:.0%} of what goes to and from HBM. It may be faster to wait for the whole array: "
            'torch.compile(step, options={"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1000000}).'
        )
    if silent := work.without_cycles(program):
        first = silent[0].place or silent[0].name
        warnings.append(
            f"The compiler expects no time for {len(silent)} instructions, as {first}: they count as nothing there."
        )
    if program.count("conditional"):
        warnings.append("All branches of conditions count as if they ran.")
    if program.uses_hosts:
        warnings.append("Arrays go to and from the memory of the hosts: that time is not counted.")
    if any(not each.exact for each in done.collectives):
        warnings.append("Some collectives have groups that are not whole axes of the mesh.")
    return warnings
