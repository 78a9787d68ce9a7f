"""Values that lie on several devices, in a way that was declared.

A Storage that holds a `Placed` value is *placed*: it has a sharding, and keeps it. What is written to it is brought
there, by whoever writes: an assignment, an in-place operation, a checkpoint, a program. Programs ask for it with
`constrained`, so that XLA computes a value where it belongs. Gradients and an optimizer's state take the sharding of
their parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .._base import memory
from .._base.tuning import tuning
from . import tracing
from .value import LAZY, VALUES, Value

if TYPE_CHECKING:
    from .storage import Storage

__all__ = [
    "Placed",
    "brought",
    "constrained",
    "copied",
    "fitting",
    "like",
    "made_auto",
    "place",
    "sharding_of",
]


class Placed(Value):
    """An array, and the sharding that its Storage keeps.

    Attributes:
        made: the array; on the meta device its shape and dtype.
        sharding: a `NamedSharding`, whose mesh has axes of the type Auto.
    """

    __slots__ = ("made", "sharding")
    on_cpu = False
    committed = True

    def __init__(self, made: Any, sharding: NamedSharding) -> None:
        self.made, self.sharding = made, sharding

    @property
    def shape(self) -> tuple[int, ...]:
        return self.made.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        return self.made.dtype

    def array(self, cell: Storage) -> Any:
        return self.made

    def new(self, value: Any) -> Placed:
        """Another value with the same sharding."""
        return value if value.__class__ is Placed else Placed(brought(value, self.sharding), self.sharding)

    def write(self, cell: Storage, value: Any) -> None:
        cell.held, cell.form = self.new(value), None


def sharding_of(cell: Storage) -> NamedSharding | None:
    """The sharding that a Storage keeps; None if it keeps none."""
    held = cell.held
    return held.sharding if held.__class__ in VALUES else None


def place(cell: Storage, sharding: NamedSharding) -> None:
    """Have a Storage keep a sharding from now on; its value is brought there. That is no write."""
    check(cell.aval().shape, sharding)
    tracing.bump_epoch()
    value = cell.held if isinstance(cell.held, jax.ShapeDtypeStruct) else cell.array()
    cell.held, cell.form = Placed(brought(value, sharding), sharding), None


def brought(value: Any, sharding: NamedSharding) -> Any:
    """A value as an array with this sharding, which shares no memory with another one.

    One that has it already is given back as it is. A tracer is constrained, what has no values stays.
    """
    if isinstance(value, jax.core.Tracer):
        return jax.lax.with_sharding_constraint(value, sharding)
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    check(value.shape, sharding)
    if value.__class__ in LAZY:
        value = value.array()
    if isinstance(value, jax.Array):
        have = value.sharding
        if have == sharding:
            return value
        if have.is_equivalent_to(sharding, value.ndim) and have.device_set == sharding.device_set:
            return value
        if value.is_fully_addressable and sharding.is_fully_addressable:
            with (
                jax.ensure_compile_time_eval(),
                tracing.x64(),
            ):  # JAX would share what lies on a device already
                return jax.device_put(_copy(value), sharding)
        if have.device_set == sharding.device_set:
            with tracing.x64():
                return memory.run(_moving(sharding), (value,))
        if not value.is_fully_addressable:
            raise NotImplementedError(
                f"a tensor on {_names(have)} cannot move to {_names(sharding)}: it lies in other processes, too"
            )
    host = np.asarray(value)
    with jax.ensure_compile_time_eval(), tracing.x64():
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index].copy())


@jax.jit
def _copy(x: Any) -> Any:
    return jax.numpy.copy(x)


@lru_cache(tuning.cached_facts)
def _moving(sharding: Any) -> Any:
    return jax.jit(jax.numpy.copy, out_shardings=sharding)


def local_part(value: Any) -> np.ndarray:
    """What this process has of an array on a mesh: its shards, which have one shape, in a grid."""
    shards = {tuple([part.start or 0 for part in s.index]): s.data for s in value.addressable_shards}
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
    return Placed(brought(value, fit), fit)


def constrained(value: Any, cell: Storage) -> Any:
    """A value that is written to a Storage, or is a gradient of it: where it belongs, if that is placed."""
    sharding = sharding_of(cell)
    return value if sharding is None else brought(value, sharding)


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
        names = () if axes is None else (axes,) if isinstance(axes, str) else axes
        parts = int(np.prod([sharding.mesh.shape[name] for name in names]))
        if size % parts:
            raise ValueError(
                f"dimension {d} of a tensor of shape {list(shape)} cannot be split into {parts} equal parts (over "
                f"{', '.join(names)} of the mesh {dict(sharding.mesh.shape)}): choose another dimension, or make its "
                f"size a multiple of {parts}"
            )


@cache
def _auto(mesh: Mesh) -> Mesh:
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def made_auto(sharding: Any) -> NamedSharding:
    """A sharding of a mesh whose axes are all of the type Auto, as programs have them here."""
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"a tensor is placed by a NamedSharding, not by {type(sharding).__name__}")
    if all(kind == AxisType.Auto for kind in sharding.mesh.axis_types):
        return sharding
    return NamedSharding(_auto(sharding.mesh), sharding.spec, memory_kind=sharding.memory_kind)


def _names(sharding: Any) -> str:
    return f"{len(sharding.device_set)} devices"
