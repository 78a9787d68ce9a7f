"""Half precision is computed in float32 and rounded once: as near to the float64 result rounded once as torch's is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from compare import to_numpy

import functorch_port as ft

ROWS = [(i * 7) % 20 for i in range(60)]


def F(t: Any) -> Any:
    return t.nn.functional


def at(t: Any) -> Any:
    return t.tensor(ROWS)[:, None].expand(60, 8)


#: operation, shapes of its arguments
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "linear": (lambda t, x, w, b: F(t).linear(x, w, b), ((64, 32), (16, 32), (16,))),
    "linear of three dimensions": (lambda t, x, w, b: F(t).linear(x, w, b), ((4, 16, 32), (16, 32), (16,))),
    "bilinear": (lambda t, x, y, w, b: F(t).bilinear(x, y, w, b), ((32, 8), (32, 9), (16, 8, 9), (16,))),
    "conv1d": (lambda t, x, w, b: F(t).conv1d(x, w, b), ((4, 8, 32), (16, 8, 3), (16,))),
    "conv2d": (lambda t, x, w, b: F(t).conv2d(x, w, b), ((2, 8, 9, 9), (8, 8, 3, 3), (8,))),
    "conv_transpose2d": (
        lambda t, x, w, b: F(t).conv_transpose2d(x, w, b, stride=2),
        ((2, 8, 6, 6), (8, 8, 3, 3), (8,)),
    ),
    "nearest": (lambda t, x: F(t).interpolate(x, scale_factor=9, mode="nearest"), ((2, 4, 9),)),
    "expand": (lambda t, x: x.expand(50, 20, 8) * 1, ((20, 8),)),
    "repeat": (lambda t, x: x.repeat(40, 1), ((20, 8),)),
    "repeat_interleave": (lambda t, x: t.repeat_interleave(x, 30, 0), ((20, 8),)),
    "where of one number": (lambda t, x, y: t.where(x > 0, x, y), ((64, 16), (1,))),
    "gather": (lambda t, x: x.gather(0, at(t)), ((20, 8),)),
    "index_select": (lambda t, x: x.index_select(0, t.tensor(ROWS)), ((20, 8),)),
    "index_add": (lambda t, x, s: x.index_add(0, t.tensor(ROWS), s, alpha=0.3), ((20, 8), (60, 8))),
    "scatter_add": (lambda t, x, s: x.scatter_add(0, at(t), s), ((20, 8), (60, 8))),
    "scatter_reduce": (lambda t, x, s: x.scatter_reduce(0, at(t), s, "mean"), ((20, 8), (60, 8))),
    "addr": (lambda t, x, v, w: t.addr(x, v, w, beta=0.7, alpha=1.3), ((32, 16), (32,), (16,))),
    "outer": (lambda t, v, w: t.outer(v, w), ((32,), (40,))),
    "kron": (lambda t, x, y: t.kron(x, y), ((8, 6), (6, 7))),
    "trapezoid": (lambda t, x: t.trapezoid(x), ((32, 100),)),
    "normalize": (lambda t, x: F(t).normalize(x), ((32, 16),)),
    "pairwise_distance": (lambda t, x, y: F(t).pairwise_distance(x, y), ((64, 16), (64, 16))),
    "threshold": (lambda t, x: F(t).threshold(x, 0.3, 0.7), ((64, 16),)),
}


def results(library: Any, fn: Callable[..., Any], values: list[np.ndarray], kind: str) -> list[np.ndarray]:
    """The result and the gradients of all arguments."""
    dtype = getattr(library, kind)
    args = [library.tensor(v).to(dtype).requires_grad_() for v in values]
    out = fn(library, *args)
    slope = np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(np.float32)
    slopes = library.tensor(slope).bfloat16().to(dtype)
    return [to_numpy(r).astype(np.float64) for r in (out, *library.autograd.grad(out, args, slopes))]


def wrong(found: np.ndarray, exact: np.ndarray, kind: str) -> float:
    """How many are not the exact result rounded once."""
    rounded = to_numpy(torch.tensor(exact).to(getattr(torch, kind)))
    return float(np.mean(found != rounded))


@pytest.mark.parametrize("name", CASES)
def test_rounded_once(name: str) -> None:
    kind = "float16" if len(name) % 2 else "bfloat16"  # half of the cases each
    fn, shapes = CASES[name]
    rng = np.random.default_rng(0)
    drawn = [torch.tensor(rng.standard_normal(s)).to(getattr(torch, kind)) for s in shapes]
    values = [to_numpy(d.float()) for d in drawn]
    exact = results(torch, fn, values, "float64")
    theirs, ours = (results(library, fn, values, kind) for library in (torch, ft))
    for number, (e, a, b) in enumerate(zip(exact, theirs, ours, strict=True)):
        assert wrong(b, e, kind) <= wrong(a, e, kind) * 1.1 + 0.01, f"{name}, result {number}"


def test_second_derivative_of_a_bias() -> None:
    def second(library: Any) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        x, w, b = (
            library.tensor(rng.standard_normal(s).astype(np.float32)).to(library.bfloat16).requires_grad_()
            for s in ((4, 5), (3, 5), (3,))
        )
        out = library.nn.functional.linear(x, w, b).pow(3).sum()
        (first,) = library.autograd.grad(out, x, create_graph=True)
        return [to_numpy(g) for g in library.autograd.grad(first.pow(2).sum(), (x, w, b))]

    for theirs, ours in zip(second(torch), second(ft), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.05, atol=0.05 * np.abs(theirs).max())
