"""What a profile consists of: events, lists of them, and their sums by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]


def _format_time(time_us: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if time_us >= size:
            return f"{time_us / size:.3f}{unit}"
    return f"{time_us:.3f}us"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


class _Times:
    """What events and their sums have in common.

    Attributes:
        count: how many calls.
        cpu_time_total: microseconds from the start of the call to its end.
        self_cpu_time_total: the same, without what was called in it and noted.
        device_time_total, cuda_time_total: 0: the device's own time is not measured.
    """

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
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
        **other: Any,
    ) -> None:
        self.id, self.name, self.thread, self.node_id = id, name, thread, node_id
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = input_shapes or []
        self.sequence_nr, self.is_user_annotation = sequence_nr, is_user_annotation
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def key(self) -> str:
        return self.name

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
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event or a sum."""
        if self.key is None:
            self.key, self.input_shapes, self.cpu_parent = other.key, other.input_shapes, other.cpu_parent
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        return self

    __iadd__ = add

    @property
    def name(self) -> str | None:
        return self.key

    def __repr__(self) -> str:
        times = f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}"
        return f"<FunctionEventAvg key={self.key} {times} count={self.count}>"


class EventList(list):
    """Events, or sums of them, as a table and in other forms."""

    def __init__(self, events: Iterable[Any] = (), **options: Any) -> None:
        super().__init__(events)

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
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **options: Any
    ) -> EventList:
        """The sums of events that are called alike, and if asked for have inputs of the same shapes."""
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = (event.key, str(event.input_shapes) if group_by_input_shape else "")
            sums.setdefault(key, FunctionEventAvg()).add(event)
        if not group_by_input_shape:
            for one in sums.values():
                one.input_shapes = []
        return EventList(sums.values())

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
        **options: Any,
    ) -> str:
        """The events as text.

        Args:
            sort_by: an attribute, such as ``self_cpu_time_total``; the largest comes first.
            row_limit: how many at most, all if negative.
            header: a line above.
            top_level_events_only: leave out what ran inside another event.
        """
        if not self:
            return ""
        events = [e for e in self if e.cpu_parent is None] if top_level_events_only else list(self)
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            events.sort(key=lambda event: getattr(event, name), reverse=True)
        if row_limit >= 0:
            events = events[:row_limit]
        whole = self.self_cpu_time_total
        columns: list[tuple[str, Callable[[Any], str]]] = [
            ("Name", lambda e: str(e.key)[:max_name_column_width]),
            ("Self CPU %", lambda e: _share(e.self_cpu_time_total, whole)),
            ("Self CPU", lambda e: e.self_cpu_time_total_str),
            ("CPU total %", lambda e: _share(e.cpu_time_total, whole)),
            ("CPU total", lambda e: e.cpu_time_total_str),
            ("CPU time avg", lambda e: e.cpu_time_str),
            ("# of Calls", lambda e: str(e.count)),
        ]
        if any(e.input_shapes for e in events):
            columns.append(("Input Shapes", lambda e: str(e.input_shapes)[:max_shapes_column_width]))
        rows = [[title for title, _ in columns], *([show(e) for _, show in columns] for e in events)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        rule = "  ".join("-" * w for w in widths)
        head = [] if header is None else ["=" * len(rule), header]
        end = f"Self CPU time total: {_format_time(whole)}"
        return "\n".join([*head, rule, lines[0], rule, *lines[1:], rule, end, ""])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events to a file for ``chrome://tracing``."""
        events = [
            {
                "ph": "X", "name": e.name, "cat": "cpu_op", "pid": "CPU functions", "tid": e.thread,
                "ts": e.time_range.start, "dur": e.cpu_time_total, "args": {"Input Dims": e.input_shapes},
            }
            for e in self
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
