"""A process of the launcher: ``python -m functorch_port.distributed._worker OPTIONS [-m|-c] SCRIPT ...``.

``OPTIONS`` is JSON that `run` writes: a pipe that ends with the launcher, files for the error and for signs of
progress. The process connects to the others before the script begins, so a script may make tensors first.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from functorch_port import launcher
from functorch_port._base import agreement, progress
from functorch_port._base.atomic import atomic

from . import _connection
from ._group import ProcessGroup
from .constants import default_pg_timeout
from .rendezvous import rendezvous

__all__: list[str] = []


def main(options: dict[str, Any], how: str, words: list[str]) -> int:
    """Run the script as a process of a job; returns its exit status."""
    threading.Thread(target=_end_with_launcher, args=[options["pipe"]], daemon=True).start()
    if options["progress"]:
        faulthandler.register(signal.SIGUSR1)  # by which the launcher asks where the process is
        progress.watch(_Beats(options["progress"]))
    _note_errors(options["error"])
    launcher.install()
    store, rank, size = next(rendezvous("env://", timeout=default_pg_timeout))
    connection = _connection.connect(store, rank, size, default_pg_timeout)
    names = ("undefined", "xla")
    agreement.exchange_by(
        ProcessGroup(connection, [*range(size)], "launcher", names, default_pg_timeout).exchange
    )
    try:
        status = launcher.run(words[0], words[1:], how)
    except SystemExit as end:
        if end.code:
            _connection.fail(end.code if isinstance(end.code, int) else 1)
        raise
    if status:
        _connection.fail(status)
    return status


def _end_with_launcher(pipe: int) -> None:
    os.read(pipe, 1)  # nothing is ever written: it returns when the launcher is gone
    os.killpg(0, signal.SIGKILL)


def _note_errors(path: str) -> None:
    """Write an error that ends the process to a file, where the launcher reads it."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        before(kind, error, trace)
        # errors of ours that say so, and those of XLA about other processes
        follows = getattr(error, "follows", False) or any(
            sign in str(error) for sign in ("Gloo", "CoordinationService", "coordination service")
        )
        with contextlib.suppress(OSError, RuntimeError), atomic(path) as file:
            text = _connection.text_of(error.with_traceback(trace))
            file.write(json.dumps({"time": time.time(), "follows": follows, "text": text}).encode())

    sys.excepthook = hook


class _Beats:
    """Writes what the process has done last to a file, at most ten times a second."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT)
        self._next = 0.0
        self._count = 0
        self("start")

    def __call__(self, what: str) -> None:
        self._count += 1
        now = time.monotonic()
        waits = what.startswith("waiting")
        if now < self._next and not waits:
            return
        self._next = 0.0 if waits else now + 0.1
        os.pwrite(self._file, f"{what} (number {self._count})".ljust(200).encode()[:200], 0)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]))
