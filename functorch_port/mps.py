"""``torch.mps``: there is no such backend; what needs a device raises RuntimeError."""

from . import _absent_backend

_REFUSED = (
    "Event", "clear_graph_cache", "current_allocated_memory", "driver_allocated_memory", "recommended_max_memory",
    "set_per_process_memory_fraction",
)  # fmt: skip
_OTHERS = {
    "device_count", "empty_cache", "get_rng_state", "is_available", "manual_seed", "seed", "set_rng_state",
    "synchronize",
}  # fmt: skip
_names = {n: v for n, v in _absent_backend.names("mps", _REFUSED).items() if n in _OTHERS or n in _REFUSED}
globals().update(_names)
__all__ = sorted(_names)
