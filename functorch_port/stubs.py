"""Process-wide switches that scripts set: threads, determinism, denormals. XLA has its own ways, so most only
remember.

Reference:
    https://docs.pytorch.org/docs/stable/torch.html#utilities
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from ._base import determinism

__all__ = [
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode", "get_num_interop_threads",
    "get_num_threads", "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled",
    "set_deterministic_debug_mode", "set_flush_denormal", "set_num_interop_threads", "set_num_threads",
    "set_warn_always", "use_deterministic_algorithms",
]  # fmt: skip

_threads = {"intraop": os.cpu_count() or 1, "interop": os.cpu_count() or 1}
_warn_always = False


def _set_threads(kind: str, name: str, count: Any) -> None:
    if isinstance(count, bool) or not isinstance(count, int):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
    _threads[kind] = count


def get_num_threads() -> int:
    """The number of CPU threads asked for; the number of cores unless `set_num_threads` was called."""
    return _threads["intraop"]


def set_num_threads(num: int, /) -> None:
    """Remember a number of threads.

    XLA sizes its thread pool when the process starts, so this does not change it. To limit it, start the
    process with fewer cores (``taskset``), or with ``XLA_FLAGS=--xla_cpu_multi_thread_eigen=false`` for one
    thread.

    Raises:
        RuntimeError: if it is not a positive integer.
    """
    _set_threads("intraop", "set_num_threads", num)


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was told; the number of cores before."""
    return _threads["interop"]


def set_num_interop_threads(num: int, /) -> None:
    """Remember a number of threads; see `set_num_threads`."""
    _set_threads("interop", "set_num_interop_threads", num)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that do not change from run to run.

    On CPU and TPU, XLA's programs are deterministic as they are; the operations for which PyTorch raises on a CPU
    (`put_` without accumulation, `max_unpool`) raise here, too. On GPU some scatter operations are not;
    there, start the process with ``XLA_FLAGS=--xla_gpu_deterministic_ops=true`` (a warning says so if that is
    missing). Eager operations run one by one then: those that come again and again are not put together as one
    program, which may round otherwise.
    """
    if not isinstance(mode, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
            + type(mode).__name__
        )
    if mode and "xla_gpu_deterministic_ops" not in os.environ.get("XLA_FLAGS", ""):
        from .accelerator import jax_devices

        if jax_devices("cuda"):
            warnings.warn(
                "deterministic algorithms on GPU need XLA_FLAGS=--xla_gpu_deterministic_ops=true in the "
                "environment when the process starts",
                stacklevel=2,
            )
    determinism.state.update(on=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told."""
    return determinism.state["on"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was told to warn only."""
    return determinism.state["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by number or name: 0 or "default", 1 or "warn", 2 or "error"."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        names = {"default": 0, "warn": 1, "error": 2}
        if debug_mode not in names:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                + debug_mode
            )
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2, as `set_deterministic_debug_mode`."""
    if not determinism.state["on"]:
        return 0
    return 1 if determinism.state["warn_only"] else 2


def set_flush_denormal(mode: bool, /) -> bool:
    """Not adjustable; returns False, for "not supported".

    On a CPU, XLA sets the processor to take denormal numbers (of float32: below 1.2e-38) for 0 while one of its
    programs runs, and has no option for that. Numpy, which computes small values here, keeps them, as PyTorch does.
    """
    return False


def set_warn_always(b: bool, /) -> None:
    """Remember whether warnings should be repeated; Python's `warnings` filters decide here."""
    global _warn_always
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told."""
    return _warn_always
