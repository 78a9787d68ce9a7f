"""Groups of processes: how they are made, and who is in them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import jax

from functorch_port._base import agreement

from . import _connection
from ._group import ProcessGroup, note_in_traces
from ._reduce_op import Backend
from ._store import Store
from .constants import default_pg_timeout
from .rendezvous import rendezvous

__all__ = [
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group_of",
    "init_process_group",
    "is_initialized",
    "is_outside",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "root_of",
    "default_group",
]

_NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."


class GroupMember:
    """PyTorch's predefined groups: WORLD is that of `init_process_group`, or None."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


group = GroupMember

#: the groups of the process by name
_groups: dict[str, ProcessGroup] = {}
#: how many groups were made: the processes count alike, which gives the names
_count = 0


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return GroupMember.WORLD is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Connect the processes of the job, and make the group of all.

    A process is a process of JAX (`jax.distributed.initialize`): the rank is ``jax.process_index()``, and a process
    drives all its devices. Call it before the first tensor. Scripts that the launcher starts are connected already.

    Args:
        backend: a name, which `get_backend` gives back. XLA does the work: Gloo on CPUs, NCCL on GPUs.
        init_method: ``env://`` (the default: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; without RANK what JAX finds
            of SLURM, Open MPI, a TPU pod), ``tcp://host:port`` or ``file:///path``.
        timeout: how long a collective waits for the other processes; 30 minutes.
        world_size: the number of processes.
        rank: the number of this process.
        store: instead of ``init_method``.
        group_name: ignored.
        pg_options: ignored.
        device_id: ignored; JAX chooses the devices.

    Raises:
        ValueError: it was called before, or the environment lacks something.
        DistBackendError: some process did not come in time.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group
    """
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    timeout = _checked_timeout(timeout)
    named = _named(backend)
    connection = None
    if store is not None:
        if rank < 0 or world_size < 1:
            raise AssertionError("world_size must be positive if using store" if world_size < 1 else
                                 "rank must be non-negative if using store")  # fmt: skip
    there = _connection.made
    if there is not None:  # the launcher's, or that of a group that was destroyed
        rank = there.rank if rank == -1 else rank
        connection = _connection.connect(
            there.store, rank, there.size if world_size == -1 else world_size, timeout
        )
    elif store is None and init_method is None and rank == -1 and "RANK" not in os.environ:
        connection = _connection.connect_by_cluster(timeout)
    if connection is None:
        if store is None:
            store, rank, world_size = next(
                rendezvous(init_method or "env://", rank, world_size, timeout=timeout)
            )
        connection = _connection.connect(store, rank, world_size, timeout)
    GroupMember.WORLD = _made(connection, [*range(connection.size)], named, timeout, "default_pg")
    GroupMember.WORLD.agree("init_process_group")
    agreement.exchange_by(GroupMember.WORLD.exchange)


def _checked_timeout(timeout: timedelta | None) -> timedelta:
    if timeout is None:
        return default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of typedatetime.timedelta, got {timeout}")
    return timeout


def _named(backend: str | None) -> tuple[Backend, str]:
    """The backend as it was given, and its name for the devices that there are."""
    is_cpu = (jax.config.jax_platforms or "").split(",")[0] == "cpu"
    if backend is None:
        return Backend("undefined"), "gloo" if is_cpu else "xla"
    found = {}
    for part in Backend(backend).split(","):
        device, _, name = part.rpartition(":")
        if name not in Backend.backend_list or name in (Backend.FAKE, Backend.UNDEFINED):
            raise ValueError(
                f"Invalid backend: {backend!r}. XLA does the work; the names are gloo, nccl, xla, or one for each kind "
                "of device, as cpu:gloo,cuda:nccl"
            )
        found[device] = name
    return Backend(backend), found.get("cpu" if is_cpu else "cuda", next(iter(found.values())))


def _made(
    connection: Any, ranks: list[int], backend: tuple[str, str], timeout: timedelta, desc: str | None
) -> ProcessGroup:
    global _count
    made = ProcessGroup(connection, ranks, str(_count), backend, timeout, desc or "undefined")
    _count += 1
    _groups[made.group_name] = made
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget a group, or all. The processes stay connected: `init_process_group` may be called again."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    named = GroupMember.WORLD if group is None else group
    if named is None:
        raise AssertionError("Process group cannot be None")
    if named.group_name not in _groups:
        raise ValueError("Invalid process group specified")
    if named is GroupMember.WORLD:
        GroupMember.WORLD = None
        _groups.clear()
        agreement.exchange_by()
    else:
        del _groups[named.group_name]


def default_group() -> ProcessGroup:
    if GroupMember.WORLD is None:
        raise ValueError(_NO_GROUP)
    return GroupMember.WORLD


class _Elsewhere(_connection.Connection):
    """Of a process that knows the job and takes no part in it."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "a worker of a DataLoader knows its rank, but it cannot communicate: call collectives in the process that "
            "has the loader"
        )

    exchange = hello = name = _refuse
    store = base = property(_refuse)  # type: ignore[assignment]


def described() -> Any:
    """What `be_in` needs to know of the group of all processes; None if there is none."""
    world = GroupMember.WORLD
    if world is None:
        return None
    return world._connection.rank, world._ranks, world.group_name, world._backend, world._timeout


def be_in(world: Any) -> None:
    """Answer for a rank as the process does whose `described` was given."""
    rank, ranks, name, backend, timeout = world
    GroupMember.WORLD = ProcessGroup(_Elsewhere(rank, len(ranks)), ranks, name, backend, timeout)


def is_outside(group: Any) -> bool:
    """Whether this process is not in a group."""
    return isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER


def group_of(group: ProcessGroup | None, name: str) -> ProcessGroup | None:
    """The group to work in; None, with a warning, if this process is not in it."""
    world = default_group()
    note_in_traces(name, group)
    if group is None:
        return world
    if is_outside(group):
        warnings.warn(
            f"Running {name} on global rank {world.rank()} which does not belong to the given group.",
            stacklevel=3,
        )
        return None
    if not isinstance(group, ProcessGroup) or group.group_name not in _groups:
        raise ValueError("Invalid process group specified")
    return group


def get_rank(group: ProcessGroup | None = None) -> int:
    """The rank of this process in a group; -1 if it is not in it."""
    world = default_group()
    return -1 if is_outside(group) else (group or world).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes in a group; -1 if this process is not in it."""
    world = default_group()
    return -1 if is_outside(group) else (group or world).size()


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """The name that the group's backend was given."""
    world = default_group()
    if is_outside(group):
        raise ValueError("Invalid process group specified")
    return Backend((group or world)._backend[0])


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """The name of the backend for each kind of device."""
    given = get_backend(group)
    if ":" in given:
        return given
    name = (group or default_group()).name()
    return f"cpu:{name},cuda:{name}"


def get_pg_count() -> int:
    """The number of groups."""
    return len(_groups)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The global ranks of a group's processes, in its order."""
    return [*(group or default_group())._ranks]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of the process with a global rank."""
    if group is None or group is GroupMember.WORLD:
        return global_rank
    if not isinstance(group, ProcessGroup) or global_rank not in group._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group._ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The global rank of the process with a rank in a group."""
    if group is None or group is GroupMember.WORLD:
        return group_rank
    if not isinstance(group, ProcessGroup) or not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group._ranks[group_rank]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some of the processes. All processes of the job must call it, in the same order.

    Returns:
        The group, or ``GroupMember.NON_GROUP_MEMBER`` in a process that is not in it.

    Raises:
        NotImplementedError: ``use_local_synchronization``, with which the other processes do not call it.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.new_group
    """
    global _count
    world = default_group()
    if use_local_synchronization:
        raise NotImplementedError(
            "new_group(use_local_synchronization=True) is not supported: have all processes call new_group"
        )
    chosen = world._ranks if ranks is None else [int(rank) for rank in ranks]
    for rank in chosen:
        if not 0 <= rank < world.size():
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {world.size() - 1} (world_size={world.size()})"
            )
    if len({*chosen}) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {chosen}")
    chosen = sorted(chosen) if sort_ranks else chosen
    named = world._backend if backend is None else _named(backend)
    world.agree(f"new_group({chosen})")
    if world.rank() not in chosen:
        _count += 1
        return GroupMember.NON_GROUP_MEMBER
    timeout = world._timeout if timeout is None else _checked_timeout(timeout)
    return _made(world._connection, chosen, named, timeout, group_desc)


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of ``group_size`` consecutive ranks; without a size one for each machine.

    Returns:
        The group of this process, and all groups.
    """
    world = default_group()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", world.size()))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if group_size > world.size():
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({world.size()})"
        )
    if world.size() % group_size:
        raise ValueError(f"The world size ({world.size()}) must be divisible by '{group_size=}'")
    ranks = [[*range(start, start + group_size)] for start in range(0, world.size(), group_size)]
    return new_subgroups_by_enumeration(ranks, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """A group for each list of ranks.

    Returns:
        The group of this process (None if it is in none), and all groups.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}")
            seen[rank] = ranks
    made = [
        new_group(r, timeout, backend, pg_options, group_desc=group_desc) for r in ranks_per_subgroup_list
    ]
    own = next((each for each in made if not is_outside(each)), None)
    return own, made


def root_of(pg: ProcessGroup, of_world: int | None, of_group: int | None, what: str, name: str) -> int:
    """The rank in the group of who is named by the rank in the world or in the group; of none that is 0."""
    if of_world is not None and of_group is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    if of_group is not None:
        rank = of_group
    else:
        rank = 0 if of_world is None else get_group_rank(pg, of_world)
    if not 0 <= rank < pg.size():
        raise RuntimeError(f"ProcessGroupGloo::{name}: invalid root rank: {rank}")
    return rank
