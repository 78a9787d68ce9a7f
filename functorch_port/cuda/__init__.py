"""``torch.cuda`` on JAX's GPU backend. Without a GPU, functions that need one raise AssertionError, as in PyTorch.

JAX brings its own CUDA: it queues work in order on one stream per device, and XLA manages memory.

Reference: https://docs.pytorch.org/docs/stable/cuda.html
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import _streams
from .. import accelerator as _accelerator
from .. import random as _random
from .._base.device import count as _count
from .._base.device import device as _device
from .._base.device import numbered as _numbered
from .._base.device import to_jax as _to_jax
from . import amp as amp

__all__ = [
    "Event", "Stream", "amp", "current_device", "current_stream", "default_stream", "device",
    "device_count", "empty_cache", "get_device_capability", "get_device_name", "get_device_properties",
    "get_rng_state", "get_rng_state_all", "init", "initial_seed", "ipc_collect", "is_available",
    "get_arch_list", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats", "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all",
    "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether JAX has a GPU.

    Example:
        >>> import functorch_port as torch
        >>> device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    """
    return bool(_accelerator.jax_devices("cuda"))


def device_count() -> int:
    """The number of GPUs: of this process, or of its machine where each process has one."""
    return _count("cuda")


def is_initialized() -> bool:
    """Whether the GPU backend is initialised: always, if there is a GPU."""
    return is_available()


def init() -> None:
    """Raise AssertionError if there is no GPU."""
    _to_jax(_device("cuda", 0))


def current_device() -> int:
    """The index of the GPU that ``"cuda"`` means: 0, or the local rank where each process of a machine has one."""
    return next(iter(_numbered("cuda")))


def set_device(device: Any) -> None:
    """Accept the process's first GPU as the current one, which it always is.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: the GPU does not exist.
        NotImplementedError: the GPU is another one; the message says what to do instead.
    """
    _accelerator.select("cuda", device)


class device:
    """Context manager that creates new tensors on a GPU.

    Args:
        device: an index or a device; None and negative indices have no effect.
    """

    def __init__(self, device: Any) -> None:
        idle = device is None or (isinstance(device, int) and device < 0)
        self._inner = None if idle else _accelerator.at("cuda", device)

    def __enter__(self) -> device:
        if self._inner is not None:
            _to_jax(self._inner)
            self._inner.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._inner is not None:
            self._inner.__exit__(*exc)


def synchronize(device: Any = None) -> None:
    """Wait until all work queued on a GPU is done; do nothing without a GPU if ``device`` is None."""
    if device is None and not is_available():
        return
    _accelerator.wait(_accelerator.at("cuda", device))


def empty_cache() -> None:
    """Does nothing: JAX manages its memory itself."""


def ipc_collect() -> None:
    """Does nothing: there is no shared CUDA memory."""


# ---------------------------------------------------------------------- random numbers


def manual_seed(seed: int) -> None:
    """Accepted, without effect: the default generator serves all devices; see ``torch.manual_seed``."""
    int(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Accepted, without effect; see `manual_seed`."""


seed_all = seed


def initial_seed() -> int:
    """The seed of the default generator."""
    return _random.initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the default generator, which serves all devices."""
    return _random.get_rng_state()


def get_rng_state_all() -> list[Any]:
    """The states of `get_rng_state`, one per GPU."""
    return [_random.get_rng_state() for _ in range(device_count())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Set the state of the default generator, which serves all devices."""
    _random.set_rng_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    """Set the state of the default generator from a list of `get_rng_state_all`."""
    for state in new_states[:1]:
        _random.set_rng_state(state)


# ---------------------------------------------------------------------- what the device is


def get_device_name(device: Any = None) -> str:
    """The GPU's name."""
    return _to_jax(_accelerator.at("cuda", device)).device_kind


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The GPU's compute capability, e.g. ``(9, 0)``."""
    major, minor = str(getattr(_to_jax(_accelerator.at("cuda", device)), "compute_capability", "0.0")).split(
        "."
    )
    return int(major), int(minor)


@dataclass(frozen=True)
class _Properties:
    """A GPU's properties, under PyTorch's names."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> _Properties:
    """The GPU's name, compute capability, memory in bytes and number of multiprocessors."""
    where = _accelerator.at("cuda", device)
    cores = getattr(_to_jax(where), "core_count", 0)
    major, minor = get_device_capability(device)
    return _Properties(
        get_device_name(device), major, minor, _accelerator.memory_stat(where, "bytes_limit"), cores
    )


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU supports bfloat16, natively or emulated by XLA."""
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


# ---------------------------------------------------------------------- memory


def memory_allocated(device: Any = None) -> int:
    """The bytes in use on a GPU; 0 without a GPU."""
    return _accelerator.memory_stat(_accelerator.at("cuda", device), "bytes_in_use") if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The peak of the bytes in use on a GPU; 0 without a GPU."""
    return (
        _accelerator.memory_stat(_accelerator.at("cuda", device), "peak_bytes_in_use")
        if is_available()
        else 0
    )


def memory_reserved(device: Any = None) -> int:
    """The bytes that XLA has reserved on a GPU; 0 without a GPU."""
    return _accelerator.memory_stat(_accelerator.at("cuda", device), "pool_bytes") if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The peak of the bytes that XLA has reserved on a GPU; 0 without a GPU."""
    return (
        _accelerator.memory_stat(_accelerator.at("cuda", device), "peak_pool_bytes") if is_available() else 0
    )


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free and the total bytes that XLA may use on a GPU."""
    return _accelerator.memory_info(_accelerator.at("cuda", device))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """JAX's memory statistics of a GPU, one per line."""
    stats = _to_jax(_accelerator.at("cuda", device)).memory_stats() or {}
    return "\n".join(f"{key}: {value}" for key, value in sorted(stats.items()))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Not supported: JAX cannot reset its peak statistics.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(_accelerator.NO_RESET)


def reset_max_memory_allocated(device: Any = None) -> None:
    """As `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def memory_stats(device: Any = None) -> dict[str, int]:
    """JAX's memory statistics of a GPU, in bytes; empty without a GPU."""
    return dict(_to_jax(_accelerator.at("cuda", device)).memory_stats() or {}) if is_available() else {}


# ---------------------------------------------------------------------- streams and events


class Stream(_streams.Stream):
    """JAX's only queue of a GPU: work on all streams runs in the order of the calls."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        found = _accelerator.at("cuda", device)
        _to_jax(found)
        super().__init__(found, priority=priority)

    def record_event(self, event: _streams.Event | None = None) -> _streams.Event:
        """Record an event on this stream."""
        return super().record_event(Event() if event is None else event)


class Event(_streams.Event):
    """A point in the GPU's work, for timing. `record` waits for the GPU, so that the time is exact.

    Args:
        enable_timing: accepted; events always have a time.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        init()
        super().__init__("cuda")

    def record(self, stream: Any = None) -> None:
        """Wait for all work queued so far, and record the time."""
        synchronize()
        self._time = time.perf_counter()


def current_stream(device: Any = None) -> Stream:
    """The GPU's queue."""
    return Stream(device)


default_stream = current_stream


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Accepted, without effect: there is one queue per GPU."""
    yield


def is_current_stream_capturing() -> bool:
    """Return False: there are no CUDA graphs; a compiled function is one program."""
    return False


class CUDAGraph:
    """Not supported: a compiled function is one program, which XLA launches as a whole.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.cuda.CUDAGraph: use functorch_port.compile, whose program is launched as a whole"
        )


graph = CUDAGraph


def get_arch_list() -> list[str]:
    """Return an empty list: this package has no kernels for certain GPUs, XLA makes them."""
    return []


def cudart() -> Any:
    """Not supported: JAX has a CUDA of its own.

    Raises:
        AssertionError: there is no GPU.
        NotImplementedError: there is one.
    """
    init()
    raise NotImplementedError("torch.cuda.cudart: JAX has a CUDA of its own, which it does not show")


StreamContext = stream
