"""The losses of `examples/gpt_pod.py` beside a plain loop of PyTorch with the same seed and batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import figure, fresh_process, progress, save, table

TITLE = "a language model, trained"
PROGRAM = str(Path(__file__).with_name("pod_program.py"))
LIBRARIES = {"torch": "#e45756", "functorch_port": "#4c78a8"}
MODELS = ("gpt2-tiny", "llama-tiny")


def _draw(axes: Any, losses: dict[str, dict[str, list[float]]]) -> None:
    for ax, (model, found) in zip(axes, losses.items(), strict=True):
        for library, values in found.items():
            ax.plot(values, label=library, color=LIBRARIES[library], lw=1)
        ax.set(title=model, xlabel="step", ylabel="loss, nats for each byte")
        ax.legend()


def run(folder: Path, effort: Any) -> None:
    """Train, print, write ``pod.json`` and ``pod.png``."""
    steps = 1200 if effort.rounds > 5 else 60
    losses: dict[str, dict[str, list[float]]] = {}
    rows = []
    with progress() as bar:
        task = bar.add_task("", total=len(MODELS) * len(LIBRARIES))
        for model in MODELS:
            losses[model] = {}
            for library in LIBRARIES:
                bar.update(task, description=f"{model}, {library}")
                losses[model][library] = fresh_process(PROGRAM, library, model, str(steps))
                bar.advance(task)
            pairs = [*zip(*losses[model].values(), strict=True)]
            apart = max(abs(a - b) for a, b in pairs)
            rows.append((model, *(f"{values[-1]:.6f}" for values in losses[model].values()), f"{apart:.1e}"))
    table(f"{TITLE}: the loss of step {steps}", ("model", *LIBRARIES, "apart at most"), rows)
    save(folder, "pod", {"steps": steps, "losses": losses})
    figure(folder, "pod", lambda axes: _draw(axes, losses), 9, 2)
