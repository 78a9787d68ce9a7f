"""``torch.utils.benchmark``: how long statements take, results waited for."""

from __future__ import annotations

from ._compare import Compare
from ._measurement import Measurement, TaskSpec, select_unit, trim_sigfig
from ._timer import Timer, timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer", "trim_sigfig"]
