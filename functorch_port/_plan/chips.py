"""Accelerators and how they are wired: TPU topologies by the name that JAX takes, GPUs for meshes on paper.

Figures are of one chip, dense (without sparsity), in bytes and in operations per second. ``source`` is the page that
they were read from, in a stored copy, on the day ``READ``. ``usable`` is what the compiler says is there when a program
needs too much (libtpu 0.0.51, the same day).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

__all__ = ["CHIPS", "READ", "Chip", "Topology", "names", "topology"]

READ = "2026-11-28"

GIB = 1 << 30


@dataclass(frozen=True)
class Chip:
    """An accelerator.

    Attributes:
        name: in the name of a topology.
        title: for people.
        memory: bytes of HBM.
        usable: bytes that a program may use, all devices of a chip together.
        bandwidth: bytes per second between HBM and the cores.
        flops: operations per second by the type of the factors. One that is missing was not found published.
        cores: that multiply matrices; of a GPU 1.
        devices: that JAX sees: each has its part of everything.
        links: to other chips. A GPU has one, to a switch.
        link: bytes per second of a link in one direction.
        network: bytes per second to other slices, or of a GPU to other nodes, in one direction.
        dimensions: of the torus; 0 without one.
        clock: of the cores, in Hz, where it follows from the number of their multipliers and the peak; else None.
        largest: chips of a slice at most; of GPUs those that a switch joins.
        source: where the figures are from.
    """

    name: str
    title: str
    memory: int
    usable: int
    bandwidth: float
    flops: dict[str, float]
    cores: int
    devices: int
    links: int
    link: float
    network: float
    dimensions: int
    largest: int
    source: str
    clock: float | None = None

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU, for which a program can be compiled anywhere."""
        return self.dimensions > 0


_TPU = "https://docs.cloud.google.com/tpu/docs/"
#: bandwidths of a link and of the network of v4, which the page does not have
_BOOK = "https://jax-ml.github.io/scaling-book/tpus/"
#: refers to NVIDIA's data sheets. Not found there: the network, which is one card of 200 or 400 Gb/s for each GPU
_GPU = "https://glennklockwood.com/garden/processors/"

#: operations of a unit for products in a cycle: 128 x 128 multiplications and additions
_MXU = 2 * 128 * 128
_HOPPER = {"bf16": 989.4e12, "fp8": 1978.9e12, "int8": 1978.9e12}

#: by name
CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            "v4", "TPU v4", 32 * GIB, int(30.5 * GIB), 1.2e12, {"bf16": 275e12, "int8": 275e12},
            cores=2, devices=2, links=6, link=45e9, network=6.25e9, dimensions=3, largest=4096,
            source=f"{_TPU}v4 {_BOOK}", clock=275e12 / (2 * 4 * _MXU),
        ),
        Chip(
            "v5e", "TPU v5e", 16 * GIB, int(15.75 * GIB), 819e9, {"bf16": 197e12, "int8": 393e12},
            cores=1, devices=1, links=4, link=50e9, network=3.125e9, dimensions=2, largest=256,
            source=f"{_TPU}v5e", clock=197e12 / (4 * _MXU),
        ),
        Chip(
            "v5p", "TPU v5p", 96 * GIB, int(95.73 * GIB), 2.765e12, {"bf16": 459e12, "fp8": 459e12},
            cores=2, devices=1, links=6, link=100e9, network=6.25e9, dimensions=3, largest=6144,
            source=f"{_TPU}v5p", clock=459e12 / (2 * 4 * _MXU),
        ),
        Chip(
            "v6e", "TPU v6e", 32 * GIB, int(31.24 * GIB), 1.638e12, {"bf16": 918e12, "fp8": 918e12, "int8": 1836e12},
            cores=1, devices=1, links=4, link=100e9, network=12.5e9, dimensions=2, largest=256,
            source=f"{_TPU}v6e {_TPU}tpu7x",
        ),
        Chip(
            "tpu7x", "TPU7x", 192 * GIB, int(189.48 * GIB), 7.38e12, {"bf16": 2307e12, "fp8": 4614e12},
            cores=2, devices=2, links=6, link=100e9, network=12.5e9, dimensions=3, largest=9216,
            source=f"{_TPU}tpu7x",
        ),
        Chip(
            "a100", "A100 80 GB SXM", 80 * 10**9, 80 * 10**9, 2.039e12, {"bf16": 312e12, "int8": 624e12},
            cores=1, devices=1, links=1, link=300e9, network=25e9, dimensions=0, largest=8,
            source=f"{_GPU}A100",
        ),
        Chip(
            "h100", "H100 SXM", 80 * 10**9, 80 * 10**9, 3.35e12, _HOPPER,
            cores=1, devices=1, links=1, link=450e9, network=50e9, dimensions=0, largest=8,
            source=f"{_GPU}h100",
        ),
        Chip(
            "h200", "H200 SXM", 141 * 10**9, 141 * 10**9, 4.8e12, _HOPPER,
            cores=1, devices=1, links=1, link=450e9, network=50e9, dimensions=0, largest=8,
            source=f"{_GPU}h100 https://aiwiki.ai/wiki/nvidia_h200",
        ),
        Chip(
            "b200", "B200 SXM", 192 * 10**9, 192 * 10**9, 8e12, {"bf16": 2250e12, "fp8": 4500e12, "int8": 4500e12},
            cores=1, devices=1, links=1, link=900e9, network=50e9, dimensions=0, largest=8,
            source=f"{_GPU}B200",
        ),
    )
}  # fmt: skip

#: shapes of two dimensions (v5e and v6e), and those of three that are smaller than a cube of 4 x 4 x 4
_FLAT = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
_SMALL = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
#: a dimension of this length is a ring in a torus of two dimensions
_RING = 16
_NAME = re.compile(r"([a-z]+\w*):(\d+(?:x\d+)*)(?:\*(\d+))?")


@dataclass(frozen=True)
class Topology:
    """Chips that are wired together.

    Attributes:
        name: as `topology` takes it.
        chip: what there are.
        shape: of the torus of a slice; of GPUs (nodes, GPUs of a node).
        slices: of that shape, joined by the network.
    """

    name: str
    chip: Chip
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def chips(self) -> int:
        """How many there are in all."""
        return self.slices * math.prod(self.shape)

    @property
    def devices(self) -> int:
        """How many of them JAX sees."""
        return self.chips * self.chip.devices

    @property
    def jax_name(self) -> str:
        """What `jax.experimental.topologies.get_topology_desc` takes as the name, with ``platform="tpu"``."""
        if not self.chip.is_tpu:
            raise ValueError(f"{self.name}: JAX compiles for TPUs only where there are none")
        return f"{self.chip.name}:{'x'.join(map(str, self.shape))}"

    @property
    def jax_options(self) -> dict[str, int]:
        """Its keyword arguments."""
        return {"num_slices": self.slices} if self.slices > 1 else {}

    @property
    def rings(self) -> tuple[bool, ...]:
        """Which dimensions of the torus have a link from the end to the start."""
        if self.chip.dimensions == 2:
            return tuple(n == _RING for n in self.shape)
        return (all(n % 4 == 0 for n in self.shape),) * self.chip.dimensions


def topology(name: str) -> Topology:
    """Chips by name: ``v5e:16x16``, ``v5p:4x4x8``, ``v6e:16x16*4`` (four slices), ``h100:64`` (GPUs).

    Args:
        name: of a chip and the shape of a slice, maybe with the number of slices.

    Raises:
        ValueError: there is no such chip, or it has no such shape; the message lists what there is.

    Example:
        >>> topology("v5e:4x4").chips
        16
    """
    found = _NAME.fullmatch(name.strip().lower())
    chip = CHIPS.get(found[1]) if found else None
    if found is None or chip is None:
        raise ValueError(
            f"topology {name!r}: expected CHIP:SHAPE, as in v5e:4x4, v5p:2x2x2, v6e:16x16*2 or h100:16; the chips are "
            f"{', '.join(CHIPS)}"
        )
    shape, slices = tuple(map(int, found[2].split("x"))), int(found[3] or 1)
    if not chip.is_tpu:
        count = math.prod(shape)
        if (
            found[3]
            or len(shape) != 1
            or not (1 <= count <= chip.largest or (count and count % chip.largest == 0))
        ):
            raise ValueError(
                f"topology {name!r}: of GPUs there are 1 to {chip.largest}, or a multiple of {chip.largest}: "
                f"{chip.name}:{2 * chip.largest}"
            )
        joined = min(count, chip.largest)
        return Topology(name, chip, (count // joined, joined))
    if shape not in _shapes(chip) or slices < 1:
        raise ValueError(
            f"topology {name!r}: {chip.title} has the shapes {_listed(chip)}, and *N for N slices"
        )
    return Topology(f"{chip.name}:{found[2]}{f'*{slices}' if slices > 1 else ''}", chip, shape, slices)


def names(chip: str) -> list[str]:
    """The topologies of a TPU that are one slice, the smallest first."""
    return [f"{chip}:{'x'.join(map(str, shape))}" for shape in sorted(_shapes(CHIPS[chip]), key=math.prod)]


def _shapes(chip: Chip) -> set[tuple[int, ...]]:
    """A slice of three dimensions is smaller than a cube or made of cubes, the longest dimension last."""
    return set(_FLAT) if chip.dimensions == 2 else {*_SMALL, *_cubes(chip.largest)}


def _cubes(largest: int) -> Iterator[tuple[int, ...]]:
    for first, second in combinations_with_replacement(range(4, int(math.sqrt(largest)), 4), 2):
        yield from ((first, second, n) for n in range(second, largest // (first * second) + 1, 4))


def _listed(chip: Chip) -> str:
    if chip.dimensions == 2:
        return ", ".join("x".join(map(str, shape)) for shape in _FLAT)
    small = ", ".join("x".join(map(str, shape)) for shape in _SMALL)
    return f"{small}, and AxBxC of multiples of 4 with A <= B <= C and {chip.largest} chips at most"
