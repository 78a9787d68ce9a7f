"""Stacks of equal layers split over devices one after the other: ``torch.distributed.pipelining``.

One program drives all stages: a `PipelineStage` here stands for all of them, and a step is called once, with inputs
and targets. What is before the stack (an embedding) is computed outside of it, and what is behind it (a head) there or
in the ``loss_fn`` of a schedule.
"""

from .schedules import Schedule1F1B, ScheduleGPipe
from .stage import PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
