"""What a step takes at least: time, utilisation and price, by what the chips could do at best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .chips import READ, Topology
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
        axes: of these, by the axes of the mesh.
        bound: which of the three is the longest.
        seconds: the longest, as if all overlapped.
        waiting: as if communication overlapped with nothing.
        mfu: the model's FLOPs in ``seconds``, of what the chips could do.
        mfu_waiting: the same in ``waiting``.
        peak: operations per second of a chip.
        is_estimate: whether the program was compiled for something else.
        assumptions: what all this takes for granted.
    """

    compute: float
    memory: float
    communication: float
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
    flops: float,
    traffic: float | None,
    collectives: Sequence[Collective],
    wires: Wires,
    dtype: str = "bf16",
) -> Roofline:
    """The limits of a step.

    Args:
        topology: that it runs on.
        model: FLOPs that the model needs, on all chips together.
        flops: that a device does.
        traffic: bytes that a device moves to and from HBM; None if that is not known.
        collectives: of the program.
        wires: how the mesh lies on the topology.
        dtype: of the factors of products, by which a chip has its peak.

    Raises:
        ValueError: there is no published peak for the type.
    """
    chip = topology.chip
    if dtype not in chip.flops:
        raise ValueError(f"{chip.title} has no published peak for {dtype!r}, only for {', '.join(chip.flops)}")
    peak = chip.flops[dtype]
    compute = flops * chip.devices / peak
    memory = (traffic or 0) * chip.devices / chip.bandwidth
    axes: Counter[str] = Counter()
    for each in collectives:
        axes["x".join(each.axes) or "all"] += each.times * wires.seconds(each)
    communication = sum(axes.values())
    limits = {"compute": compute, "memory": memory, "communication": communication}
    seconds, waiting = max(limits.values()), max(compute, memory) + communication
    used = lambda time: model / (topology.chips * peak * time) if time else 0.0
    return Roofline(
        compute, memory, communication, dict(axes), max(limits, key=limits.__getitem__), seconds, waiting,
        used(seconds), used(waiting), peak, not chip.is_tpu, _assumptions(topology, dtype, traffic),
    )  # fmt: skip


def _assumptions(topology: Topology, dtype: str, traffic: float | None) -> list[str]:
    chip = topology.chip
    found = [
        f"The chip's figures are published ones ({chip.source}, read {READ}); nothing was measured on a chip.",
        f"Products of matrices run at the full {dtype} peak, whatever their shapes; other operations cost only memory.",
        "Each instruction moves its operands and results once at the full bandwidth of HBM; what the compiler keeps "
        "within the chip moves nothing.",
        "Collectives run one after the other at the full bandwidth of the links, without latency.",
        "The shorter time has compute, memory and communication overlap entirely; the longer one has communication "
        "overlap with nothing.",
    ]
    if traffic is None:
        found[2] = "Traffic to and from HBM is not known without a compiled program, and counts as nothing."
    if chip.is_tpu:
        rings = [str(n) for n, ring in zip(topology.shape, topology.rings) if ring]
        found.append(
            f"Dimensions of {' and '.join(rings)} chips are rings." if rings else "No dimension of the slice is a ring."
        )
        if topology.slices > 1:
            found.append(f"Slices are joined by the network, {chip.network / 1e9:g} GB/s for each chip.")
    else:
        found += [
            f"GPUs are on paper: {chip.largest} share a switch at {chip.link / 1e9:g} GB/s, others are reached at "
            f"{chip.network / 1e9:g} GB/s for each GPU (one network card each, which is assumed).",
            "The program was compiled for another kind of device, so what a GPU's compiler would make of it differs.",
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
