"""Meshes of devices, and arrays on one device that meet those on a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from . import agreement
from .bounded import Bounded
from .tuning import tuning

__all__ = [
    "INCOMPATIBLE", "OWN", "PROCESS", "axes_of", "by_process", "described", "elsewhere", "is_auto", "is_global",
    "is_here", "joined", "made_whole", "mesh_in", "mesh_of", "mixed", "of_processes", "spec_of", "unnamed", "within",
]  # fmt: skip

#: the axes of `of_processes`
PROCESS, OWN = "process", "own"

#: part of JAX's text where a program is given arrays on different devices
INCOMPATIBLE = "incompatible devices"
#: part of its text where it cannot name how results are split
UNNAMED = "is incompatible with mesh_shape"
#: what JAX says where a process asks for all numbers of an array of which it has some
ELSEWHERE = "spans non-addressable"


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


def is_auto(mesh: Any) -> bool:
    """Whether all axes of a mesh are of the type Auto."""
    return all(kind == AxisType.Auto for kind in mesh.axis_types)


def by_process(devices: Iterable[Any]) -> np.ndarray:
    """Devices in a row, those of a process together."""
    return np.array(sorted(devices, key=lambda device: (device.process_index, device.id)))


def of_processes(devices: Iterable[Any]) -> Mesh:
    """A mesh with a row of devices for each process.

    Raises:
        NotImplementedError: they are those of some of the processes.
    """
    return _of_processes(frozenset(devices))


@lru_cache(tuning.cached_facts)
def _of_processes(devices: frozenset[Any]) -> Mesh:
    row = by_process(devices)
    have = len({device.process_index for device in row})
    if have < jax.process_count():
        raise NotImplementedError(
            f"a mesh has devices of {have} of {jax.process_count()} processes: give one that has devices of all"
        )
    return mesh_of(row.reshape(jax.process_count(), -1), (PROCESS, OWN))


def described(sharding: NamedSharding) -> str:
    """A sharding as a text in which all that it says stands."""
    mesh: Any = sharding.mesh
    ids = [device.id for device in mesh.devices.flat]
    return f"{sharding.spec} on the mesh {dict(mesh.shape)} of the devices {ids}"


def mixed(first: NamedSharding, second: NamedSharding) -> str:
    """What is wrong, and what to do, where two shardings are of different devices, or of these in different orders."""
    return (
        f"one lies by {described(first)}, the other by {described(second)}. Place both on one mesh, or on dimensions "
        "of one, as mesh['tp']; a tensor moves to another mesh by "
        "distribute_tensor(x.detach().full_tensor(), mesh, placements)"
    )


def is_global(value: Any) -> bool:
    """Whether an array lies in several processes."""
    is_array = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    return is_array and not value.is_fully_addressable


def is_here(value: Any) -> bool:
    """Whether this process has all numbers of an array."""
    return not isinstance(value, jax.Array) or value.is_fully_addressable or value.is_fully_replicated


def elsewhere(error: Exception, args: Any) -> None:
    """Raises an error that says what to do, if this one is that numbers are looked at which other processes have."""
    if isinstance(error, RuntimeError) and ELSEWHERE in str(error):
        split = next(a.sharding for a in jax.tree.leaves(args) if not is_here(a))
        where = described(split) if isinstance(split, NamedSharding) else str(split)
        raise RuntimeError(
            f"no process has all numbers of a tensor that is split over them, by {where}. Look at x.full_tensor(), "
            "which all processes call together, or at x.to_local(), the part of this one"
        ) from None


def within(mesh: Any) -> Any:
    """The mesh for an operation: in a function on parts (`jax.shard_map`), the one that says which axes are taken."""
    around = jax.sharding.get_abstract_mesh()
    return mesh if around.empty else around


#: programs, and meshes of their arguments, whose results XLA splits in a way that the axes cannot name -> with results
#: that are not split
unnamed: Bounded[Any, Any] = Bounded(tuning.cached_facts)


def mesh_in(args: Any) -> Any:
    """The mesh of the first array that lies on several devices; None if there is none."""
    arrays = [a for a in jax.tree.leaves(args) if isinstance(a, jax.Array)]
    found = [a.sharding for a in arrays if not isinstance(a, jax.core.Tracer)]
    return next((s.mesh for s in found if isinstance(s, NamedSharding) and len(s.device_set) > 1), None)


def made_whole(fn: Any, error: Exception, args: Any) -> bool:
    """Whether a jitted function failed with this error because its results are split in a way that has no name.

    Over half of an axis, as rows may be that were reshaped. From now on its results are whole on all devices.
    """
    mesh = mesh_in(args)
    if UNNAMED not in str(error) or mesh is None or (fn, mesh) in unnamed:
        return False
    unnamed[fn, mesh] = jax.jit(lambda *args: fn(*args), out_shardings=NamedSharding(mesh, PartitionSpec()))
    return True


def joined(error: Exception, args: Any) -> Any:
    """Arguments that a program has refused, with those on one device on all of the mesh that others are on.

    None if that is not why it refused them.

    Raises:
        ValueError: the others are on different meshes, or an array of one of several processes is not the same in all.
            Numbers are not compared.
    """
    if not isinstance(error, ValueError) or INCOMPATIBLE not in str(error):
        return None
    arrays = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, jax.Array)]
    wide = [a.sharding for a in arrays if len(a.sharding.device_set) > 1]
    if not wide or not isinstance(wide[0], NamedSharding):
        return None
    row = [*wide[0].mesh.devices.flat]
    others = [s for s in wide if isinstance(s, NamedSharding) and [*s.mesh.devices.flat] != row]
    if others:
        raise ValueError(
            f"tensors on different meshes meet ({INCOMPATIBLE}): {mixed(wide[0], others[0])}"
        ) from error
    everywhere = NamedSharding(wide[0].mesh, PartitionSpec())
    if len(wide) == len(arrays) or not all(a.sharding.device_set <= everywhere.device_set for a in arrays):
        return None

    if not everywhere.is_fully_addressable:
        own = [a for a in arrays if a.is_fully_addressable and a.ndim]
        found = sorted(
            [agreement.digest([a]).hex() for a in own]
        )  # each process may have an order of its own
        agreement.check({"what is of one process in a program of all": found} if found else {})

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) > 1:
            return leaf
        if everywhere.is_fully_addressable:
            return jax.device_put(jax.numpy.copy(leaf), everywhere)
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, everywhere, lambda index: host[index])

    return jax.tree.map(moved, args)
