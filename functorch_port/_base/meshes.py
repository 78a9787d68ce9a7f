"""Meshes of devices, and arrays on one device that meet those on a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = [
    "INCOMPATIBLE",
    "axes_of",
    "by_process",
    "is_addressable",
    "is_here",
    "joined",
    "mesh_of",
    "spec_of",
    "within",
]

#: part of JAX's text where a program is given arrays on different devices
INCOMPATIBLE = "incompatible devices"


def mesh_of(devices: Any, names: Sequence[str]) -> Mesh:
    """A mesh whose axes are all of the type Auto, as programs have them here."""
    array = np.asarray(devices, object)
    return Mesh(array, tuple(names), axis_types=(AxisType.Auto,) * array.ndim)


def axes_of(entry: Any) -> tuple[str, ...]:
    """The axes that an entry of a `PartitionSpec` names."""
    if entry is None or entry is PartitionSpec.UNCONSTRAINED:
        return ()
    return (entry,) if isinstance(entry, str) else tuple(entry)


def spec_of(axes: Iterable[Sequence[str]]) -> PartitionSpec:
    """The `PartitionSpec` of dimensions that are split by these axes, without the last ones that are not split."""
    entries = [names[0] if len(names) == 1 else tuple(names) or None for names in axes]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def by_process(devices: Iterable[Any]) -> np.ndarray:
    """Devices in a row, those of a process together."""
    return np.array(sorted(devices, key=lambda device: (device.process_index, device.id)))


def is_here(value: Any) -> bool:
    """Whether this process has all numbers of an array."""
    return not isinstance(value, jax.Array) or value.is_fully_addressable or value.is_fully_replicated


def is_addressable(value: Any) -> bool:
    """Whether this process drives all devices that an array lies on."""
    return bool(getattr(value, "is_fully_addressable", True))


def within(mesh: Any) -> Any:
    """The mesh for an operation: in a function on parts (`jax.shard_map`), the one that says which axes are taken."""
    around = jax.sharding.get_abstract_mesh()
    return mesh if around.empty else around


def joined(error: Exception, args: Any) -> Any:
    """Arguments that a program has refused, with those on one device on all of the mesh that others are on.

    None if that is not why it refused them; and in several processes, where one cannot know what the others have.
    """
    if not isinstance(error, ValueError) or INCOMPATIBLE not in str(error) or jax.process_count() > 1:
        return None
    arrays = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, jax.Array)]
    wide = [a.sharding for a in arrays if len(a.sharding.device_set) > 1]
    if not wide or not isinstance(wide[0], NamedSharding):
        return None
    everywhere = NamedSharding(wide[0].mesh, PartitionSpec())
    if not all(a.sharding.device_set <= everywhere.device_set for a in arrays):
        return None

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) > 1:
            return leaf
        return jax.device_put(jax.numpy.copy(leaf), everywhere)

    return jax.tree.map(moved, args)
