"""``torch.distributed.rpc``: the names of remote calls, which are not here."""

from __future__ import annotations

from .._base.refused import refused
from .._ways_round import way_round

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: there are no remote calls."""
    return False


globals().update(
    refused(
        "torch.distributed.rpc",
        way_round("torch.distributed.rpc") or "",
        ("get_worker_info", "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"),
        ("RRef", "PyRRef", "TensorPipeRpcBackendOptions", "WorkerInfo", "BackendType"),
    )
)
