"""``functorch-port serve`` under a bounded load on loopback: requests a second and latency, with and without batching.

The model is an MLP of 5.8 million parameters, and a request has one row of it, as `.npz`. So many clients as the
concurrency says ask one after the other, each over a connection of its own that stays open. Both servers live all the
time and take turns; clients and server share the machine's cores.

Before that: a pass of the exported program beside the module, eager and compiled, for the MLP and a CNN.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Contestant, Effort, figure, interleave, progress, save, show_seconds, summary, table

TITLE = "serving"
CONCURRENCY = (1, 8, 64)
#: the arguments of each server
SERVERS = {
    "batches": ("--max-batch", "64", "--max-wait-ms", "2"),
    "one by one": ("--max-batch", "1"),
}
WIDTH = 784
SECONDS = 1.5


def _models() -> dict[str, tuple[Any, tuple[int, ...]]]:
    """The models, each with the shape of a row."""
    from functorch_port import nn

    mlp = [nn.Linear(WIDTH, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)]
    cnn = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    cnn += [nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)]
    return {"MLP": (nn.Sequential(*mlp).eval(), (WIDTH,)), "CNN": (nn.Sequential(*cnn).eval(), (1, 28, 28))}


def _exported(model: Any, row: tuple[int, ...]) -> Any:
    import functorch_port as torch

    shapes = ({0: torch.export.Dim("batch")},)
    return torch.export.export(model, (torch.zeros(2, *row),), dynamic_shapes=shapes)


def _passes(effort: Effort) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """Seconds of a pass of 16 rows: for JSON, and as rows of a table."""
    import functorch_port as torch

    found: dict[str, Any] = {}
    rows: list[tuple[str, ...]] = []
    for name, (model, row) in _models().items():
        x = torch.randn(16, *row)
        ways = {
            "eager": model,
            "compiled": torch.compile(model),
            "exported": _exported(model, row).module(),
        }
        contestants = {
            way: Contestant(partial(call, x), lambda out: out.jax().block_until_ready())
            for way, call in ways.items()
        }
        with torch.no_grad():
            seconds = interleave(contestants, effort)
        found[name] = {way: summary(values) for way, values in seconds.items()}
        rows.append((f"{name}, 16 rows", *map(show_seconds, seconds.values())))
    return found, rows


@contextlib.contextmanager
def _server(path: str, arguments: tuple[str, ...]) -> Iterator[int]:
    """A server, and the port on which it is ready."""
    root = str(Path(__file__).parents[1])
    settings = {**os.environ, "PYTHONPATH": root, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "functorch_port", "serve", path, "--port", "0", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=settings
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)$", process.stdout.readline().strip())
            if found is None:
                raise RuntimeError("the server did not start")
            _wait(f"http://127.0.0.1:{found[1]}/ready")
            yield int(found[1])
        finally:
            process.terminate()


def _wait(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url):
            return
        time.sleep(0.1)
    raise RuntimeError("the server is not ready after a minute")


def _request() -> bytes:
    file = io.BytesIO()
    np.savez(file, input=np.random.default_rng(0).standard_normal((1, WIDTH), np.float32))
    body = file.getvalue()
    lines = (
        "POST /predict HTTP/1.1",
        "host: x",
        "content-type: application/x-npz",
        f"content-length: {len(body)}",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _client(port: int, request: bytes, end: float, took: list[float]) -> None:
    """Ask again and again, until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while (start := time.perf_counter()) < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]
            took.append(time.perf_counter() - start)
    finally:
        writer.close()


async def _load(port: int, clients: int, seconds: float) -> list[float]:
    took: list[float] = []
    end = time.perf_counter() + seconds
    await asyncio.gather(*(_client(port, _request(), end, took) for _ in range(clients)))
    return took


def _draw(ax: Any, cases: dict[str, Any]) -> None:
    for name in SERVERS:
        ax.plot(
            CONCURRENCY,
            [cases[f"{name}, {c}"]["rate"]["median"] for c in CONCURRENCY],
            marker="o",
            label=name,
        )
    ax.set_xscale("log", base=2)
    ax.set_xticks(CONCURRENCY, [str(c) for c in CONCURRENCY])
    ax.set(
        title="an MLP of 5.8 million parameters", xlabel="clients", ylabel="requests a second", ylim=(0, None)
    )
    ax.legend()


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``serve.json`` and ``serve.png``."""
    import functorch_port as torch

    passes, lines = _passes(effort)
    table("a pass", ("", "eager", "compiled", "exported"), lines)
    rounds = max(3, effort.rounds // 3)
    took: dict[str, list[list[float]]] = {f"{name}, {c}": [] for name in SERVERS for c in CONCURRENCY}
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "mlp.pt2")
        torch.export.save(_exported(*_models()["MLP"]), path)
        ports = {name: stack.enter_context(_server(path, given)) for name, given in SERVERS.items()}
        bar = stack.enter_context(progress())
        task = bar.add_task("", total=rounds * len(took))
        for number in range(rounds):
            for c in CONCURRENCY:
                for name in [*SERVERS][:: 1 - 2 * (number % 2)]:
                    bar.update(task, description=f"{name}, {c} clients")
                    asyncio.run(_load(ports[name], c, SECONDS / 5))  # not counted
                    took[f"{name}, {c}"].append(asyncio.run(_load(ports[name], c, SECONDS)))
                    bar.advance(task)
    cases: dict[str, Any] = {}
    rows = []
    for case, turns in took.items():
        percentiles = {p: [float(np.percentile(turn, p)) for turn in turns] for p in (50, 99)}
        rates = [len(turn) / SECONDS for turn in turns]
        cases[case] = {
            "rate": summary(rates),
            "p50": summary(percentiles[50]),
            "p99": summary(percentiles[99]),
        }
        shown = [f"{1000 * cases[case][p]['median']:.2f} ms" for p in ("p50", "p99")]
        rows.append((f"{case} clients", f"{cases[case]['rate']['median']:.0f}", *shown))
    table(f"{TITLE}, {SECONDS:g} s a turn", ("", "requests/s", "p50", "p99"), rows)
    save(folder, "serve", {"cases": cases, "passes": passes})
    figure(folder, "serve", lambda ax: _draw(ax, cases), 7)
