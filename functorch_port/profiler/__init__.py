"""``torch.profiler``: which operations a program runs, how long they take, and what takes the memory.

`profile` notes operations (see `autograd.profiler`, which says what its times mean). `memory_breakdown` measures what
parameters, gradients, optimizer state and activations of a training step take.
"""

from __future__ import annotations

from .._base.refused import refused_class
from ..autograd.profiler import kineto_available, record_function
from ._memory import Breakdown, memory_breakdown
from ._profile import profile, tensorboard_trace_handler
from ._schedule import ProfilerAction, ProfilerActivity, schedule, supported_activities

__all__ = [
    "Breakdown",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "memory_breakdown",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

ExecutionTraceObserver = refused_class(
    "torch.profiler.ExecutionTraceObserver",
    "operations are not written with their tensors' identities: torch.profiler.profile, and its export_chrome_trace",
)
