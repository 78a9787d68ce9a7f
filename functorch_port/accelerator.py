"""The accelerator in use, whatever its kind (``torch.accelerator``).

Reference: https://docs.pytorch.org/docs/stable/accelerator.html
"""

from __future__ import annotations

from typing import Any

import jax

from ._base.device import count, device, device_type_of_platform, numbered, to_jax

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count", "device_index", "empty_cache",
    "get_memory_info", "is_available", "max_memory_allocated", "memory_allocated", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "synchronize",
]  # fmt: skip


def jax_devices(kind: str) -> list[jax.Device]:
    """This process's JAX devices of a PyTorch device type; empty if JAX has no such backend."""
    try:
        return jax.local_devices(backend={"cuda": "gpu"}.get(kind, kind))
    except RuntimeError:
        return []


def is_available() -> bool:
    """Whether JAX runs on a GPU or TPU.

    Example:
        >>> import functorch_port as torch
        >>> device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    """
    return jax.default_backend() != "cpu"


def current_accelerator(check_available: bool = False) -> device | None:
    """The device type that JAX runs on, as a device without an index; None on a CPU."""
    return device(device_type_of_platform(jax.default_backend())) if is_available() else None


def device_count() -> int:
    """The number of accelerators: of this process, or of its machine where each process has one."""
    return count(device_type_of_platform(jax.default_backend())) if is_available() else 0


def current_device_index() -> int:
    """The index of the current accelerator: 0, or the local rank where each process of a machine has one."""
    return next(iter(numbered(_require())))


def set_device_index(device: Any, /) -> None:
    """Set the current accelerator; see `select`."""
    select(_require(), device)


current_device_idx = current_device_index
set_device_idx = set_device_index


class device_index:
    """``with device_index(0):`` sets the current accelerator, as `set_device_index`; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *error: object) -> None:
        """The current accelerator is always the first: there is nothing to restore."""


def select(kind: str, index: Any) -> None:
    """Accept the process's first device as the current one: ``"cuda"`` and ``"tpu"`` always mean that.

    Raises:
        RuntimeError: the device does not exist.
        NotImplementedError: the device is another one.
    """
    chosen = at(kind, index)
    if to_jax(chosen) != to_jax(device(kind)):
        raise NotImplementedError(
            f"the current device is always the first, {kind}:{next(iter(numbered(kind)))}; pass device='{chosen}' to "
            f"functions, call set_default_device('{chosen}'), or show the process only that device "
            "(CUDA_VISIBLE_DEVICES)"
        )


def at(kind: str, where: Any = None) -> device:
    """The device for an argument of PyTorch's functions: None, an index, a string or a device."""
    if where is None or isinstance(where, int):
        return device(kind, where or 0)
    where = device(where)
    return device(kind, where.index or 0)


def synchronize(device: Any = None, /) -> None:
    """Wait until all work queued on the accelerator is done."""
    wait(at(_require(), device))


def wait(where: device) -> None:
    """Wait for a device's work: its queue is in order, so waiting for one more small array suffices."""
    jax.block_until_ready(jax.device_put(0, to_jax(where)) + 0)


def empty_cache() -> None:
    """Does nothing: JAX manages its memory itself."""


def memory_stat(where: device, key: str) -> int:
    """One of JAX's memory statistics in bytes; 0 if the backend has none."""
    return int((to_jax(where).memory_stats() or {}).get(key, 0))


def memory_allocated(device_index: Any = None, /) -> int:
    """The bytes in use on the accelerator."""
    return memory_stat(at(_require(), device_index), "bytes_in_use")


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The peak of the bytes in use on the accelerator."""
    return memory_stat(at(_require(), device_index), "peak_bytes_in_use")


def memory_info(where: device) -> tuple[int, int]:
    """The free and all bytes that XLA may use on a device."""
    total = memory_stat(where, "bytes_limit")
    return total - memory_stat(where, "bytes_in_use"), total


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """The free and all bytes that XLA may use on the accelerator."""
    return memory_info(at(_require(), device_index))


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Not supported: JAX cannot reset its peak statistics.

    Raises:
        RuntimeError: there is no accelerator.
        NotImplementedError: there is one.
    """
    _require()
    raise NotImplementedError(NO_RESET)


#: why a peak cannot be forgotten
NO_RESET = "JAX cannot reset its peak memory statistics: measure in a new process"


def _require() -> str:
    found = current_accelerator()
    if found is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return found.type
