"""Runs scripts in several processes by the launcher, each afresh: the process of the tests has its own JAX."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
#: before a script: what most need
HEAD = """
import json, os, signal, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
rank = int(os.environ.get("RANK", "0"))
"""


class Ended(NamedTuple):
    """A job that has ended."""

    status: int
    out: str
    err: str
    seconds: float

    def of(self, rank: int) -> list[str]:
        """The lines that a process printed, but for those of Gloo."""
        start = f"[rank{rank}]: "
        lines = [line.removeprefix(start) for line in self.out.splitlines() if line.startswith(start)]
        return [line for line in lines if not line.startswith("[Gloo]")]

    def values(self) -> list[Any]:
        """What each process printed last, as JSON."""
        ranks = {line[5 : line.index("]")] for line in self.out.splitlines() if line.startswith("[rank")}
        return [json.loads(self.of(rank)[-1]) for rank in range(len(ranks))]


def environment(**more: str) -> dict[str, str]:
    """That of a process for the library: a CPU, little compiled, nothing left behind by a launcher."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTEST", "TORCH", "XLA_FLAGS"))
    }
    return {**kept, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "NPROC": "32", **more}


@pytest.fixture
def port() -> Callable[[], int]:
    """Gives a port that nobody listens at."""

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("", 0))
            return probe.getsockname()[1]

    return find


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts commands, and ends what is left of them after the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(command: list[str], **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            env=environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its workers notice that, and end
        process.communicate()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Writes a script; returns its path."""

    def write(text: str, head: str = HEAD) -> str:
        path = tmp_path / f"script{len([*tmp_path.iterdir()])}.py"
        path.write_text(head + text)
        return str(path)

    return write


def _launching(*arguments: str, nproc: int = 2) -> list[str]:
    return [sys.executable, "-m", "functorch_port.distributed.run", f"--nproc={nproc}", *arguments]


@pytest.fixture
def launching() -> Callable[..., list[str]]:
    """``launching(*arguments, nproc=2)``: the command that starts the launcher."""
    return _launching


def _ended(process: subprocess.Popen[str], timeout: float = 300) -> Ended:
    start = time.monotonic()
    out, err = process.communicate(timeout=timeout)
    return Ended(process.returncode, out, err, time.monotonic() - start)


@pytest.fixture
def ended() -> Callable[..., Ended]:
    """Waits for a process."""
    return _ended


@pytest.fixture
def plain(started: Any, script: Any, port: Callable[[], int]) -> Callable[..., list[Ended]]:
    """``plain(text)`` runs a script without the launcher, with arguments: a URL to meet at, and the rank."""

    def run(
        text: str, ranks: Sequence[int] = (0, 1), variables: Sequence[dict[str, str]] = ()
    ) -> list[Ended]:
        command = [sys.executable, "-m", "functorch_port", "run", script(text), f"tcp://localhost:{port()}"]
        more = variables or [{}] * len(ranks)
        processes = [started([*command, str(rank)], **own) for rank, own in zip(ranks, more, strict=True)]
        return [_ended(process) for process in processes]

    return run


@pytest.fixture
def job(started: Any, script: Any) -> Callable[..., Ended]:
    """``job(text)`` runs a script in two processes to the end; ``options`` are the launcher's."""

    def run(
        text: str,
        *arguments: str,
        options: tuple[str, ...] = (),
        nproc: int = 2,
        status: int = 0,
        **more: str,
    ) -> Ended:
        found = _ended(started(_launching(*options, script(text), *arguments, nproc=nproc), **more))
        assert found.status == status, f"{found.out}\n{found.err}"
        return found

    return run
