"""A training step and a pass of eleven models: PyTorch eager and compiled, ours eager and compiled, JAX by hand, and
some of them with Flax NNX.

Run as a script it is a fresh process: ``python suite.py start MODEL WHO`` prints, as JSON, the seconds of the first
training step, those of a later one, and the process's peak memory; ``python suite.py turns MODEL ROUNDS BLOCK COMPILE``
what the contestants take in turns.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import networks
from harness import Sheet

TITLE = "models"
WHO = ("torch eager", "torch.compile", "eager", "compiled", "hand-written JAX", "Flax NNX")
#: those that are written for JAX, and where
JAX = {"hand-written JAX": "suite_jax", "Flax NNX": "suite_nnx"}
#: whose first steps are measured with cached programs, too
CACHED = ("eager", "compiled")
QUICK = ("MLP 64, b16", "CNN, b64", "GPT 0.8M, b12x64")
#: (who, beside whom): the most that each model's ratio may be, and the geometric mean over the models
BARS: dict[tuple[str, str], tuple[float | None, float | None]] = {
    ("compiled", "torch eager"): (1.0, 0.8),
    ("compiled", "torch.compile"): (None, 1.0),
    ("compiled", "hand-written JAX"): (1.02, None),
    ("eager", "torch eager"): (None, 1.2),
}
#: what is measured: a training step, and a pass without gradients
KINDS = ("train", "infer")
#: of fresh processes: what, its title, and the unit
STARTS = (
    ("first", "Seconds to the end of the second training step, in a fresh process", 1.0),
    ("peak", "Peak memory of that process, GB", 1e9),
)


def set_up(name: str, who: str) -> tuple[Any, dict[str, Any]]:
    """A model for one of the contestants, and how to wait for a step (``"train"``) and for a pass (``"infer"``)."""
    if who in JAX:
        import jax

        return import_module(JAX[who]).set_up(name), dict.fromkeys(KINDS, jax.block_until_ready)
    from suite_networks import JOBS

    return set_up_job(JOBS[name], who)


def contestants(name: str, torch_compile: bool) -> list[str]:
    """Who has this model."""
    import suite_nnx

    missing = set() if torch_compile else {"torch.compile"}
    if name not in suite_nnx.MODELS:
        missing.add("Flax NNX")
    return [who for who in WHO if who not in missing]


def set_up_job(job: Any, who: str) -> tuple[Any, dict[str, Any]]:
    """The same for a contestant that runs PyTorch's words."""
    lib = networks.library("torch" if who.startswith("torch") else "functorch_port")
    compiled = who in ("torch.compile", "compiled")
    if who == "torch.compile":
        logging.getLogger("torch._logging").setLevel(logging.ERROR)
    made = job.set_up(lib, lib.torch.compile if compiled else None)
    if who.startswith("torch"):
        return made, dict.fromkeys(KINDS, lambda result: None)
    import jax

    def wait(tensors: Iterable[Any]) -> None:
        """Wherever they are: nothing is moved."""
        jax.block_until_ready([t._storage.look() for t in tensors])

    learned = [t for m in made.modules for t in (*m.parameters(), *m.buffers())]
    return made, {"train": lambda loss: wait([loss, *learned]), "infer": lambda result: wait([result])}


# ------------------------------------------------- inside fresh processes


def start(name: str, who: str) -> dict[str, float]:
    """The first step and a later one, in seconds, and the peak of memory in bytes."""
    from harness import memory

    made, wait = set_up(name, who)
    seconds = []
    for _ in range(6):
        before = time.perf_counter()
        wait["train"](made.train())
        seconds.append(time.perf_counter() - before)
    return {"first": seconds[0] + seconds[1], "later": min(seconds[2:]), "peak": memory("VmHWM")}


def turns(name: str, rounds: str, block: str, torch_compile: str) -> dict[str, Any]:
    """Seconds and ratios of all contestants, who take turns, by kind."""
    from harness import Contestant, Effort, cores, interleave, limit_threads, ratios, summary

    limit_threads(cores())
    effort = Effort(rounds=int(rounds), block=float(block), torch_compile=torch_compile == "True")
    found: dict[str, Any] = {"train": {}, "infer": {}}
    made = {who: set_up(name, who) for who in contestants(name, effort.torch_compile)}
    for kind, results in found.items():
        taking_turns = {who: Contestant(getattr(m, kind), wait[kind]) for who, (m, wait) in made.items()}
        seconds = interleave(taking_turns, effort)
        results["seconds"] = {who: {**summary(s), "rounds": s} for who, s in seconds.items()}
        results["ratios"] = {
            f"{a} / {b}": summary(ratios(seconds[a], seconds[b])) for a, b in BARS if {a, b} <= seconds.keys()
        }
    return found


# --------------------------------------------------------- the benchmark


def _measure(name: str, effort: Any) -> dict[str, Any]:
    """Each model in a process of its own, as people run one."""
    from harness import fresh_process

    return fresh_process(
        __file__, "turns", name, str(effort.rounds), str(effort.block), str(effort.torch_compile)
    )


def _starts(name: str, effort: Any) -> dict[str, Any]:
    """Starts without cached programs, and of ours with them."""
    from harness import fresh_process

    found = {}
    for who in contestants(name, effort.torch_compile):
        with tempfile.TemporaryDirectory() as empty:
            found[who] = fresh_process(__file__, "start", name, who, TORCHINDUCTOR_CACHE_DIR=empty)
    with tempfile.TemporaryDirectory() as cache:
        for who in CACHED:
            for _ in range(2):  # the first fills the cache
                found[f"{who}, cached"] = fresh_process(
                    __file__, "start", name, who, FUNCTORCH_PORT_CACHE=cache
                )
    return found


def geometric_mean(values: Iterable[float]) -> float:
    """``(v1 * ... * vn) ** (1 / n)``."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


class Ratio(NamedTuple):
    """A figure of a table that has a bar to pass, or none."""

    value: float
    bar: float | None

    def markdown(self) -> str:
        """For a page."""
        return f"{self.value:.2f}"

    def coloured(self) -> str:
        """For the terminal."""
        if self.bar is None:
            return self.markdown()
        colour = "green" if self.value <= self.bar else "red"
        return f"[{colour}]{self.markdown()}[/{colour}]"


def _present(groups: Iterable[Mapping[str, Any]]) -> list[str]:
    """Who took part in any of them, in the order of the columns."""
    known = set().union(*groups)
    return [who for who in (*WHO, *(f"{w}, cached" for w in CACHED)) if who in known]


def _cell(values: dict[str, Any], who: str, what: str, scale: float) -> str:
    return f"{values[who][what] / scale:.3g}" if who in values else ""


def _means(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The geometric means of the ratios over the models."""
    return {
        kind: {
            pair: geometric_mean(r[kind]["ratios"][pair]["median"] for r in results.values())
            for pair in next(iter(results.values()))[kind]["ratios"]
        }
        for kind in ("train", "infer")
    }


def _sheets(results: dict[str, Any]) -> list[Sheet]:
    sheets = []
    for kind, title in (("train", "A training step, ms"), ("infer", "A pass without gradients, ms")):
        who, means = _present(r[kind]["seconds"] for r in results.values()), _means(results)[kind]
        bars = {f"{a} / {b}": bar for (a, b), bar in BARS.items()}
        rows: list[Sequence[str | Ratio]] = [
            (
                name,
                *(_cell(r[kind]["seconds"], w, "median", 1e-3) for w in who),
                *(Ratio(r[kind]["ratios"][pair]["median"], bars[pair][0]) for pair in means),
            )
            for name, r in results.items()
        ]
        last = (Ratio(mean, bars[pair][1]) for pair, mean in means.items())
        rows.append(("geometric mean", *("" for _ in who), *last))
        sheets.append(Sheet(title, ("", *who, *means), rows, f"speed_{kind}"))
    names = _present(r["starts"] for r in results.values())
    for what, title, scale in STARTS:
        rows = [(n, *(_cell(r["starts"], w, what, scale) for w in names)) for n, r in results.items()]
        sheets.append(Sheet(title, ("", *names), rows, f"speed_{what}"))
    return sheets


def _bars(axes: Any, results: dict[str, Any], heights_of: Callable[[Any], dict[str, float]]) -> None:
    """Bars of the contestants side by side for each model; ``heights_of(result)`` has those who took part."""
    from harness import COLOURS

    of_models = list(map(heights_of, results.values()))
    who = _present(of_models)
    width = 0.8 / len(who)
    for i, w in enumerate(who):
        places = [x + (i - len(who) / 2 + 0.5) * width for x in range(len(results))]
        heights = [of_model.get(w, math.nan) for of_model in of_models]
        colour, alpha = COLOURS[w.removesuffix(", cached")], 0.5 if w.endswith("cached") else 1
        axes.bar(places, heights, width, color=colour, alpha=alpha, label=w)
    axes.set_xticks(range(len(results)), results, rotation=30, ha="right")
    axes.legend(fontsize=7)
    axes.grid(axis="y", alpha=0.3)


def _draw(axes: Any, results: dict[str, Any], kind: str) -> None:
    def relative(result: Any) -> dict[str, float]:
        seconds = {who: s["median"] for who, s in result[kind]["seconds"].items()}
        return {who: s / seconds["torch eager"] for who, s in seconds.items()}

    _bars(axes, results, relative)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(ylabel="time / PyTorch eager", title={"train": "a training step", "infer": "a pass"}[kind])


def _draw_starts(axes: Any, results: dict[str, Any], what: str, title: str, scale: float) -> None:
    _bars(axes, results, lambda r: {who: start[what] / scale for who, start in r["starts"].items()})
    axes.set(title=title)


def page(sheets: Sequence[Sheet]) -> str:
    """The tables in Markdown."""
    from harness import origin

    return "\n".join(
        [
            "# Speed on a CPU",
            "",
            f"{origin()} Medians of rounds in which all take turns in one process for each model; ratios are"
            " paired, round by round.",
            "Importing the library lets the process keep freed memory, so here PyTorch and plain JAX have that too;"
            " in processes of their own they do not.",
            "",
            *(sheet.markdown() for sheet in sheets),
        ]
    )


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``suite.json``, ``speed.md`` and the plots."""
    from harness import progress, save
    from suite_networks import JOBS

    names = QUICK if effort.starts == 1 else tuple(JOBS)
    if effort.models:
        names = tuple(name for name in JOBS if any(part in name for part in effort.models))
    results = {}
    with progress() as bar:
        task = bar.add_task("models", total=2 * len(names))
        for name in names:
            bar.update(task, description=f"{name}, in turns")
            results[name] = _measure(name, effort)
            bar.update(task, description=f"{name}, starting", advance=1)
            results[name]["starts"] = _starts(name, effort)
            bar.advance(task)
            save(folder, "suite", {"cases": results})
    write(folder, results)


def write(folder: Path, results: dict[str, Any]) -> None:
    """What was measured: on the terminal, as a page and as plots."""
    from harness import console, figure, save

    sheets = _sheets(results)
    for sheet in sheets:
        sheet.show()
    console.print("Ratios are paired, round by round; those beyond their bar are red.")
    save(folder, "suite", {"cases": results, "geometric means": _means(results)})
    (folder / "speed.md").write_text(page(sheets))
    for kind in ("train", "infer"):
        figure(folder, f"speed_{kind}", lambda axes, kind=kind: _draw(axes, results, kind), 12)
    for what, title, scale in STARTS:
        figure(
            folder,
            f"speed_{what}",
            lambda axes, start=(what, title, scale): _draw_starts(axes, results, *start),
            12,
        )


if __name__ == "__main__":
    print(json.dumps({"start": start, "turns": turns}[sys.argv[1]](*sys.argv[2:])))
