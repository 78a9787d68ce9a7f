"""Process groups and their collectives, as in ``torch.distributed``: a rank is a process of JAX.

A collective is on the tensors of each process, in place where PyTorch's is. The processes first agree on what they do
(`ProcessGroup.agree`), so that different calls give an error. Then XLA's program does it (`_programs`).
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import jax
import numpy as np

from functorch_port._base.device import as_device
from functorch_port._tensor.tensor import Tensor

from . import _connection
from ._group import ProcessGroup, Work, described, new_tensor, refuse_in_traces, value_of, write
from ._reduce_op import Backend, ReduceOp, premul_sum
from ._store import DistBackendError, DistStoreError, PrefixStore, Store
from ._table import Late, Lost
from .constants import default_pg_timeout
from .rendezvous import rendezvous

__all__ = [
    "Backend", "DistStoreError", "GroupMember", "P2POp", "PrefixStore", "ProcessGroup", "ReduceOp", "Store",
    "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list",
    "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_backend_config", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier",
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "rendezvous", "scatter",
    "scatter_object_list", "send", "send_object_list", "supports_complex",
]  # fmt: skip

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


# ------------------------------------------------------------------ what there is


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return GroupMember.WORLD is not None


def is_torchelastic_launched() -> bool:
    """Whether a launcher has started the process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_gloo_available() -> bool:
    """Return True: on CPUs XLA uses Gloo."""
    return True


def is_nccl_available() -> bool:
    """Whether JAX is installed with CUDA, where XLA uses NCCL. It does not look for GPUs: that makes JAX's backend."""
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))


def is_mpi_available() -> bool:
    """Return False."""
    return False


is_ucc_available = is_xccl_available = is_mpi_available


def is_backend_available(backend: str) -> bool:
    """Whether XLA can do what that backend does."""
    name = backend.lower()
    return name in ("gloo", "xla") or (name == "nccl" and is_nccl_available())


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


# ------------------------------------------------------------------ groups


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
    else:
        del _groups[named.group_name]


def _world() -> ProcessGroup:
    if GroupMember.WORLD is None:
        raise ValueError(_NO_GROUP)
    return GroupMember.WORLD


def _is_outside(group: Any) -> bool:
    return isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER


def _group(group: ProcessGroup | None, name: str) -> ProcessGroup | None:
    """The group to work in; None, with a warning, if this process is not in it."""
    world = _world()
    refuse_in_traces(name)
    if group is None:
        return world
    if _is_outside(group):
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
    world = _world()
    return -1 if _is_outside(group) else (group or world).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes in a group; -1 if this process is not in it."""
    world = _world()
    return -1 if _is_outside(group) else (group or world).size()


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """The name that the group's backend was given."""
    world = _world()
    if _is_outside(group):
        raise ValueError("Invalid process group specified")
    return Backend((group or world)._backend[0])


def get_default_backend_for_device(device: Any) -> str:
    """The usual name of the backend for a device: "gloo" for a CPU, "nccl" for CUDA, "xla" for a TPU.

    Raises:
        ValueError: there is none.
    """
    kind = as_device(device).type
    if kind not in _BACKENDS:
        raise ValueError(f"Default backend not registered for device : {device}")
    return _BACKENDS[kind]


_BACKENDS = {"cpu": "gloo", "mps": "gloo", "cuda": "nccl", "tpu": "xla", "xla": "xla"}


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """The name of the backend for each kind of device."""
    given = get_backend(group)
    if ":" in given:
        return given
    name = (group or _world()).name()
    return f"cpu:{name},cuda:{name}"


def get_pg_count() -> int:
    """The number of groups."""
    return len(_groups)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The global ranks of a group's processes, in its order."""
    return [*(group or _world())._ranks]


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
    world = _world()
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
    world = _world()
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
    own = next((each for each in made if not _is_outside(each)), None)
    return own, made


# ------------------------------------------------------------------ arguments


def _check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def _check_list(values: Any, name: str) -> None:
    if not isinstance(values, list) or not all(isinstance(value, Tensor) for value in values):
        kinds = f" with elements of type {[*map(type, values)]}." if isinstance(values, list) else " instead."
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)}{kinds}"
        )


def _check_dtypes(*tensors: Tensor) -> None:
    for tensor in tensors[1:]:
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypesFound {tensors[0].dtype} and  {tensor.dtype}"
            )


def _same(name: str, tensors: Sequence[Tensor], like: Tensor, many: int | None = None) -> None:
    """Check that there are as many tensors as processes, of one shape and dtype."""
    if many is not None and len(tensors) != many:
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid output tensor list at index 0 (expected length {many}, got "
            f"{len(tensors)})"
        )
    for index, tensor in enumerate(tensors):
        if tensor.shape != like.shape:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor size at index {index} (expected ({_sizes(like)}), got "
                f"({_sizes(tensor)}))"
            )


def _sizes(tensor: Tensor) -> str:
    return ", ".join(map(str, tensor.shape))


def _reduction(op: Any, tensor: Tensor, pg: ProcessGroup, name: str) -> tuple[str, float | None]:
    """The name of a reduction, and the factor of PREMUL_SUM."""
    made = ReduceOp(op)
    kind = made.op.name
    if tensor.is_complex() and kind not in ("SUM", "AVG", "PREMUL_SUM"):
        raise ValueError(f"{name} does not support {made.op} on complex tensors")
    if kind == "AVG" and not (tensor.is_floating_point() or tensor.is_complex()):
        name = tensor.dtype.scalar_name
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
    if kind in ("BAND", "BOR", "BXOR") and tensor.is_floating_point():
        raise RuntimeError(f"Cannot use ReduceOp.{kind} with non-integral dtype")
    if kind == "PREMUL_SUM":
        if pg.name() == Backend.GLOO:
            raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
        if made.factor is None:
            raise ValueError(
                "ReduceOp.PREMUL_SUM needs its factor: torch.distributed._make_nccl_premul_sum(2.0)"
            )
    return kind, made.factor


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Whether a reduction is defined for complex numbers."""
    return ReduceOp(reduceOp).op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


def _root(pg: ProcessGroup, of_world: int | None, of_group: int | None, what: str, name: str) -> int:
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


def _whole(tensor: Tensor) -> Any:
    """A tensor's array, in one dimension."""
    return value_of(tensor).reshape(-1)


def _rows(tensors: Sequence[Tensor]) -> Any:
    """The arrays of tensors of one size as the rows of one."""
    arrays = [_whole(tensor) for tensor in tensors]
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np.stack(arrays)
    return jax.numpy.stack(arrays)


def _fill(tensors: Sequence[Tensor], rows: Any) -> None:
    for tensor, row in zip(tensors, rows):
        write(tensor, row.reshape(tensor.shape))


def _work(name: str, results: list[Tensor], made: Any, async_op: bool) -> Work | None:
    """The work that has ``made`` arrays, from which the results come. Who has no result waits for them, too: until they
    are there the program reads the tensors that it was given.
    """
    work = Work(name, results, made)
    if async_op:
        return work
    work.wait()
    return None


# ------------------------------------------------------------------ collectives


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all processes, into each of them.

    Example:
        >>> import functorch_port.distributed as dist
        >>> dist.all_reduce(loss, dist.ReduceOp.AVG)  # doctest: +SKIP

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
    """
    _check_tensor(tensor, "tensor")
    pg = _group(group, "all_reduce")
    if pg is None:
        return None
    kind, factor = _reduction(op, tensor, pg, "all_reduce")
    pg.agree(f"all_reduce({kind}) of {described(tensor)}", None)
    row = pg.compute(tensor, "reduce", kind, factor, row=_whole(tensor))
    _fill([tensor], [row])
    return _work("all_reduce", [tensor], row, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all processes into that of ``dst``; those of the others stay as they are.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce
    """
    _check_tensor(tensor, "tensor")
    pg = _group(group, "reduce")
    if pg is None:
        return None
    root = _root(pg, dst, group_dst, "dst", "reduce")
    kind, factor = _reduction(op, tensor, pg, "reduce")
    pg.agree(f"reduce({kind}, dst={root}) of {described(tensor)}")
    row = pg.compute(tensor, "reduce", kind, factor, row=_whole(tensor))
    if pg.rank() == root:
        _fill([tensor], [row])
    return _work("reduce", [tensor], row, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of ``src`` into those of all processes.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast
    """
    _check_tensor(tensor, "tensor")
    pg = _group(group, "broadcast")
    if pg is None:
        return None
    root = _root(pg, src, group_src, "src", "broadcast")
    pg.agree(f"broadcast(src={root}) of {described(tensor)}")
    row = pg.compute(tensor, "broadcast", root, row=_whole(tensor))
    if pg.rank() != root:
        _fill([tensor], [row])
    return _work("broadcast", [tensor], row, async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all processes into a list, in each of them.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather
    """
    _check_list(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    _check_dtypes(*tensor_list, tensor)
    pg = _group(group, "all_gather")
    if pg is None:
        return None
    _same("allgather", tensor_list, tensor, pg.size())
    pg.agree(f"all_gather of {described(tensor)}")
    rows = pg.compute(tensor, "gather", row=_whole(tensor))
    _fill(tensor_list, rows)
    return _work("all_gather", tensor_list, rows, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all processes into one, concatenated or stacked, in each of them.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_into_tensor
    """
    _check_tensor(input_tensor, "input_tensor")
    _check_tensor(output_tensor, "output_tensor")
    pg = _group(group, "all_gather_into_tensor")
    if pg is None:
        return None
    _check_dtypes(input_tensor, output_tensor)
    _check_parts("all_gather_into_tensor", input_tensor, output_tensor, pg.size())
    pg.agree(f"all_gather_into_tensor of {described(input_tensor)}")
    rows = pg.compute(input_tensor, "gather", row=_whole(input_tensor))
    _fill([output_tensor], [rows])
    return _work("all_gather_into_tensor", [output_tensor], rows, async_op)


all_gather_single = all_gather_into_tensor


def _check_parts(name: str, part: Tensor, whole: Tensor, size: int) -> None:
    """Check that ``whole`` has the parts of all processes, one after another."""
    if whole.numel() != part.numel() * size:
        raise RuntimeError(
            f"{name}: the tensors {described(part)} of {size} processes do not make one {described(whole)}"
        )


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copy the tensors of all processes into a list of ``dst``.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.gather
    """
    _check_tensor(tensor, "tensor")
    pg = _group(group, "gather")
    if pg is None:
        return None
    root = _root(pg, dst, group_dst, "dst", "gather")
    results = _only_on(pg, root, gather_list, "gather_list", "destination")
    if results is not None:
        _check_dtypes(*results, tensor)
        _same("gather", results, tensor, pg.size())
    pg.agree(f"gather(dst={root}) of {described(tensor)}")
    rows = pg.compute(tensor, "gather", row=_whole(tensor))
    _fill(results or [], rows)
    return _work("gather", results or [], rows, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy each tensor of a list of ``src`` into the tensor of one process.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.scatter
    """
    _check_tensor(tensor, "tensor")
    pg = _group(group, "scatter")
    if pg is None:
        return None
    root = _root(pg, src, group_src, "src", "scatter")
    given = _only_on(pg, root, scatter_list, "scatter_list", "source")
    if given is not None:
        _check_dtypes(*given, tensor)
        _same("scatter", given, tensor, pg.size())
    pg.agree(f"scatter(src={root}) of {described(tensor)}")
    rows = _rows([tensor] * pg.size() if given is None else given)
    row = pg.compute(tensor, "scatter", root, row=rows)
    _fill([tensor], [row])
    return _work("scatter", [tensor], row, async_op)


def _only_on(pg: ProcessGroup, root: int, given: Any, name: str, what: str) -> list[Tensor] | None:
    """A list of tensors that one process gives, and the others do not."""
    if pg.rank() != root:
        if given:
            raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{what} ranks.")
        return None
    if not given:
        raise ValueError(f"Argument ``{name}`` must be specified on {what} rank.")
    _check_list(given, name)
    return given


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the lists of all processes, and give each process its element.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce_scatter
    """
    _check_tensor(output, "output")
    _check_list(input_list, "input_list")
    _check_dtypes(output, *input_list)
    pg = _group(group, "reduce_scatter")
    if pg is None:
        return None
    _same("reduce_scatter", input_list, output, pg.size())
    return _reduced_part("reduce_scatter", output, _rows(input_list), op, pg, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of all processes, and give each process its part.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce_scatter_tensor
    """
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    pg = _group(group, "reduce_scatter_tensor")
    if pg is None:
        return None
    _check_dtypes(output, input)
    _check_parts("reduce_scatter_tensor", output, input, pg.size())
    rows = _whole(input).reshape(pg.size(), -1)
    return _reduced_part("reduce_scatter_tensor", output, rows, op, pg, async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduced_part(
    name: str, output: Tensor, rows: Any, op: Any, pg: ProcessGroup, async_op: bool
) -> Work | None:
    kind, factor = _reduction(op, output, pg, name)
    pg.agree(f"{name}({kind}) of {described(output)}")
    row = pg.compute(output, "reduce_scatter", kind, factor, row=rows)
    _fill([output], [row])
    return _work(name, [output], row, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send each tensor of a list to one process, and receive one of each.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all
    """
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    _check_dtypes(*output_tensor_list, *input_tensor_list)
    pg = _group(group, "all_to_all")
    if pg is None:
        return None
    for tensors in (output_tensor_list, input_tensor_list):
        if len(tensors) != pg.size():
            raise RuntimeError(f"all_to_all: a list has {len(tensors)} tensors for {pg.size()} processes")
    parts = [_whole(tensor) for tensor in input_tensor_list]
    found = _all_to_all(
        "all_to_all", pg, input_tensor_list[0], parts, [t.numel() for t in output_tensor_list]
    )
    _fill(output_tensor_list, found)
    return _work("all_to_all", output_tensor_list, found, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send each part of a tensor, along the first dimension, to one process, and receive one of each.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all_single
    """
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    _check_dtypes(output, input)
    pg = _group(group, "all_to_all_single")
    if pg is None:
        return None
    sent = _split(input, input_split_sizes, pg.size())
    received = _split(output, output_split_sizes, pg.size())
    cuts = np.cumsum(sent)[:-1].tolist()
    whole = _whole(input)
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    found = _all_to_all("all_to_all_single", pg, input, parts, received)
    _fill([output], [jax.numpy.concatenate(found)])
    return _work("all_to_all_single", [output], found, async_op)


def _split(tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """The number of elements of each part."""
    first = tensor.shape[0]
    if not sizes:
        if first % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [first // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != first:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [size * (tensor.numel() // first if first else 0) for size in sizes]


def _all_to_all(
    name: str, pg: ProcessGroup, like: Tensor, parts: list[Any], received: list[int]
) -> list[Any]:
    """Exchange parts, of any sizes, by rows as long as the longest part of any process."""
    sent = [len(part) for part in parts]
    sizes = pg.agree(f"{name} of {str(like.dtype).removeprefix('torch.')}", [sent, received])
    for source, (theirs, _) in enumerate(sizes):
        for target, (_, expected) in enumerate(sizes):
            if theirs[target] != expected[source]:
                raise DistBackendError(
                    f"{name}: rank {pg._ranks[source]} sends {theirs[target]} elements to rank {pg._ranks[target]}, "
                    f"which expects {expected[source]}"
                )
    longest = max(max(theirs) for theirs, _ in sizes)
    numpy = np if all(isinstance(part, np.ndarray) for part in parts) else jax.numpy
    rows = numpy.stack([numpy.pad(part, (0, longest - len(part))) for part in parts])
    found = pg.compute(like, "exchange", row=rows)
    return [row[:size] for row, size in zip(found, received, strict=True)]


def barrier(
    group: ProcessGroup | None = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all processes have come here.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier
    """
    pg = _group(group, "barrier")
    if pg is None:
        return None
    pg.agree("barrier", timeout=timeout)
    return _work("barrier", [], [], async_op)


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """`barrier`, whose error names all ranks that did not come in time; every process raises it.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.monitored_barrier
    """
    pg = _group(group, "monitored_barrier")
    if pg is not None:
        pg.agree("monitored_barrier", timeout=timeout)


# ------------------------------------------------------------------ objects


def _pickled(obj: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(obj), np.uint8)


def _padded(data: np.ndarray, size: int) -> np.ndarray:
    """With zeros up to a power of two, so that there are few programs."""
    return np.pad(data, (0, max(256, 1 << (size - 1).bit_length()) - len(data)))


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Copy the objects of all processes, by pickle, into a list in each of them.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object
    """
    pg = _group(group, "all_gather_object")
    if pg is not None:
        object_list[: pg.size()] = _gathered("all_gather_object", pg, obj)


def _gathered(name: str, pg: ProcessGroup, obj: Any) -> list[Any]:
    data = _pickled(obj)
    sizes = pg.agree(name, len(data))
    if pg.size() == 1:
        return [pickle.loads(data.tobytes())]
    row = _padded(data, max(sizes))
    rows = np.asarray(pg.compute(new_tensor(row), "gather", row=row))
    return [pickle.loads(each[:size].tobytes()) for each, size in zip(rows, sizes, strict=True)]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Copy the objects of all processes, by pickle, into a list of ``dst``.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.gather_object
    """
    pg = _group(group, "gather_object")
    if pg is None:
        return
    root = _root(pg, dst, group_dst, "dst", "gather_object")
    is_root = pg.rank() == root
    if is_root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not is_root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    found = _gathered(f"gather_object(dst={root})", pg, obj)
    if object_gather_list:
        object_gather_list[: pg.size()] = found


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects of a list of ``src``, by pickle, into those of all processes.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast_object_list
    """
    pg = _group(group, "broadcast_object_list")
    if pg is None:
        return
    root = _root(pg, src, group_src, "src", "broadcast_object_list")
    found = _from_root("broadcast_object_list", pg, root, object_list, len(object_list))
    if pg.rank() != root:
        object_list[:] = found


def _from_root(name: str, pg: ProcessGroup, root: int, obj: Any, count: int | None = None) -> Any:
    data = _pickled(obj if pg.rank() == root else None)
    what = f"{name}(src={root})" if count is None else f"{name}(src={root}) of {count} objects"
    sizes = pg.agree(what, len(data))
    if pg.size() == 1:
        return pickle.loads(data.tobytes())
    row = _padded(data if pg.rank() == root else data[:0], sizes[root])
    found = np.asarray(pg.compute(new_tensor(row), "broadcast", root, row=row))
    return pickle.loads(found[: sizes[root]].tobytes())


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Copy each object of a list of ``src``, by pickle, to one process, as the first of its output list.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.scatter_object_list
    """
    pg = _group(group, "scatter_object_list")
    if pg is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = _root(pg, src, group_src, "src", "scatter_object_list")
    if pg.rank() == root and len(scatter_object_input_list or ()) != pg.size():
        raise ValueError(
            f"scatter_object_list: {len(scatter_object_input_list or ())} objects for {pg.size()} processes"
        )
    found = _from_root("scatter_object_list", pg, root, scatter_object_input_list)
    scatter_object_output_list[0] = found[pg.rank()]


# ------------------------------------------------------------------ from one process to another


class _Receiving(Work):
    """An `irecv`, which takes its message at `wait`."""

    def __init__(self, pg: ProcessGroup, tensor: Tensor, source: int, key: str) -> None:
        super().__init__("irecv", [tensor], source=source)
        self._pg, self._key = pg, key

    def _finish(self) -> None:
        _take(self._pg, self._results[0], [self._source], [self._key])

    def is_completed(self) -> bool:
        """Whether the message is there; it is then taken."""
        return self._done or (self._pg._connection.store.check([self._key]) and self.wait())


def _key(pg: ProcessGroup, source: int, target: int, tag: int, number: int) -> str:
    return f"group/{pg.group_name}/message/{source}/{target}/{tag}/{number}"


def _peer(pg: ProcessGroup, of_world: int | None, of_group: int | None, what: str, name: str) -> int:
    if of_world is None and of_group is None:
        raise ValueError(f"{name} needs {what} or group_{what}")
    rank = _root(pg, of_world, of_group, what, name)
    if rank == pg.rank():
        kind = "destination" if what == "dst" else "source"
        raise ValueError(
            f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process."
        )
    return rank


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send a tensor to another process, over the host and the store of the job: for what is small or rare.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.isend
    """
    _check_tensor(tensor, "tensor")
    pg = _group(group, "isend")
    if pg is None:
        return None
    target = _peer(pg, dst, group_dst, "dst", "isend")
    number = pg._sent[target, tag] = pg._sent.get((target, tag), 0) + 1
    array = np.ascontiguousarray(np.asarray(_whole(tensor)))
    message = described(tensor).encode() + b"\n" + array.tobytes()
    pg._connection.store.set(_key(pg, pg.rank(), target, tag, number), message)
    work = Work("isend", [tensor])
    work.wait()
    return work


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """`isend`, and wait until the tensor is on its way.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.send
    """
    isend(tensor, dst, group, tag, group_dst)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receive into a tensor, once `wait` is called. Without ``src``, from any process: then it waits at once.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.irecv
    """
    _check_tensor(tensor, "tensor")
    pg = _group(group, "irecv")
    if pg is None:
        return None
    if src is None and group_src is None:
        work = Work("irecv", [tensor], source=_receive_any(pg, tensor, tag))
        work.wait()
        return work
    source = _peer(pg, src, group_src, "src", "irecv")
    number = pg._received[source, tag] = pg._received.get((source, tag), 0) + 1
    return _Receiving(pg, tensor, source, _key(pg, source, pg.rank(), tag, number))


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive into a tensor; returns the sender's rank, or -1 outside the group.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.recv
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return get_global_rank(group, work.source_rank()) if group is not None else work.source_rank()


def _receive_any(pg: ProcessGroup, tensor: Tensor, tag: int) -> int:
    others = [rank for rank in range(pg.size()) if rank != pg.rank()]
    keys = [_key(pg, rank, pg.rank(), tag, pg._received.get((rank, tag), 0) + 1) for rank in others]
    source = others[_take(pg, tensor, others, keys)]
    pg._received[source, tag] = pg._received.get((source, tag), 0) + 1
    return source


def _take(pg: ProcessGroup, tensor: Tensor, sources: list[int], keys: list[str]) -> int:
    """Wait for one of the messages, and write it; returns which."""
    senders = [pg._connection.name(pg._ranks[rank]) for rank in sources]
    seconds = pg._timeout.total_seconds()
    where = f"[Rank {pg._connection.rank}]: recv of {described(tensor)}"
    try:
        index, message = pg._connection.store._call(
            "take", keys, senders if len(sources) == 1 else [], seconds
        )
    except Late:
        ranks = ", ".join(str(pg._ranks[rank]) for rank in sources)
        raise DistBackendError(
            f"{where}: rank {ranks} sent nothing within {seconds:g} s, the timeout. Is there a send with the same tag "
            "in that process?"
        ) from None
    except Lost as lost:
        raise _connection._after_another(
            f"{where}: rank {pg._ranks[sources[0]]} {lost.how}. Its own output has the cause"
        ) from None
    head, _, data = message.partition(b"\n")
    like = value_of(tensor)
    kind, _, _ = head.decode().partition("[")
    array = np.frombuffer(data, like.dtype) if kind == described(tensor).partition("[")[0] else None
    if array is None or array.size != like.size:
        raise DistBackendError(f"{where}: rank {pg._ranks[sources[index]]} sent {head.decode()}")
    write(tensor, array.reshape(tensor.shape).copy())
    return index


class P2POp:
    """An `isend` or `irecv` for `batch_isend_irecv`.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.P2POp
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        _check_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several sends and receives.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.batch_isend_irecv
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise IndexError("list index out of range")
    works = [each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer) for each in p2p_op_list]
    return [work for work in works if work is not None]


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects, by pickle, to another process."""
    data = _pickled(object_list)
    send(new_tensor(np.array([len(data)])), dst, group, _OBJECTS, group_dst)
    send(new_tensor(data.copy()), dst, group, _OBJECTS, group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects into a list; returns the sender's rank, or -1 outside the group."""
    size = new_tensor(np.zeros(1, np.int64))
    source = recv(size, src, group, _OBJECTS, group_src)
    if source == -1:
        return -1
    data = new_tensor(np.zeros(int(size.item()), np.uint8))
    recv(data, source, group, _OBJECTS)
    found = pickle.loads(np.asarray(value_of(data)).tobytes())
    if len(found) != len(object_list):
        raise DistBackendError(
            f"rank {source} sent {len(found)} objects, and {len(object_list)} are expected"
        )
    object_list[:] = found
    return source


#: the tag of messages that are objects
_OBJECTS = -1


@contextmanager
def _coalescing_manager(*args: Any, **kwargs: Any) -> Any:
    """Several collectives at once: here one after another."""
    yield


_make_nccl_premul_sum = premul_sum


def _get_default_group() -> ProcessGroup:
    return _world()
