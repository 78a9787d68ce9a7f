"""``torch.mtia``: there is no such backend; what needs a device raises RuntimeError."""

from . import _absent_backend

_REFUSED = (
    "current_device", "current_stream", "get_device_capability", "get_device_properties", "init",
    "initial_seed", "reset_peak_memory_stats", "set_device", "set_stream", "device",
)  # fmt: skip
_names = _absent_backend.names("mtia", _REFUSED)
globals().update(_names)
__all__ = sorted(_names)
