"""The operations that models spend their time in, of the sizes that the suite's models have: beside PyTorch eager.

Forward alone, and with the gradients of all floating inputs. The small arrays of `op_overhead` ask for the cost of a
call; these ask how good the computation is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import networks
import numpy as np
from harness import (
    COLOURS,
    Contestant,
    Effort,
    figure,
    interleave,
    origin,
    progress,
    ratios,
    save,
    show_ratio,
    show_seconds,
    summary,
    table,
)

TITLE = "operations of the models' sizes"
WHO = ("torch eager", "eager", "compiled")
KINDS = ("forward", "forward and backward")


class Case(NamedTuple):
    """An operation on arrays; those of floats come first and get gradients."""

    run: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]


def cases() -> dict[str, Case]:
    """The operations by name."""
    rng = np.random.default_rng(0)

    def f(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def whole(below: int, *shape: int) -> np.ndarray:
        return rng.integers(0, below, shape)

    tokens, hidden = f(1024, 384), f(1024, 1536)
    image, heads = f(16, 64, 32, 32), tuple(f(4, 6, 256, 64) for _ in range(3))
    wide = f(64), f(64)

    def attention(causal: bool) -> Callable[..., Any]:
        return lambda lib, q, k, v: lib.F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def conv(**options: Any) -> Callable[..., Any]:
        return lambda lib, x, w: lib.F.conv2d(x, w, **options)

    def norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.F.batch_norm(x, None, None, w, b, training=True)

    def recurrent(kind: str) -> Callable[..., Any]:
        def run(lib: Any, x: Any, *weights: Any) -> Any:
            start = [lib.torch.zeros(1, x.shape[1], 256) for _ in range(2 if kind == "lstm" else 1)]
            given = tuple(start) if kind == "lstm" else start[0]
            return getattr(lib.torch, kind)(x, given, list(weights), True, 1, 0.0, True, False, False)[0]

        return run

    lstm = f(35, 20, 256), 0.1 * f(1024, 256), 0.1 * f(1024, 256), f(1024), f(1024)
    gru = f(35, 20, 256), 0.1 * f(768, 256), 0.1 * f(768, 256), f(768), f(768)
    return {
        "x + y": Case(lambda lib, x, y: x + y, (hidden, f(1024, 1536))),
        "x * y": Case(lambda lib, x, y: x * y, (hidden, f(1024, 1536))),
        "x + bias": Case(lambda lib, x, b: x + b, (hidden, f(1536))),
        "exp": Case(lambda lib, x: x.exp(), (hidden,)),
        "tanh": Case(lambda lib, x: x.tanh(), (hidden,)),
        "sigmoid": Case(lambda lib, x: x.sigmoid(), (hidden,)),
        "silu": Case(lambda lib, x: lib.F.silu(x), (hidden,)),
        "gelu": Case(lambda lib, x: lib.F.gelu(x), (hidden,)),
        "gelu, tanh": Case(lambda lib, x: lib.F.gelu(x, approximate="tanh"), (hidden,)),
        "relu": Case(lambda lib, x: lib.F.relu(x), (image,)),
        "leaky_relu": Case(lambda lib, x: lib.F.leaky_relu(x, 0.2), (image,)),
        "where": Case(lambda lib, x, y, m: lib.torch.where(m, x, y), (hidden, f(1024, 1536), hidden > 0)),
        "sum": Case(lambda lib, x: x.sum(), (hidden,)),
        "mean(dim)": Case(lambda lib, x: x.mean(-1), (hidden,)),
        "var(dim)": Case(lambda lib, x: x.var(-1), (hidden,)),
        "amax(dim)": Case(lambda lib, x: x.amax(-1), (hidden,)),
        "cumsum": Case(lambda lib, x: x.cumsum(1), (tokens,)),
        "transpose, contiguous": Case(lambda lib, x: x.transpose(0, 1).contiguous(), (hidden,)),
        "cat": Case(lambda lib, x, y: lib.torch.cat([x, y], 1), (image, f(16, 64, 32, 32))),
        "mm 1024x384x1536": Case(lambda lib, x, y: x @ y, (tokens, f(384, 1536))),
        "linear 1024x384x1536": Case(lambda lib, x, w, b: lib.F.linear(x, w, b), (tokens, f(1536, 384), f(1536))),
        "linear 64x784x512": Case(lambda lib, x, w, b: lib.F.linear(x, w, b), (f(64, 784), f(512, 784), f(512))),
        "bmm 24x256x64x256": Case(lambda lib, x, y: lib.torch.bmm(x, y), (f(24, 256, 64), f(24, 64, 256))),
        "attention": Case(attention(False), heads),
        "attention, causal": Case(attention(True), heads),
        "softmax": Case(lambda lib, x: lib.F.softmax(x, -1), (f(24, 256, 256),)),
        "log_softmax": Case(lambda lib, x: lib.F.log_softmax(x, -1), (f(1024, 1000),)),
        "cross_entropy": Case(lambda lib, x, y: lib.F.cross_entropy(x, y), (f(1024, 1000), whole(1000, 1024))),
        "embedding": Case(lambda lib, w, i: lib.F.embedding(i, w), (f(1000, 256), whole(1000, 20, 35))),
        "layer_norm": Case(lambda lib, x, w, b: lib.F.layer_norm(x, (384,), w, b), (tokens, f(384), f(384))),
        "group_norm": Case(lambda lib, x, w, b: lib.F.group_norm(x, 8, w, b), (image, *wide)),
        "batch_norm": Case(norm, (image, *wide)),
        "conv 3x3": Case(conv(padding=1), (image, f(64, 64, 3, 3))),
        "conv 1x1": Case(conv(), (image, f(64, 64, 1, 1))),
        "conv 7x7, stride 2": Case(conv(stride=2, padding=3), (f(4, 3, 224, 224), f(64, 3, 7, 7))),
        "conv, depthwise": Case(conv(padding=1, groups=64), (image, f(64, 1, 3, 3))),
        "conv_transpose": Case(
            lambda lib, x, w: lib.F.conv_transpose2d(x, w, stride=2, padding=1), (f(16, 64, 16, 16), f(64, 32, 4, 4))
        ),
        "max_pool": Case(lambda lib, x: lib.F.max_pool2d(x, 2), (f(64, 64, 24, 24),)),
        "avg_pool": Case(lambda lib, x: lib.F.avg_pool2d(x, 2), (f(64, 64, 24, 24),)),
        "lstm 35x20x256": Case(recurrent("lstm"), lstm),
        "gru 35x20x256": Case(recurrent("gru"), gru),
    }  # fmt: skip


def _contestant(who: str, case: Case, backward: bool) -> Contestant:
    lib = networks.library("torch" if who == "torch eager" else "functorch_port")
    inputs = [lib.torch.tensor(x) for x in case.inputs]
    if backward:
        for x in inputs:
            x.requires_grad_(x.is_floating_point())
    slope = lib.torch.ones_like(case.run(lib, *inputs)).detach()

    def call(*inputs: Any) -> Any:
        out = case.run(lib, *inputs)
        if not backward:
            return (out,)
        return lib.torch.autograd.grad(out, [x for x in inputs if x.requires_grad], slope)

    if who == "torch eager":
        return Contestant(lambda: call(*inputs))
    run = lib.torch.compile(call) if who == "compiled" else call
    return Contestant(lambda: jax.block_until_ready([t.jax() for t in run(*inputs)]))


def _page(results: dict[str, Any]) -> str:
    """The table in Markdown."""
    lines = [
        "# Operations on a CPU, beside PyTorch",
        "",
        f"{origin()} Milliseconds, medians; ratios to PyTorch eager are paired, round by round.",
        "",
        "![](operations.png)",
    ]
    for kind in KINDS:
        lines += [
            "",
            f"## {kind[0].upper()}{kind[1:]}",
            "",
            "| | PyTorch | eager | compiled | eager / PyTorch | compiled / PyTorch |",
        ]
        lines.append("|---|---|---|---|---|---|")
        for name, seconds in results[kind].items():
            cells = [f"{1e3 * statistics.median(seconds[who]):.3g}" for who in WHO]
            cells += [f"{_ratio(seconds, who):.2f}" for who in WHO[1:]]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        means = [f"{_mean(results[kind], who):.2f}" for who in WHO[1:]]
        lines.append(f"| geometric mean | | | | {' | '.join(means)} |")
    return "\n".join([*lines, ""])


def _ratio(seconds: dict[str, list[float]], who: str) -> float:
    return statistics.median(ratios(seconds[who], seconds["torch eager"]))


def _mean(results: dict[str, Any], who: str) -> float:
    return statistics.geometric_mean(_ratio(seconds, who) for seconds in results.values())


def _report(kind: str, results: dict[str, Any]) -> None:
    rows = [
        (
            name,
            *(show_seconds(seconds[who]) for who in WHO),
            *(show_ratio(ratios(seconds[who], seconds["torch eager"])) for who in WHO[1:]),
        )
        for name, seconds in results.items()
    ]
    rows.append(("geometric mean", "", "", "", *(f"{_mean(results, who):.2f}" for who in WHO[1:])))
    table(f"{TITLE}: {kind}", ("", *WHO, "eager / torch", "compiled / torch"), rows)


def _draw(axes: Any, results: dict[str, Any]) -> None:
    for ax, (kind, found) in zip(axes, results.items(), strict=True):
        for who in WHO[1:]:
            places = [_ratio(seconds, who) for seconds in found.values()]
            ax.plot(places, range(len(found)), "o", ms=4, label=who, color=COLOURS[who])
        ax.axvline(1, color="black", lw=0.8)
        ax.set_yticks(range(len(found)), found)
        ax.invert_yaxis()
        ax.set(title=kind, xlabel="time / PyTorch eager", xscale="log")
        ax.grid(axis="x", alpha=0.3)
        ax.legend()


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``operations.json``, ``operations.md`` and ``operations.png``."""
    results: dict[str, Any] = {kind: {} for kind in KINDS}
    short = Effort(effort.rounds, effort.block / 3, effort.starts, effort.torch_compile)
    chosen = {
        k: c for k, c in cases().items() if not effort.models or any(part in k for part in effort.models)
    }
    with progress() as bar:
        task = bar.add_task("operations", total=len(KINDS) * len(chosen))
        for kind in KINDS:
            for name, case in chosen.items():
                bar.update(task, description=f"{kind}: {name}")
                contestants = {who: _contestant(who, case, kind != "forward") for who in WHO}
                results[kind][name] = interleave(contestants, short)
                bar.advance(task)
    for kind, found in results.items():
        _report(kind, found)
    found = {
        kind: {name: {who: summary(s) for who, s in by.items()} for name, by in cases.items()}
        for kind, cases in results.items()
    }
    save(folder, "operations", found)
    (folder / "operations.md").write_text(_page(results))
    figure(folder, "operations", lambda axes: _draw(axes, results), 14, 2, height=9)
