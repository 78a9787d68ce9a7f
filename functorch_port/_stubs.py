"""Process-wide settings: threads, determinism, denormals. Most only store their value, as XLA has its own.

Reference: https://docs.pytorch.org/docs/stable/torch.html#utilities
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from ._base import determinism
from .accelerator import jax_devices

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
    """The number of `set_num_threads`; by default the number of CPU cores."""
    return _threads["intraop"]


def set_num_threads(num: int, /) -> None:
    """Store a number of threads, without effect.

    XLA creates its thread pool when the process starts. To limit it, start the process with fewer cores (``taskset``),
    or with ``XLA_FLAGS=--xla_cpu_multi_thread_eigen=false`` for one thread.

    Raises:
        RuntimeError: ``num`` is not a positive integer.
    """
    _set_threads("intraop", "set_num_threads", num)


def get_num_interop_threads() -> int:
    """The number of `set_num_interop_threads`; by default the number of CPU cores."""
    return _threads["interop"]


def set_num_interop_threads(num: int, /) -> None:
    """Store a number of threads, without effect; see `set_num_threads`."""
    _set_threads("interop", "set_num_interop_threads", num)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Require results that are equal from run to run.

    XLA's programs are deterministic on CPU and TPU; the operations for which PyTorch raises on a CPU (`put_` without
    accumulation, `max_unpool`) raise here, too. On GPU some scatter operations are not deterministic: start the process
    with ``XLA_FLAGS=--xla_gpu_deterministic_ops=true`` (a warning says so if it is missing). Eager operations then run
    one by one: recurring ones are not combined into one program, which may round differently.
    """
    if not isinstance(mode, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
            + type(mode).__name__
        )
    if mode and "xla_gpu_deterministic_ops" not in os.environ.get("XLA_FLAGS", ""):
        if jax_devices("cuda"):
            warnings.warn(
                "deterministic algorithms on GPU need XLA_FLAGS=--xla_gpu_deterministic_ops=true in the "
                "environment when the process starts",
                stacklevel=2,
            )
    determinism.state.update(on=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` is on."""
    return determinism.state["on"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` only warns."""
    return determinism.state["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set `use_deterministic_algorithms`: 0 or "default" is off, 1 or "warn" warns, 2 or "error" raises."""
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
    """The mode of `set_deterministic_debug_mode`: 0, 1 or 2."""
    if not determinism.state["on"]:
        return 0
    return 1 if determinism.state["warn_only"] else 2


def set_flush_denormal(mode: bool, /) -> bool:
    """Return False: not supported.

    On a CPU, XLA's programs flush denormal numbers (in float32 those below 1.2e-38) to zero, and XLA has no option for
    that. Numpy, which computes small values here, keeps them, as PyTorch does.
    """
    return False


def set_warn_always(b: bool, /) -> None:
    """Store whether to repeat warnings, without effect: Python's `warnings` filters decide."""
    global _warn_always
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """The value of `set_warn_always`."""
    return _warn_always
