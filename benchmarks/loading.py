"""Seconds of a pass over a `DataLoader`, beside PyTorch's, with 0, 1 and 2 worker processes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import (
    Effort,
    figure,
    fresh_process,
    progress,
    ratios,
    save,
    show_ratio,
    show_seconds,
    summary,
    table,
)
from PIL import Image

TITLE = "loading data"
LIBRARIES = {"torch": "torch eager", "functorch_port": "eager"}
WORKERS = (0, 1, 2)
IMAGES = 256
PASSES = 4
BAR = 1.0
PROGRAM = str(Path(__file__).with_name("loading_program.py"))


def _write_images(folder: Path) -> None:
    """Noise on smooth colours: JPEG files of 500 by 375, of the size that photographs have."""
    draw = np.random.default_rng(0)
    for number in range(IMAGES):
        smooth = Image.fromarray(draw.integers(0, 255, (24, 32, 3), np.uint8)).resize((500, 375))
        noisy = np.asarray(smooth, np.int16) + draw.integers(-12, 12, (375, 500, 3))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.jpg", quality=90)


def _draw(axes: Any, cases: dict[str, Any]) -> None:
    for ax, case in zip(axes, ("images", "digits")):
        rows = [cases[f"{case}, {workers} workers"] for workers in WORKERS]
        for place, (library, name) in enumerate(LIBRARIES.items()):
            heights = [row[library]["median"] for row in rows]
            where = [x + 0.4 * place for x in range(len(WORKERS))]
            ax.bar(
                where,
                heights,
                0.38,
                label=library,
                color={"torch eager": "#e45756", "eager": "#4c78a8"}[name],
            )
        ax.set(title=case, xlabel="workers", ylabel="seconds of a pass")
        ax.set_xticks([x + 0.2 for x in range(len(WORKERS))], map(str, WORKERS))
        ax.grid(axis="y", alpha=0.3)
    axes[0].legend()


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``loading.json`` and ``loading.png``."""
    rounds = max(effort.rounds // 3, 1)
    cases: dict[str, Any] = {}
    rows = []
    with tempfile.TemporaryDirectory() as images, progress() as bar:
        _write_images(Path(images))
        task = bar.add_task("", total=2 * len(WORKERS) * rounds * len(LIBRARIES))
        for case, where in (("images", images), ("digits", "-")):
            for workers in WORKERS:
                found: dict[str, list[float]] = {library: [] for library in LIBRARIES}
                first: dict[str, list[float]] = {library: [] for library in LIBRARIES}
                for _ in range(rounds):
                    for library in LIBRARIES:
                        bar.update(task, description=f"{case}, {workers} workers, {library}")
                        seconds = fresh_process(
                            PROGRAM, library, where, str(workers), str(PASSES), FUNCTORCH_PORT_CACHE="1"
                        )
                        first[library].append(seconds[0])
                        found[library] += seconds[1:]
                        bar.advance(task)
                ratio = ratios(found["functorch_port"], found["torch"])
                name = f"{case}, {workers} workers"
                cases[name] = {library: summary(times) for library, times in found.items()}
                cases[name] |= {"ratio": summary(ratio), "first": {k: summary(v) for k, v in first.items()}}
                times = [show_seconds(found[library]) for library in LIBRARIES]
                firsts = [show_seconds(first[library]) for library in LIBRARIES]
                rows.append((name, *times, show_ratio(ratio, BAR), *firsts))
    columns = ("a pass", *LIBRARIES, "ratio", *(f"first, {library}" for library in LIBRARIES))
    table(f"{TITLE}: {IMAGES} images, 8192 digits; a pass starts its workers", columns, rows)
    save(folder, "loading", {"cases": cases})
    figure(folder, "loading", lambda axes: _draw(axes, cases), 9, 2)
