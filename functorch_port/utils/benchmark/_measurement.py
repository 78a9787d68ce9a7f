"""What a `Timer` has measured, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import numpy as np

from ..._base.units import unit_of

__all__ = ["UNITS", "Measurement", "TaskSpec", "select_unit", "trim_sigfig"]

UNITS = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
_SIZES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
#: seconds; a mean of clocks is not known better
_LEAST_INTERVAL = 25e-9
_MOST_FIGURES = 4
#: shares of the median from which on the range between quartiles is told of
_WIDE, _VERY_WIDE = 0.1, 0.25


def select_unit(t: float) -> tuple[str, float]:
    """The unit for a time in seconds, and its size."""
    return unit_of(t, _SIZES)


def trim_sigfig(x: float, n: int) -> float:
    """A number rounded to so many significant figures."""
    if not x:
        return 0.0
    scale = 10.0 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return round(x / scale) * scale


@dataclass(frozen=True)
class TaskSpec:
    """What is measured: a statement and its names."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, else the statement."""
        if self.label is not None:
            return f"{self.label}: {self.sub_label}" if self.sub_label else self.label
        if "\n" in self.stmt:
            return f"stmt:\n{indent(self.stmt, '  ')}"
        return f"{self.stmt}: {self.sub_label}" if self.sub_label else self.stmt

    def setup_str(self) -> str:
        """The setup, as it is shown."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """What is shown above the numbers."""
        parts = filter(None, (self.title, self.description, self.setup_str()))
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts)


class Measurement:
    """The times of a statement.

    Args:
        number_per_run: how often it ran for each time.
        raw_times: in seconds, each for so many runs.
        task_spec: what was measured.
        metadata: of the user's.

    Reference: https://docs.pytorch.org/docs/stable/benchmark_utils.html#torch.utils.benchmark.Measurement
    """

    def __init__(
        self,
        number_per_run: int,
        raw_times: list[float],
        task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ) -> None:
        if not raw_times:
            raise ValueError("Measurement: there are no times")
        self.number_per_run, self.raw_times = number_per_run, raw_times
        self.task_spec, self.metadata = task_spec, metadata

    def __getattr__(self, name: str) -> Any:
        if (name != "task_spec" and hasattr(TaskSpec, name)) or name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def times(self) -> list[float]:
        """Seconds for one run."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def mean(self) -> float:
        return float(np.mean(self.times))

    @property
    def median(self) -> float:
        return float(np.median(self.times))

    @property
    def _quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.times, (0.25, 0.75))
        return float(low), float(high)

    @property
    def iqr(self) -> float:
        """The range between the first and the third quartile."""
        low, high = self._quartiles
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many figures of the median are certain, at 90 %, if times are normal between the quartiles."""
        times = sorted(self.times)
        inner = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        interval = max(1.645 * float(np.std(inner)) / math.sqrt(len(inner)), _LEAST_INTERVAL)
        figures = math.floor(math.log10(self.median / interval)) if self.median > 0 else 1
        return min(max(figures, 1), _MOST_FIGURES)

    @property
    def has_warnings(self) -> bool:
        return not self.meets_confidence(_WIDE)

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the range between quartiles is below this share of the median."""
        return self.iqr / self.median < threshold if self.median else True

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        shown = lambda time: f"{time / size:.2f}"
        count, threads = len(self.raw_times), self.task_spec.num_threads
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{shown(self.median)} {unit}")
        if count > 3:
            low, high = self._quartiles
            lines.append(f"  IQR:    {shown(self.iqr)} {unit} ({shown(low)} to {shown(high)})")
        each = " per measurement" if count > 1 else " "
        plural = lambda n, word: f"{n} {word}{'s' if n > 1 else ''}"
        lines.append(
            f"  {plural(count, 'measurement')}, {self.number_per_run} runs{each}, {plural(threads, 'thread')}"
        )
        if self.has_warnings:
            share = self.iqr / self.median
            why = (
                "could indicate system fluctuation"
                if share <= _VERY_WIDE
                else "suggests significant environmental influence"
            )
            lines.append(f"  WARNING: Interquartile range is {share * 100:.1f}% of the median measurement.")
            lines.append(f"           This {why}.")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same as one each."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        merged = []
        for spec, ones in groups.items():
            if len({one.number_per_run for one in ones}) == 1:
                number, times = ones[0].number_per_run, [t for one in ones for t in one.raw_times]
            else:
                number, times = 1, [t for one in ones for t in one.times]
            merged.append(Measurement(number, times, spec))
        return merged
