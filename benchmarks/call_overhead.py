"""Microseconds that a compiled call costs on top of plain JAX, against the number of layers.

The network is a stack of narrow layers, so there are many parameters and little arithmetic: what is left
over between the compiled PyTorch-style step and `jax.jit` of the same step over a pytree is the cost of
finding, guarding and writing back state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import handwritten
import jax
import jax.numpy as jnp
import networks
from harness import (
    COLOURS,
    Contestant,
    Effort,
    figure,
    interleave,
    progress,
    ratios,
    save,
    show_ratio,
    show_seconds,
    summary,
    table,
)

import functorch_port

TITLE = "overhead of a compiled call"
WIDTH, BATCH = 8, 4
DEPTHS = (1, 10, 30, 100)


def _contestants(depth: int) -> dict[str, Contestant]:
    sizes = (WIDTH,) * (depth + 1)
    batch = networks.data((BATCH, WIDTH), WIDTH)
    lib = networks.library("functorch_port")
    model = networks.mlp(lib, sizes)
    step = networks.training(lib, model, lib.F.cross_entropy, batch, functorch_port.compile)
    program = handwritten.mlp(sizes)
    written, state = program.jit(), program.state
    x, y = jnp.asarray(batch[0]), jnp.asarray(batch[1], jnp.int32)

    def call() -> Any:
        nonlocal state
        state, loss = written(state, x, y)
        return state, loss

    return {
        "compiled": Contestant(
            step, lambda loss: jax.block_until_ready([p.jax() for p in model.parameters()])
        ),
        "hand-written JAX": Contestant(call, jax.block_until_ready),
    }


def _draw(ax: Any, results: dict[int, dict[str, list[float]]]) -> None:
    for who in ("compiled", "hand-written JAX"):
        found = [summary(seconds[who]) for seconds in results.values()]
        middle = [1e6 * s["median"] for s in found]
        ax.plot(list(results), middle, marker="o", label=who, color=COLOURS[who])
        low, high = ([1e6 * s[k] for s in found] for k in ("quartile_low", "quartile_high"))
        ax.fill_between(list(results), low, high, color=COLOURS[who], alpha=0.2)
    ax.set(title=f"a training step of a narrow MLP (width {WIDTH})", xlabel="layers", ylabel="µs a step")
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)
    ax.legend()


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``call_overhead.json`` and ``call_overhead.png``."""
    results: dict[int, dict[str, list[float]]] = {}
    with progress() as bar:
        task = bar.add_task("compiled calls", total=len(DEPTHS) * effort.rounds)
        for depth in DEPTHS:
            bar.update(task, description=f"{depth} layers")
            results[depth] = interleave(_contestants(depth), effort, lambda: bar.advance(task))
    rows, data = [], {}
    for depth, seconds in results.items():
        ours, plain = seconds["compiled"], seconds["hand-written JAX"]
        extra = [a - b for a, b in zip(ours, plain, strict=True)]
        ratio = ratios(ours, plain)
        rows.append((f"{depth} layers", *map(show_seconds, (ours, plain, extra)), show_ratio(ratio)))
        data[depth] = {
            "compiled": summary(ours),
            "jax": summary(plain),
            "extra": summary(extra),
            "ratio": summary(ratio),
        }
    table(
        f"{TITLE} (MLP of width {WIDTH}, batch {BATCH})",
        ("", "compiled", "jax.jit", "difference", "ratio"),
        rows,
    )
    save(folder, "call_overhead", {"depth": data})
    figure(folder, "call_overhead", lambda ax: _draw(ax, results), 6)
