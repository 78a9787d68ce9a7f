"""What training steps on many devices communicate, need and cost in host time, beside hand-written JAX and optax.

The programs are in `devices_programs.py`; each form is compiled in a fresh process on 8 virtual CPU devices and, where
libtpu is installed, ahead of time for a TPU v5e of 4 x 4 chips.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from devices_programs import FORMS, ROOT

TITLE = "many devices"
PROGRAMS = str(Path(__file__).with_name("devices_programs.py"))


def _launched(count: int) -> dict[str, float]:
    """The seconds of a call in several processes of one device."""
    command = [sys.executable, "-m", "functorch_port.distributed.run", "--nproc", str(count), PROGRAMS]
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "NPROC": "32", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "overhead", "1"], capture_output=True, text=True, env=settings, timeout=300, check=True
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("[rank0]: {"))
    found: dict[str, float] = json.loads(line.removeprefix("[rank0]: "))
    return found


def _row(name: str, platform: str, found: dict[str, Any]) -> tuple[str, ...]:
    """A form: collectives, their bytes, and the peak of memory, ours / by hand."""
    sums = {}
    for who, cost in found.items():
        kinds = cost["collectives"].values()
        sums[who] = (sum(k["count"] for k in kinds), sum(k["bytes"] for k in kinds) / 1e6, cost["peak"] / 1e6)
    both = zip(sums["ours"], sums["by hand"], strict=True)
    return f"{name}, {platform}", *(f"{a:.4g} / {b:.4g}" for a, b in both)


def _draw(axes: Any, programs: dict[str, Any]) -> None:
    for ax, (title, of) in zip(
        axes,
        (
            ("bytes of collectives", lambda c: sum(k["bytes"] for k in c["collectives"].values())),
            ("peak memory", lambda c: c["peak"]),
        ),
        strict=True,
    ):
        ax.barh([*programs], [of(f["ours"]) / of(f["by hand"]) for f in programs.values()])
        ax.axvline(1, color="black", linewidth=0.8)
        ax.set(title=f"{title}, ours / by hand")
        ax.tick_params(labelsize=6)


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``devices.json`` and ``devices.png``."""
    from harness import figure, fresh_process, progress, save, table

    platforms = ["cpu", *(["tpu"] if find_spec("libtpu") and effort.starts > 1 else [])]
    cases = [(name, platform) for name in FORMS for platform in platforms]
    programs, seconds = {}, {}
    with progress() as bar:
        task = bar.add_task("many devices", total=len(cases) + 5)
        for name, platform in cases:
            programs[f"{name}, {platform}"] = fresh_process(PROGRAMS, name, platform, NPROC="32")
            bar.advance(task)
        for count in (1, 4, 8):
            found = fresh_process(PROGRAMS, "overhead", str(count), NPROC="32")
            seconds[f"{count} devices"] = found
            bar.advance(task)
        for count in (2, 4):
            seconds[f"{count} processes"] = _launched(count)
            bar.advance(task)
    rows = [_row(*name.rsplit(", ", 1), found) for name, found in programs.items()]
    table("a training step, ours / by hand", ("", "collectives", "their MB", "peak MB"), rows)
    times = [
        (name, *(f"{1e6 * t:.0f} µs" for t in found.values()), f"{found['ours'] / found['by hand']:.2f}")
        for name, found in seconds.items()
    ]
    table("a call of a small step, the best round", ("", "compiled", "jax.jit", "ratio"), times)
    save(folder, "devices", {"programs": programs, "seconds": seconds})
    figure(folder, "devices", lambda axes: _draw(axes, programs), 12, 2)
