"""Devices that are not here: those of a TPU topology, by its compiler, and meshes of them."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .._array import placed
from .._base import meshes
from .._base.device import device, device_type_of_platform
from ..distributed.device_mesh import DeviceMesh

__all__ = ["BadTopology", "SETTINGS", "described_mesh", "devices_of", "hbm_of", "parsed_mesh"]

#: what the TPU compiler is to know where there is no TPU; set before it is loaded
SETTINGS = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
KNOWN = {
    "v5e": "1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16",
    "v6e": "1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16",
    "v5p": "2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4, 4x4x8, ... 16x16x24",
    "v4": "2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4, 4x4x8, ... 12x16x16",
}
#: bytes of a device that a program may use, by its kind; the compiler says 15.75G of a v5e
_HBM = {"TPU v5 lite": int(15.75 * 2**30)}


class BadTopology(ValueError):
    """A topology that cannot be described, or a mesh that does not fit it."""


def devices_of(topology: str) -> list[Any]:
    """The devices of a topology: ``"v5e:16x16"``, or ``"cpu:8"`` for virtual devices of this process.

    Raises:
        BadTopology: there is none of this name; the message says which there are.
        ModuleNotFoundError: the TPU compiler is not installed.
    """
    kind, colon, sizes = topology.partition(":")
    if kind == "cpu":
        return _of_cpu(topology, sizes)
    if not colon or not re.fullmatch(r"\d+(x\d+)*", sizes) or kind not in KNOWN:
        raise BadTopology(_unknown(topology))
    if importlib.util.find_spec("libtpu") is None:
        raise ModuleNotFoundError(
            f"to compile for {topology} needs libtpu, the TPU compiler, which is not installed: pip install "
            "'functorch-port[tpu]'"
        )
    import jax.experimental.topologies as topologies

    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        return list(topologies.get_topology_desc(platform="tpu", topology_name=topology).devices)
    except jax.errors.JaxRuntimeError as error:
        raise BadTopology(f"{_unknown(topology)}\nThe compiler says: {error}") from None


def _of_cpu(topology: str, count: str) -> list[Any]:
    if not count.isdecimal() or not int(count):
        raise BadTopology(_unknown(topology))
    found = jax.devices("cpu")
    if len(found) < int(count):
        raise BadTopology(
            f"{topology}: JAX has {len(found)} CPU devices here. Before it begins, set the environment variable "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={count}, or use functorch-port plan, which does"
        )
    return found[: int(count)]


def _unknown(topology: str) -> str:
    rows = "\n".join(f"  {kind}:  {shapes}" for kind, shapes in KNOWN.items())
    return (
        f"{topology!r} is no topology that is known. There are a kind and the chips along each axis:\n{rows}\n"
        "  cpu:  8, or another number of virtual devices, for a try"
    )


def hbm_of(found: Any) -> int | None:
    """Bytes of a device that a program may use; None if that is not known."""
    return _HBM.get(found.device_kind)


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


def described_mesh(topology: str, mesh: Mapping[str, int] | None = None) -> DeviceMesh:
    """A `DeviceMesh` of devices that are not here, for modules and tensors on the meta device. Real
    ones that are placed there become such.

    Args:
        topology: such as ``"v5e:16x16"``; ``"cpu:8"`` has virtual devices of this process.
        mesh: name of a dimension -> its size; one dimension ``"fsdp"`` of all devices unless given.

    Raises:
        ValueError: there is no such topology, or the mesh is not of all its devices.
        ModuleNotFoundError: the TPU compiler is not installed.

    Example:
        >>> from functorch_port.distributed import described_mesh
        >>> described_mesh("cpu:1", {"fsdp": 1})
        DeviceMesh((fsdp=1), 'cpu', stride=(1,))
    """
    found = devices_of(topology)
    sizes = dict(mesh or {"fsdp": len(found)})
    if math.prod(sizes.values()) != len(found):
        said = ",".join(f"{name}={size}" for name, size in sizes.items())
        raise BadTopology(
            f"the mesh {said} has {math.prod(sizes.values())} devices, and {topology} has {len(found)}: the sizes are "
            f"to multiply to {len(found)}, as in {_some_mesh(sizes, len(found))}"
        )
    array = _arranged(found, tuple(sizes.values()))
    kind = device_type_of_platform(found[0].platform)
    made = DeviceMesh(kind, meshes.mesh_of(array, tuple(sizes)))
    made.is_described = True
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
    return ",".join(f"{name}={size}" for name, size in {first: left, **kept}.items())


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
