"""`Stream` and `Event`: queues of work and points in them. A CPU has one queue, which runs in the order of calls."""

from __future__ import annotations

import time
from typing import Any

from . import accelerator
from ._base.device import device as _device

__all__ = ["Event", "Stream"]


def _place(device: Any) -> _device:
    return _device(device) if device is not None else accelerator.current_accelerator() or _device("cpu")


class Stream:
    """The only queue of a device: work runs in the order of the calls, whatever streams it is given to.

    Args:
        device: by default the accelerator, or the CPU where there is none.
        priority: accepted.

    Example:
        >>> import functorch_port as torch
        >>> with torch.Stream("cpu") as stream:
        ...     stream.query()
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Stream.html
    """

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device, self.priority = _place(device), priority
        self.stream_id = 0

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        if self.device.type != "cpu":
            accelerator.wait(self.device)

    def query(self) -> bool:
        """Wait for all work and return True."""
        self.synchronize()
        return True

    def wait_stream(self, other: Any) -> None:
        """Does nothing: work runs in the order of the calls."""

    def wait_event(self, event: Any) -> None:
        """Does nothing: work runs in the order of the calls."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event in this stream; by default a new one, which is returned."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """There is one queue: nothing is to be restored."""

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        return (
            f"torch.Stream device_type={self.device.type}, device_index={index}, stream_id={self.stream_id}"
        )


class Event:
    """A point in a device's work. `record` waits for the device, so that the time is exact.

    Args:
        device: by default the accelerator, or the CPU where there is none.
        enable_timing, blocking, interprocess: accepted; events always have a time.

    Raises:
        RuntimeError: `record` is called for a CPU, as in PyTorch.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Event.html
    """

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _place(device)
        self.event_id = 0
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Wait for all work of the device so far, and keep the time."""
        if self.device.type == "cpu":
            raise RuntimeError("cpu backend doesn't support events.")
        accelerator.wait(self.device)
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Does nothing: `record` has waited."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing: `record` has waited."""

    def query(self) -> bool:
        """Return True: the work before the event is done."""
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this event to ``end_event``."""
        if self._time is None or end_event._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._time - self._time) * 1e3

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        return f"torch.Event device_type={self.device.type}, device_index={index}, event_flag=0, event_id=0"
