"""Process groups and their collectives, as in ``torch.distributed``: a rank is a process of JAX.

A collective is on the tensors of each process, in place where PyTorch's is. The processes first agree on what they do
(`ProcessGroup.agree`), so that different calls give an error. Then XLA's program does it (`_programs`).
"""

from __future__ import annotations

import importlib.util
import os
from contextlib import contextmanager
from typing import Any

from functorch_port._base.device import as_device

from ._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    supports_complex,
)
from ._group import ProcessGroup, Work
from ._groups import (
    GroupMember,
    default_group,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)
from ._groups import is_outside as _rank_not_in_group  # noqa: F401
from ._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ._reduce_op import Backend, ReduceOp, premul_sum, reduce_op
from ._store import DistStoreError, PrefixStore, Store
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
    "reduce_op", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "rendezvous", "scatter",
    "scatter_object_list", "send", "send_object_list", "supports_complex",
]  # fmt: skip


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


@contextmanager
def _coalescing_manager(*args: Any, **kwargs: Any) -> Any:
    """Several collectives at once: here one after another."""
    yield


_make_nccl_premul_sum = premul_sum

_get_default_group = default_group
