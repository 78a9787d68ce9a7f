"""Values in the memory of the hosts, which come to the devices where they are used.

JAX calls that memory ``pinned_host``: a `NamedSharding` of this memory kind says which device reads which part. A
Storage may keep such a sharding (see `placed`). Who reads it gets a copy in the memory of the devices. A program is
given what is kept (`Storage.kept`) and moves it itself, so that XLA chooses when. Inside a program all values are on
the devices; what it writes goes back at its end.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
from jax.sharding import NamedSharding

from .._base.tuning import tuning
from . import tracing

__all__ = ["KIND", "back", "is_on_hosts", "kept", "of_devices", "of_hosts", "to_devices"]

KIND = "pinned_host"


def is_on_hosts(sharding: Any) -> bool:
    """Whether a sharding says that its values are in the memory of the hosts."""
    return sharding is not None and sharding.memory_kind == KIND


@lru_cache(tuning.cached_facts)
def of_devices(sharding: NamedSharding) -> NamedSharding:
    """The same in the memory of the devices."""
    return NamedSharding(sharding.mesh, sharding.spec) if is_on_hosts(sharding) else sharding


def of_hosts(sharding: NamedSharding) -> NamedSharding:
    """The same in the memory of the hosts.

    Raises:
        NotImplementedError: the devices cannot read it, or are those of several processes.
    """
    if not sharding.is_fully_addressable and jax.process_count() > 1:
        raise NotImplementedError(
            "offloading to the hosts' memory is done in one process: with several, more devices take less of the "
            "state each, and bfloat16 state takes half"
        )
    for device in sharding.device_set:
        kinds = [memory.kind for memory in device.addressable_memories()]
        if KIND not in kinds:
            raise NotImplementedError(
                f"offloading needs memory of the kind {KIND!r}, and {device} has {', '.join(kinds) or 'none'}: keep "
                "the values on the devices"
            )
    return sharding.with_memory_kind(KIND)


def kept(tensor: Any) -> Any:
    """The value of a tensor, where that is kept: for a program."""
    return tensor._storage.kept() if tensor._view is None else tensor._value


def to_devices(tree: Any) -> Any:
    """Nested containers with the arrays that are on the hosts moved to the devices."""
    return jax.tree.map(_to_devices, tree)


def _to_devices(x: Any) -> Any:
    if not _has(x):
        return x
    if isinstance(x, jax.core.Tracer):
        return jax.device_put(x, jax.memory.Space.Device)
    with (
        jax.ensure_compile_time_eval(),
        tracing.x64(),
    ):  # a program may be given the array for good: nothing is shared
        return jax.device_put(x, of_devices(x.sharding), may_alias=False)


def _has(x: Any) -> bool:
    return isinstance(x, jax.Array) and jax.typeof(x).memory_space == jax.memory.Space.Host


def back(new: Any, like: Any) -> Any:
    """In a program, ``new`` in the memory in which ``like`` was given to it, if that is the hosts'."""
    return jax.device_put(new, jax.memory.Space.Host) if new is not None and _has(like) else new
