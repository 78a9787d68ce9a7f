"""What ``torch.xpu``, ``torch.mps`` and ``torch.mtia`` have in common: there are no such devices here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, NoReturn

__all__ = ["names"]


def names(kind: str, public: Iterable[str]) -> dict[str, Any]:
    """The names of the module of a kind of devices that JAX has not.

    Args:
        kind: of the devices, ``"xpu"``.
        public: the names. What is not in the table below needs a device, and refuses.
    """

    def is_available() -> bool:
        """Return False."""
        return False

    def device_count() -> int:
        """Return 0."""
        return 0

    def manual_seed(seed: int) -> None:
        """Accepted, without effect."""

    def empty_cache() -> None:
        """Does nothing."""

    def memory_allocated(device: Any = None) -> int:
        """Return 0."""
        return 0

    def memory_stats(device: Any = None) -> dict[str, int]:
        """Return an empty dict."""
        return {}

    def get_rng_state_all() -> list[Any]:
        """Return an empty list: there is no device."""
        return []

    def set_rng_state_all(new_states: Iterable[Any]) -> None:
        """Do nothing: there is no device."""

    def refusing(name: str) -> Any:
        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            """Raise RuntimeError: there is no such device."""
            raise RuntimeError(
                f"torch.{kind}.{name}: there is no {kind} device: the devices are cpu, cuda and tpu"
            )

        refuse.__name__ = refuse.__qualname__ = name
        return refuse

    def stream(stream: Any = None) -> contextlib.AbstractContextManager[None]:
        """A context that does nothing."""
        return contextlib.nullcontext()

    known: dict[str, Any] = {
        "is_available": is_available,
        "is_initialized": is_available,
        "is_bf16_supported": is_available,
        "is_current_stream_capturing": is_available,
        "device_count": device_count,
        "manual_seed": manual_seed,
        "manual_seed_all": manual_seed,
        "seed": lambda: None,
        "seed_all": lambda: None,
        "empty_cache": empty_cache,
        "stream": stream,
        **dict.fromkeys(
            ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
            memory_allocated,
        ),
        "memory_stats": memory_stats,
        "get_rng_state_all": get_rng_state_all,
        "set_rng_state_all": set_rng_state_all,
    }
    return {name: known[name] if name in known else refusing(name) for name in public}
