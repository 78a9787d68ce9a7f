"""The server's process: a socket, signals, and the end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from typing import Any

import uvicorn

from ..export import load
from ._app import Limits, Service
from ._model import Model

__all__ = ["run"]

log = logging.getLogger("functorch_port.serve")

#: seconds in which connections that were open at the signal may still ask
GRACE = 0.25


class _Server(uvicorn.Server):
    """A server that at a signal listens no more, answers what it was asked, and ends with status 0."""

    def __init__(self, config: uvicorn.Config, service: Service, listening: socket.socket) -> None:
        super().__init__(config)
        self.service, self.listening, self.status = service, listening, 0
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        if self.service.state == "stopping" or self.loop is None:
            super().handle_exit(sig, frame)
            return
        self.service.state = "stopping"
        self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        log.info("stopping; requests that are left: %d", self.service.open)
        assert self.loop is not None
        self.listening.listen(0)  # what has connected is accepted, and hardly anything comes after it
        self.loop.call_later(GRACE / 5, self._listen_no_more)
        self.loop.call_later(GRACE, self._end)

    def _listen_no_more(self) -> None:
        for server in self.servers:
            server.close()

    def _end(self) -> None:
        self.should_exit = True

    def fail(self, error: Exception) -> None:
        self.status, self.should_exit = 1, True


def run(path: str, host: str, port: int, max_batch: int, limits: Limits) -> int:
    """Serve a file until a signal; returns the exit status.

    Raises:
        OSError: the file cannot be read, or the port is taken.
        RuntimeError: the file is no exported program.
        ValueError: the program cannot be served.
    """
    model = Model(load(path), max_batch)
    logging.basicConfig(format="functorch-port serve: %(message)s", stream=sys.stderr, level=logging.WARNING)
    log.setLevel(logging.INFO)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
        listening.listen(2048)
        service = Service(model, limits, path, failed=lambda error: server.fail(error))
        config = uvicorn.Config(
            service.app,
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            backlog=2048,
            timeout_graceful_shutdown=int(limits.timeout) + 5,
        )
        server = _Server(config, service, listening)
        shown = f"[{host}]" if ":" in host else host
        print(f"functorch-port serve: {path} on http://{shown}:{listening.getsockname()[1]}", flush=True)
        before = {sig: signal.getsignal(sig) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            server.run(sockets=[listening])
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
    log.info("stopped; answers given: %d", service.given)
    return server.status
