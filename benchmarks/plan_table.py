"""Language models on pods, on paper: plan each case for a TPU pod, and write a page and pictures (``make plan-table``).

Nothing runs: the pod's compiler compiles the step of ``examples/gpt_pod.py`` on this machine, see ``docs/plan.md``. All
cases take one to two hours on 2 cores; the answers are kept as they come, and by the planner's cache, so that a run
that is stopped goes on. ``--missing`` leaves what is kept as it is, ``--page`` plans nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness import figure, progress

from functorch_port._plan import worker
from functorch_port._plan.chips import GIB, topology
from functorch_port._plan.rows import in_seconds
from functorch_port._plan.topology import mesh_text

ROOT = Path(__file__).parents[1]
SCRIPT = str(ROOT / "examples" / "gpt_pod.py")
KEPT = Path(__file__).with_name("plan_table.json")

#: pods by kind and number of chips; those of v5e and v6e with more than 256 are slices, joined by the network
_FLAT = {8: "2x4", 16: "4x4", 64: "8x8", 256: "16x16", 1024: "16x16*4", 4096: "16x16*16"}
_CUBES = {8: "2x2x2", 16: "2x2x4", 64: "4x4x4", 256: "4x8x8", 1024: "8x8x16", 4096: "16x16x16"}
PODS = {"v5e": _FLAT, "v6e": _FLAT, "v5p": _CUBES, "tpu7x": _CUBES}
COLOURS = {"v5e": "#4c78a8", "v6e": "#f58518", "v5p": "#54a24b", "tpu7x": "#b279a2"}
#: tokens that a device computes at a time at most, for its memory
AT_A_TIME = {"v5e": 8192, "v6e": 16384, "v5p": 32768, "tpu7x": 32768}


class Model(NamedTuple):
    """A preset of ``gpt_pod.py``.

    Attributes:
        title: for people.
        name: the function that builds it.
        context: tokens of a sequence.
        rows: sequences of a step.
        chips: numbers of chips that it is planned for.
        shard: over how many devices parameters are split at most; along the others they are the same.
    """

    title: str
    name: str
    context: int
    rows: int
    chips: tuple[int, ...]
    shard: int


MODELS = (
    Model("GPT-2 124M", "gpt2_124m", 1024, 256, (8, 64), 8),
    Model("GPT 1.3B", "gpt2_1.3b", 1024, 512, (16, 64, 256), 64),
    Model("Llama 7B", "llama_7b", 4096, 1024, (64, 256, 1024, 4096), 256),
    Model("Mixtral 8x7B", "mixtral_8x7b", 4096, 1024, (256, 1024), 256),
    Model("Llama 70B", "llama_70b", 8192, 1024, (256, 1024, 4096), 1024),
)
#: what is kept of a plan's roofline
LIMITS = ("compute", "memory", "communication", "axes", "bound", "seconds", "waiting", "mfu", "mfu_waiting")
#: sequences for each chip where the batch grows with the pod
WEAK = 4
SCALED = "Llama 7B"


@dataclass(frozen=True)
class Case:
    """A step to plan.

    Attributes:
        model: title of a `Model`.
        kind, chips: of a pod.
        rows: sequences of a step.
        scaling: "strong" if all pods have the same batch, "weak" if it grows with the pod.
    """

    model: str
    kind: str
    chips: int
    rows: int
    scaling: str = "strong"

    @property
    def topology(self) -> str:
        return f"{self.kind}:{PODS[self.kind][self.chips]}"

    @property
    def key(self) -> str:
        return f"{self.model}, {self.topology}, {self.rows} rows"

    @property
    def preset(self) -> Model:
        return next(one for one in MODELS if one.title == self.model)

    @property
    def sizes(self) -> dict[str, int]:
        """Parameters are split over as many devices as there are rows, within a slice; along the others they are the
        same. Tensor parallelism takes the devices for which there is no row."""
        there = topology(self.topology)
        devices = there.devices
        tensor = max(1, devices // self.rows)
        split = min(devices // there.slices // tensor, self.preset.shard)
        found = {"dp": devices // tensor // split, "fsdp": split, "tp": tensor}
        return {name: size for name, size in found.items() if size > 1 or name == "fsdp"}

    @property
    def parts(self) -> int:
        """In how many parts the batch is computed, one after the other."""
        data = self.sizes.get("dp", 1) * self.sizes["fsdp"]
        return max(1, self.rows // data * self.preset.context // AT_A_TIME[self.kind])

    @property
    def options(self) -> dict[str, str]:
        """Of ``functorch-port plan``."""
        found = {"mesh": mesh_text(self.sizes), "batch": str(self.rows)}
        found |= {"length": str(self.preset.context), "dtype": "bf16", "remat": "true"}
        return found | ({"microbatches": str(self.parts)} if self.parts > 1 else {})


def cases() -> Iterator[Case]:
    """All of them, the quick ones first."""
    for model in MODELS:
        for chips in model.chips:
            for kind in PODS:
                yield Case(model.title, kind, chips, model.rows)
    for chips in (64, 256, 1024, 4096):
        for kind in PODS:
            yield Case(SCALED, kind, chips, WEAK * chips, "weak")


def planned(case: Case, limit: float) -> dict[str, Any]:
    """What is kept of the plan of a case."""
    tokens = case.rows * case.preset.context
    function = case.preset.name.replace(".", "_")
    question = worker.Question(f"{SCRIPT}:{function}", case.topology, case.options, tokens)
    found: dict[str, Any] = {"case": asdict(case), "options": case.options, "tokens": tokens}
    try:
        plan = json.loads(worker.run(question, lambda phase: None, limit))
    except worker.Failed as error:
        return found | {"problem": str(error)}
    found |= {
        **{name: plan[name] for name in ("fits", "needs", "hbm", "versions")},
        "problem": plan["problem"].split("\n")[0],
    }
    analysis = plan["analysis"]
    if analysis is None:  # the compiler gave up
        return found
    limits = {name: analysis["roofline"][name] for name in LIMITS}
    return found | {"flops": analysis["flops"]["model"], **limits}


# ------------------------------------------------------------------------------------------------------- the page

START, END = "<!-- figures: by `make plan-table` -->", "<!-- end of figures -->"
_HEAD = ("chips", "mesh", "of a device, GiB", "a step", "limited by", "MFU", "tokens/s a chip")


def _layout(options: dict[str, str]) -> str:
    parts = options.get("microbatches")
    return options["mesh"] + (f", {parts} parts" if parts else "")


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    case = Case(**found["case"])
    first = (f"`{case.topology}`", _layout(found["options"]))
    if "needs" not in found:
        return (*first, "not planned", *[""] * 4)
    needs = f"{found['needs'] / GIB:.1f} of {found['hbm'] / GIB:.1f}"
    if not found["fits"]:
        return (*first, f"**{needs}**", *[""] * 4)
    share = f"{found['mfu_waiting']:.0%} to {found['mfu']:.0%}"
    rates = (found["tokens"] / found[name] / case.chips for name in ("waiting", "seconds"))
    times = " to ".join(in_seconds(found[name]) for name in ("seconds", "waiting"))
    return (*first, needs, times, found["bound"], share, " to ".join(f"{rate:,.0f}" for rate in rates))


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [_HEAD, ("---",) * len(_HEAD), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def section(kept: dict[str, dict[str, Any]]) -> str:
    """The tables of the page."""
    lines: list[str] = []
    for model in MODELS:
        rows = _of(kept, model.title, "strong")
        if rows:
            batch = f"{model.rows:,} sequences of {model.context:,} tokens, {rows[0]['tokens']:,} a step."
            lines += [f"## {model.title}", "", batch, "", *_table(map(_row, rows)), ""]
    batch = f"{SCALED} with {WEAK} sequences of 4,096 tokens for each chip."
    grown = map(_row, _of(kept, SCALED, "weak"))
    picture = f"![Tokens per second of {SCALED} by chips, from waiting for all to at best](plan_table.png)"
    scaled = ["## A batch that grows with the pod", "", batch, "", *_table(grown), "", picture, ""]
    return "\n".join([*lines, *scaled])


def _of(kept: dict[str, dict[str, Any]], model: str, scaling: str) -> list[dict[str, Any]]:
    """What is known of a model's cases, in their order."""
    return [kept[c.key] for c in cases() if (c.model, c.scaling) == (model, scaling) and c.key in kept]


def _draw(axes: Any, kept: dict[str, dict[str, Any]]) -> None:
    for ax, scaling in zip(axes, ("strong", "weak"), strict=True):
        for kind, colour in COLOURS.items():
            found = [
                one for one in _of(kept, SCALED, scaling) if one["case"]["kind"] == kind and one.get("fits")
            ]
            chips = [one["case"]["chips"] for one in found]
            best, worst = ([one["tokens"] / one[name] for one in found] for name in ("seconds", "waiting"))
            ax.fill_between(chips, worst, best, color=colour, alpha=0.25)
            ax.plot(chips, worst, "o-", color=colour, label=kind, lw=1, ms=3)
        ax.set(xscale="log", yscale="log", xlabel="chips", ylabel="tokens per second")
        ax.set_xticks((64, 256, 1024, 4096), ("64", "256", "1,024", "4,096"))
        ax.set_title(
            "the same batch of 4M tokens" if scaling == "strong" else f"{WEAK} sequences for each chip"
        )
        ax.legend()


def write(kept: dict[str, dict[str, Any]]) -> None:
    """The page and its picture."""
    page = ROOT / "docs" / "plan_table.md"
    before, found, rest = page.read_text().partition(START)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise ValueError(f"{page.name} lacks the lines {START!r} and {END!r}, between which the figures go")
    page.write_text(f"{before}{START}\n\n{section(kept)}\n{END}{after}")
    figure(page.parent, "plan_table", lambda axes: _draw(axes, kept), 9, 2)


def plan_all(some: list[Case], kept: dict[str, dict[str, Any]], limit: float) -> None:
    """Plan cases one after the other, and keep what is known after each of them."""
    with progress() as bar:
        task = bar.add_task("", total=len(some))
        for case in some:
            bar.update(task, description=case.key)
            kept[case.key] = planned(case, limit)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
            bar.advance(task)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--missing", action="store_true", help="plan what is not in plan_table.json alone")
    parser.add_argument(
        "--page", action="store_true", help="write the page from plan_table.json, and plan nothing"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose names contain it")
    parser.add_argument(
        "--time-limit", type=float, default=1800, metavar="S", help="for a case (default: 1800)"
    )
    parser.add_argument("--list", action="store_true", help="name the cases")
    options = parser.parse_args()
    kept: dict[str, dict[str, Any]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    known: dict[str, Case] = {}
    for case in cases():
        known.setdefault(case.key, case)
    some = [
        case for key, case in known.items() if options.only in key and not (options.missing and key in kept)
    ]
    if options.list:
        print("\n".join(f"{case.key}: {_layout(case.options)}" for case in some))
        return 0
    if not options.page:
        plan_all(some, kept, options.time_limit)
    write(kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
