"""The programs of the collectives: each process of a group has one row of a global array, on its first device.

XLA does the work (Gloo on CPUs, NCCL on GPUs, a TPU's own links). Each kind, size and dtype has one program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from functorch_port._array import tracing
from functorch_port._base import memory, meshes

__all__ = ["in_trace", "mesh_of", "on_rank", "run"]

#: as in the programs that `compile` makes
_AXIS = meshes.PROCESS
_ROWS = PartitionSpec(_AXIS)


def mesh_of(ranks: tuple[int, ...], platform: str) -> Mesh:
    """A mesh of one device of each process."""
    first: dict[int, Any] = {}
    for device in jax.devices(platform):
        first.setdefault(device.process_index, device)
    return Mesh(np.array([first[rank] for rank in ranks]), (_AXIS,))


def run(mesh: Mesh, own: Any, kind: str, *how: Any, row: Any) -> Any:
    """The own row of what a program gives of the rows of all."""
    with tracing.x64():
        row = jax.device_put(row[None] if isinstance(row, np.ndarray) else _as_row(row), own)
        sharding = NamedSharding(mesh, _ROWS)
        rows = jax.make_array_from_single_device_arrays((mesh.size, *row.shape[1:]), sharding, [row])
        (shard,) = memory.run(_program(mesh, kind, *how), (rows,)).addressable_shards
        return _without_row(shard.data)


@jax.jit
def _as_row(x: Any) -> Any:
    return x[None]


@jax.jit
def _without_row(x: Any) -> Any:
    return x[0]


def in_trace(kind: str, *how: Any, row: Any, size: int) -> Any:
    """The same in the program of all processes that is being traced."""
    return _KINDS[kind](*how, row, size=size)


def on_rank(rank: int, here: Any, elsewhere: Any) -> Any:
    """In a trace: one array in one process, another in the others."""
    return jnp.where(lax.axis_index(_AXIS) == rank, here, elsewhere)


@functools.lru_cache(maxsize=1024)
def _program(mesh: Mesh, kind: str, *how: Any) -> Callable[[Any], Any]:
    local = functools.partial(_KINDS[kind], *how, size=mesh.size)
    program = jax.shard_map(
        lambda rows: local(rows[0])[None], mesh=mesh, in_specs=_ROWS, out_specs=_ROWS, check_vma=False
    )
    return jax.jit(program)


def _sum(x: Any, size: int) -> Any:
    if x.dtype == bool:
        return lax.psum(x.astype(jnp.int32), _AXIS) != 0
    return lax.psum(x, _AXIS)


#: reductions that XLA has itself, and those of the values of all
_DIRECT = {"MIN": lax.pmin, "MAX": lax.pmax}
_OF_ALL: dict[str, Callable[[Any], Any]] = {
    "SUM": lambda x: jnp.any(x, 0) if x.dtype == bool else jnp.sum(x, 0, dtype=x.dtype),
    "MIN": lambda x: jnp.min(x, 0),
    "MAX": lambda x: jnp.max(x, 0),
    "PRODUCT": lambda x: jnp.all(x, 0) if x.dtype == bool else jnp.prod(x, 0, dtype=x.dtype),
    "BAND": lambda x: functools.reduce(jnp.bitwise_and, x),
    "BOR": lambda x: functools.reduce(jnp.bitwise_or, x),
    "BXOR": lambda x: functools.reduce(jnp.bitwise_xor, x),
}


def _averaged(x: Any, size: int) -> Any:
    return (x / size).astype(x.dtype)


def _reduce(op: str, factor: float | None, x: Any, size: int) -> Any:
    if factor is not None:
        x = (x * factor).astype(x.dtype)
    if op == "AVG":
        return _averaged(_sum(x, size), size)
    if op in ("SUM", "PREMUL_SUM"):
        return _sum(x, size)
    if op in _DIRECT and x.dtype != bool:
        return _DIRECT[op](x, _AXIS)
    return _OF_ALL[op](lax.all_gather(x, _AXIS))


def _gather(x: Any, size: int) -> Any:
    return lax.all_gather(x, _AXIS)


def _exchange(x: Any, size: int) -> Any:
    """Row i of what the others have, for process i: ``x`` has a row for each process."""
    return lax.all_to_all(x, _AXIS, 0, 0, tiled=True)


def _reduce_scatter(op: str, factor: float | None, x: Any, size: int) -> Any:
    if factor is not None:
        x = (x * factor).astype(x.dtype)
    if op in ("SUM", "PREMUL_SUM", "AVG") and x.dtype != bool:
        total = lax.psum_scatter(x, _AXIS)
        return _averaged(total, size) if op == "AVG" else total
    return _OF_ALL[op](_exchange(x, size))


def _bits(x: Any) -> Any:
    """``x`` as whole numbers, whose sum with zeros gives each value to the bit."""
    if x.dtype == bool:
        return x.astype(jnp.uint8)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag], -1)
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")
    return x


def _of_bits(bits: Any, dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.bool_):
        return bits.astype(bool)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        parts = lax.bitcast_convert_type(bits, jnp.finfo(dtype).dtype)
        return lax.complex(parts[..., 0], parts[..., 1])
    return lax.bitcast_convert_type(bits, dtype) if jnp.issubdtype(dtype, jnp.floating) else bits


def _from_one(source: int, x: Any) -> Any:
    return jnp.where(lax.axis_index(_AXIS) == source, _bits(x), 0)


def _broadcast(source: int, x: Any, size: int) -> Any:
    return _of_bits(lax.psum(_from_one(source, x), _AXIS), x.dtype)


def _scatter(source: int, x: Any, size: int) -> Any:
    return _of_bits(lax.psum_scatter(_from_one(source, x), _AXIS), x.dtype)


_KINDS: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "gather": _gather,
    "exchange": _exchange,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "scatter": _scatter,
}
