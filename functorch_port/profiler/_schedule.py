"""What a profiler does at each step of a program."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum

from .. import accelerator

__all__ = ["ProfilerAction", "ProfilerActivity", "schedule", "supported_activities"]


class ProfilerAction(Enum):
    """What is done during a step.

    Reference: https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.ProfilerAction
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(Enum):
    """What is profiled.

    Reference: https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.ProfilerActivity
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """CPU, and CUDA where JAX has a GPU."""
    device = accelerator.current_accelerator()
    gpu = device is not None and device.type == "cuda"
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if gpu else {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A schedule for `profile`: cycles of steps that it waits, warms up, and records.

    Args:
        wait: steps of a cycle in which nothing is done.
        warmup: steps after these; also of them nothing is noted, but programs get compiled.
        active: steps after these, which are noted; at least 1.
        repeat: how many cycles; 0 for as long as the program runs.
        skip_first: steps before the first cycle.
        skip_first_wait: 1 if the first cycle does not wait.

    Returns:
        what is done at a step, given its number.

    Raises:
        AssertionError: a number is negative, or ``active`` is not positive.

    Example:
        >>> from functorch_port.profiler import schedule
        >>> of_step = schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [of_step(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']

    Reference: https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule
    """
    if active <= 0 or min(wait, warmup, repeat, skip_first, skip_first_wait) < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )

    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def of_step(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        cycle, step = divmod(step, length)
        if (repeat and cycle >= repeat) or step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return of_step


def always(_: int) -> ProfilerAction:
    """The schedule of a profile without one."""
    return ProfilerAction.RECORD
