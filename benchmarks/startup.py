"""Seconds from starting Python to the first step of the CNN, with and without cached programs.

Run as a script it is one of those processes: ``python startup.py WHO STARTED`` takes two steps and prints
when each stage was done, in seconds since ``STARTED`` (of `time.time`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TITLE = "start-up"
WHO = ("torch eager", "eager", "compiled", "hand-written JAX")
STAGES = ("imported", "built", "first step", "second step")
CACHES = ("cold", "warm")


# -------------------------------------------------- inside the fresh process


def _torch_like(name: str, compiled: bool) -> Callable[[], Callable[[], float]]:
    import networks

    lib = networks.library(name)

    def build() -> Callable[[], float]:
        wrap = lib.torch.compile if compiled else None
        step = networks.training(
            lib, networks.cnn(lib), lib.F.nll_loss, networks.data((64, 1, 28, 28), 10), wrap
        )
        return lambda: step().item()

    return build


def _plain_jax() -> Callable[[], Callable[[], float]]:
    import handwritten
    import jax
    import jax.numpy as jnp
    import networks

    def build() -> Callable[[], float]:
        program = handwritten.cnn()
        images, labels = networks.data((64, 28, 28, 1), 10)
        x, y = jnp.asarray(images), jnp.asarray(labels, jnp.int32)
        step, state = program.jit(), program.state

        def run() -> float:
            nonlocal state
            state, loss = step(state, x, y)
            jax.block_until_ready(state)
            return float(loss)

        return run

    return build


def _two_steps(who: str, started: float) -> dict[str, float]:
    """When each stage was done."""
    makers = {
        "torch eager": lambda: _torch_like("torch", False),
        "eager": lambda: _torch_like("functorch_port", False),
        "compiled": lambda: _torch_like("functorch_port", True),
        "hand-written JAX": _plain_jax,
    }
    times = []
    build = makers[who]()
    times.append(time.time() - started)
    step = build()
    times.append(time.time() - started)
    for _ in range(2):
        step()
        times.append(time.time() - started)
    return dict(zip(STAGES, times, strict=True))


# ------------------------------------------------------------- the benchmark


def _start(who: str, cache: str) -> dict[str, float]:
    """One fresh process. Plain JAX gets the same cache with the same threshold."""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "OMP_NUM_THREADS": str(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        ),
    }
    command = [sys.executable, __file__, who, repr(time.time())]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{who}: {done.stderr}")
    return json.loads(done.stdout)


def _measure(effort: Any) -> dict[str, dict[str, list[dict[str, float]]]]:
    from harness import progress

    found: dict[str, dict[str, list[dict[str, float]]]] = {
        who: {cache: [] for cache in CACHES} for who in WHO
    }
    with progress() as bar:
        task = bar.add_task("", total=effort.starts * len(WHO) * len(CACHES))
        for _ in range(effort.starts):
            for who in WHO:
                with tempfile.TemporaryDirectory() as folder:
                    for cache in CACHES:
                        bar.update(task, description=f"{who}, {cache} cache")
                        found[who][cache].append(_start(who, folder))
                        bar.advance(task)
    return found


def _report(found: dict[str, dict[str, list[dict[str, float]]]]) -> dict[str, Any]:
    from harness import show_seconds, summary, table

    rows, data = [], {}
    for who, by_cache in found.items():
        for cache, starts in by_cache.items():
            if who == "torch eager" and cache == "warm":  # it has no such cache
                continue
            name = who if who == "torch eager" else f"{who}, {cache} cache"
            stages = {stage: [s[stage] for s in starts] for stage in STAGES}
            step = [a - b for a, b in zip(stages["first step"], stages["built"], strict=True)]
            rows.append((name, *(show_seconds(v) for v in stages.values()), show_seconds(step)))
            data[name] = {**{k: summary(v) for k, v in stages.items()}, "first step alone": summary(step)}
    table(f"{TITLE}: seconds since the process began", ("CNN, batch 64", *STAGES, "first step alone"), rows)
    return data


def _draw(ax: Any, data: dict[str, Any]) -> None:
    shades = ("#c9d6e8", "#8fb0d6", "#1b3f6b")
    for i, stages in enumerate(data.values()):
        at = 0.0
        for stage, colour in zip(STAGES[:3], shades, strict=True):
            until = stages[stage]["median"]
            ax.barh(i, until - at, left=at, color=colour, label=stage if i == 0 else None)
            at = until
    ax.set_yticks(range(len(data)), data)
    ax.invert_yaxis()
    ax.set(title="from starting Python to the first step of the CNN", xlabel="seconds")
    ax.grid(axis="x", alpha=0.3)
    ax.legend()


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``startup.json`` and ``startup.png``."""
    from harness import figure, save

    data = _report(_measure(effort))
    save(folder, "startup", {"cases": data})
    figure(folder, "startup", lambda ax: _draw(ax, data), 9)


if __name__ == "__main__":
    print(json.dumps(_two_steps(sys.argv[1], float(sys.argv[2]))))
