"""`spawn`: a function in several processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn",
    "start_processes",
]  # fmt: skip

#: seconds between SIGTERM and SIGKILL for those that are left when one has failed
_GRACE = 30.0


class ProcessException(Exception):
    """A process has failed.

    Attributes:
        msg: what happened.
        error_index, pid: which process.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised an exception in a process."""


class ProcessExitedException(ProcessException):
    """A process has ended with an exit code, or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], args: Sequence[Any], index: int, errors: str) -> None:
    """What a process does."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has it, too
    except Exception:
        with open(errors, "w") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that run a function; made by `start_processes`."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.processes, self.error_files = list(processes), list(error_files)
        self.sentinels = {process.sentinel: k for k, process in enumerate(self.processes)}

    def pids(self) -> list[int]:
        """Their numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the next to end. One that fails has all others ended, and an exception is raised.

        Args:
            timeout: seconds to wait at most.
            grace_period: seconds between SIGTERM and SIGKILL for the others; 30 unless given.

        Returns:
            whether all have ended.

        Raises:
            ProcessRaisedException: the function raised an exception.
            ProcessExitedException: a process has ended with another exit code than 0.
        """
        if not self.sentinels:
            return True
        ended = [self.sentinels.pop(one) for one in connection.wait(list(self.sentinels), timeout)]  # type: ignore[call-overload]
        for k in ended:
            self.processes[k].join()
        failed = next((k for k in ended if self.processes[k].exitcode), None)
        if failed is None:
            if not self.sentinels:
                _remove(self.error_files)
            return not self.sentinels
        _end(self.processes, _GRACE if grace_period is None else grace_period)
        error = self._error(failed)
        _remove(self.error_files)
        raise error

    def _error(self, k: int) -> ProcessException:
        process = self.processes[k]
        if os.path.exists(self.error_files[k]) and os.path.getsize(self.error_files[k]):
            with open(self.error_files[k]) as file:
                text = f"\n\n-- Process {k} terminated with the following error:\n{file.read()}"
            return ProcessRaisedException(text, k, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            return ProcessExitedException(
                f"process {k} terminated with signal {name}", k, process.pid, code, name
            )
        return ProcessExitedException(f"process {k} terminated with exit code {code}", k, process.pid, code)


def _end(processes: Sequence[Any], grace: float) -> None:
    """End those that still run; JAX may take SIGTERM for a notice only."""
    for process in processes:
        if process.is_alive():
            process.terminate()
    until = time.monotonic() + grace
    for process in processes:
        process.join(max(until - time.monotonic(), 0.0))
        if process.is_alive():
            process.kill()
            process.join()


def _remove(files: Sequence[str]) -> None:
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class SpawnContext(ProcessContext):
    """Processes that `spawn` has started."""


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """As `spawn`.

    Args:
        start_method: "spawn"; "forkserver" and "fork" are refused, as a process with JAX cannot be forked safely.

    Raises:
        NotImplementedError: for another ``start_method``.
    """
    if start_method != "spawn":
        raise NotImplementedError(
            f"start_processes(start_method={start_method!r}) is not supported, as JAX has threads: use 'spawn'"
        )
    context = multiprocessing.get_context("spawn")
    processes: list[Any] = []
    errors: list[str] = []
    try:
        for k in range(nprocs):
            handle, path = tempfile.mkstemp(prefix="functorch_port_errors_")
            os.close(handle)
            errors.append(path)
            process = context.Process(target=_run, args=(fn, tuple(args), k, path), daemon=daemon)
            process.start()
            processes.append(process)
    except BaseException:  # what cannot be pickled, or Ctrl-C
        _end(processes, _GRACE)
        _remove(errors)
        raise
    made = SpawnContext(processes, errors)
    if not join:
        return made
    try:
        while not made.join():
            pass
    finally:
        _end(processes, _GRACE)
        _remove(errors)
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in ``nprocs`` processes, each with a number ``i``.

    Args:
        fn: a function that can be pickled, at the top of a module or script.
        args: its other arguments.
        nprocs: the number of processes.
        join: wait for all. Without it, a `ProcessContext` is returned.
        daemon: whether they end with this process.
        start_method: "spawn".

    Raises:
        ProcessRaisedException: the function raised an exception in one; the others are ended then.
        ProcessExitedException: one has ended with another exit code than 0.

    Reference: https://docs.pytorch.org/docs/stable/multiprocessing.html#torch.multiprocessing.spawn.spawn
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
