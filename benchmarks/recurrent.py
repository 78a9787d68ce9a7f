"""Training steps of LSTM and GRU beside PyTorch, and what compiling them takes for short and long sequences.

Run as a script it is a fresh process without cached programs: ``python recurrent.py KIND LENGTH...`` prints the seconds
that the first compiled step of each length takes beyond a later one.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import networks
import numpy as np

TITLE = "recurrent layers"
KINDS = ("LSTM", "GRU")
HIDDEN, LENGTH, BATCH = 512, 100, 32
LENGTHS = (25, 50, 100, 200, 400)
BAR = 1.2


def training(lib: Any, kind: str, length: int, wrap: Any = None) -> Any:
    """A step that classifies sequences by the last output: (model, step)."""
    nn = lib.nn

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = getattr(nn, kind)(HIDDEN, HIDDEN)
            self.head = nn.Linear(HIDDEN, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x)[0][-1])  # (T, N, hidden) to (N, 10)

    rng = np.random.default_rng(0)
    batch = rng.standard_normal((length, BATCH, HIDDEN)).astype(np.float32), rng.integers(0, 10, BATCH)
    model = Classifier()
    return model, networks.training(lib, model, lib.F.cross_entropy, batch, wrap)


def compile_times(kind: str, lengths: list[int]) -> dict[str, float]:
    """Seconds of the first compiled step of each length, less a later one's."""
    lib = networks.library("functorch_port")
    found = {}
    for length in (LENGTHS[0], *lengths):  # the first pays for what every process compiles once
        model, step = training(lib, kind, length, lib.torch.compile)
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            step().item()
            for parameter in model.parameters():
                parameter.jax().block_until_ready()
            seconds.append(time.perf_counter() - start)
        found[str(length)] = seconds[0] - seconds[1]
    return found


def _measure(kind: str, effort: Any) -> dict[str, Any]:
    import jax
    from harness import (
        Contestant,
        console,
        fresh_process,
        interleave,
        progress,
        ratios,
        show_best,
        show_ratio,
        show_seconds,
        summary,
        table,
    )

    theirs, ours = networks.library("torch"), networks.library("functorch_port")
    _, torch_step = training(theirs, kind, LENGTH)
    contestants = {"torch eager": Contestant(torch_step)}
    for name, wrap in (("eager", None), ("compiled", ours.torch.compile)):
        model, step = training(ours, kind, LENGTH, wrap)
        contestants[name] = Contestant(
            step, lambda loss, model=model: jax.block_until_ready([p.jax() for p in model.parameters()])
        )
    with progress() as bar:
        task = bar.add_task(kind, total=effort.rounds + 1)
        seconds = interleave(contestants, effort, lambda: bar.advance(task))
        compiling = fresh_process(__file__, kind, *map(str, LENGTHS))
        bar.advance(task)
    paired = {who: ratios(seconds[who], seconds["torch eager"]) for who in ("eager", "compiled")}
    rows = [(who, show_seconds(s), show_best(s)) for who, s in seconds.items()]
    table(f"{kind}, hidden {HIDDEN}, length {LENGTH}, batch {BATCH}", ("", "a step", "at best"), rows)
    for who, values in paired.items():
        console.print(f"  {who} / torch eager: {show_ratio(values, BAR if who == 'compiled' else None)}")
    console.print("  compiling: " + ", ".join(f"length {n} {s:.2f} s" for n, s in compiling.items()))
    return {
        "seconds": {who: {**summary(s), "rounds": s} for who, s in seconds.items()},
        "ratios": {f"{who} / torch eager": summary(values) for who, values in paired.items()},
        "bar": BAR,
        "compile seconds by length": compiling,
    }


def _draw(axes: Any, results: dict[str, Any]) -> None:
    from harness import COLOURS

    who = list(next(iter(results.values()))["seconds"])
    for i, name in enumerate(who):
        heights = [1e3 * r["seconds"][name]["median"] for r in results.values()]
        axes[0].bar(
            [x + (i - 1) * 0.25 for x in range(len(results))],
            heights,
            0.25,
            color=COLOURS[name],
            label=name,
        )
    axes[0].set_xticks(range(len(results)), results)
    axes[0].set(title=f"hidden {HIDDEN}, length {LENGTH}, batch {BATCH}", ylabel="ms a step")
    axes[0].legend(fontsize=7)
    for kind, result in results.items():
        compiling = result["compile seconds by length"]
        axes[1].plot([int(n) for n in compiling], list(compiling.values()), marker="o", label=kind)
    axes[1].set(title="compiling the step", xlabel="length", ylabel="s", ylim=(0, None))
    axes[1].legend(fontsize=7)
    for ax in axes:
        ax.grid(axis="y", alpha=0.3)


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``recurrent.json`` and ``recurrent.png``."""
    from harness import figure, save

    results = {kind: _measure(kind, effort) for kind in KINDS}
    save(folder, "recurrent", {"cases": results})
    figure(folder, "recurrent", lambda axes: _draw(axes, results), panels=2)


if __name__ == "__main__":
    print(json.dumps(compile_times(sys.argv[1], [int(n) for n in sys.argv[2:]])))
