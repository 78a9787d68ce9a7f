"""``torch.mps``: there is no such backend; what needs a device raises RuntimeError."""

from . import _absent_backend

_NAMES = (
    "Event", "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache",
    "get_rng_state", "is_available", "manual_seed", "recommended_max_memory", "seed",
    "set_per_process_memory_fraction", "set_rng_state", "synchronize",
)  # fmt: skip
globals().update(_absent_backend.names("mps", _NAMES))
__all__ = list(_NAMES)
