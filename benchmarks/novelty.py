"""What something new costs: shapes that come once, first steps, whole short scripts, beside PyTorch in fresh processes.

A case runs in a process of its own with PyTorch, then here with an empty cache of programs (cold) and here again with
what that left (warm); the three take turns. A process also returns what it computed, and a case in which the libraries
disagree fails. Run as a script it is one of those processes, for a look or for a profiler:

  python benchmarks/novelty.py program graphs functorch_port
  FUNCTORCH_PORT_CACHE=/tmp/cache python benchmarks/novelty.py first "CNN, b64" functorch_port
  python benchmarks/novelty.py example gpt torch --options "--steps 50"
  python benchmarks/novelty.py memory shapes functorch_port --count 500

It prints JSON: seconds (without imports), processor seconds, seconds of the import, programs that XLA compiled and that
came from the cache, the peak of memory in bytes, and the values. `python benchmarks/run.py --only novelty` measures
all, `--models NAME...` some.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import re
import runpy
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import Sheet, cores, memory
from novelty_programs import PROGRAMS, SHAPES, shapes

TITLE = "what is new"
ROOT = Path(__file__).parents[1]
WHO = ("torch", "cold", "warm")
#: seconds after which a case has no further round
BUDGET = 90.0
#: training steps of a first start; the first is what the bar is for
STEPS = 5
#: memory is looked at ten times; the second half may grow by so much to count as flat
LOOKS, FLAT = 10, 0.05


class Kind(NamedTuple):
    """A kind of cases.

    Attributes:
        title: of its table.
        clock: whose seconds are compared: ``"seconds"`` without imports, or ``"process"`` from start to end.
        rtol: how close the values must be, relatively, or absolutely for those below one.
        contestants: who takes part.
        limit: seconds that a process may take.
    """

    title: str
    clock: str
    rtol: float
    contestants: Sequence[str] = WHO
    limit: float = 600.0


KINDS = {
    "program": Kind("Programs, seconds without imports", "seconds", 2e-3),
    "first": Kind("The first training step, seconds", "seconds", 2e-3),
    "example": Kind("The examples as scripts, seconds with imports", "process", 2e-3),
    "memory": Kind(f"Memory over {SHAPES:,} shapes, MB", "seconds", 2e-3, WHO[:2], 1800.0),
}
#: program: the most it may take cold and warm, in PyTorch's time
BARS = {
    "MLP widths": (3.0, 1.5),
    "lengths": (6.0, 3.0),
    "graphs": (6.0, 3.0),
    "operations": (40.0, 20.0),
    "generation": (2.0, 1.2),
    "time sequence": (2.0, 1.2),
    "characters": (2.0, 1.2),
}
#: seconds that a first step may take more than PyTorch's
FIRST_BARS = (1.0, 0.3)
#: all examples together, in PyTorch's time
EXAMPLES_BARS = (1.5, 1.0)
#: of PyTorch's peak, and bytes on top
MEMORY_BAR = (1.3, 150e6)
#: examples that cannot run on PyTorch, with options that make them short
OURS = {"digits_cnn": "--epochs 2 --eager-steps 2", "resume": "--epochs 2", "trainer": "--epochs 2"}
SCRIPT = "tutorial_style"


# -------------------------------------------------- inside the fresh process


def _program(torch: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    return {"values": PROGRAMS[name](torch)}


def _first(torch: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A few training steps of a model of the suite, each waited for."""
    import suite

    made, wait = suite.set_up(name, "torch eager" if options.who == "torch" else "eager")
    seconds, losses = [], []
    for _ in range(STEPS):
        start = time.perf_counter()
        loss = made.train()
        wait["train"](loss)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return {"values": losses, "seconds": seconds[0], "steps": seconds}


def _example(torch: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """An example as a script; its values are the first losses, as hundreds of steps amplify rounding."""
    sys.path.insert(0, str(ROOT / "examples"))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        words = options.options.split() + (["--out", folder] if name in OURS else [])
        path = ROOT / "examples" / f"{name}.py"
        if name == SCRIPT and options.who != "torch":
            from functorch_port.launcher import run

            run(str(path), words)
        elif name == SCRIPT or name in OURS:
            sys.argv = [str(path), *words]
            runpy.run_path(str(path), run_name="__main__")
        else:
            from both import source

            module: Any = types.ModuleType(name)
            sys.modules[name] = module  # torch.compile's guards look there
            exec(compile(source(name, options.who), str(path), "exec"), module.__dict__)
            words += ["--eager"] if options.who == "torch" else []
            return {"values": module.main(words)[:10]}
    return {"values": [float(number) for number in re.findall(r"\d+\.\d+", printed.getvalue())[:10]]}


def _memory(torch: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The resident memory while new shapes come, in bytes."""
    torch.manual_seed(0)
    seen, losses = [memory("VmRSS")], []
    for i, loss in enumerate(shapes(torch, options.count), 1):
        losses.append(loss)
        if i % max(1, options.count // LOOKS) == 0:
            seen.append(memory("VmRSS"))
    return {"values": losses, "rss": seen}


RUNNERS: dict[str, Callable[[Any, str, argparse.Namespace], dict[str, Any]]] = {
    "program": _program,
    "first": _first,
    "example": _example,
    "memory": _memory,
}


def _imported(who: str) -> Any:
    """The module, with as many threads as it may have, and what its first optimizer imports: in PyTorch a second."""
    module = importlib.import_module(who)
    if who == "torch":
        module.set_num_threads(cores())
    module.optim.SGD([module.nn.Parameter(module.zeros(1))], lr=0.1)
    return module


def _counted() -> Counter[str]:
    """What JAX says of its compilations from now on, by event."""
    import jax

    events: Counter[str] = Counter()
    jax.monitoring.register_event_listener(lambda event, **more: events.update([event]))
    jax.monitoring.register_event_duration_secs_listener(lambda event, took, **more: events.update([event]))
    return events


def alone(options: argparse.Namespace) -> dict[str, Any]:
    """What one case costs, in this process."""
    start = time.perf_counter()
    torch = _imported(options.who)
    imported = time.perf_counter()
    events = _counted() if options.who != "torch" else Counter()
    processor, start_of_run = time.process_time(), time.perf_counter()
    found = RUNNERS[options.kind](torch, options.name, options)
    seconds = time.perf_counter() - start_of_run
    hits = events["/jax/compilation_cache/cache_hits"]
    return {
        "seconds": seconds,
        "cpu": time.process_time() - processor,
        "import": imported - start,
        "compiled": events["/jax/core/compile/backend_compile_duration"] - hits,
        "loaded": hits,
        "peak": memory("VmHWM"),
        **found,
    }


# ------------------------------------------------------------- the benchmark


class Case(NamedTuple):
    """What is measured: a kind, a name in it, and options for its processes."""

    kind: str
    name: str
    options: Sequence[str] = ()

    @property
    def contestants(self) -> Sequence[str]:
        return WHO[1:] if self.name in OURS else KINDS[self.kind].contestants


def cases(quick: bool) -> Iterator[Case]:
    """All of them; ``quick`` makes examples and the loop for the memory short."""
    from both import EXAMPLES
    from suite_networks import JOBS

    yield from (Case("program", name) for name in PROGRAMS)
    yield from (Case("first", name) for name in JOBS)
    short = "--steps 50" if quick else ""
    yield from (Case("example", name, (f"--options={short}",)) for name in EXAMPLES)
    yield Case("example", SCRIPT, ("--options=--epochs 1" if quick else "--options=",))
    yield from (Case("example", name, (f"--options={words}",)) for name, words in OURS.items())
    yield Case("memory", "shapes", ("--count", str(SHAPES // 10 if quick else SHAPES)))


def _turn(case: Case, who: str, cache: str) -> dict[str, Any]:
    """One fresh process. What is beyond the limit, or fails, is noted and ends nothing."""
    from harness import fresh_process

    library, limit = "torch" if who == "torch" else "functorch_port", KINDS[case.kind].limit
    words = (case.kind, case.name, library, *case.options)
    start = time.perf_counter()
    try:
        found = fresh_process(__file__, *words, limit=limit, FUNCTORCH_PORT_CACHE=cache)
    except subprocess.TimeoutExpired:
        return {"over": True, "seconds": limit, "process": limit}
    except RuntimeError as error:
        return {"error": str(error)}
    return {**found, "process": time.perf_counter() - start}


def difference(case: Case, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """Where two turns disagree, in words; None if they agree or one of them did not end."""
    if "values" not in theirs or "values" not in ours:
        return None
    want, got = theirs["values"], ours["values"]
    if len(want) != len(got):
        return f"{len(got)} values instead of PyTorch's {len(want)}"
    rtol = KINDS[case.kind].rtol
    apart = ~np.isclose(got, want, rtol=rtol, atol=rtol * np.minimum(1, np.abs(want).max(initial=0)))
    if not apart.any():
        return None
    i = int(apart.argmax())
    return f"value {i} of {len(want)} is {got[i]!r}, PyTorch's {want[i]!r}; {apart.sum()} differ"


def _measure(case: Case, rounds: int, tick: Callable[[str], None]) -> dict[str, Any]:
    """The rounds of one case, and what is wrong with it."""
    turns: dict[str, list[dict[str, Any]]] = {who: [] for who in case.contestants}
    faults: list[str] = []
    start = time.perf_counter()
    for number in range(rounds):
        if number and time.perf_counter() - start > BUDGET:
            break
        with tempfile.TemporaryDirectory() as cache:
            order = case.contestants if number % 2 == 0 else [*case.contestants[1:], *case.contestants[:1]]
            for who in order:
                tick(f"{case.name}, {who}")
                before = turns["cold"][-1:] if who == "warm" else []
                over = any("over" in turn or "error" in turn for turn in before)
                turns[who].append(dict(before[0]) if over else _turn(case, who, cache))
        last = {who: made[-1] for who, made in turns.items()}
        for who, turn in last.items():
            if "error" in turn:
                faults.append(f"{who}: {turn['error']}")
            elif "torch" in last and (words := difference(case, last["torch"], turn)):
                faults.append(f"{who}: {words}")
    for made in turns.values():
        for turn in made[1:]:
            turn.pop("values", None)
    return {"kind": case.kind, "turns": turns, "faults": faults}


# -------------------------------------------------------------------- reports


class Cell(NamedTuple):
    """A figure, and whether it is within its bar (None: it has no bar)."""

    text: str
    good: bool | None = None

    def coloured(self) -> str:
        """For the terminal."""
        if self.good is None:
            return self.text
        colour = "green" if self.good else "red"
        return f"[{colour}]{self.text}[/{colour}]"

    def markdown(self) -> str:
        """For a page: what is beyond its bar is bold."""
        return f"**{self.text}**" if self.good is False else self.text


def _median(turns: Sequence[Mapping[str, Any]], field: str) -> float:
    values = [turn[field] for turn in turns if field in turn]
    return float(np.median(values)) if values else float("nan")


def _beside(result: Mapping[str, Any], who: str, of: Callable[[float, float], float]) -> float:
    """The median over the rounds of ``of(ours, PyTorch's)``."""
    clock = KINDS[result["kind"]].clock
    pairs = zip(result["turns"][who], result["turns"]["torch"], strict=True)
    values = [of(ours[clock], theirs[clock]) for ours, theirs in pairs if clock in ours and clock in theirs]
    return float(np.median(values)) if values else float("nan")


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs


def _seconds(result: Mapping[str, Any], who: str, field: str | None = None) -> str:
    turns = result["turns"].get(who)
    if not turns:
        return ""
    text = f"{_median(turns, field or KINDS[result['kind']].clock):.3g}"
    return f"> {text}" if any("over" in turn for turn in turns) else text


def _barred(value: float, bar: float | None, form: str = ".2f") -> Cell:
    if bar is None:
        return Cell(f"{value:{form}}")
    return Cell(f"{value:{form}} ({bar:g})", value <= bar)


Results = Mapping[str, Mapping[str, Any]]


def _programs(results: Results) -> Sheet:
    rows = []
    for name, result in results.items():
        bars = BARS.get(name, (None, None))
        rows.append(
            [
                name,
                *(_seconds(result, who) for who in WHO),
                *(_barred(_beside(result, who, _ratio), bar) for who, bar in zip(WHO[1:], bars, strict=True)),
                *(f"{_median(result['turns'][who], 'compiled'):.0f}" for who in WHO[1:]),
            ]
        )
    heads = (
        "",
        "PyTorch",
        "cold",
        "warm",
        "cold / PyTorch",
        "warm / PyTorch",
        "compiled cold",
        "compiled warm",
    )
    return Sheet(KINDS["program"].title, heads, rows)


def _resources(results: Results) -> Sheet:
    factor, more = MEMORY_BAR
    rows = []
    for name, result in results.items():
        peaks = {who: _median(result["turns"][who], "peak") for who in WHO}
        most = factor * peaks["torch"] + more
        cells = [Cell(f"{peaks[who] / 1e6:.0f}", bool(peaks[who] <= most)) for who in WHO[1:]]
        used = (_seconds(result, who, "cpu") for who in WHO)
        rows.append([name, *used, f"{peaks['torch'] / 1e6:.0f}", *cells])
    heads = ("", "PyTorch", "cold", "warm", "PyTorch, MB", "cold", "warm")
    return Sheet("The same programs, processor seconds and peaks of memory", heads, rows)


def _firsts(results: Results) -> Sheet:
    minus = lambda ours, theirs: ours - theirs
    rows = []
    for name, result in results.items():
        of_all = {
            who: [sum(turn["steps"]) for turn in turns if "steps" in turn]
            for who, turns in result["turns"].items()
        }
        rows.append(
            [
                name,
                *(_seconds(result, who) for who in WHO),
                *(
                    _barred(_beside(result, who, minus), bar, "+.2f")
                    for who, bar in zip(WHO[1:], FIRST_BARS, strict=True)
                ),
                *(f"{np.median(of_all[who]):.3g}" if of_all[who] else "" for who in WHO),
            ]
        )
    heads = ("", "PyTorch", "cold", "warm", "cold - PyTorch", "warm - PyTorch")
    return Sheet(KINDS["first"].title, (*heads, f"{STEPS} steps: PyTorch", "cold", "warm"), rows)


def _examples(results: Results) -> Sheet:
    rows: list[list[str | Cell]] = []
    both = {name: result for name, result in results.items() if "torch" in result["turns"]}
    for name, result in results.items():
        compared = name in both
        ratios = [f"{_beside(result, who, _ratio):.2f}" if compared else "" for who in WHO[1:]]
        rows.append([f"{name}.py", *(_seconds(result, who) for who in WHO), *ratios])
    if both:
        sums = [sum(_median(result["turns"][who], "process") for result in both.values()) for who in WHO]
        ratios = [_barred(s / sums[0], bar) for s, bar in zip(sums[1:], EXAMPLES_BARS, strict=True)]
        rows.append(["those with PyTorch", *(f"{s:.0f}" for s in sums), *ratios])
    heads = ("", "PyTorch", "cold", "warm", "cold / PyTorch", "warm / PyTorch")
    return Sheet(KINDS["example"].title, heads, rows)


def growth(rss: Sequence[float]) -> float:
    """How much the second half of the looks is above their middle, relatively."""
    middle = rss[len(rss) // 2]
    return (rss[-1] - middle) / middle


def _memories(results: Results) -> Sheet:
    rows: list[list[str | Cell]] = []
    for result in results.values():
        ended = {who: turns[0] for who, turns in result["turns"].items() if "rss" in turns[0]}
        for who, turn in ended.items():
            rss, grown = turn["rss"], growth(turn["rss"])
            bar = MEMORY_BAR[0] * ended["torch"]["peak"] + MEMORY_BAR[1] if "torch" in ended else None
            peak = Cell(
                f"{turn['peak'] / 1e6:.0f}", None if who == "torch" or not bar else turn["peak"] <= bar
            )
            flat = Cell(f"{grown:+.1%}", None if who == "torch" else grown <= FLAT)
            looks = [f"{rss[i] / 1e6:.0f}" for i in (0, 1, len(rss) // 2, -1)]
            rows.append([who, *looks, peak, flat, f"{turn['seconds']:.3g}"])
    looks = ("at first", "after a tenth", "half", "all")
    heads = ("", *looks, "peak", "growth of the second half", "seconds")
    return Sheet(KINDS["memory"].title, heads, rows)


def _of(results: Results, kind: str) -> Results:
    return {r["name"]: r for r in results.values() if r["kind"] == kind}


#: the tables, and the kind that each is of
SHEETS = {
    _programs: "program",
    _resources: "program",
    _firsts: "first",
    _examples: "example",
    _memories: "memory",
}


def sheets(results: Results) -> list[Sheet]:
    """The tables of the kinds that were measured."""
    return [make(_of(results, kind)) for make, kind in SHEETS.items() if _of(results, kind)]


TEXT = """\
PyTorch has its loops ready for every shape. This library compiles programs by XLA, each for the shapes that it has
seen, and in the steady state these are faster. The *latency of the new* is what it costs until then: the first step of
a program, and every step with a shape that did not come before, as in sampling text, packed sequences, graphs,
rollouts, last batches, notebooks, tests and searches for hyperparameters.

`python benchmarks/run.py --only novelty` measures it. Each run is a process of its own, and the three take turns:
PyTorch; *cold*, this library with an empty folder for its cache of compiled programs (`FUNCTORCH_PORT_CACHE`); and
*warm*, the same again with what the cold run left there. The programs (`benchmarks/novelty_programs.py`) are ordinary
PyTorch code, eager, and run as they are on both. Both must give the same losses, samples and parameters, or the
benchmark fails. Times are wall seconds, medians of the rounds; ratios and differences are taken round by round. They
begin after the imports, and after a first optimizer was made, which in PyTorch imports for a second.

In brackets are the bars that we want to pass; what is beyond its bar is bold. A program's peak of memory may be 1.3
times PyTorch's and 150 MB. On a busy machine the processor seconds tell more than the wall's.
"""


def page(results: Results) -> str:
    """The tables in Markdown."""
    from harness import environment, origin

    load = environment()["load before"] or 0.0
    busy = f" Other programs were running (load {load:.0f}), so the wall's seconds are too high."
    made = origin() + (busy if load > 2 * cores() else "")
    head = ["# What something new costs", "", TEXT, made, "", "![](novelty.png)", ""]
    return "\n".join([*head, *(sheet.markdown() for sheet in sheets(results))])


def _draw(axes: Any, results: Results) -> None:
    from harness import COLOURS

    programs, firsts, memories = (_of(results, kind) for kind in ("program", "first", "memory"))
    shades = {"cold": COLOURS["compiled"], "warm": COLOURS["eager"]}
    for ax, found, of in ((axes[0], programs, _ratio), (axes[1], firsts, lambda a, b: a - b)):
        for i, (who, colour) in enumerate(shades.items()):
            widths = [_beside(result, who, of) for result in found.values()]
            ax.barh([y + 0.4 * i for y in range(len(found))], widths, 0.38, color=colour, label=who)
        ax.set_yticks([y + 0.2 for y in range(len(found))], found)
        ax.invert_yaxis()
        ax.grid(axis="x", alpha=0.3)
        ax.legend(fontsize=7)
    axes[0].axvline(1, color="black", linewidth=0.8)
    axes[0].set(title="programs: time / PyTorch's", xscale="log")
    axes[1].set(title="first training step: seconds more than PyTorch")
    for result in memories.values():
        for who, turns in result["turns"].items():
            rss = turns[0].get("rss", [])
            colour = COLOURS["torch eager"] if who == "torch" else COLOURS["compiled"]
            axes[2].plot([r / 1e6 for r in rss], marker="o", markersize=3, color=colour, label=who)
    axes[2].set(title="memory while shapes are new", xlabel="tenths of the loop", ylabel="MB", ylim=(0, None))
    axes[2].grid(alpha=0.3)
    if memories:
        axes[2].legend(fontsize=7)


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``novelty.json``, ``novelty.md`` and ``novelty.png``.

    Raises:
        SystemExit: at the end, if a process failed or computed something else than PyTorch.
    """
    from harness import progress, save

    sys.path.insert(0, str(ROOT / "examples"))
    asked = [
        case
        for case in cases(quick=effort.starts == 1)
        if not effort.models or any(part in f"{case.kind}: {case.name}" for part in effort.models)
    ]
    results: dict[str, dict[str, Any]] = {}
    with progress() as bar:
        task = bar.add_task("", total=len(asked))
        for case in asked:
            tick = lambda text: bar.update(task, description=text)
            results[f"{case.kind}: {case.name}"] = {"name": case.name, **_measure(case, effort.starts, tick)}
            save(folder, "novelty", {"cases": results})
            bar.advance(task)
    write(folder, results)


def write(folder: Path, results: Results) -> None:
    """What was measured: on the terminal, as a page and as a plot; then the faults."""
    from harness import console, figure

    for sheet in sheets(results):
        sheet.show()
    console.print(
        "Medians over rounds; > N: ended after N seconds. In brackets the bars; what is beyond is red."
    )
    (folder / "novelty.md").write_text(page(results))
    figure(folder, "novelty", lambda axes: _draw(axes, results), 15, 3)
    faults = [f"{name}, {fault}" for name, result in results.items() for fault in result["faults"]]
    if faults:
        raise SystemExit("\n".join(["These failed, or computed something else than PyTorch:", *faults]))


def arguments() -> argparse.Namespace:
    """The command line of one process."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"programs: {', '.join(PROGRAMS)}; first: the models of the suite; examples: files of examples/",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=KINDS, help="what kind of case")
    parser.add_argument("name", help="which of them, see below")
    parser.add_argument("who", choices=("torch", "functorch_port"), help="which library")
    parser.add_argument("--options", default="", help="options of the example")
    parser.add_argument("--count", type=int, default=SHAPES, help="shapes of the loop for the memory")
    return parser.parse_args()


if __name__ == "__main__":
    print("\n" + json.dumps(alone(arguments())))
