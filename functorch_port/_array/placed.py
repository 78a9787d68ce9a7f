"""Values that lie on several devices, in a way that was declared.

A Storage that holds a `Placed` value is *placed*: it has a sharding, and keeps it. What is written to it is brought
there, by whoever writes: an assignment, an in-place operation, a checkpoint, a program. In a trace `brought` constrains
it, so that XLA computes a value where it belongs. Gradients and an optimizer's state take the sharding of their
parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._base import agreement, memory, meshes
from .._base.tuning import tuning
from . import offloaded, tracing
from .value import LAZY, VALUES, Made

if TYPE_CHECKING:
    from .storage import Storage

__all__ = [
    "Placed", "agreed", "brought", "check", "compare_parts", "copied", "described", "fitting", "from_process",
    "is_shared", "like", "local_part", "made_auto", "of_parts", "owners_of", "place", "several", "sharding_of",
    "taken", "use",
]  # fmt: skip


#: whether something was placed on devices of several processes, or is to be
several = False
#: devices that are not here, for which programs are compiled alone (see `distributed.described_mesh`)
described: set[Any] = set()
_bare = object.__new__


def use(mesh: Any) -> None:
    """Note that tensors are to be placed on a `jax.sharding.Mesh`."""
    global several
    several = several or (mesh.is_multi_process and jax.process_count() > 1)  # else of a described topology


class Placed(Made):
    """An array, and the sharding that its Storage keeps. On the meta device ``made`` is a shape and dtype. In
    a trace it is on the devices in any case.

    Attributes:
        sharding: a `NamedSharding`, whose mesh has axes of the type Auto.
        mesh: the `DeviceMesh` that it was declared on, where that is a part of the sharding's; or None.
    """

    __slots__ = ("mesh", "on_cpu", "sharding")
    committed = True

    def __init__(self, made: Any, sharding: NamedSharding, mesh: Any = None) -> None:
        global several
        self.made, self.sharding, self.mesh = made, sharding, mesh
        self.on_cpu = offloaded.is_on_hosts(sharding) and not isinstance(made, jax.ShapeDtypeStruct)
        several = several or (not sharding.is_fully_addressable and jax.process_count() > 1)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.made.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        return self.made.dtype

    def again(self, made: Any) -> Placed:
        """The same with another array, which has the sharding for certain."""
        new = _bare(Placed)
        new.made, new.sharding, new.mesh = made, self.sharding, self.mesh
        new.on_cpu = self.on_cpu
        return new

    def array(self, cell: Storage) -> Any:
        return offloaded.to_devices(self.made) if self.on_cpu else self.made

    def new(self, value: Any) -> Placed:
        """Another value with the same sharding."""
        if value.__class__ is Placed:
            return value
        if several and not self.sharding.is_fully_addressable:
            agreed("what is written to a tensor on the devices of all", value)
        return Placed(brought(value, self.sharding), self.sharding, self.mesh)

    def write(self, cell: Storage, value: Any) -> None:
        cell.held, cell.form = self.new(value), None


def agreed(what: str, value: Any) -> None:
    """Refuse a value of one process that is to be on the devices of all, if it is not the same in all.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct) or meshes.is_global(value):
        return
    array = value.array() if value.__class__ in LAZY else value
    agreement.check({f"{what}, of shape {list(array.shape)},": [array]})


def compare_parts(value: Any) -> None:
    """Refuse an array on a mesh, made of what each process has, if several have the same part and other numbers.

    Raises:
        ValueError: that is so.
    """
    if not meshes.is_global(value):
        return
    own = {_start(shard.index): shard.data for shard in value.addressable_shards}
    what = (
        f"a tensor of shape {list(value.shape)} on the devices of all, made of what each process has (give them "
        "the same batch, without a sampler that divides it between them, or say by DTensor.from_local(x, mesh, "
        "placements) that they have different parts): its part at "
    )
    starts = _several_have(value.sharding, value.shape)
    agreement.check({f"{what}{list(k)}": [own[k]] if k in own else None for k in starts})


def _start(index: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple([part.start or 0 for part in index])


@lru_cache(tuning.cached_facts)
def _several_have(sharding: NamedSharding, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Where the parts begin of which several processes have each."""
    owners = owners_of(sharding, shape)
    return sorted(start for start, devices in owners.items() if len({d.process_index for d in devices}) > 1)


def owners_of(sharding: NamedSharding, shape: tuple[int, ...]) -> dict[tuple[int, ...], list[Any]]:
    """The devices that have each part, by where it begins."""
    parts, owners = sharding.devices_indices_map(shape), dict[tuple[int, ...], list[Any]]()
    for device in sharding.mesh.devices.flat:
        owners.setdefault(_start(parts[device]), []).append(device)
    return owners


def sharding_of(cell: Storage) -> NamedSharding | None:
    """The sharding that a Storage keeps; None if it keeps none."""
    held = cell.held
    return held.sharding if held.__class__ in VALUES else None


def is_shared(cell: Storage) -> bool:
    """Whether a Storage was placed on devices of several processes."""
    sharding = sharding_of(cell)
    return sharding is not None and not sharding.is_fully_addressable


def place(cell: Storage, sharding: NamedSharding, mesh: Any = None) -> None:
    """Have a Storage keep a sharding (declared on a `DeviceMesh`) from now on; its value is brought there.

    That is no write.
    """
    check(cell.aval().shape, sharding)
    tracing.bump_epoch()
    value = cell.held if isinstance(cell.held, jax.ShapeDtypeStruct) else cell.array()
    cell.held, cell.form = Placed(brought(value, sharding), sharding, mesh), None


def brought(value: Any, sharding: NamedSharding) -> Any:
    """A value as an array with this sharding, which shares no memory with another one.

    One that has it already is given back as it is. A tracer is constrained, and stays on the devices (see
    `offloaded`); what has no values stays. On devices that are not here it is a shape alone.
    """
    if isinstance(value, jax.core.Tracer):
        return jax.lax.with_sharding_constraint(value, offloaded.of_devices(sharding))
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    if described and not described.isdisjoint(sharding.device_set):
        if tracing.overlay:
            return jax.lax.with_sharding_constraint(value, offloaded.of_devices(sharding))
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    if isinstance(value, jax.Array) and value.sharding == sharding:
        return value
    check(value.shape, sharding)
    if value.__class__ in LAZY:
        value = value.array()
    if isinstance(value, jax.Array):
        have = value.sharding
        if have.is_equivalent_to(sharding, value.ndim) and have.device_set == sharding.device_set:
            return value
        if value.is_fully_addressable and sharding.is_fully_addressable:
            with (
                jax.ensure_compile_time_eval(),
                tracing.x64(),
            ):  # a copy: JAX would share what lies there already
                return jax.device_put(jax.numpy.copy(value), sharding)
        if have.device_set == sharding.device_set:
            with tracing.x64():
                return memory.run(_moving(sharding), (value,))
        if not value.is_fully_addressable:
            raise NotImplementedError(
                f"a tensor on {len(have.device_set)} devices cannot move to {len(sharding.device_set)} devices: "
                "it lies in other processes, too"
            )
    host = np.asarray(value)
    with jax.ensure_compile_time_eval(), tracing.x64():
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index].copy())


@lru_cache(tuning.cached_facts)
def _moving(sharding: Any) -> Any:
    return jax.jit(jax.numpy.copy, out_shardings=sharding)


def local_part(value: Any) -> np.ndarray:
    """What this process has of an array on a mesh: its shards, which have one shape, in a grid."""
    shards = {_start(s.index): s.data for s in value.addressable_shards}
    starts = [sorted({start[d] for start in shards}) for d in range(value.ndim)]
    size = next(iter(shards.values())).shape
    out = np.empty([len(some) * n for some, n in zip(starts, size, strict=True)], value.dtype)
    for start, data in shards.items():
        at = [some.index(k) * n for some, k, n in zip(starts, start, size, strict=True)]
        out[tuple([slice(k, k + n) for k, n in zip(at, size, strict=True)])] = np.asarray(data)
    return out


def of_parts(part: Any, sharding: NamedSharding) -> Any:
    """The array on a mesh of which each process has such a part."""
    with tracing.x64():
        return jax.make_array_from_process_local_data(sharding, np.asarray(part))


def from_process(rank: int, value: Any) -> np.ndarray:
    """What one of several processes has, in all of them; they give arrays of one shape and dtype."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    with tracing.x64():
        return np.asarray(broadcast_one_to_all(np.asarray(value), jax.process_index() == rank))


def copied(value: Any) -> Any:
    """An array of its own with the same value, where that is."""
    if isinstance(value, jax.core.Tracer) or value.is_fully_addressable:
        return jax.device_put(value, may_alias=False)
    return memory.run(_moving(value.sharding), (value,))


def like(cell: Storage, value: Any) -> Any:
    """What a new Storage is to hold for a value that belongs to that of another: its gradient, an optimizer's state."""
    sharding = sharding_of(cell)
    if sharding is None or value.__class__ is Placed:
        return value
    fit = fitting(sharding, cell.held.shape, value.shape)
    return Placed(brought(value, fit), fit, cell.held.mesh)


def fitting(sharding: NamedSharding, like: Sequence[int], shape: Sequence[int]) -> NamedSharding:
    """The sharding for a value that belongs to one of the shape ``like``: dimensions that have the same size keep
    theirs, the others are not split.
    """
    if tuple(like) == tuple(shape):
        return sharding
    if len(like) != len(shape):
        return NamedSharding(sharding.mesh, PartitionSpec())
    spec = (*sharding.spec, *[None] * len(like))
    kept = [axes if a == b else None for axes, a, b in zip(spec, like, shape)]
    return NamedSharding(sharding.mesh, PartitionSpec(*kept), memory_kind=sharding.memory_kind)


def check(shape: Sequence[int], sharding: NamedSharding) -> None:
    """Refuse a sharding that does not divide a shape.

    Raises:
        ValueError: the sharding splits more dimensions than there are, or one into parts of different sizes.
    """
    spec = sharding.spec
    if len(spec) > len(shape):
        raise ValueError(f"{spec} splits {len(spec)} dimensions, the tensor of shape {list(shape)} has fewer")
    for d, (size, axes) in enumerate(zip(shape, spec)):
        names = meshes.axes_of(axes)
        parts = int(np.prod([sharding.mesh.shape[name] for name in names]))
        if size % parts:
            raise ValueError(
                f"dimension {d} of a tensor of shape {list(shape)} cannot be split into {parts} equal parts (over "
                f"{', '.join(names)} of the mesh {dict(sharding.mesh.shape)}): choose another dimension, or make its "
                f"size a multiple of {parts}"
            )


def taken(array: Any) -> Any:
    """An array of the user's, as programs here take it: on a mesh whose axes are all of the type Auto."""
    have = None if isinstance(array, jax.core.Tracer) else array.sharding
    if not isinstance(have, NamedSharding):
        return array
    use(have.mesh)
    if (auto := made_auto(have)) is have:
        return array
    parts = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, auto, parts)


def made_auto(sharding: Any) -> NamedSharding:
    """A sharding of a mesh whose axes are all of the type Auto, as programs have them here."""
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"a tensor is placed by a NamedSharding, not by {type(sharding).__name__}")
    if meshes.is_auto(sharding.mesh):
        return sharding
    mesh = meshes.mesh_of(sharding.mesh.devices, sharding.mesh.axis_names)
    return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
