"""`torch.autograd.profiler`: which operations a program calls, and how long the calls take.

What is noted are calls of operations in eager mode, with the time that they take in Python. Where the result is lazy or
is computed beside Python, that is not the time of the computation; nor is a compiled program seen. For these use
`jax.profiler.trace`, in whose traces regions that `record_function` names appear, too.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

from .._base import watch
from .._tensor.tensor import Tensor
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["emit_nvtx", "profile", "record_function"]


def _profiler_enabled() -> bool:
    return watch.state.profile is not None


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: it is not."""
    return False


class record_function:
    """Name a region of code; it appears in a `profile`, and in traces made with `jax.profiler`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.profiler.record_function.html
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        self._region = jax.profiler.TraceAnnotation(self.name)
        self._region.__enter__()
        self._profile, self._start = watch.state.profile, time.perf_counter()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._profile is not None:
            self._profile.note(self.name, self._start, annotation=True)
        self._region.__exit__(*exc)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return fn(*args, **kwargs)

        return wrapper


class profile:
    """Context in which the calling thread's eager operations are noted.

    Args:
        enabled: False notes nothing.
        record_shapes: also the shapes of tensors.
        kwargs: PyTorch's other options, accepted.

    Attributes:
        function_events: an `EventList`, once the context has ended.

    Raises:
        RuntimeError: another profile is being made, or this one has not ended.

    Example:
        >>> import functorch_port as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     y = torch.ones(2) * 3 + 1
        >>> [event.name for event in prof.function_events]
        ['aten::mul', 'aten::add']

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.profiler.profile
    """

    def __init__(self, enabled: bool = True, *, record_shapes: bool = False, **kwargs: Any) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self.function_events: EventList | None = None
        self._noted: list[FunctionEvent] = []

    def __enter__(self) -> profile:
        if self.enabled:
            if watch.state.profile is not None:
                raise RuntimeError("Profiler is already enabled on this thread.")
            watch.begin()
            watch.state.profile = self
            self._began = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            watch.state.profile = None
            events = sorted(self._noted, key=lambda e: (e.time_range.start, -e.time_range.end))
            self.function_events = EventList(events)
            self.function_events._populate_cpu_children()

    def note(
        self, name: str, start: float, shapes: list[Any] | None = None, annotation: bool = False
    ) -> None:
        """An operation or a region has ended that began at ``start``."""
        end = time.perf_counter()
        self._noted.append(
            FunctionEvent(
                len(self._noted),
                name,
                threading.get_ident(),
                1e6 * (start - self._began),
                1e6 * (end - self._began),
                shapes,
                is_user_annotation=annotation,
            )
        )

    def run_op(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One operation, noted."""
        shapes = None
        if self.record_shapes:
            shapes = [list(a.shape) if isinstance(a, Tensor) else [] for a in (*args, *kwargs.values())]
        start = time.perf_counter()
        watch.state.profile = None
        try:
            return op.run(args, kwargs)
        finally:
            watch.state.profile = self
            self.note(_name(op.__name__), start, shapes)

    def _events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def table(self, *args: Any, **kwargs: Any) -> str:
        """See `EventList.table`."""
        return self._events().table(*args, **kwargs)

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """The sums of events that are called alike."""
        return self._events().key_averages(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self._events().total_average()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events to a file for ``chrome://tracing``."""
        self._events().export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self._events().self_cpu_time_total

    def __str__(self) -> str:
        return (
            "<unfinished torch.autograd.profile>"
            if self.function_events is None
            else str(self.function_events)
        )

    __repr__ = __str__


def _name(op: str) -> str:
    """What PyTorch calls an operation; the parts of one here that is several there are named after it."""
    name = op.removeprefix("_")
    return "aten::linear" if name.startswith("linear_") else f"aten::{_NAMES.get(name, name)}"


_NAMES = {"true_divide": "div", "to_dtype": "_to_copy", "basic_index": "slice"}


class emit_nvtx:
    """Not available: use `jax.profiler.trace`, which sees the compiled programs too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("autograd.profiler.emit_nvtx: use jax.profiler.trace(folder)")


emit_itt = emit_nvtx
