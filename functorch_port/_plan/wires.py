"""How long a collective takes on the wires of a topology.

A model of bandwidth alone: data goes around in rings, in all dimensions of the torus that a group spans at a time, and
nothing else uses the links. What is started first, and how long the first byte takes, is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .chips import Topology
from .collectives import Collective

__all__ = ["Wires", "coordinates_of"]


def coordinates_of(devices: Iterable[Any], topology: Topology) -> list[tuple[int, ...]]:
    """Where JAX's devices lie: for each the slice, and the place in the torus.

    Args:
        devices: of a mesh, in its order (``mesh.devices.flat``), those of a topology that need not be there.
        topology: that they are of.
    """
    length = len(topology.shape)
    return [(getattr(d, "slice_index", 0) or 0, *map(int, d.coords[:length])) for d in devices]


@dataclass(frozen=True)
class _Way:
    """A dimension along which chips of a group lie.

    Attributes:
        length: how many of them.
        step: from one to the next; as many groups share the links between.
        ring: whether a link goes from the last to the first.
    """

    length: int
    step: int
    ring: bool


class Wires:
    """The devices of a mesh on a topology.

    Args:
        topology: what they are of.
        coordinates: for each device of the mesh, in its order: the slice, and the place in the torus. Without them
            the last axis of the mesh lies along the last dimension, and so on.
    """

    def __init__(self, topology: Topology, coordinates: Sequence[Sequence[int]] | None = None) -> None:
        self.topology, self.chip = topology, topology.chip
        if self.chip.is_tpu:
            self.shape, self.rings, parts = topology.shape, topology.rings, topology.slices
        else:
            self.shape, self.rings, parts = (topology.shape[1],), (False,), topology.shape[0]
        given = np.array(coordinates) if coordinates is not None else self._in_order(parts)
        if given.shape != (topology.devices, 1 + len(self.shape)):
            raise ValueError(
                f"coordinates: expected {topology.devices} devices of {topology.name} with a slice and "
                f"{len(self.shape)} numbers, got an array of {given.shape}"
            )
        self.places = given

    def _in_order(self, parts: int) -> np.ndarray:
        chips = np.indices((parts, *self.shape)).reshape(1 + len(self.shape), -1).T
        return np.repeat(chips, self.chip.devices, axis=0)

    def seconds(self, collective: Collective) -> float:
        """How long it takes once."""
        if collective.size < 2:
            return 0.0
        if collective.slices > 1:  # each device has its share of the chip's way to the network
            return collective.sent * self.chip.devices / self.chip.network
        if collective.pairs:
            return self._permutation(collective)
        places = np.unique(self.places[list(collective.group)], axis=0)
        slices = len(np.unique(places[:, 0]))
        chips = len(places) / slices  # of each slice
        on_chip = len(collective.group) / len(places)  # devices of the group on a chip
        inside = self._inside(collective, places[places[:, 0] == places[0, 0], 1:], on_chip)
        away = collective.nbytes * (slices - 1) / slices / self._network(on_chip)
        if collective.kind in ("all-to-all", "ragged-all-to-all"):
            return inside + away * on_chip
        return (2 if collective.kind == "all-reduce" else 1) * (inside + away / chips)

    def _network(self, on_chip: float) -> float:
        """Of a chip, for one group: the groups of its devices share it."""
        return self.chip.network * on_chip / self.chip.devices

    def _inside(self, collective: Collective, places: np.ndarray, on_chip: float) -> float:
        """The time within a slice; of an all-reduce, half of it."""
        if len(places) < 2:
            return 0.0
        count, link = len(places), self.chip.link * on_chip / self.chip.devices
        exchanged = collective.kind in ("all-to-all", "ragged-all-to-all")
        if not self.chip.is_tpu:
            return collective.nbytes * (count - 1) / count / link
        ways = self._ways(places)
        if exchanged:
            whole = collective.nbytes * on_chip
            return max(whole * way.length * way.step / (8 if way.ring else 4) / link for way in ways)
        rate = sum((2 if way.ring else 1) * link / way.step for way in ways)
        return collective.nbytes * (count - 1) / count / rate

    def _ways(self, places: np.ndarray) -> list[_Way]:
        """The dimensions that a group spans. If it is no box in the torus, one line through all that it touches."""
        ways = []
        for along, length, ring in zip(places.T, self.shape, self.rings):
            at = np.unique(along)
            if len(at) > 1:
                step = math.gcd(*map(int, np.diff(at)))
                whole = len(at) * step == length
                ways.append(_Way(len(at), step, ring and whole))
        if math.prod(way.length for way in ways) != len(places):
            return [_Way(len(places), max(way.step for way in ways), False)]
        return ways

    def _permutation(self, collective: Collective) -> float:
        """The busiest link decides; each message goes along one dimension after the other, the shorter way."""
        loads: Counter[tuple[int, ...]] = Counter()
        away: Counter[tuple[int, ...]] = Counter()
        for start, end in collective.pairs:
            here, there = (tuple(map(int, self.places[k])) for k in (start, end))
            if here[0] != there[0]:
                away[here] += 1
            elif not self.chip.is_tpu:
                loads[here] += here != there
            else:
                self._route(here, there, loads)
        seconds = [max(counts.values(), default=0) / speed for counts, speed in
                   ((loads, self.chip.link), (away, self.chip.network))]  # fmt: skip
        return collective.nbytes * max(seconds)

    def _route(self, here: tuple[int, ...], there: tuple[int, ...], loads: Counter[tuple[int, ...]]) -> None:
        at = list(here)
        for d, (length, ring) in enumerate(zip(self.shape, self.rings), 1):
            far = there[d] - at[d]
            if ring and abs(far) * 2 > length:
                far -= length if far > 0 else -length
            way = 1 if far > 0 else -1
            for _ in range(abs(far)):
                loads[(*at, d, way)] += 1
                at[d] = (at[d] + way) % length
