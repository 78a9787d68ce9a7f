"""Growth with the batch: a training step of three models for batches of 1 to 256, per example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

TITLE = "growth with the batch"
WHO = ("torch eager", "eager", "compiled")
SIZES = (1, 4, 16, 64, 256)
QUICK = (1, 16, 64)


def _jobs() -> dict[str, Callable[[int], Any]]:
    """Models of the suite, with a batch of any size."""
    from suite_networks import JOBS, images, text

    return {
        "MLP 784": lambda n: JOBS["MLP 784, b64"]._replace(batch=images(n, 784)),
        "CNN": lambda n: JOBS["CNN, b64"]._replace(batch=images(n, 1, 28, 28)),
        "GPT 0.8M, x64": lambda n: JOBS["GPT 0.8M, b12x64"]._replace(batch=text(n, 64, tokens=65)),
    }


def _measure(job: Any, effort: Any) -> dict[str, list[float]]:
    from harness import Contestant, interleave
    from suite import set_up_job

    made = {who: set_up_job(job, who) for who in WHO}
    return interleave({who: Contestant(m.train, wait["train"]) for who, (m, wait) in made.items()}, effort)


def _draw(axes: Any, results: dict[str, Any]) -> None:
    from harness import COLOURS

    for ax, (name, by_size) in zip(axes, results.items(), strict=True):
        for who in WHO:
            each = [1e3 * r["seconds"][who]["median"] / int(n) for n, r in by_size.items()]
            ax.plot([int(n) for n in by_size], each, marker="o", color=COLOURS[who], label=who)
        ax.set(title=name, xlabel="batch", ylabel="ms per example", xscale="log", yscale="log")
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=7)


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``batch.json`` and ``batch.png``."""
    from harness import figure, progress, ratios, save, show_ratio, show_seconds, summary, table

    sizes = QUICK if effort.starts == 1 else SIZES
    jobs = _jobs()
    results: dict[str, Any] = {name: {} for name in jobs}
    with progress() as bar:
        task = bar.add_task("batches", total=len(sizes) * len(jobs))
        for name, job in jobs.items():
            rows = []
            for n in sizes:
                seconds = _measure(job(n), effort)
                compared = {w: ratios(seconds[w], seconds["torch eager"]) for w in WHO[1:]}
                results[name][str(n)] = {
                    "seconds": {who: summary(s) for who, s in seconds.items()},
                    "ratios": {f"{w} / torch eager": summary(r) for w, r in compared.items()},
                }
                rows.append(
                    (str(n), *map(show_seconds, seconds.values()), *map(show_ratio, compared.values()))
                )
                bar.advance(task)
            table(f"{name}: a training step", ("batch", *WHO, *(f"{w} / torch" for w in WHO[1:])), rows)
    save(folder, "batch", {"cases": results})
    figure(folder, "batch", lambda axes: _draw(axes, results), 12, len(results))
