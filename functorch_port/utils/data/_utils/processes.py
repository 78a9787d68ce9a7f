"""Worker processes, forked by a server that has imported this package and has not started JAX.

A process that runs JAX must not fork, and a fresh one takes a second to import what it needs. So the first loader with
workers starts a server, a fresh process that only imports: this package, and the modules that the workers' datasets are
from. It forks a worker in milliseconds, whenever it is asked. It ends with the process that has started it, and so do
the workers.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import os
import pickle
import re
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._base import settings
from functorch_port._run.fork import only_fork
from functorch_port.utils.data._utils import collate
from functorch_port.utils.data._utils.channel import Channel, exactly
from functorch_port.utils.data._utils.worker import (
    Surroundings,
    compute_in_numpy,
    flush,
    get_worker_info,
    leave,
    work,
)

__all__ = ["Process", "prepare", "serve", "start"]

#: what the server tells: a worker's process number, and how it has ended, or -1 when it has started; or 0, and how many
#: modules it has imported
_TOLD = struct.Struct("<qq")
_STARTED = -1
#: what it is asked for: the number of the worker to start, or -1 and the bytes of modules' names that follow
_ASKED = struct.Struct("<qq")
_IMPORT = -1
_DEVICES = re.compile(r"--xla_force_host_platform_device_count=\d+")


class Process:
    """A worker process, with the methods of one of `multiprocessing`.

    Attributes:
        pid: its number.
        channel: leads to it; to close it ends the process.
    """

    _ended_with: int | None = None

    def __init__(self, server: _Server, pid: int, channel: Channel) -> None:
        self._server, self.pid, self.channel = server, pid, channel

    def _status(self, timeout: float | None = None) -> int | None:
        """How it has ended; None if it has not within ``timeout`` seconds (None: wait), or nobody knows."""
        if self._ended_with is None:
            self._ended_with = self._server.status(self.pid, timeout)
        return self._ended_with

    def join(self, timeout: float | None = None) -> None:
        """Wait until it ends, for so many seconds at most."""
        self._status(timeout)

    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self.exitcode is None and self._server.is_running()

    @property
    def exitcode(self) -> int | None:
        """Its exit status, or the negative number of the signal that ended it; None as long as it runs."""
        status = self._status(0)
        return None if status is None else os.waitstatus_to_exitcode(status)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it (SIGKILL)."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def error(self) -> RuntimeError:
        """Of a process that has ended: how, in PyTorch's words."""
        status = self._status()
        if status is not None and os.WIFSIGNALED(status):
            name = signal.strsignal(os.WTERMSIG(status))
            return RuntimeError(f"DataLoader worker (pid {self.pid}) is killed by signal: {name}. ")
        error = RuntimeError(f"DataLoader worker (pid(s) {self.pid}) exited unexpectedly")
        if status is not None:
            error.__cause__ = RuntimeError(
                f"DataLoader worker (pid {self.pid}) exited unexpectedly with exit code "
                f"{os.waitstatus_to_exitcode(status)}. Details are lost due to multiprocessing. Rerunning with "
                "num_workers=0 may give better error trace."
            )
        return error


def start(count: int, modules: Iterable[str] = ()) -> list[Process]:
    """Start workers, which wait for their `Job`.

    Args:
        count: how many.
        modules: what they will import.

    Raises:
        RuntimeError: the server has ended.
    """
    server, workers = _server(modules), list[Process]()
    try:
        for number in range(count):
            workers.append(server.start(number))
    except BaseException:
        for worker in workers:
            worker.channel.close()
        raise
    return workers


class _Server:
    """The process that forks workers, as its parent sees it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._ended: dict[int, int] = {}
        #: modules that were imported, their files and when these were changed
        self._files: dict[str, Any] = {}
        self.socket, end = _pair()
        code = f"import sys; sys.path[:] = {Surroundings().path!r}; from {__name__} import serve; serve({end.fileno()})"
        with end:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=None if sys.__stdout__ else subprocess.DEVNULL,
                stderr=None if sys.__stderr__ else subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the loader's process, which ends the others
            )
        atexit.register(self.close)

    def is_there(self) -> bool:
        """Whether it runs, is this process's, and has what is in the files of its modules now."""
        if self.owner != os.getpid() or self.process.poll() is not None:
            return False
        return all(_file_of(name) == file for name, file in self._files.items())

    def load(self, modules: Iterable[str]) -> str | None:
        """Have it import modules. Returns the name of one that it must not import, after which it is of no use."""
        names = [name for name in modules if name not in self._files]
        if not names:
            return None
        self._files.update({name: _file_of(name) for name in names})
        data = pickle.dumps((Surroundings(), names))
        with self._lock:
            self.socket.sendall(_ASKED.pack(_IMPORT, len(data)) + data)
            done = self._answer(lambda told: told[0] == 0)[1]
        return names[done] if done < len(names) else None

    def start(self, number: int) -> Process:
        """Have it fork a worker."""
        own, end = _pair()
        with self._lock, end:
            try:
                socket.send_fds(self.socket, [_ASKED.pack(number, 0)], [end.fileno()])
                pid = self._answer(lambda told: told[1] == _STARTED)[0]
                self._ended.pop(pid, None)  # an earlier process of this number
            except (OSError, EOFError):
                own.close()
                raise RuntimeError(
                    "DataLoader: the process that starts workers has ended; what it printed says why. Use "
                    "num_workers=0 to load in this process"
                ) from None
        channel = Channel(own)
        channel.send(Surroundings())
        return Process(self, pid, channel)

    def is_running(self) -> bool:
        return self.process.poll() is None

    def status(self, pid: int, timeout: float | None = None) -> int | None:
        """How a worker has ended, which is waited for; None if it has not after ``timeout`` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        told = select.poll()
        with self._lock:
            try:
                told.register(self.socket, select.POLLIN)
                while pid not in self._ended:
                    left = None if end is None else 1e3 * max(0.0, end - time.monotonic())
                    if not told.poll(left):
                        return None
                    self._answer(lambda told: True)
            except (OSError, EOFError, ValueError):  # the server has ended
                return None
            return self._ended.pop(pid)

    def _answer(self, is_it: Callable[[tuple[int, int]], bool]) -> tuple[int, int]:
        """What it tells next of this kind."""
        while True:
            told = _TOLD.unpack(exactly(self.socket, _TOLD.size))
            if told[0] and told[1] != _STARTED:
                self._ended[told[0]] = told[1]
            if is_it(told):
                return told

    def close(self) -> None:
        """End it."""
        if self.owner != os.getpid():
            return
        with contextlib.suppress(OSError):  # it has ended
            self.socket.shutdown(socket.SHUT_RDWR)  # also of forked processes that have this end
        self.socket.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _environment() -> dict[str, str]:
    """The server's: workers compute on the CPU, whatever the process has."""
    flags = _DEVICES.sub("", os.environ.get("XLA_FLAGS", ""))
    own = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1", "XLA_FLAGS": flags}
    return settings.environment(BACKEND="auto", TIER="numpy") | own


def _pair() -> list[socket.socket]:
    """Two connected sockets, apart from the standard streams, of which a program may have closed some."""
    return [_apart_from_streams(end) for end in socket.socketpair()]


def _apart_from_streams(end: socket.socket) -> socket.socket:
    if end.fileno() > 2:
        return end
    with end:
        return socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3))


def _file_of(name: str) -> Any:
    """The file of a module, and when it was changed."""
    file = getattr(sys.modules.get(name), "__file__", None)
    try:
        return file, os.stat(file).st_mtime_ns if file else 0
    except OSError:
        return file, 0


_current: _Server | None = None
#: whether this process, or the one that it was forked from, is such a server
_serves = False
_making = threading.Lock()
#: modules that start JAX, or fail, when they are imported; so each worker does it
_apart: set[str] = set()


def prepare() -> None:
    """Start the server, if there is none, and do not wait for it."""
    if not _imports():
        _server(())


def _imports() -> bool:
    """Whether this process imports what workers need, and is no worker yet."""
    return _serves and get_worker_info() is None


def _server(modules: Iterable[str]) -> _Server:
    """The server, with these modules as far as they may be imported there."""
    global _current
    if _imports():
        raise RuntimeError(
            "a module with a part of a DataLoader, such as its dataset, iterates over one with workers when it is "
            'imported. Each worker would do that again: put it under `if __name__ == "__main__":`'
        )
    with _making:
        while True:
            if _current is not None and not _current.is_there():
                _current.close()
                _current = None
            if _current is None:
                _current = _Server()
            try:
                refused = _current.load([name for name in modules if name not in _apart])
            except (OSError, EOFError):
                return _current  # `start` says what has happened
            if refused is None:
                return _current
            _apart.add(refused)
            _current.close()
            _current = None


# ------------------------------------------------------------------ in the server


def serve(descriptor: int) -> None:
    """Fork workers for the process at the other end until it ends."""
    global _serves
    _serves = True
    parent = socket.socket(fileno=descriptor)
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compute_in_numpy()
    only_fork()
    _rehearse()
    with selectors.DefaultSelector() as selector:
        selector.register(parent, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(4096)
                    _bury(parent)
                elif not _asked(parent, (woken, wakes, selector)):
                    leave(0)


def _rehearse() -> None:
    """Do what workers often do, so that they need not trace it first."""
    image = torch.from_numpy(np.zeros((2, 2, 3), np.uint8)).permute(2, 0, 1).contiguous().float().div(255)
    channels = torch.tensor([0.5, 0.5, 0.5]).view(-1, 1, 1)
    image = ((image - channels) / channels).flip(-1)[:, :1] * torch.rand(()) + torch.randint(3, ())
    collate.default_collate([(image, 0, 0.5), (image, 1, 1.5)])


def _bury(parent: socket.socket) -> None:
    """Tell of all workers that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell(parent, pid, status)


def _tell(parent: socket.socket, *told: int) -> None:
    try:
        parent.sendall(_TOLD.pack(*told))
    except OSError:  # it has ended
        leave(0)


def _asked(parent: socket.socket, own: tuple[Any, ...]) -> bool:
    """Fork the worker that is asked for; False if the parent has ended."""
    try:
        asked, files, _, _ = socket.recv_fds(parent, _ASKED.size, 1)
    except OSError:
        return False
    if not asked:
        return False
    number, length = _ASKED.unpack(asked)
    if number == _IMPORT:
        _tell(parent, 0, _imported(*pickle.loads(exactly(parent, length))))
        return True
    flush()
    pid = os.fork()
    if not pid:
        _work(files[0], number, (parent, *own))
    os.close(files[0])
    _tell(parent, pid, _STARTED)
    return True


def _imported(surroundings: Surroundings, names: list[str]) -> int:
    """Import modules; returns how many could be. One that starts JAX cannot."""
    surroundings.enter()
    for done, name in enumerate(names):
        try:
            importlib.import_module(name)
        except BaseException:
            return done
    return len(names)


def _work(descriptor: int, number: int, others: tuple[Any, ...]) -> None:
    """Be a worker."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for other in others:
            other.close()
        work(Channel(socket.socket(fileno=descriptor)), number)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):  # the loader has ended
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        leave(code)
