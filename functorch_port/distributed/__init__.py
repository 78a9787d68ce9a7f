"""``torch.distributed``: process groups of JAX's processes, their collectives, and the launcher.

A rank is a process of JAX, which drives all its devices. `distributed_c10d` has the process groups, `run` the launcher.
"""

from __future__ import annotations

from . import distributed_c10d
from ._store import DistBackendError, DistError, DistNetworkError, FileStore, HashStore, TCPStore
from .device_mesh import DeviceMesh, init_device_mesh
from .distributed_c10d import (
    Backend,
    DistStoreError,
    GroupMember,
    P2POp,
    PrefixStore,
    ProcessGroup,
    ReduceOp,
    Store,
    Work,
    _coalescing_manager,
    _get_default_group,
    _make_nccl_premul_sum,
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    default_pg_timeout,
    destroy_process_group,
    gather,
    gather_object,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    irecv,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    isend,
    monitored_barrier,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    recv,
    recv_object_list,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    rendezvous,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
    supports_complex,
)
from .rendezvous import register_rendezvous_handler

__all__ = [
    *distributed_c10d.__all__, "DistBackendError", "DistError", "DeviceMesh",
    "DistNetworkError", "FileStore", "HashStore",
    "TCPStore", "init_device_mesh", "is_available", "register_rendezvous_handler",
]  # fmt: skip


def is_available() -> bool:
    """Return True."""
    return True
