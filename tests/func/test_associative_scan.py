"""`func.associative_scan` against torch's, with gradients, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan as torch_scan

import functorch_port as ft
from functorch_port.func import associative_scan


def gated(a, b):
    """A linear recurrence: h = gate * h + x, as pairs (gate, x)."""
    return {"gate": a["gate"] * b["gate"], "x": b["gate"] * a["x"] + b["x"]}


@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (-1, False), (1, True)])
def test_recurrence(dim: int, reverse: bool) -> None:
    data = {k: np.random.default_rng(i).normal(size=(5, 3)) for i, k in enumerate(("gate", "x"))}
    theirs = {k: torch.tensor(v, requires_grad=True) for k, v in data.items()}
    expected = torch_scan(gated, theirs, dim, reverse, "generic")["x"]
    (expected**2).sum().backward()

    def step(xs):
        out = associative_scan(gated, xs, dim, reverse)["x"]
        (out**2).sum().backward()
        return out

    for run in (step, ft.compile(step)):
        ours = {k: ft.tensor(v, requires_grad=True) for k, v in data.items()}
        np.testing.assert_allclose(run(ours).detach().numpy(), expected.detach().numpy(), rtol=1e-12)
        for k, t in theirs.items():
            np.testing.assert_allclose(ours[k].grad.numpy(), t.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_captured_tensor_has_a_gradient() -> None:
    w = ft.tensor(2.0, requires_grad=True)
    associative_scan(lambda a, b: a + b + 0 * w, ft.ones(3) * w, 0).sum().backward()
    assert w.grad.item() == 6.0


X = ft.ones(2, 3)
ERRORS = [
    ((3, X, 0), ValueError, "Combine_fn must be a callable, but got 3"),
    ((ft.add, X, 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    ((ft.add, X, 0, 1), RuntimeError, "Reverse must be a bool, but got <class 'int'>"),
    (
        (ft.add, X, 0, False, "gen"),
        ValueError,
        "Combine_mode must either 'pointwise' or 'generic', but got gen",
    ),
    ((ft.add, [3], 0), ValueError, "xs leaves must be a Tensor"),
    ((ft.add, ft.zeros(0), 0), ValueError, "scan dimension > 0"),
    ((ft.add, ft.tensor(1.0), 0), ValueError, "scan dimension > 0"),
    ((lambda a, b: (a + b).sum(), X, 0), RuntimeError, "structure, shapes and dtypes"),
    ((lambda a, b: a + ft.rand(3), X, 0), RuntimeError, "randomness error mode"),
]


@pytest.mark.parametrize(("args", "kind", "text"), ERRORS)
def test_errors(args, kind, text) -> None:
    with pytest.raises(kind, match=text):
        associative_scan(*args)


def test_while_loop_is_at_the_top() -> None:
    assert ft.while_loop is ft.func.while_loop
