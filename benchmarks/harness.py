"""How the benchmarks measure and report: interleaved timing, paired ratios, JSON, plots, tables."""

from __future__ import annotations

import compileall
import functools
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

console = Console()
if not console.is_terminal:  # a log file: no reason to squeeze the tables
    console = Console(width=140)

#: One colour per contestant, the same in every plot.
COLOURS = {
    "torch eager": "#e45756",
    "torch.compile": "#f2a29b",
    "eager": "#4c78a8",
    "compiled": "#1b3f6b",
    "compiled, zero_grad last": "#5f86b3",
    "hand-written JAX": "#8a8a8a",
    "Flax NNX": "#bdbdbd",
    "jnp": "#8a8a8a",
}


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        rounds: how often every contestant gets its turn; spreads come from these.
        block: seconds of one turn.
        starts: fresh processes per case of the start-up benchmark.
        torch_compile: include torch.compile, which takes half a minute to compile and needs a C++ compiler.
        models: parts of names, to measure some models, operations or cases of optimizers.
    """

    rounds: int = 15
    block: float = 0.15
    starts: int = 3
    torch_compile: bool = True
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contestant:
    """Something to time: ``call()`` does the work once, ``wait(result)`` waits for it to be done."""

    call: Callable[[], Any]
    wait: Callable[[Any], Any] = lambda result: None


def limit_threads(threads: int) -> None:
    """Give PyTorch and XLA the same number of threads. Must run before either of them starts its pool.

    XLA sizes its pool by the cores that the process may run on, so the process is confined to that many.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import torch

    torch.set_num_threads(threads)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warn_if_busy() -> None:
    """Say so if other programs keep the machine from being measured."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > cores() / 2:
        console.print(
            f"[yellow]Other programs are running (load {load:.1f} on {cores()} cores): medians will be too high, and "
            "PyTorch's most of all, as its threads wait for each other. Look at the best rounds.[/yellow]"
        )


def progress() -> Progress:
    """A bar with a description, a count and the time."""
    columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


# --------------------------------------------------------------------- timing


def _block(contestant: Contestant, count: int) -> float:
    """Seconds per call, over ``count`` calls and one wait."""
    start = time.perf_counter()
    for _ in range(count):
        result = contestant.call()
    contestant.wait(result)
    return (time.perf_counter() - start) / count


def _settle(contestant: Contestant, block: float) -> int:
    """Warm up; returns how many calls fill a block."""
    for _ in range(3):
        _block(contestant, 1)
    took = min(_block(contestant, 2) for _ in range(2))
    return max(1, min(round(block / took), 20_000))


def _compile_what_comes_often(contestants: Mapping[str, Contestant]) -> None:
    """Have ours compile now what it compiles after many calls: these figures are for what runs for long."""
    if "functorch_port" not in sys.modules:
        return
    from functorch_port._base.tuning import tuning

    with tuning.having(compilation_time=0.0, compilation_each=0.0, parts_after=2, background=False):
        for contestant in contestants.values():
            for _ in range(4):
                contestant.wait(contestant.call())


def interleave(
    contestants: Mapping[str, Contestant], effort: Effort, tick: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Seconds per call of every contestant, one figure per round.

    In a round each contestant has one turn, so that whatever else the machine does hits all of them
    alike. The order rotates, and a turn starts with a few calls that are not counted: they find the
    caches cold and the other library's threads still spinning.
    """
    _compile_what_comes_often(contestants)
    counts = {name: _settle(c, effort.block) for name, c in contestants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(effort.rounds):
        for name in order:
            _block(contestants[name], max(1, counts[name] // 5))
            gc.collect()
            seconds[name].append(_block(contestants[name], counts[name]))
        order.append(order.pop(0))
        tick()
    return seconds


def ratios(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """``a / b``, round by round."""
    return [x / y for x, y in zip(a, b, strict=True)]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) < 2:
        return (values[0],) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def summary(values: Sequence[float]) -> dict[str, float]:
    """The spread by name, for JSON."""
    low, middle, high = spread(values)
    return {"median": middle, "quartile_low": low, "quartile_high": high, "best": min(values)}


@functools.cache
def make_bytecode() -> None:
    """Have the package's bytecode there, as after an installation."""
    compileall.compile_dir(Path(__file__).parents[1] / "functorch_port", quiet=1)


def fresh_process(script: str, *arguments: str, limit: float | None = None, **variables: str) -> Any:
    """What ``python SCRIPT ARGUMENTS`` prints as JSON in its last line, in a process without cached programs unless
    the environment ``variables`` say otherwise. Beyond ``limit`` seconds it is ended, and `subprocess.TimeoutExpired`
    raised. The package's bytecode is there, as it is when it was installed.
    """
    make_bytecode()
    command = [sys.executable, script, *arguments]
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "FUNCTORCH_PORT_CACHE": "0", **variables}
    root = str(Path(__file__).parents[1])
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, [root, settings.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=limit)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def memory(field: str) -> int:
    """A figure of this process in bytes: ``VmRSS``, or ``VmHWM`` for its peak (Linux; else 0)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":")), 0)


# -------------------------------------------------------------------- reports


def show_seconds(values: Sequence[float]) -> str:
    """Median and half the distance of the quartiles, in a readable unit."""
    low, middle, high = spread(values)
    unit, factor = ("s", 1) if middle >= 1 else ("ms", 1e3) if middle >= 1e-3 else ("µs", 1e6)
    return f"{middle * factor:.3g} {unit} ±{(high - low) / 2 * factor:.2g}"


def show_best(values: Sequence[float]) -> str:
    """The fastest round, which a busy machine has disturbed least."""
    return show_seconds([min(values)]).split(" ±")[0]


def show_ratio(values: Sequence[float], bar: float | None = None) -> str:
    """Median and quartiles; green or red where there is a bar to pass."""
    low, middle, high = spread(values)
    text = f"{middle:.2f} \\[{low:.2f}-{high:.2f}]"
    if bar is None:
        return text
    colour = "green" if middle <= bar else "red"
    return f"[{colour}]{text} (bar {bar:g})[/{colour}]"


def table(title: str, columns: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are figures."""
    grid = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        grid.add_column(column, justify="right" if i else "left", no_wrap=True, min_width=0 if i else 14)
    for row in rows:
        grid.add_row(*row)
    console.print(grid)


class Figure(Protocol):
    """What a table shows besides text."""

    def coloured(self) -> str:
        """For the terminal."""

    def markdown(self) -> str:
        """For a page."""


class Sheet(NamedTuple):
    """A table, with the plot that belongs to it, if there is one."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Figure]]
    plot: str = ""

    def show(self) -> None:
        """Print it."""
        rows = [[c if isinstance(c, str) else c.coloured() for c in row] for row in self.rows]
        table(self.title, self.columns, rows)

    def markdown(self) -> str:
        """For a page."""
        rows = [[c if isinstance(c, str) else c.markdown() for c in row] for row in self.rows]
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, ["---"] * len(self.columns), *rows)]
        picture = f"![]({self.plot}.png)\n\n" if self.plot else ""
        return "\n".join([f"## {self.title}\n\n{picture}{lines[0]}", *lines[1:], ""])


def environment() -> dict[str, Any]:
    """What the figures were measured on."""
    import torch

    packages = ("jax", "jaxlib", "optax", "torch", "numpy", "llvmlite", "onednn-cpu-gomp")
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores used": cores(),
        "torch threads": torch.get_num_threads(),
        "load before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        **{name: version(name) for name in packages if find_spec(name)},
    }


def origin(*packages: str) -> str:
    """Where the figures of a page of `make speed` come from: the machine, the versions of PyTorch, JAX and others."""
    found = environment()
    versions = [
        f"PyTorch {found['torch']}",
        f"JAX {found['jax']}",
        *(f"{name} {found[name]}" for name in packages),
    ]
    return (
        f"Made by `make speed` on {found['processor']}, {found['cores used']} cores; {', '.join(versions)}."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def save(folder: Path, name: str, data: Mapping[str, Any]) -> Path:
    """Write ``name.json``: the environment and the data."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **data}, indent=1) + "\n")
    return path


def figure(
    folder: Path,
    name: str,
    draw: Callable[[Any], None],
    width: float = 9,
    panels: int = 1,
    height: float = 3.6,
) -> Path:
    """Write ``name.png``; ``draw`` gets the axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sheet, axes = plt.subplots(1, panels, figsize=(width, height), layout="constrained")
    draw(axes)
    path = folder / f"{name}.png"
    sheet.savefig(path, dpi=150)
    plt.close(sheet)
    return path
