"""Microseconds per eager operation beside PyTorch and raw jax.numpy; forward, and with backward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import networks
import numpy as np
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
from jax import lax

TITLE = "overhead of an eager operation"
WHO = ("torch eager", "eager", "jnp")


class Case(NamedTuple):
    """An operation in PyTorch's words, in jax.numpy's, and its inputs (floats first, they get gradients)."""

    torch: Callable[..., Any]
    jnp: Callable[..., Any]
    inputs: tuple[Any, ...]


def cases() -> dict[str, Case]:
    """The operations by name. The arrays are small: the time is the library's, not the arithmetic's."""
    rng = np.random.default_rng(0)

    def f(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    a, b, bias = f(32, 32), f(32, 32), f(32)
    image, kernel = f(4, 3, 8, 8), f(8, 3, 3, 3)
    labels = rng.integers(0, 32, 32)

    def layer_norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def cross_entropy(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1).mean()

    return {
        "x + y": Case(lambda lib, x, y: x + y, lambda x, y: x + y, (a, b)),
        "x * 2": Case(lambda lib, x: x * 2.0, lambda x: x * 2.0, (a,)),
        "exp": Case(lambda lib, x: x.exp(), jnp.exp, (a,)),
        "relu": Case(lambda lib, x: lib.F.relu(x), jax.nn.relu, (a,)),
        "sum": Case(lambda lib, x: x.sum(), jnp.sum, (a,)),
        "mean(dim)": Case(lambda lib, x: x.mean(1), lambda x: x.mean(1), (a,)),
        "x @ y": Case(lambda lib, x, y: x @ y, lambda x, y: x @ y, (a, b)),
        "linear": Case(lambda lib, x, w, c: lib.F.linear(x, w, c), lambda x, w, c: x @ w.T + c, (a, b, bias)),
        "softmax": Case(lambda lib, x: lib.F.softmax(x, -1), jax.nn.softmax, (a,)),
        "layer_norm": Case(lambda lib, x: lib.F.layer_norm(x, (32,)), layer_norm, (a,)),
        "cross_entropy": Case(lambda lib, x, y: lib.F.cross_entropy(x, y), cross_entropy, (a, labels)),
        "conv2d": Case(
            lambda lib, x, w: lib.F.conv2d(x, w),
            lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID"),
            (image, kernel),
        ),
        "view": Case(lambda lib, x: x.view(-1), lambda x: x.reshape(-1), (a,)),
        "x[1:9]": Case(lambda lib, x: x[1:9], lambda x: x[1:9], (a,)),
        "cat": Case(lambda lib, x, y: lib.torch.cat([x, y]), lambda x, y: jnp.concatenate([x, y]), (a, b)),
    }


def _in_torch(library: str, case: Case, backward: bool) -> Contestant:
    lib = networks.library(library)
    inputs = [lib.torch.from_numpy(x) for x in case.inputs]
    if backward:
        for x in inputs:
            x.requires_grad_(x.is_floating_point())
    leaves = [x for x in inputs if x.requires_grad]
    seed = lib.torch.ones_like(case.torch(lib, *inputs))

    def call() -> Any:
        out = case.torch(lib, *inputs)
        if backward:
            return lib.torch.autograd.grad(out, leaves, seed)
        return (out,)

    if library == "torch":
        return Contestant(call)
    return Contestant(call, lambda out: jax.block_until_ready([t.jax() for t in out]))


def _in_jnp(case: Case, backward: bool) -> Contestant:
    inputs = [jnp.asarray(x) for x in case.inputs]
    floats = [i for i, x in enumerate(inputs) if x.dtype == jnp.float32]
    rest = inputs[len(floats) :]
    seed = jnp.ones_like(case.jnp(*inputs))

    def call() -> Any:
        if not backward:
            return case.jnp(*inputs)
        _, pull = jax.vjp(lambda *xs: case.jnp(*xs, *rest), *inputs[: len(floats)])
        return pull(seed)

    return Contestant(call, jax.block_until_ready)


def _measure(folder: Path, effort: Effort) -> dict[str, dict[str, dict[str, list[float]]]]:
    found: dict[str, dict[str, dict[str, list[float]]]] = {"forward": {}, "forward and backward": {}}
    short = Effort(effort.rounds, effort.block / 5, effort.starts, effort.torch_compile)
    todo = [(kind, name, case) for kind in found for name, case in cases().items()]
    with progress() as bar:
        task = bar.add_task("operations", total=len(todo))
        for kind, name, case in todo:
            bar.update(task, description=f"{kind}: {name}")
            backward = kind != "forward"
            contestants = {
                "torch eager": _in_torch("torch", case, backward),
                "eager": _in_torch("functorch_port", case, backward),
                "jnp": _in_jnp(case, backward),
            }
            found[kind][name] = interleave(contestants, short)
            bar.advance(task)
    return found


def _report(kind: str, results: dict[str, dict[str, list[float]]]) -> None:
    rows = [
        (
            name,
            *(show_seconds(seconds[who]) for who in WHO),
            show_ratio(ratios(seconds["eager"], seconds["torch eager"])),
            show_ratio(ratios(seconds["eager"], seconds["jnp"])),
        )
        for name, seconds in results.items()
    ]
    columns = ("", "torch", "functorch_port", "jax.numpy", "/ torch", "/ jax.numpy")
    table(f"{TITLE}: {kind}", columns, rows)


def _draw(axes: Any, results: dict[str, Any]) -> None:
    for ax, (kind, found) in zip(axes, results.items(), strict=True):
        for k, who in enumerate(WHO):
            heights = [1e6 * summary(seconds[who])["median"] for seconds in found.values()]
            places = [i + (k - 1) * 0.27 for i in range(len(found))]
            ax.bar(places, heights, 0.27, label=who, color=COLOURS[who])
        ax.set_xticks(range(len(found)), found, rotation=45, ha="right")
        ax.set(title=kind, ylabel="µs a call", yscale="log")
        ax.grid(axis="y", alpha=0.3)
        ax.legend()


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``op_overhead.json`` and ``op_overhead.png``."""
    results = _measure(folder, effort)
    for kind, found in results.items():
        _report(kind, found)
    data = {k: {n: {w: summary(s) for w, s in by.items()} for n, by in r.items()} for k, r in results.items()}
    save(folder, "op_overhead", data)
    figure(folder, "op_overhead", lambda axes: _draw(axes, results), 14, 2)
