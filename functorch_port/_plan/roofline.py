"""What a step takes at least: time, utilisation and price, by what the chips could do at best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .chips import READ, Chip, Topology
from .collectives import Collective
from .wires import Wires

__all__ = ["Price", "Roofline", "price", "roofline"]


@dataclass(frozen=True)
class Roofline:
    """Limits of a step. No step is faster than ``seconds``; one that waits for each transfer takes ``waiting``.

    Attributes:
        compute: seconds in which a chip does its products at the peak.
        memory: seconds in which it moves what goes to and from HBM.
        communication: seconds in which its links move what collectives send.
        expected: seconds that a TPU's compiler expects for all but communication, by its cycles; None if not known.
        axes: of ``communication``, by the axes of the mesh.
        bound: which of the first three is the longest.
        seconds: the longest, as if all overlapped.
        waiting: as if communication overlapped with nothing, after what the compiler expects for the rest.
        mfu: the model's FLOPs in ``seconds``, of what the chips could do.
        mfu_waiting: the same in ``waiting``.
        peak: operations per second of a chip.
        is_estimate: whether no program was compiled for these chips.
        assumptions: what all this takes for granted.
    """

    compute: float
    memory: float
    communication: float
    expected: float | None
    axes: dict[str, float]
    bound: str
    seconds: float
    waiting: float
    mfu: float
    mfu_waiting: float
    peak: float
    is_estimate: bool
    assumptions: list[str]


def roofline(
    topology: Topology,
    model: int,
    flops: Mapping[str, float],
    traffic: float | None,
    collectives: Sequence[Collective],
    wires: Wires,
    cycles: int = 0,
    dtype: str = "bf16",
) -> Roofline:
    """The limits of a step.

    Args:
        topology: that it runs on.
        model: FLOPs that the model needs, on all chips together.
        flops: that a device does, by unit: see `work.products`.
        traffic: bytes that a device moves to and from HBM; None if that is not known.
        collectives: of the program.
        wires: how the mesh lies on the topology.
        cycles: see `work.cycles`.
        dtype: of the factors of products, by which a chip has its peak.

    Raises:
        ValueError: there is no published peak for the type.
    """
    chip = topology.chip
    if dtype not in chip.flops:
        raise ValueError(
            f"{chip.title} has no published peak for {dtype!r}, only for {', '.join(chip.flops)}"
        )
    peak = chip.flops[dtype]
    compute = sum(count * chip.devices / _speed(chip, unit) for unit, count in flops.items())
    memory = (traffic or 0) * chip.devices / chip.bandwidth
    axes: dict[str, float] = {}
    for each in collectives:
        along = " x ".join(each.axes) or "other"
        axes[along] = axes.get(along, 0.0) + each.times * wires.seconds(each)
    communication = sum(axes.values())
    limits = {"compute": compute, "memory": memory, "communication": communication}
    expected = cycles / chip.clock if cycles and chip.clock else None
    seconds, waiting = max(limits.values()), max(compute, memory, expected or 0) + communication
    used = lambda time: model / (topology.chips * peak * time) if time else 0.0
    return Roofline(
        compute, memory, communication, expected, axes, max(limits, key=limits.__getitem__), seconds, waiting,
        used(seconds), used(waiting), peak, not chip.is_tpu or traffic is None, _assumptions(topology, flops, traffic),
    )  # fmt: skip


def _speed(chip: Chip, unit: str) -> float:
    """Operations per second of products; without a figure of its own, a type is as fast as bfloat16."""
    kind, _, passes = unit.partition("x")
    if not chip.is_tpu:
        passes = ""
    return chip.flops.get(kind, chip.flops["bf16"]) / int(passes or 1)


def _assumptions(topology: Topology, flops: Mapping[str, float], traffic: float | None) -> list[str]:
    chip = topology.chip
    passes = {unit: count for unit, count in flops.items() if "x" in unit and count}
    found = [
        f"The chip's figures are published ones ({chip.source}, read {READ}); nothing was measured on a chip.",
        "Products of matrices run at the full peak of their type, whatever their shapes; other operations cost only "
        "memory. Products of float32 at default precision run as those of bfloat16.",
        "Each instruction moves its operands and results once at the full bandwidth of HBM; what the compiler keeps "
        "within the chip moves nothing.",
        "Collectives run one after the other at the full bandwidth of the links, without latency.",
        "The shorter time has compute, memory and communication overlap entirely; the longer one has communication "
        "overlap with nothing.",
    ]
    if passes and chip.is_tpu:
        share = sum(passes.values()) / sum(flops.values())
        found.append(
            f"{share:.0%} of the products are of float32 in {' or '.join(u[5:] for u in passes)} passes, at a third or "
            "a sixth of the peak; set_float32_matmul_precision('medium') makes it one pass."
        )
    if traffic is None:
        found[2:4] = [
            "Without a compiled program traffic to and from HBM and communication are not known: they count as nothing."
        ]
    if chip.is_tpu:
        rings = [str(n) for n, ring in zip(topology.shape, topology.rings) if ring]
        found.append(
            f"Dimensions of {' and '.join(rings)} chips are rings."
            if rings
            else "No dimension of the slice is a ring."
        )
        if topology.slices > 1:
            found.append(
                f"Slices are joined by the network, {chip.network / 1e9:g} GB/s for each chip; the first "
                "axes of the mesh lead from one slice to the next."
            )
    else:
        found += [
            f"GPUs are on paper: {chip.largest} share a switch at {chip.link / 1e9:g} GB/s, others are reached at "
            f"{chip.network / 1e9:g} GB/s for each GPU (one network card each, which is assumed).",
            "No program was compiled for them: what a GPU's compiler would make of the step differs.",
        ]
    if chip.devices > 1:
        found.append(f"The {chip.devices} devices of a chip exchange data for nothing, and share its links.")
    return found


@dataclass(frozen=True)
class Price:
    """What training costs, at the limit and if communication overlaps with nothing.

    Attributes:
        hour: of a chip.
        tokens: of a step.
        per_second, per_second_waiting: tokens.
        million, million_waiting: the price of a million tokens; None without a price.
    """

    hour: float | None
    tokens: int
    per_second: float
    per_second_waiting: float
    million: float | None
    million_waiting: float | None


def price(found: Roofline, chips: int, tokens: int, hour: float | None) -> Price:
    """Tokens per second, and the price of a million at so much for a chip and hour."""
    rate = lambda seconds: tokens / seconds if seconds else 0.0
    cost = lambda seconds: None if hour is None else hour * chips * seconds / 3600 / tokens * 1e6
    times = found.seconds, found.waiting
    return Price(hour, tokens, *map(rate, times), *map(cost, times))
