"""Devices that are not here: those of a TPU topology, by its compiler, and meshes of them."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
from collections.abc import Mapping
from types import NoneType
from typing import Any

import jax
import numpy as np

from .._array import placed
from .._base import meshes
from .._base.device import device, device_type_of_platform
from ..distributed.device_mesh import DeviceMesh
from . import chips

__all__ = [
    "BadTopology",
    "SETTINGS",
    "described_mesh",
    "devices_of",
    "known",
    "mesh_text",
    "parsed_mesh",
    "virtual_devices",
]

#: what the TPU compiler is to know where there is no TPU; set before it is loaded
SETTINGS = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


class BadTopology(ValueError):
    """A topology that cannot be described, or a mesh that does not fit it."""


def known(topology: str) -> chips.Topology | None:
    """What is known of a topology; None of virtual devices (``"cpu:8"``).

    Raises:
        BadTopology: there is none of this name; the message says which there are.
    """
    if topology.startswith("cpu:"):
        return None
    try:
        return chips.topology(topology)
    except ValueError as error:
        raise BadTopology(f"{error}; or cpu:8, or another number of virtual devices, for a try") from None


def virtual_devices(topology: str) -> int:
    """How many virtual CPU devices stand for a topology: those of ``"cpu:8"``, and GPUs; 0 of a TPU, or a bad name."""
    kind, _, count = topology.partition(":")
    if kind == "cpu":
        return int(count) if count.isdecimal() else 0
    with contextlib.suppress(BadTopology):
        found = known(topology)
        return found.devices if found is not None and not found.chip.is_tpu else 0
    return 0


def devices_of(topology: str) -> list[Any]:
    """The devices of a topology: ``"v5e:16x16"``, or ``"cpu:8"`` for virtual devices of this process. For GPUs nothing
    is compiled: virtual devices stand for them, too.

    Raises:
        BadTopology: there is none of this name; the message says which there are.
        ModuleNotFoundError: the TPU compiler is not installed.
    """
    found = known(topology)
    if found is None or not found.chip.is_tpu:
        return _of_cpu(topology)
    if importlib.util.find_spec("libtpu") is None:
        raise ModuleNotFoundError(
            f"to compile for {topology} needs libtpu, the TPU compiler, which is not installed: pip install "
            "'functorch-port[tpu]'"
        )
    import jax.experimental.topologies as topologies

    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        made = topologies.get_topology_desc(platform="tpu", topology_name=found.jax_name, **found.jax_options)
    except jax.errors.JaxRuntimeError as error:
        raise BadTopology(f"{topology}: the compiler says: {error}") from None
    return list(made.devices)


def _of_cpu(topology: str) -> list[Any]:
    count = virtual_devices(topology)
    if not count:
        raise BadTopology(f"topology {topology!r}: cpu has a number of virtual devices, as in cpu:8")
    found = jax.devices("cpu")
    if len(found) < count:
        raise BadTopology(
            f"{topology}: JAX has {len(found)} CPU devices here. Before it begins, set the environment variable "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={count}, or use functorch-port plan, which does"
        )
    return found[:count]


def parsed_mesh(text: str) -> dict[str, int]:
    """The mesh that ``"fsdp=64,tp=4"`` says.

    Raises:
        BadTopology: it says none.
    """
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = (x.strip() for x in part.partition("="))
        if not equals or not name.isidentifier() or not size.isdecimal() or not int(size) or name in sizes:
            raise BadTopology(f"a mesh is like fsdp=64,tp=4: names, each with its size; got {text!r}")
        sizes[name] = int(size)
    return sizes


def mesh_text(sizes: Mapping[str, int]) -> str:
    """What `parsed_mesh` reads."""
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def described_mesh(topology: str, mesh: Mapping[str, int] | None = None) -> DeviceMesh:
    """A `DeviceMesh` of devices that are not here, for modules and tensors on the meta device. Real
    ones that are placed there become such.

    Args:
        topology: such as ``"v5e:16x16"``; ``"cpu:8"`` has virtual devices of this process.
        mesh: name of a dimension -> its size; one dimension ``"fsdp"`` of all devices unless given.

    Raises:
        ValueError: there is no such topology, or the mesh is not of all its devices.
        TypeError: they are of other types.
        ModuleNotFoundError: the TPU compiler is not installed.

    Example:
        >>> from functorch_port.distributed import described_mesh
        >>> described_mesh("cpu:1", {"fsdp": 1})
        DeviceMesh((fsdp=1), 'cpu', stride=(1,))
    """
    if not isinstance(topology, str) or not isinstance(mesh, (Mapping, NoneType)):
        raise TypeError(
            f"described_mesh: expected a topology such as 'v5e:4x4' and sizes such as {{'fsdp': 16}}, got {topology!r} "
            f"and {mesh!r}"
        )
    found = devices_of(topology)
    sizes = dict(mesh or {"fsdp": len(found)})
    if not all(isinstance(size, int) and size > 0 for size in sizes.values()):
        raise BadTopology(f"the sizes of a mesh are integers of at least 1, got {sizes}")
    count = math.prod(sizes.values())
    if count != len(found):
        raise BadTopology(
            f"the mesh {mesh_text(sizes)} has {count} devices, and {topology} has {len(found)}: the sizes are to "
            f"multiply to {len(found)}, as in {_some_mesh(sizes, len(found))}"
        )
    array = _arranged(found, tuple(sizes.values()))
    kind = device_type_of_platform(found[0].platform)
    made = DeviceMesh(kind, meshes.mesh_of(array, tuple(sizes)))
    made.topology = topology
    if found[0].platform != "cpu":
        placed.described.update(found)
    return made


def _some_mesh(sizes: Mapping[str, int], count: int) -> str:
    """A mesh with these names that has as many devices."""
    first, *others = sizes
    kept = {}
    left = count
    for name in others:
        kept[name] = math.gcd(left, sizes[name])
        left //= kept[name]
    return mesh_text({first: left, **kept})


def _arranged(found: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """The devices as an array, so that neighbours in it are neighbours in the topology where JAX knows how."""
    if found[0].platform == "cpu":
        return np.array(found).reshape(shape)
    import jax.experimental.mesh_utils as mesh_utils

    with contextlib.suppress(NotImplementedError, ValueError, AssertionError):
        return mesh_utils.create_device_mesh(shape, found)
    return np.array(found).reshape(shape)


def device_of(found: Any) -> device:
    """The `device` of a program for such devices."""
    return device(device_type_of_platform(found.platform))
