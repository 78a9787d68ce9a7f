"""What several processes compute of the values that each has: sums, means, and what one of them has.

Each value is a row of a global array there. The meshes are those of `meshes.of_processes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._base import memory
from .._base.meshes import OWN, PROCESS
from .._base.tuning import tuning
from . import tracing
from .placed import brought, of_parts
from .value import LAZY

__all__ = ["Alike", "as_row", "of_rank", "of_row", "own_copy", "summed"]


def as_row(value: Any, mesh: Mesh, split: bool = False) -> Any:
    """A value of this process as its row of a global array.

    With ``split`` the devices of the process share the first dimension, if they can.
    """
    own, shape = mesh.shape[OWN], value.shape
    sharding = _by_row(mesh, split and own > 1 and bool(shape) and shape[0] % own == 0)
    if not isinstance(value, jax.Array):
        return of_parts(np.asarray(value)[None], sharding)
    with tracing.x64():  # nothing waits for the value
        row = jax.device_put(_as_row(value), NamedSharding(mesh.local_mesh, sharding.spec))
        parts = [shard.data for shard in row.addressable_shards]
        return jax.make_array_from_single_device_arrays((mesh.shape[PROCESS], *shape), sharding, parts)


@lru_cache(tuning.cached_facts)
def _by_row(mesh: Mesh, is_split: bool) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(PROCESS, OWN) if is_split else PartitionSpec(PROCESS))


def of_row(value: Any) -> Any:
    """What this process has of a global array with a row for each."""
    with tracing.x64():
        return _of_row(value.addressable_data(0))


@jax.jit
def _as_row(x: Any) -> Any:
    return x[None]


@jax.jit
def _of_row(x: Any) -> Any:
    return x[0]


def own_copy(value: Any) -> Any:
    """What this process has of an array that is the same on all devices."""
    return value.addressable_data(0)


class Alike:
    """What all processes have alike, as programs of all left it to them: they take that again as it is.

    Else this process would wait for one, to bring its own copy to the devices of all.
    """

    def __init__(self) -> None:
        self._there: dict[int, tuple[Any, Any]] = {}

    def leave(self, value: Any) -> Any:
        """What this process has of an array that a program gave."""
        own, there = own_copy(value), self._there
        key = id(own)
        there[key] = ref(own, lambda _: there.pop(key, None)), value
        return own

    def enter(self, value: Any, sharding: NamedSharding) -> Any:
        """An array that all processes have, on the devices of all."""
        known = self._there.get(id(value))
        return brought(value, sharding) if known is None or known[0]() is not value else known[1]


def summed(values: Sequence[Any], mesh: Mesh, by: int = 1) -> list[Any]:
    """The sums of what the processes have, on all devices, divided by a number: one program, and one all-reduce."""
    return _run(_sum(mesh, by), values, mesh)


def of_rank(rank: int, values: Sequence[Any], mesh: Mesh) -> list[Any]:
    """What one process has, on all devices."""
    return _run(_choice(mesh, rank), values, mesh)


def _run(program: Any, values: Sequence[Any], mesh: Mesh) -> list[Any]:
    arrays = [value.array() if value.__class__ in LAZY else value for value in values]
    rows = [as_row(array if isinstance(array, jax.Array) else np.asarray(array), mesh) for array in arrays]
    with tracing.x64():
        found: list[Any] = memory.run(program, (rows,))
    return found


@lru_cache(tuning.cached_facts)
def _sum(mesh: Mesh, by: int) -> Any:
    return _over(mesh, lambda x: (lax.psum(x, PROCESS) / by).astype(x.dtype))


@lru_cache(tuning.cached_facts)
def _choice(mesh: Mesh, rank: int) -> Any:
    def choose(x: Any) -> Any:
        here = lax.axis_index(PROCESS) == rank
        return lax.psum(jnp.where(here, x, jnp.zeros_like(x)), PROCESS).astype(x.dtype)

    return _over(mesh, choose)


def _over(mesh: Mesh, fn: Callable[[Any], Any]) -> Any:
    each = lambda rows: [fn(row[0]) for row in rows]
    ins, outs = (PartitionSpec(PROCESS),), PartitionSpec()
    return jax.jit(
        jax.shard_map(each, mesh=mesh, in_specs=ins, out_specs=outs, axis_names={PROCESS}, check_vma=False)
    )
