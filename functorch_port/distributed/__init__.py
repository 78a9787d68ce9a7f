"""``torch.distributed``: process groups of JAX's processes, their collectives, and the launcher.

A rank is a process of JAX, which drives all its devices. `distributed_c10d` has the process groups, `run` the launcher.
"""

from __future__ import annotations

from .._plan.planning import plan
from .._plan.report import Plan
from .._plan.topology import described_mesh
from . import distributed_c10d
from ._store import DistBackendError, DistError, DistNetworkError, FileStore, HashStore, TCPStore
from .device_mesh import DeviceMesh, init_device_mesh
from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import (
    _coalescing_manager,
    _get_default_group,
    _make_nccl_premul_sum,
    _rank_not_in_group,
)
from .rendezvous import register_rendezvous_handler

__all__ = [
    *distributed_c10d.__all__, "DistBackendError", "DistError", "DeviceMesh",
    "DistNetworkError", "FileStore", "HashStore", "Plan",
    "TCPStore", "described_mesh", "init_device_mesh", "is_available", "plan", "register_rendezvous_handler",
]  # fmt: skip


def is_available() -> bool:
    """Return True."""
    return True
