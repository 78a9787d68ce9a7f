"""``torch.multiprocessing``: the standard library's `multiprocessing`, and `spawn`.

Tensors that are sent through queues and pipes are copied: arrays of JAX are not in memory that processes share.
"""

import multiprocessing
from multiprocessing import *  # noqa: F403

from . import reductions as reductions
from .spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
__all__ += multiprocessing.__all__  # type: ignore[attr-defined]

reductions.init_reductions()


def get_all_sharing_strategies() -> set[str]:
    """The ways to share memory between processes; here there is none, and tensors are copied."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """Return "file_system", PyTorch's name for what needs no open files."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Changes nothing: tensors are copied.

    Raises:
        AssertionError: the strategy is none of PyTorch's.
    """
    assert new_strategy in ("file_system", "file_descriptor")
