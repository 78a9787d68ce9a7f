"""What a profile consists of: events, lists of them, and their sums by name."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from .._base.atomic import atomic
from .._base.units import nbytes, unit_of

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]


_TIMES = (("s", 1e6), ("ms", 1e3), ("us", 1.0))
#: what `export_stacks` may sum; a device's own times are all 0
_METRICS = [f"self_{device}_time_total" for device in ("cpu", "cuda", "xpu", "privateuse1")]
_FLOPS = (("TFLOPs", 1e12), ("GFLOPs", 1e9), ("MFLOPs", 1e6), ("KFLOPs", 1e3), ("FLOPs", 1.0))


def _format_time(time_us: float, unit: str | None = None) -> str:
    unit, size = unit_of(time_us, _TIMES) if unit is None else (unit, dict(_TIMES)[unit])
    return f"{time_us / size:.3f}{unit}"


def _format_memory(count: float) -> str:
    """As PyTorch has it, whose KB are of 1024 bytes."""
    return nbytes(count).replace("iB", "B")


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


class _Times:
    """What events and their sums have in common.

    Attributes:
        count: how many calls.
        cpu_time_total: microseconds from the start of the call to its end.
        self_cpu_time_total: the same, without what was called in it and noted.
        cpu_memory_usage, self_cpu_memory_usage: bytes of new arrays, with and without those of what was called in it.
        flops: operations of products of matrices and convolutions.
        stack: where the call is, the innermost function first.
        device_time_total, cuda_time_total: 0: the device's own time is not measured, but is part of ``cpu_time_total``.
    """

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    flops: int
    stack: list[str]
    device_time_total = self_device_time_total = cuda_time_total = self_cuda_time_total = 0.0
    device_time = cuda_time = 0.0

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        return _format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return _format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return _format_time(self.self_cpu_time_total)


class Interval:
    """From ``start`` to ``end``, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class FunctionEvent(_Times):
    """A call of an operation, or a region that `record_function` named.

    Args:
        id: its number.
        name: such as ``aten::add``.
        thread: in which it ran.
        start_us, end_us: when, in microseconds.
        input_shapes: of the tensors among its arguments.
    """

    count = 1

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        input_shapes: list[Any] | None = None,
        sequence_nr: int = -1,
        node_id: int = 0,
        is_user_annotation: bool = False,
        stack: list[str] | None = None,
        text: str | None = None,
    ) -> None:
        self.id, self.name, self.thread, self.node_id = id, name, thread, node_id
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = input_shapes or []
        self.sequence_nr, self.is_user_annotation = sequence_nr, is_user_annotation
        self.stack, self.text = stack or [], text
        self.own_memory = self.own_flops = 0
        self.counted: Any = None
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def key(self) -> str:
        """The name, which is one for all steps of a profile."""
        return "ProfilerStep*" if self.name.startswith("ProfilerStep#") else self.name

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note an event that ran inside this one."""
        self.cpu_children.append(child)
        child.cpu_parent = self

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:  # type: ignore[override]
        return self.own_memory

    @property
    def cpu_memory_usage(self) -> int:  # type: ignore[override]
        return self.own_memory + sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def flops(self) -> int:  # type: ignore[override]
        return self.own_flops

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} thread={self.thread}>"
        )


class FunctionEventAvg(_Times):
    """The sum of events that are called alike."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.flops = 0
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event or a sum."""
        if self.key is None:
            self.key, self.input_shapes, self.cpu_parent = other.key, other.input_shapes, other.cpu_parent
            self.stack = other.stack
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops
        return self

    __iadd__ = add

    @property
    def name(self) -> str | None:
        return self.key

    def __repr__(self) -> str:
        times = f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}"
        return f"<FunctionEventAvg key={self.key} {times} count={self.count}>"


class EventList(list):
    """Events, or sums of them, as a table and in other forms.

    Args:
        events: the events.
        profile_memory, with_flops: whether the events have these; then tables have columns for them.
        base: when the profile began, in nanoseconds since 1970.

    Attributes:
        metadata: what else a chrome trace has.
    """

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        profile_memory: bool = False,
        with_flops: bool = False,
        base: int = 0,
    ) -> None:
        super().__init__(events)
        self._options = {"profile_memory": profile_memory, "with_flops": with_flops, "base": base}
        self.metadata: dict[str, Any] = {}

    def _populate_cpu_children(self) -> None:
        """Find which event ran inside which, by their times."""
        for thread in dict.fromkeys(event.thread for event in self):
            own = [event for event in self if event.thread == thread]
            around: list[FunctionEvent] = []
            for event in sorted(own, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while around and (
                    event.time_range.start >= around[-1].time_range.end
                    or event.time_range.end > around[-1].time_range.end
                ):
                    around.pop()
                if around:
                    around[-1].append_cpu_child(event)
                around.append(event)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        *,
        group_by_input_shape: bool = False,
    ) -> EventList:
        """The sums of events that are called alike.

        Args:
            group_by_input_shapes: and have inputs of the same shapes. (``group_by_input_shape`` is the same.)
            group_by_stack_n: and come from the same places: so many of the innermost functions are compared.
            group_by_overload_name: refused, as operations have no overloads here.
        """
        if group_by_overload_name:
            raise NotImplementedError(
                "key_averages(group_by_overload_name=True): operations have no overloads here"
            )
        by_shape = group_by_input_shapes or group_by_input_shape
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            place = tuple(event.stack[:group_by_stack_n])
            key = (event.key, str(event.input_shapes) if by_shape else "", place)
            sums.setdefault(key, FunctionEventAvg()).add(event)
        for one in sums.values():
            one.stack = one.stack[:group_by_stack_n]
            one.input_shapes = one.input_shapes if by_shape else []
        return EventList(sums.values(), **self._options)  # type: ignore[arg-type]

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        total = FunctionEventAvg()
        for event in self:
            total += event
        total.key = None
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text.

        Args:
            sort_by: an attribute, such as ``self_cpu_time_total``; the largest comes first.
            row_limit: how many at most, all if negative.
            max_src_column_width, max_name_column_width, max_shapes_column_width: what is longer is cut.
            header: a line above.
            top_level_events_only: leave out what ran inside another event.
            time_unit: ``s``, ``ms`` or ``us`` for all times. Default: each has the one that suits it.
        """
        if not self:
            return ""
        if time_unit is not None and time_unit not in dict(_TIMES):
            raise ValueError(f"time_unit is one of {', '.join(dict(_TIMES))}, not {time_unit!r}")
        events = [e for e in self if e.cpu_parent is None] if top_level_events_only else list(self)
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            events.sort(key=lambda event: getattr(event, name), reverse=True)
        if row_limit >= 0:
            events = events[:row_limit]
        whole = self.self_cpu_time_total
        timed = lambda time: _format_time(time, time_unit)
        columns: list[tuple[str, Callable[[Any], str]]] = [
            ("Name", lambda e: _cut(str(e.key), max_name_column_width)),
            ("Self CPU %", lambda e: _share(e.self_cpu_time_total, whole)),
            ("Self CPU", lambda e: timed(e.self_cpu_time_total)),
            ("CPU total %", lambda e: _share(e.cpu_time_total, whole)),
            ("CPU total", lambda e: timed(e.cpu_time_total)),
            ("CPU time avg", lambda e: timed(e.cpu_time)),
        ]
        if self._options["profile_memory"]:
            columns.append(("CPU Mem", lambda e: _format_memory(e.cpu_memory_usage)))
            columns.append(("Self CPU Mem", lambda e: _format_memory(e.self_cpu_memory_usage)))
        columns.append(("# of Calls", lambda e: str(e.count)))
        if any(e.input_shapes for e in events):
            columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes), max_shapes_column_width)))
        if any(e.stack for e in events):
            columns.append(
                ("Source Location", lambda e: _cut_start(" < ".join(e.stack), max_src_column_width))
            )
        if self._options["with_flops"]:
            unit, size = unit_of(max((e.flops for e in events), default=0), _FLOPS)
            columns.append((f"Total {unit}", lambda e: f"{e.flops / size:.3f}" if e.flops else "--"))
        rows = [[title for title, _ in columns], *([show(e) for _, show in columns] for e in events)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        rule = "  ".join("-" * w for w in widths)
        head = [] if header is None else ["=" * len(rule), header]
        end = f"Self CPU time total: {timed(whole)}"
        return "\n".join([*head, rule, lines[0], rule, *lines[1:], rule, end, ""])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events to a file for ``chrome://tracing`` and Perfetto; gzipped if its name ends in ``.gz``."""
        pid = os.getpid()
        threads = {thread: number for number, thread in enumerate(dict.fromkeys(e.thread for e in self))}
        events: list[dict[str, Any]] = [_named(pid, 0, "process_name", "python")]
        events += [
            _named(pid, number, "thread_name", f"thread {thread}") for thread, number in threads.items()
        ]
        events += [_trace_event(e, pid, threads[e.thread]) for e in self]
        trace = {
            **self.metadata,
            "schemaVersion": 1,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": self._options["base"],
            "host_name": socket.gethostname(),
            "traceEvents": events,
        }
        data = json.dumps(trace).encode()
        with atomic(path) as file:
            file.write(gzip.compress(data) if str(path).endswith(".gz") else data)

    def export_stacks(self, path: str, metric: str) -> None:
        """Write a line for each stack, for flame graphs: the functions, the outermost first, and a sum.

        Args:
            path: of the file.
            metric: ``"self_cpu_time_total"``. Those of other devices are known, and 0.

        Raises:
            ValueError: there is no such metric, or the profile has no stacks, as it was made without
                ``with_stack=True``.
        """
        if metric not in _METRICS:
            raise ValueError(f"metric should be one of: {_METRICS}")
        if not any(e.stack for e in self):
            raise ValueError("export_stacks: no event has a stack; make the profile with with_stack=True")
        lines = [
            f"{';'.join(reversed([frame.replace(' ', '_') for frame in e.stack]))} {int(getattr(e, metric, 0))}"
            for e in self
            if e.stack and int(getattr(e, metric, 0)) > 0
        ]
        with atomic(path) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _cut_start(text: str, width: int) -> str:
    return text if len(text) <= width else f"...{text[len(text) - width + 3 :]}"


def _named(pid: int, thread: int, kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": thread, "ts": 0, "args": {"name": name}}


def _trace_event(event: FunctionEvent, pid: int, thread: int) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": event.id}
    if event.input_shapes:
        args["Input Dims"] = event.input_shapes
    if event.text is not None:
        args["Text"] = event.text
    if event.own_flops:
        args["FLOPs"] = event.own_flops
    if event.own_memory:
        args["Bytes"] = event.own_memory
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    return {
        "ph": "X", "cat": "user_annotation" if event.is_user_annotation else "cpu_op", "name": event.name, "pid": pid,
        "tid": thread, "ts": event.time_range.start, "dur": event.cpu_time_total, "args": args,
    }  # fmt: skip
