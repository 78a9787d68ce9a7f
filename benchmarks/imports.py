"""Seconds that `import functorch_port` takes in a fresh process, beside the imports that it stands for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness import (
    Effort,
    figure,
    make_bytecode,
    progress,
    ratios,
    save,
    show_ratio,
    show_seconds,
    summary,
    table,
)

TITLE = "import"
STATEMENTS = {
    "jax, numpy and optax": "import jax, numpy, optax",
    "functorch_port": "import functorch_port",
    "torch": "import torch",
}
BASE = "jax, numpy and optax"
BAR = 1.15
#: in the process itself: starting Python and ending it are not the import
PROGRAM = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def _seconds(statement: str) -> float:
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[1])}
    make_bytecode()
    command = [sys.executable, "-c", PROGRAM.format(statement)]
    return float(subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout)


def _draw(ax: Any, cases: dict[str, Any]) -> None:
    ax.barh(list(cases), [case["seconds"]["median"] for case in cases.values()], color="#4c78a8")
    ax.invert_yaxis()
    ax.set(title="importing, in a fresh process", xlabel="seconds")
    ax.grid(axis="x", alpha=0.3)


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``imports.json`` and ``imports.png``."""
    found: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    rounds = 2 * effort.rounds
    with progress() as bar:
        task = bar.add_task("", total=(rounds + 1) * len(STATEMENTS))
        for number in range(rounds + 1):
            for name, statement in STATEMENTS.items():
                bar.update(task, description=name)
                seconds = _seconds(statement)
                if number:  # the first one writes and reads the bytecode
                    found[name].append(seconds)
                bar.advance(task)
    beside = {name: ratios(seconds, found[BASE]) for name, seconds in found.items()}
    bars = {"functorch_port": BAR}
    rows = [(n, show_seconds(found[n]), show_ratio(beside[n], bars.get(n))) for n in STATEMENTS]
    table(f"{TITLE}: seconds, and beside {BASE}", ("", "seconds", f"/ {BASE}"), rows)
    cases = {n: {"seconds": summary(found[n]), "ratio": summary(beside[n])} for n in STATEMENTS}
    save(folder, "imports", {"cases": cases})
    figure(folder, "imports", lambda ax: _draw(ax, cases), 7)
