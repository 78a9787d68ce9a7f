"""A plan in a process of its own, which can be ended: the compiler of a pod may take minutes, and much memory.

`run` starts a Python process with the environment that the TPU compiler needs, tells it what to plan, and waits no
longer than it may. The process (`building.main`) reads the question from its standard input, and writes what it does
and what it has found, as lines of JSON, to a pipe.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from .topology import SETTINGS, virtual_devices

__all__ = ["OPTIONS", "Failed", "Question", "run", "takes"]

#: what a function of a script can be given by name
OPTIONS = ("mesh", "batch", "length", "dtype", "remat", "microbatches")


class Question(NamedTuple):
    """What is to be planned.

    Attributes:
        script: a file, and the name of a function in it: ``train.py:build``.
        topology: the devices.
        options: what the function is given, those of `OPTIONS` as text.
        tokens: of a step, for rates; None: those of the first argument.
        price: of a chip for an hour.
        asks: "plan", or "takes": which options the function asks for, and whether those given can be used.
    """

    script: str
    topology: str
    options: dict[str, str]
    tokens: int | None = None
    price: float | None = None
    asks: str = "plan"


class Failed(Exception):
    """There is no plan; the text says why."""


def takes(question: Question, tell: Callable[[str], None], seconds: float | None = None) -> dict[str, str]:
    """The options that the function asks for, with their defaults as text ("none" without one); see `run`."""
    return dict(json.loads(run(question._replace(asks="takes"), tell, seconds)))


def run(question: Question, tell: Callable[[str], None], seconds: float | None = None) -> str:
    """The `Plan` of a step, as JSON.

    Args:
        question: what is planned.
        tell: is called with the name of each phase when it begins, and now and then with "".
        seconds: the process ends after so many; None: it may take as long as it takes.

    Raises:
        Failed: there is no plan.
        KeyboardInterrupt: the process has ended, too.
    """
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", f"from functorch_port._plan.building import main; main({write})"],
        stdin=subprocess.PIPE, stdout=2, pass_fds=(write,), env=_environment(question),
        start_new_session=True, text=True,
    )  # fmt: skip
    os.close(write)
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()  # it stays open: its end tells the process that nobody waits any more
        return _answer(read, tell, None if seconds is None else time.monotonic() + seconds, seconds)
    finally:
        os.close(read)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()  # type: ignore[union-attr]


def _environment(question: Question) -> dict[str, str]:
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    found = {
        **SETTINGS,
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": path,
        "FUNCTORCH_PORT_BACKEND": "jax",
    }
    count = virtual_devices(question.topology)
    if count:
        flags = (found.get("XLA_FLAGS", ""), f"--xla_force_host_platform_device_count={count}")
        found["XLA_FLAGS"] = " ".join(filter(None, flags))
    return found


def _answer(read: int, tell: Callable[[str], None], until: float | None, limit: float | None) -> str:
    """What the process says in the end."""
    text, phase = b"", "starting"
    while True:
        tell("")
        if until is not None and time.monotonic() > until:
            raise Failed(
                f"out of time: after {limit:g} s it was still {phase}. --time-limit SECONDS gives more (0: no limit). "
                "What takes less: fewer layers (their memory grows evenly), torch.nn.ScanStack for a stack of equal "
                "layers, which is compiled once, or a smaller topology"
            )
        if not select.select([read], [], [], 0.1)[0]:
            continue
        more = os.read(read, 1 << 16)
        if not more:
            raise Failed(f"the process that plans has ended while it was {phase}; what it wrote is above")
        *lines, text = (text + more).split(b"\n")
        for line in lines:
            kind, said = json.loads(line)
            if kind == "plan":
                return str(said)
            if kind == "failed":
                raise Failed(said)
            phase = said
            tell(said)
