"""Saving and loading a large checkpoint beside PyTorch: seconds, and the memory beyond the tensors.

Each turn is a process of its own, which saves or loads once; the libraries take turns. Loading finds the file in the
system's cache. `save` here also waits for the disk (PyTorch's does not), and `load` compares check sums (PyTorch's does
not); both are part of the figures.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import (
    Effort,
    figure,
    fresh_process,
    memory,
    progress,
    ratios,
    save,
    show_ratio,
    show_seconds,
    summary,
    table,
)

TITLE = "checkpoints"
LIBRARIES = ("torch", "functorch_port")
ACTIONS = ("save", "load", "load mmap")
#: 48 layers of a transformer, and an embedding
GIGABYTES = 2.0
BAR = 1.1


def _measure(library: str, action: str, path: str, gigabytes: float) -> dict[str, float]:
    """One turn, in this process."""
    if library == "torch":
        import torch
    else:
        import functorch_port as torch  # type: ignore[no-redef]
    rows = int(gigabytes * 2**30 / 4 / 1024 / 52)
    values: Any = {}
    if action == "save":
        values = {f"layer.{i}": torch.randn(rows, 1024) for i in range(48)}
        values["embedding"] = torch.randn(4 * rows, 1024)
        for value in values.values():
            float(value[0, 0])  # random numbers may be made when they are first needed
    else:
        torch.save([torch.ones(3)], path + ".small")
        torch.load(path + ".small")
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    start = time.perf_counter()
    if action == "save":
        torch.save(values, path)
    else:
        values = torch.load(path, mmap=action == "load mmap")
    seconds = time.perf_counter() - start
    held = 0 if action == "save" else gigabytes * 2**30
    return {"seconds": seconds, "memory": memory("VmHWM") - before - held}


def _draw(ax: Any, cases: dict[str, Any]) -> None:
    for i, library in enumerate(LIBRARIES):
        places = [j + 0.4 * i for j in range(len(ACTIONS))]
        ax.bar(places, [cases[a][library]["seconds"]["median"] for a in ACTIONS], 0.38, label=library)
    ax.set_xticks([j + 0.2 for j in range(len(ACTIONS))], ACTIONS)
    ax.set(title=f"a checkpoint of {GIGABYTES:g} GB", ylabel="seconds")
    ax.legend()


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``files.json`` and ``files.png``."""
    rounds = max(3, effort.rounds // 3)
    found: dict[Any, list[dict[str, float]]] = {(a, n): [] for a in ACTIONS for n in LIBRARIES}
    with tempfile.TemporaryDirectory() as temporary, progress() as bar:
        task = bar.add_task("", total=rounds * len(found))
        for number in range(rounds):
            for action in ACTIONS:
                for name in LIBRARIES[:: 1 - 2 * (number % 2)]:
                    bar.update(task, description=f"{action}, {name}")
                    path = os.path.join(temporary, f"{name}.pt")
                    if action == "save" and os.path.exists(path):
                        os.unlink(path)
                    os.sync()
                    found[action, name].append(fresh_process(__file__, name, action, path, str(GIGABYTES)))
                    bar.advance(task)
    cases: dict[str, Any] = {}
    rows = []
    for action in ACTIONS:
        seconds = {n: [turn["seconds"] for turn in found[action, n]] for n in LIBRARIES}
        beside = ratios(seconds["functorch_port"], seconds["torch"])
        cases[action] = {"ratio": summary(beside)}
        for n in LIBRARIES:
            peak = [turn["memory"] for turn in found[action, n]]
            cases[action][n] = {"seconds": summary(seconds[n]), "memory": summary(peak)}
            shown = show_ratio(beside, BAR) if n == "functorch_port" else ""
            rows.append(
                (
                    f"{action}, {n}",
                    show_seconds(seconds[n]),
                    shown,
                    f"{summary(peak)['median'] / 2**20:.0f} MB",
                )
            )
    table(f"{TITLE} of {GIGABYTES:g} GB", ("", "seconds", "/ torch", "memory beyond"), rows)
    save(folder, "files", {"gigabytes": GIGABYTES, "cases": cases})
    figure(folder, "files", lambda ax: _draw(ax, cases), 7)


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:4], float(sys.argv[4]))))
