"""PyTorch's stores: `TCPStore`, `FileStore`, `HashStore`, `PrefixStore`. JAX's own table of keys is not public."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import socketserver
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from . import _wire
from ._table import Late, Lost, Table

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore", "PrefixStore",
    "Store", "TCPStore",
]  # fmt: skip


class DistError(RuntimeError):
    """An error of `functorch_port.distributed`."""


class DistBackendError(DistError):
    """A collective failed."""


class DistStoreError(DistError):
    """A store did not answer in time."""


class DistNetworkError(DistError):
    """A store is not there."""


class Store:
    """Byte strings by name that processes share.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store
    """

    def __init__(self) -> None:
        self._timeout = timedelta(seconds=300)

    def _call(self, method: str, *arguments: Any) -> Any:
        """A method of the `Table`, wherever that is."""
        raise NotImplementedError

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait."""
        self._timeout = timeout

    def _waiting(self, method: str, keys: Sequence[str], what: Any, timeout: timedelta | None = None) -> Any:
        seconds = (timeout or self.timeout).total_seconds()
        try:
            return self._call(method, what, seconds)
        except Late:
            raise DistStoreError(
                f"wait timeout after {round(seconds * 1000)}ms, keys: {', '.join(f'/{key}' for key in keys)}"
            ) from None

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value of a key."""
        self._call("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, once there is one."""
        return self._waiting("get", [key], key)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set."""
        self._waiting("wait", keys, list(keys), timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are set."""
        return self._call("check", list(keys))

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key holds (0 at first); returns the sum."""
        return self._call("add", key, amount)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a key if it holds ``expected_value``; returns what it holds then."""
        return self._call("compare_set", key, _bytes(expected_value), _bytes(desired_value))

    def delete_key(self, key: str) -> bool:
        """Delete a key; returns whether it was there."""
        return self._call("delete", key)

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value of a key."""
        self._call("append", key, _bytes(value))

    def num_keys(self) -> int:
        """The number of keys."""
        return self._call("count")

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether there are `append`, `multi_get` and `multi_set`."""
        return True


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class HashStore(Store):
    """A store for the threads of one process."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._table.call(method, list(arguments))


class PrefixStore(Store):
    """A store whose keys are those of another one that begin with a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The other store."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def _call(self, method: str, *arguments: Any) -> Any:
        if not arguments:
            return self._store._call(method)
        keys, *rest = arguments
        mine = [self._own(key) for key in keys] if isinstance(keys, list) else self._own(keys)
        return self._store._call(method, mine, *rest)

    def _own(self, key: str) -> str:
        return f"{self._prefix}/{key}"


class TCPStore(Store):
    """A store that one process, the master, serves at a port; the others are its clients.

    It trusts whoever reaches the port, as PyTorch's does.

    Raises:
        DistNetworkError: the port is taken, or nobody listens there in time.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if master_listen_fd is not None:
            raise NotImplementedError("TCPStore: master_listen_fd is not supported; pass a port")
        self._timeout, self._host, self._world_size = timeout, host_name, world_size
        self._server = _Server(port) if is_master else None
        self._port = port if self._server is None else self._server.server_address[1]
        self._of_thread = threading.local()
        self._open: set[socket.socket] = set()
        self._lifeline: socket.socket | None = None
        self.check([])  # connects
        if world_size is not None and wait_for_workers:
            self.add("worker_count", 1)
            self._call("exchange", "worker_count_reached", self.add("worker_position", 1) - 1,
                       [""] * world_size, b"", timeout.total_seconds())  # fmt: skip

    @property
    def host(self) -> str:
        """The master's host."""
        return self._host

    @property
    def port(self) -> int:
        """The master's port."""
        return self._port

    def _connected(self) -> socket.socket:
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = self._dial()
            weakref.finalize(threading.current_thread(), self._hang_up, connection).atexit = False
        return connection

    def _hang_up(self, connection: socket.socket) -> None:
        self._open.discard(connection)
        connection.close()

    def _dial(self) -> socket.socket:
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                host = "127.0.0.1" if self._server is not None else self._host
                connection = socket.create_connection((host, self._port), timeout=5)
            except OSError as error:
                if time.monotonic() > end:
                    raise DistNetworkError(
                        "The client socket has timed out after "
                        f"{round(self._timeout.total_seconds() * 1000)}ms while trying to connect to "
                        f"({self._host}, {self._port}): {error}. Is the process of rank 0 running, and does its port "
                        "let this machine in?"
                    ) from error
                time.sleep(0.05)
                continue
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._open.add(connection)
            return connection

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._ask(self._connected(), method, arguments)

    def _ask(self, connection: socket.socket, method: str, arguments: Sequence[Any]) -> Any:
        try:
            _wire.send(connection, *_packed([method, *arguments]))
            status, answer = _unpacked(_wire.receive(connection))
        except OSError as error:
            self._of_thread.connection = None
            raise DistNetworkError(
                f"the store at ({self._host}, {self._port}) is gone ({error}): the process that serves it, rank 0 or "
                "the launcher, has ended. Look at its output for the first error"
            ) from error
        if status == "late":
            raise Late(answer)
        if status == "lost":
            raise Lost(*answer)
        if status == "error":
            raise ValueError(answer)
        return answer

    def _hello(self, name: str) -> None:
        """Tell the store who this process is: it notices when the process ends."""
        self._lifeline = self._dial()
        self._ask(self._lifeline, "hello", [name])

    def _goodbye(self, name: str) -> None:
        """Tell the store that the process ends as it should."""
        with contextlib.suppress(OSError, DistError):
            self._call("end", name, "has ended")

    def _close(self) -> None:
        for connection in [*self._open]:
            connection.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _packed(values: Sequence[Any]) -> list[bytes]:
    """JSON, and the byte strings that it refers to."""
    blobs: list[bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            blobs.append(value)
            return {"blob": len(blobs)}
        return [plain(v) for v in value] if isinstance(value, list | tuple) else value

    text = json.dumps(plain(values)).encode()
    return [text, *blobs]


def _unpacked(parts: list[bytes]) -> Any:
    def full(value: Any) -> Any:
        if isinstance(value, dict):
            return parts[value["blob"]]
        return [full(v) for v in value] if isinstance(value, list) else value

    return full(json.loads(parts[0]))


class _Server(socketserver.ThreadingTCPServer):
    """Answers the clients of a `TCPStore`, each in a thread."""

    daemon_threads = allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, port: int) -> None:
        self.table = Table()
        try:
            super().__init__(("", port), _Client)
        except OSError as error:
            raise DistNetworkError(
                f"The server socket has failed to listen on any local network address. port: {port}, {error}. Another "
                "job may use the port: pass another one, or 0 for a free one"
            ) from error
        threading.Thread(target=self.serve_forever, args=[0.1], daemon=True, name="TCPStore").start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that broke off is no error of the server."""


class _Client(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        table, name = self.server.table, None
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                method, *arguments = _unpacked(_wire.receive(self.request))
                if method == "hello":
                    (name,) = arguments
                    answer: Any = ("ok", None)
                else:
                    answer = _answer(table, method, arguments)
                _wire.send(self.request, *_packed(answer))
        except OSError:
            pass
        finally:
            if name is not None:
                table.end(name, "broke off: it crashed, was killed, or its machine cannot be reached")


def _answer(table: Table, method: str, arguments: list[Any]) -> tuple[str, Any]:
    try:
        return "ok", table.call(method, arguments)
    except Late as late:
        return "late", late.who
    except Lost as lost:
        return "lost", [lost.who, lost.how]
    except (TypeError, ValueError) as error:
        return "error", f"{type(error).__name__}: {error}"


class FileStore(Store):
    """A store in a file that all processes see. A new job needs a new file."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = file_name

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def _call(self, method: str, *arguments: Any) -> Any:
        if method in ("get", "wait"):
            *arguments, seconds = arguments  # type: ignore[assignment]
            end = time.monotonic() + seconds
            while True:
                try:
                    return self._once(method, [*arguments, 0.0])
                except Late:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
        return self._once(method, list(arguments))

    def _once(self, method: str, arguments: list[Any]) -> Any:
        with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            table = Table()
            text = file.read()
            if text:
                table._values = {key: value.encode("latin1") for key, value in json.loads(text).items()}
            before = dict(table._values)
            answer = table.call(method, arguments)
            if table._values != before:
                file.seek(0)
                file.truncate()
                file.write(json.dumps({k: v.decode("latin1") for k, v in table._values.items()}).encode())
            return answer
