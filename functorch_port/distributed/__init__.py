"""``torch.distributed`` of a single process: not available, not initialised.

Here one process drives all its devices. Functions that need a process group raise what PyTorch raises without one, and
functions that start one raise NotImplementedError.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

from .device_mesh import DeviceMesh, init_device_mesh

__all__ = [
    "Backend", "DeviceMesh", "GroupMember", "P2POp",
    "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor",
    "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_global_rank", "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_device_mesh", "init_process_group", "irecv", "is_available",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list",
    "send",
]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)
_NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."


def is_available() -> bool:
    """Return False: there are no process groups. So libraries take their single-process paths."""
    return False


def is_initialized() -> bool:
    """Return False: there is no process group."""
    return False


def is_backend_available(backend: str) -> bool:
    """Return False for every backend."""
    return False


def is_torchelastic_launched() -> bool:
    """Return False."""
    return False


def is_gloo_available() -> bool:
    """Return False."""
    return False


is_mpi_available = is_nccl_available = is_ucc_available = is_xccl_available = is_gloo_available


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The environment variable LOCAL_RANK, or ``fallback_rank``.

    Raises:
        RuntimeError: there is neither.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.distributed.{name}: there are no process groups. One process drives all its devices: shard arrays over "
        "them with jax.sharding, or use jax.distributed for several hosts"
    )


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Not supported: there are no process groups.

    Raises:
        NotImplementedError: always.
    """
    _refuse("init_process_group")


def destroy_process_group(group: Any = None) -> None:
    """Raises AssertionError, as PyTorch does without a process group."""
    raise AssertionError("Process group cannot be None")


def _without_group(name: str) -> Callable[..., Any]:
    def needs_group(*args: Any, **kwargs: Any) -> Any:
        """Raises ValueError, as PyTorch does without a process group."""
        raise ValueError(_NO_GROUP)

    needs_group.__name__ = needs_group.__qualname__ = name
    return needs_group


get_rank, get_world_size, get_backend, get_global_rank, get_group_rank, get_process_group_ranks = (
    _without_group(n)
    for n in (
        "get_rank",
        "get_world_size",
        "get_backend",
        "get_global_rank",
        "get_group_rank",
        "get_process_group_ranks",
    )
)
all_gather, all_gather_into_tensor, all_gather_object, all_reduce, all_to_all, all_to_all_single, barrier = (
    _without_group(n)
    for n in (
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_reduce",
        "all_to_all",
        "all_to_all_single",
        "barrier",
    )
)
batch_isend_irecv, broadcast, broadcast_object_list, gather, gather_object, irecv, isend = (
    _without_group(n)
    for n in (
        "batch_isend_irecv",
        "broadcast",
        "broadcast_object_list",
        "gather",
        "gather_object",
        "irecv",
        "isend",
    )
)
monitored_barrier, new_group, new_subgroups, recv, reduce, reduce_scatter, reduce_scatter_tensor = (
    _without_group(n)
    for n in (
        "monitored_barrier",
        "new_group",
        "new_subgroups",
        "recv",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
    )
)
scatter, scatter_object_list, send = (_without_group(n) for n in ("scatter", "scatter_object_list", "send"))


class ReduceOp:
    """Names of the reductions."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = (
        "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM",
    )  # fmt: skip


class Backend(str):
    """Names of the backends."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"


class _Absent:
    """A type for annotations and ``isinstance``; it has no instances."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class ProcessGroup(_Absent):
    """A group of processes; there are none."""


class Work(_Absent):
    """The result of an asynchronous operation of a group."""


class P2POp(_Absent):
    """An operation for `batch_isend_irecv`."""


class GroupMember:
    """PyTorch's predefined groups: None."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


group = GroupMember
