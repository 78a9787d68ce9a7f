"""Microseconds per eager operation beside PyTorch and raw jax.numpy, for 40 operations; forward, and with backward.

Every call is waited for. With backward, all floating inputs require gradients in both libraries.
"""

from __future__ import annotations

import gc
import statistics
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
    spread,
    summary,
    table,
)
from jax import lax

TITLE = "overhead of an eager operation"
WHO = ("torch eager", "eager", "jnp")
#: geometric mean of the times over PyTorch's that is aimed at
BARS = {"forward": 1.5, "forward and backward": 1.0}


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

    a, b, bias, positive = f(32, 32), f(32, 32), f(32), np.abs(f(32, 32)) + 0.1
    batch, other = f(4, 16, 16), f(4, 16, 16)
    image, kernel = f(4, 3, 8, 8), f(8, 3, 3, 3)
    labels = rng.integers(0, 32, 32)
    mask = rng.random((32, 32)) < 0.5

    def batch_norm(x: Any) -> Any:
        centred = x - x.mean(0)
        return centred * lax.rsqrt((centred**2).mean(0) + 1e-5)

    def max_pool(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def layer_norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def cross_entropy(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1).mean()

    return {
        "x + y": Case(lambda lib, x, y: x + y, lambda x, y: x + y, (a, b)),
        "x - y": Case(lambda lib, x, y: x - y, lambda x, y: x - y, (a, b)),
        "x * y": Case(lambda lib, x, y: x * y, lambda x, y: x * y, (a, b)),
        "x / y": Case(lambda lib, x, y: x / y, lambda x, y: x / y, (a, positive)),
        "x * 2": Case(lambda lib, x: x * 2.0, lambda x: x * 2.0, (a,)),
        "x ** 2": Case(lambda lib, x: x**2, lambda x: x**2, (a,)),
        "exp": Case(lambda lib, x: x.exp(), jnp.exp, (a,)),
        "log": Case(lambda lib, x: x.log(), jnp.log, (positive,)),
        "abs": Case(lambda lib, x: x.abs(), jnp.abs, (a,)),
        "tanh": Case(lambda lib, x: x.tanh(), jnp.tanh, (a,)),
        "sigmoid": Case(lambda lib, x: x.sigmoid(), jax.nn.sigmoid, (a,)),
        "relu": Case(lambda lib, x: lib.F.relu(x), jax.nn.relu, (a,)),
        "gelu": Case(lambda lib, x: lib.F.gelu(x), lambda x: jax.nn.gelu(x, approximate=False), (a,)),
        "clamp": Case(lambda lib, x: x.clamp(-1.0, 1.0), lambda x: jnp.clip(x, -1.0, 1.0), (a,)),
        "maximum": Case(lambda lib, x, y: lib.torch.maximum(x, y), jnp.maximum, (a, b)),
        "where": Case(
            lambda lib, x, y, m: lib.torch.where(m, x, y), lambda x, y, m: jnp.where(m, x, y), (a, b, mask)
        ),
        "masked_fill": Case(
            lambda lib, x, m: x.masked_fill(m, 0.0), lambda x, m: jnp.where(m, 0.0, x), (a, mask)
        ),
        "sum": Case(lambda lib, x: x.sum(), jnp.sum, (a,)),
        "sum(dim)": Case(lambda lib, x: x.sum(1), lambda x: x.sum(1), (a,)),
        "mean(dim)": Case(lambda lib, x: x.mean(1), lambda x: x.mean(1), (a,)),
        "var(dim)": Case(lambda lib, x: x.var(1), lambda x: x.var(1, ddof=1), (a,)),
        "amax(dim)": Case(lambda lib, x: x.amax(1), lambda x: x.max(1), (a,)),
        "cumsum": Case(lambda lib, x: x.cumsum(1), lambda x: jnp.cumsum(x, 1), (a,)),
        "x @ y": Case(lambda lib, x, y: x @ y, lambda x, y: x @ y, (a, b)),
        "bmm": Case(lambda lib, x, y: lib.torch.bmm(x, y), lambda x, y: x @ y, (batch, other)),
        "linear": Case(lambda lib, x, w, c: lib.F.linear(x, w, c), lambda x, w, c: x @ w.T + c, (a, b, bias)),
        "softmax": Case(lambda lib, x: lib.F.softmax(x, -1), jax.nn.softmax, (a,)),
        "log_softmax": Case(lambda lib, x: lib.F.log_softmax(x, -1), jax.nn.log_softmax, (a,)),
        "batch_norm": Case(lambda lib, x: lib.F.batch_norm(x, None, None, training=True), batch_norm, (a,)),
        "mse_loss": Case(lambda lib, x, y: lib.F.mse_loss(x, y), lambda x, y: ((x - y) ** 2).mean(), (a, b)),
        "max_pool2d": Case(lambda lib, x: lib.F.max_pool2d(x, 2), max_pool, (image,)),
        "embedding": Case(lambda lib, x, y: lib.F.embedding(y, x), lambda x, y: x[y], (a, labels)),
        "layer_norm": Case(lambda lib, x: lib.F.layer_norm(x, (32,)), layer_norm, (a,)),
        "cross_entropy": Case(lambda lib, x, y: lib.F.cross_entropy(x, y), cross_entropy, (a, labels)),
        "conv2d": Case(
            lambda lib, x, w: lib.F.conv2d(x, w),
            lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID"),
            (image, kernel),
        ),
        "view": Case(lambda lib, x: x.view(-1), lambda x: x.reshape(-1), (a,)),
        "transpose": Case(lambda lib, x: x.transpose(0, 1), lambda x: x.T, (a,)),
        "x[1:9]": Case(lambda lib, x: x[1:9], lambda x: x[1:9], (a,)),
        "cat": Case(lambda lib, x, y: lib.torch.cat([x, y]), lambda x, y: jnp.concatenate([x, y]), (a, b)),
        "stack": Case(lambda lib, x, y: lib.torch.stack([x, y]), lambda x, y: jnp.stack([x, y]), (a, b)),
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
    on_host = (np.ndarray, np.generic)

    def waited() -> None:
        for tensor in call():
            value = tensor._storage.look()
            if not isinstance(value, on_host):  # where it is done
                value.block_until_ready()

    return Contestant(waited)


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

    return Contestant(lambda: jax.block_until_ready(call()))


def _geometric_means(results: dict[str, dict[str, list[float]]], versus: str) -> list[float]:
    """The geometric mean over the operations of our time over another's, round by round."""
    each = [ratios(seconds["eager"], seconds[versus]) for seconds in results.values()]
    return [statistics.geometric_mean(column) for column in zip(*each, strict=True)]


def _measure(folder: Path, effort: Effort) -> dict[str, dict[str, dict[str, list[float]]]]:
    found: dict[str, dict[str, dict[str, list[float]]]] = {"forward": {}, "forward and backward": {}}
    short = Effort(effort.rounds, effort.block / 5, effort.starts, effort.torch_compile)
    gc.collect()
    gc.freeze()  # what the libraries hold needs no look before every turn
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
    means = {who: _geometric_means(results, who) for who in ("torch eager", "jnp")}
    rows.append(
        ("geometric mean", "", "", "", show_ratio(means["torch eager"], BARS[kind]), show_ratio(means["jnp"]))
    )
    columns = ("", "torch", "functorch_port", "jax.numpy", "/ torch", "/ jax.numpy")
    table(f"{TITLE}: {kind}", columns, rows)


def _draw(axes: Any, results: dict[str, Any]) -> None:
    for ax, (kind, found) in zip(axes, results.items(), strict=True):
        for who in WHO:
            times = [[1e6 * s for s in spread(seconds[who])] for seconds in found.values()]
            middle = [m for _, m, _ in times]
            reach = [[m - low for low, m, _ in times], [high - m for _, m, high in times]]
            ax.errorbar(middle, range(len(found)), xerr=reach, fmt="o", ms=4, label=who, color=COLOURS[who])
        ax.set_yticks(range(len(found)), found)
        ax.invert_yaxis()
        mean = statistics.median(_geometric_means(found, "torch eager"))
        ax.set(
            title=f"{kind}: {mean:.2f} of torch's time in geometric mean", xlabel="µs a call", xscale="log"
        )
        ax.grid(axis="x", alpha=0.3)
        ax.legend()


def run(folder: Path, effort: Effort) -> None:
    """Measure, print, write ``op_overhead.json`` and ``op_overhead.png``."""
    results = _measure(folder, effort)
    for kind, found in results.items():
        _report(kind, found)
    data = {
        kind: {
            "geometric mean / torch": summary(_geometric_means(found, "torch eager")),
            "geometric mean / jnp": summary(_geometric_means(found, "jnp")),
            "seconds": {name: {who: summary(s) for who, s in by.items()} for name, by in found.items()},
        }
        for kind, found in results.items()
    }
    save(folder, "op_overhead", data)
    figure(folder, "op_overhead", lambda axes: _draw(axes, results), 14, 2, height=9)
