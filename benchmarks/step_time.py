"""Seconds per training step: PyTorch, functorch_port, hand-written JAX."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import handwritten
import jax
import jax.numpy as jnp
import networks
from harness import (
    COLOURS,
    Contestant,
    Effort,
    console,
    figure,
    interleave,
    progress,
    ratios,
    save,
    show_best,
    show_ratio,
    show_seconds,
    summary,
    table,
)

import functorch_port

TITLE = "step time"


class Case(NamedTuple):
    """One network: how to make it either way, its input, and the bars it has to pass."""

    model: Callable[[Any], Any]
    loss: str
    written: handwritten.Program
    shape: tuple[int, ...]
    bars: dict[tuple[str, str], float]


ALWAYS = {("compiled", "hand-written JAX"): 1.05, ("compiled, zero_grad last", "hand-written JAX"): 1.05}
SMALL = {**ALWAYS, ("eager", "torch eager"): 1.3, ("compiled", "torch eager"): 0.6}
PAIRS = (
    ("compiled", "hand-written JAX"),
    ("compiled, zero_grad last", "hand-written JAX"),
    ("eager", "torch eager"),
    ("compiled", "torch eager"),
)


def cases() -> dict[str, Case]:
    """The three networks, by name."""

    def mlp(sizes: tuple[int, ...], batch: int, bars: Any) -> Case:
        program = handwritten.mlp(sizes)
        shape = (batch, sizes[0])
        return Case(lambda lib: networks.mlp(lib, sizes), "cross_entropy", program, shape, bars)

    return {
        "MLP 64-64-64-10, batch 16": mlp((64, 64, 64, 10), 16, SMALL),
        "MLP 784-512-512-10, batch 64": mlp((784, 512, 512, 10), 64, ALWAYS),
        "CNN, batch 64": Case(networks.cnn, "nll_loss", handwritten.cnn(), (64, 1, 28, 28), ALWAYS),
    }


def _written(case: Case, batch: Any) -> Contestant:
    x, y = batch
    if x.ndim == 4:  # (N, C, H, W) to (N, H, W, C)
        x = x.transpose(0, 2, 3, 1)
    x, y = jnp.asarray(x), jnp.asarray(y, jnp.int32)
    step, state = case.written.jit(), jax.tree.map(lambda a: a.copy(), case.written.state)

    def call() -> Any:
        nonlocal state
        state, loss = step(state, x, y)
        return state, loss

    return Contestant(call, jax.block_until_ready)


def _networks(case: Case, batch: Any, compile_torch: bool) -> dict[str, Contestant]:
    torch, ours = networks.library("torch"), networks.library("functorch_port")

    def make(lib: Any, wait: Any, wrap: Any = None, zero_last: bool = False) -> Contestant:
        model = case.model(lib)
        step = networks.training(lib, model, getattr(lib.F, case.loss), batch, wrap, zero_last)
        return Contestant(step, lambda loss: wait(model, loss))

    def wait_ours(model: Any, loss: Any) -> None:
        jax.block_until_ready([p.jax() for p in model.parameters()])

    def wait_torch(model: Any, loss: Any) -> None:
        """PyTorch on a CPU is done when the call returns."""

    found = {
        "torch eager": make(torch, wait_torch),
        "eager": make(ours, wait_ours),
        "compiled": make(ours, wait_ours, functorch_port.compile),
        "compiled, zero_grad last": make(ours, wait_ours, functorch_port.compile, zero_last=True),
        "hand-written JAX": _written(case, batch),
    }
    if compile_torch:
        logging.getLogger("torch._logging").setLevel(logging.ERROR)
        candidate = make(torch, wait_torch, torch.torch.compile)
        try:
            for _ in range(2):
                candidate.call()
            found["torch.compile"] = candidate
        except Exception as error:  # no C++ compiler, mostly
            console.print(f"torch.compile does not work here: {type(error).__name__}: {str(error)[:200]}")
    return found


def _timed(name: str, contestants: dict[str, Contestant], effort: Effort) -> dict[str, list[float]]:
    with progress() as bar:
        task = bar.add_task(name, total=effort.rounds)
        return interleave(contestants, effort, lambda: bar.advance(task))


def _report(name: str, case: Case, seconds: dict[str, list[float]]) -> dict[str, Any]:
    rows = [
        (n, show_seconds(s), show_best(s), show_ratio(ratios(s, seconds["torch eager"])))
        for n, s in seconds.items()
    ]
    table(name, ("", "a step", "at best", "x torch eager"), rows)
    paired = {pair: ratios(seconds[pair[0]], seconds[pair[1]]) for pair in PAIRS}
    for (a, b), values in paired.items():
        best = min(seconds[a]) / min(seconds[b])
        console.print(f"  {a} / {b}: {show_ratio(values, case.bars.get((a, b)))}, at best {best:.2f}")
    return {
        "seconds": {n: {**summary(s), "rounds": s} for n, s in seconds.items()},
        "ratios": {
            f"{a} / {b}": {**summary(v), "bar": case.bars.get((a, b))} for (a, b), v in paired.items()
        },
    }


def _draw(axes: Any, results: dict[str, Any]) -> None:
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        for i, (who, s) in enumerate(result["seconds"].items()):
            middle, low, high = (1e3 * s[k] for k in ("median", "quartile_low", "quartile_high"))
            ax.bar(i, middle, color=COLOURS[who], yerr=[[middle - low], [high - middle]], capsize=3)
        ax.set_xticks(range(len(result["seconds"])), result["seconds"], rotation=30, ha="right")
        ax.set(title=name, ylabel="ms a step")
        ax.grid(axis="y", alpha=0.3)


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``step_time.json`` and ``step_time.png``."""
    results = {}
    for name, case in cases().items():
        with console.status(f"{name}: compiling"):
            contestants = _networks(case, networks.data(case.shape, 10), effort.torch_compile)
        seconds = _timed(name, contestants, effort)
        results[name] = _report(name, case, seconds)
    save(folder, "step_time", {"cases": results})
    figure(folder, "step_time", lambda axes: _draw(axes, results), 12, len(results))
