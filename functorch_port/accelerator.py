"""The accelerator in use, whatever its kind (``torch.accelerator``).

Reference:
    https://docs.pytorch.org/docs/stable/accelerator.html
"""

from __future__ import annotations

from typing import Any

import jax

from ._base.device import device, device_type_of_platform, to_jax

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count", "empty_cache",
    "is_available", "max_memory_allocated", "memory_allocated", "set_device_idx", "set_device_index",
    "synchronize",
]  # fmt: skip


def jax_devices(kind: str) -> list[jax.Device]:
    """This process's JAX devices of a PyTorch device type; none if there is no such backend."""
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
    """The device (without index) that JAX runs on, or None on the CPU."""
    return device(device_type_of_platform(jax.default_backend())) if is_available() else None


def device_count() -> int:
    """Number of accelerators of this process."""
    return len(jax.local_devices()) if is_available() else 0


def current_device_index() -> int:
    """Index of the accelerator in use."""
    _require()
    return 0


def set_device_index(device: Any, /) -> None:
    """Choose the accelerator in use; see `select`."""
    select(_require(), device)


current_device_idx = current_device_index
set_device_idx = set_device_index


def select(kind: str, index: Any) -> None:
    """Accept device 0 as the current device; a bare ``"cuda"`` or ``"tpu"`` always means the first one here.

    Raises:
        RuntimeError: if there is no such device.
        NotImplementedError: for any other.
    """
    chosen = at(kind, index)
    if to_jax(chosen) != to_jax(device(kind)):
        raise NotImplementedError(
            f"the current device is always {kind}:0; pass device='{chosen}' where it matters, call "
            f"set_default_device('{chosen}'), or show the process one device only (CUDA_VISIBLE_DEVICES)"
        )


def at(kind: str, where: Any = None) -> device:
    """A device from what PyTorch's functions take: nothing, an index, a string or a device."""
    if where is None or isinstance(where, int):
        return device(kind, where or 0)
    where = device(where)
    return device(kind, where.index or 0)


def synchronize(device: Any = None, /) -> None:
    """Wait until everything asked of the accelerator is done."""
    wait(at(_require(), device))


def wait(where: device) -> None:
    """Wait for the work of one device: its queue is in order, so for one more small array."""
    jax.block_until_ready(jax.device_put(0, to_jax(where)) + 0)


def empty_cache() -> None:
    """JAX gives memory back by itself; there is nothing to do."""


def memory_stat(where: device, key: str) -> int:
    """One of JAX's memory figures in bytes; 0 where the backend does not count."""
    return int((to_jax(where).memory_stats() or {}).get(key, 0))


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes in use on the accelerator."""
    return memory_stat(at(_require(), device_index), "bytes_in_use")


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most bytes that were in use on the accelerator."""
    return memory_stat(at(_require(), device_index), "peak_bytes_in_use")


def _require() -> str:
    found = current_accelerator()
    if found is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return found.type
