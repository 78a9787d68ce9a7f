"""`profile`: PyTorch's profiler of a program's steps."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

from ..autograd import profiler
from ..autograd.profiler_util import EventList
from ._schedule import ProfilerAction, ProfilerActivity, always, supported_activities

__all__ = ["profile", "tensorboard_trace_handler"]

_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def _check_jax_can_trace() -> None:
    """Refuse what would end the process: with libtpu loaded and no TPU, JAX's profiler has a segmentation fault."""
    with contextlib.suppress(OSError):  # not on Linux, where alone libtpu is
        if "libtpu.so" in Path("/proc/self/maps").read_text() and jax.default_backend() != "tpu":
            raise RuntimeError(
                "profile: this process has loaded libtpu, to compile for a TPU or as JAX looked for one, and there is "
                "no TPU: JAX's profiler would end it. Profile in another process, with JAX_PLATFORMS=cpu, or without "
                "tensorboard_trace_handler"
            )


class profile:
    """Profile the steps of a program: a context manager, or `start`, `step` and `stop`.

    Each eager operation runs at once and is waited for, so a time is that of the call and its computation, on whatever
    device (see `autograd.profiler`). A compiled function is one entry.

    Args:
        activities: some of `ProfilerActivity`; CPU must be among them. CUDA adds nothing, as times are those of the
            computation already. Default: those there are.
        schedule: from the number of a step to a `ProfilerAction`. Default: all steps are recorded.
        on_trace_ready: called with this profile when steps were recorded: at the end, or of each cycle of a schedule.
        record_shapes: also note the shapes of inputs.
        profile_memory: also note the bytes of the new arrays of each call.
        with_stack: also note where in the user's code the call is.
        with_flops: also count the operations of products of matrices and convolutions.
        with_modules, experimental_config, execution_trace_observer: refused.
        acc_events: keep the events of all cycles, not only of the last.
        use_cuda: deprecated; True is the same as CUDA among the activities.

    Raises:
        NotImplementedError: an option that is refused, or activities without CPU.
        RuntimeError: another profile is being made by this thread.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.profiler import profile
        >>> with profile(record_shapes=True) as prof:
        ...     y = torch.nn.functional.relu(torch.ones(2, 3) * 2)
        >>> [(e.key, e.count, e.input_shapes) for e in prof.key_averages(group_by_input_shape=True)]
        [('aten::mul', 1, [[2, 3], []]), ('aten::relu', 1, [[2, 3]])]

    Reference: https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.profile
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
    ) -> None:
        self.activities = _checked(activities, use_cuda)
        if execution_trace_observer is not None:
            raise NotImplementedError(
                "profile(execution_trace_observer=...): export_chrome_trace writes the events"
            )
        self._options = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "with_modules": with_modules,
            "experimental_config": experimental_config,
        }
        profiler.profile(**self._options)  # it refuses what it cannot do
        self.schedule, self.on_trace_ready, self.acc_events = schedule or always, on_trace_ready, acc_events
        self._marks_steps = schedule is not None
        self.step_num = 0
        self.current_action = self.schedule(0)
        #: the profile that is being made, or was made last
        self.profiler: profiler.profile | None = None
        self._region: profiler.record_function | None = None
        self._metadata: dict[str, Any] = {}
        self._earlier: list[Any] = []

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        if self.current_action in _RECORDS:
            self._begin()
        self._enter_step()

    def step(self) -> None:
        """The program's next step begins."""
        self._leave_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        try:
            self._go(before, self.current_action)
        except BaseException:
            self.current_action = ProfilerAction.NONE  # so that `stop` does not end what was not begun
            raise
        self._enter_step()

    def stop(self) -> None:
        """End; what was recorded is ready."""
        self._leave_step()
        if self.current_action in _RECORDS:
            self._end(ready=True)

    def _enter_step(self) -> None:
        if self._marks_steps and self.current_action in _RECORDS:
            self._region = profiler.record_function(f"ProfilerStep#{self.step_num}")
            self._region.__enter__()

    def _leave_step(self) -> None:
        if self._region is not None:
            self._region.__exit__(None, None, None)
            self._region = None

    def _go(self, before: ProfilerAction, now: ProfilerAction) -> None:
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._end(ready=True)
        elif before is ProfilerAction.RECORD and now not in _RECORDS:
            warnings.warn(f"Incorrect schedule: RECORD followed by {now.name}")
            self._end(ready=False)
        elif before is ProfilerAction.WARMUP and now is ProfilerAction.NONE:
            warnings.warn("Incorrect schedule: WARMUP followed by NONE")
        if now in _RECORDS and before is not ProfilerAction.RECORD:
            self._begin()

    def _begin(self) -> None:
        folder = getattr(self.on_trace_ready, "xla_folder", None)
        if folder is not None:
            _check_jax_can_trace()
            jax.profiler.start_trace(folder)
        if self.acc_events and self.profiler is not None:
            self._earlier += self.events()
        self.profiler = profiler.profile(**self._options)
        self.profiler.__enter__()

    def _end(self, ready: bool) -> None:
        if getattr(self.on_trace_ready, "xla_folder", None) is not None:
            jax.profiler.stop_trace()
        made = self._made()
        made.__exit__(None, None, None)
        made._events().metadata = dict(self._metadata)
        if self._earlier:
            options = {"profile_memory": made.profile_memory, "with_flops": made.with_flops}
            made.function_events = EventList([*self._earlier, *made._events()], **options)
            self._earlier = []
        if ready and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _made(self) -> profiler.profile:
        if self.profiler is None:
            raise AssertionError(
                "Profiler must be initialized before accessing events: nothing was recorded yet"
            )
        return self.profiler

    def events(self) -> EventList:
        """The events of the last cycle."""
        return self._made()._events()

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums of events that are called alike, with `EventList.table`. See `EventList.key_averages`."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for ``chrome://tracing`` and Perfetto; gzipped if the name ends in ``.gz``."""
        self.events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks for flame graphs; see `EventList.export_stacks`."""
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Raise NotImplementedError: `memory_breakdown` measures the memory of a step."""
        raise NotImplementedError(
            "profile.export_memory_timeline: use functorch_port.profiler.memory_breakdown(step)"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Have a text in the chrome trace."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Have what a JSON text says in the chrome trace."""
        self._metadata[key] = json.loads(value)


def _checked(activities: Iterable[Any] | None, use_cuda: bool | None) -> set[ProfilerActivity]:
    found = supported_activities() if activities is None else set(activities)
    if use_cuda:
        found.add(ProfilerActivity.CUDA)
    wrong = [a for a in found if not isinstance(a, ProfilerActivity)]
    if wrong:
        raise TypeError(f"profile: activities are of ProfilerActivity, not {wrong[0]!r}")
    for missing in found - supported_activities():
        warnings.warn(f"{missing.name} is not available, disabling {missing.name} profiling")
    found &= supported_activities()
    if not found:
        raise AssertionError("No valid profiler activities found")
    if ProfilerActivity.CPU not in found:
        raise NotImplementedError(
            "profile: activities must have ProfilerActivity.CPU, whose events these are; for kernels of the device "
            "alone use jax.profiler.trace(folder)"
        )
    return found


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[profile], None]:
    """An ``on_trace_ready`` that writes a folder for TensorBoard.

    It gets the events as ``WORKER.TIME.pt.trace.json``, which Perfetto opens, and XLA's own trace below
    ``plugins/profile``, which TensorBoard's profile plugin (``pip install xprof``) shows.

    Args:
        dir_name: the folder, which is made.
        worker_name: the start of the file's name; one for each process. Default: host and process.
        use_gzip: whether the events are gzipped.
        use_python_export: of no effect: there is one export.

    Raises:
        RuntimeError: the folder cannot be made.

    Reference: https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.tensorboard_trace_handler
    """
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def write(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        end = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{end}"))

    write.xla_folder = dir_name  # type: ignore[attr-defined]
    return write
