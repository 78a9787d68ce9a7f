"""Seconds of an optimizer's step alone: PyTorch's three ways, jitted optax, functorch_port.

The gradients are given and stay, so a step is nothing but the update: for many small tensors it is the cost
of going through them, for large ones memory traffic.

Run as a script it is one fresh process, ``python optim_step.py WHO RULE CASE``: it takes a few steps without
any cache of programs and prints what the first one cost, and how much memory a later one needs.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TITLE = "the optimizer's step"
Shapes = tuple[tuple[int, ...], ...]

TORCH = {
    "torch for-loop": {"foreach": False},
    "torch foreach": {"foreach": True},
    "torch fused": {"fused": True},
}
OURS = ("eager", "compiled")
WHO = (*TORCH, "optax", *OURS)
RULES: dict[str, dict[str, Any]] = {
    "AdamW": {"lr": 1e-3, "weight_decay": 0.01},
    "SGD": {"lr": 1e-3, "momentum": 0.9},
}


def vit_b() -> Shapes:
    """ViT-B/16: 152 tensors, 86.6 million numbers."""
    width, hidden = 768, 3072
    block: Shapes = (
        (width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,),
        (hidden, width), (hidden,), (width, hidden), (width,),
    )  # fmt: skip
    first: Shapes = ((1, 1, width), (width, 3, 16, 16), (width,), (1, 197, width))
    return (*first, *(block * 12), (width,), (width,), (1000, width), (1000,))


def resnet_50() -> Shapes:
    """ResNet-50: 161 tensors, 25.6 million numbers."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    inside = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            for out, into, k in ((width, inside, 1), (width, width, 3), (4 * width, width, 1)):
                shapes += [(out, into, k, k), (out,), (out,)]
            if i == 0:
                shapes += [(4 * width, inside, 1, 1), (4 * width,), (4 * width,)]
            inside = 4 * width
    return (*shapes, (1000, inside), (1000,))


class Case(NamedTuple):
    """What is updated, and the bars: ratio to another contestant, the fastest of PyTorch's by ``torch``.

    Steps of a millisecond on all cores vary by a third and cost little: they have so many times the ``rounds``.
    """

    shapes: Shapes
    bars: dict[str, float]
    rounds: int = 1


SMALL, LARGE = (16, 16), (512, 512)
COUNTS = (10, 100, 1000, 3000)
CASES: dict[str, Case] = {
    **{f"{n} small": Case((SMALL,) * n, {"optax": 1.05}) for n in COUNTS},
    "3000 small": Case((SMALL,) * 3000, {"optax": 1.05, "torch": 1.0}),
    "10 large": Case((LARGE,) * 10, {"optax": 1.05, "torch": 1.2}, 4),
    "100 large": Case((LARGE,) * 100, {"optax": 1.05, "torch": 1.2}),
    "ResNet-50": Case(resnet_50(), {"optax": 1.05, "torch": 1.2}),
    "ViT-B": Case(vit_b(), {"optax": 1.05, "torch": 1.2}),
}
QUICK = ("10 small", "100 small", "1000 small", "ResNet-50")
#: the growth with the number of tensors is drawn for AdamW
FOR_ADAMW = ("100 small", "1000 small")


class Stepper(NamedTuple):
    """A step to call, and how to wait for its end."""

    step: Callable[[], Any]
    wait: Callable[[], Any]


def arrays(shapes: Shapes) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Parameters and gradients."""
    rng = np.random.default_rng(0)
    draw = lambda s: rng.standard_normal(s, np.float32)
    return [draw(s) for s in shapes], [draw(s) * 1e-2 for s in shapes]


def of_torch_like(lib: Any, wait: Any, who: str, rule: str, values: Any, grads: Any) -> Stepper:
    """PyTorch's optimizer, or ours. The gradients are shared between contestants."""
    params = [lib.nn.Parameter(lib.tensor(v)) for v in values]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    optimizer = getattr(lib.optim, rule)(params, **RULES[rule], **TORCH.get(who, {}))
    step = lib.compile(optimizer.step) if who == "compiled" else optimizer.step
    return Stepper(step, lambda: wait(params))


def of_optax(rule: str, values: Any, grads: Any) -> Stepper:
    """The same rule of optax, jitted, parameters and state donated."""
    import jax
    import jax.numpy as jnp
    import optax

    options = dict(RULES[rule])
    tx = getattr(optax, rule.lower())(options.pop("lr"), **options)
    params = [jnp.array(v) for v in values]
    state = tx.init(params)

    def update(params: Any, state: Any, grads: Any) -> Any:
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    run = jax.jit(update, donate_argnums=(0, 1))

    def step() -> None:
        nonlocal params, state
        params, state = run(params, state, grads)

    return Stepper(step, lambda: jax.block_until_ready((params, state)))


def steppers(who: tuple[str, ...], rule: str, shapes: Shapes) -> dict[str, Stepper]:
    """The contestants; those of one library share their gradients."""
    values, grads = arrays(shapes)
    found: dict[str, Stepper] = {}
    theirs = ours = plain = None
    for name in who:
        if name in TORCH:
            import torch

            theirs = theirs or [torch.from_numpy(g) for g in grads]
            found[name] = of_torch_like(torch, lambda params: None, name, rule, values, theirs)
            continue
        import jax
        import jax.numpy as jnp

        import functorch_port

        plain = plain or [jnp.asarray(g) for g in grads]
        if name == "optax":
            found[name] = of_optax(rule, values, plain)
        else:
            ours = ours or [functorch_port.tensor(g) for g in grads]
            wait = lambda params: jax.block_until_ready([p._storage.look() for p in params])
            found[name] = of_torch_like(functorch_port, wait, name, rule, values, ours)
    return found


# -------------------------------------------------- the fresh process


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def alone(who: str, rule: str, case: str) -> dict[str, float]:
    """What one contestant costs in a process of its own."""
    from harness import memory

    stepper = steppers((who,), rule, CASES[case].shapes)[who]
    seconds = []
    for _ in range(5):
        if len(seconds) == 2:
            before = memory("VmRSS")
            _forget_peak()
        start = time.perf_counter()
        stepper.step()
        stepper.wait()
        seconds.append(time.perf_counter() - start)
    later = statistics.median(seconds[2:])
    peak = memory("VmHWM")
    return {"first": seconds[0], "later": later, "compile": max(0.0, seconds[0] + seconds[1] - 2 * later), "peak": peak,
            "extra": max(0, peak - before)}  # fmt: skip


# -------------------------------------------------- the benchmark


def _measure(rule: str, name: str, effort: Any) -> dict[str, Any]:
    from harness import Contestant, fresh_process, interleave, progress

    case = CASES[name]
    contestants = {
        who: Contestant(s.step, lambda result, s=s: s.wait())
        for who, s in steppers(WHO, rule, case.shapes).items()
    }
    effort = replace(effort, rounds=case.rounds * effort.rounds)
    with progress() as bar:
        task = bar.add_task(f"{rule}, {name}", total=effort.rounds)
        seconds = interleave(contestants, effort, lambda: bar.advance(task))
    del contestants
    with progress() as bar:
        asked = [who for who in WHO if effort.starts > 1 or who not in TORCH]
        task = bar.add_task(f"{rule}, {name}: first steps, memory", total=len(asked))
        costs = {}
        for who in asked:
            costs[who] = fresh_process(__file__, who, rule, name)
            bar.advance(task)
    return _report(f"{rule}, {name}", case, seconds, costs)


def _cost_cells(cost: dict[str, float] | None) -> tuple[str, str, str]:
    if cost is None:
        return "", "", ""
    return f"{cost['compile']:.2f} s", f"{cost['peak'] / 1e6:.0f}", f"{cost['extra'] / 1e6:.0f}"


def _report(title: str, case: Case, seconds: dict[str, list[float]], costs: dict[str, Any]) -> dict[str, Any]:
    from harness import console, ratios, show_best, show_ratio, show_seconds, summary, table

    numbers = sum(int(np.prod(s)) for s in case.shapes)
    fastest = min(TORCH, key=lambda who: statistics.median(seconds[who]))
    rows = [
        (
            who,
            show_seconds(s),
            show_best(s),
            show_ratio(ratios(s, seconds["optax"])),
            *_cost_cells(costs.get(who)),
        )
        for who, s in seconds.items()
    ]
    columns = ("", "a step", "at best", "x optax", "compile", "peak, MB", "of it the step's")
    table(f"{title}: {len(case.shapes)} tensors, {numbers / 1e6:.3g} million numbers", columns, rows)
    paired: dict[str, list[float]] = {}
    for who in OURS:
        for against in ("optax", fastest):
            bar = case.bars.get("optax" if against == "optax" else "torch")
            values = ratios(seconds[who], seconds[against])
            best = min(seconds[who]) / min(seconds[against])
            paired[f"{who} / {against}"] = values
            console.print(f"  {who} / {against}: {show_ratio(values, bar)}, at best {best:.2f}")
    return {
        "tensors": len(case.shapes),
        "numbers": numbers,
        "fastest of torch": fastest,
        "seconds": {who: {**summary(s), "rounds": s} for who, s in seconds.items()},
        "ratios": {pair: summary(values) for pair, values in paired.items()},
        "bars": case.bars,
        "alone": costs,
    }


COLOUR = {
    "torch for-loop": "#f2a29b", "torch foreach": "#e45756", "torch fused": "#9e2a2b", "optax": "#8a8a8a",
    "eager": "#4c78a8", "compiled": "#1b3f6b",
}  # fmt: skip


def _draw(axes: Any, results: dict[str, Any]) -> None:
    growth = {r["tensors"]: r for name, r in results.items() if name.startswith("AdamW") and "small" in name}
    for ax, title, unit, value in (
        (axes[0], "AdamW, small tensors: a step", "ms", lambda r, who: 1e3 * r["seconds"][who]["median"]),
        (axes[1], "the same: compiling", "s", lambda r, who: max(r["alone"][who]["compile"], 1e-3)),
    ):
        for who in WHO:
            if who in TORCH and ax is axes[1]:
                continue
            ax.plot(
                list(growth),
                [value(r, who) for r in growth.values()],
                marker="o",
                color=COLOUR[who],
                label=who,
            )
        ax.set(title=title, xlabel="tensors", ylabel=unit, xscale="log", yscale="log")
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    rest = {name: r for name, r in results.items() if "small" not in name}
    for i, who in enumerate(WHO):
        heights = [r["seconds"][who]["median"] / r["seconds"]["optax"]["median"] for r in rest.values()]
        axes[2].bar([x + (i - 2.5) * 0.13 for x in range(len(rest))], heights, 0.13, color=COLOUR[who])
    axes[2].axhline(1, color="black", lw=0.6)
    axes[2].set_xticks(range(len(rest)), [n.replace(", ", "\n") for n in rest], fontsize=7)
    axes[2].set(title="times optax", ylim=(0, 3))


def _rounds(results: dict[str, Any]) -> str:
    """How many rounds each case had."""
    counts = {name: len(r["seconds"][WHO[0]]["rounds"]) for name, r in results.items()}
    usual = statistics.mode(counts.values())
    others = [f"{n} for {name}" for name, n in counts.items() if n != usual]
    return f"{usual} rounds" + (f" ({', '.join(others)})" if others else "")


def _page(results: dict[str, Any]) -> str:
    """The figures in Markdown."""
    from harness import origin

    lines = [
        "# Speed of the optimizers' steps on a CPU",
        "",
        f"{origin('optax')} The gradients are given, so a step is the update alone. Small tensors are {SMALL}, large "
        f"ones {LARGE}. Milliseconds, medians of {_rounds(results)}; ratios are paired, "
        "round by round, those to PyTorch beside the fastest of its three ways.",
        "",
        "![](optim_step.png)",
        "",
        "## A step",
        "",
        "| | " + " | ".join((*WHO, *(f"{us} / {it}" for it in ("optax", "PyTorch") for us in OURS))) + " |",
        "|---" * (len(WHO) + 5) + "|",
    ]
    for name, r in results.items():
        cells = [f"{1e3 * r['seconds'][who]['median']:.3g}" for who in WHO]
        cells += [
            f"{r['ratios'][f'{us} / {it}']['median']:.2f}"
            for it in ("optax", r["fastest of torch"])
            for us in OURS
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for title, cell in (
        ("Compiling, s", lambda cost: f"{cost['compile']:.2g}"),
        ("Peak memory of a process that does nothing else, MB", lambda cost: f"{cost['peak'] / 1e6:.0f}"),
    ):
        who = [w for w in WHO if title.startswith("Peak") or w not in TORCH]
        lines += ["", f"## {title}", "", f"| | {' | '.join(who)} |", "|---" * (len(who) + 1) + "|"]
        lines += [
            f"| {name} | {' | '.join(cell(r['alone'][w]) if w in r['alone'] else '' for w in who)} |"
            for name, r in results.items()
        ]
    return "\n".join([*lines, ""])


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``optim_step.json``, ``optim_step.md`` and ``optim_step.png``."""
    from harness import figure, save

    quick = effort.starts == 1
    results = {}
    for rule in RULES:
        for name in QUICK if quick else CASES:
            title = f"{rule}, {name}"
            asked = not effort.models or any(part in title for part in effort.models)
            if asked and (rule == "AdamW" or name not in FOR_ADAMW):
                results[title] = _measure(rule, name, effort)
    save(folder, "optim_step", {"cases": results})
    (folder / "optim_step.md").write_text(_page(results))
    figure(folder, "optim_step", lambda axes: _draw(axes, results), 13, 3)


if __name__ == "__main__":
    print(json.dumps(alone(*sys.argv[1:])))
