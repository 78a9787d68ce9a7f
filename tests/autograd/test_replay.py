"""Backward as one program: the same gradients as the walk, and the walk wherever something must be seen."""

from __future__ import annotations

import pytest

import functorch_port as ft
from functorch_port.autograd import replay


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_programs", {})


def loss(w: ft.Tensor, x: ft.Tensor) -> ft.Tensor:
    a, b = (x @ w).relu().chunk(2, 1)
    y = ft.zeros(4, 2, dtype=ft.float64)
    y[:, 0] = a.sum(1)
    y[1:].add_(b[1:, :2] * w[0, 0])
    return (y * y + a.max(dim=1).values.unsqueeze(1)).sum()


def data() -> tuple[ft.Tensor, ft.Tensor]:
    w = ft.linspace(-1, 1, 12, dtype=ft.float64).view(3, 4).clone().requires_grad_()
    return w, ft.linspace(-2, 3, 12, dtype=ft.float64).view(4, 3)


def compiled() -> int:
    return sum(not isinstance(p, int) for p in replay._programs.values())


def test_same_gradients_as_the_walk() -> None:
    w, x = data()
    found = []
    for _ in range(5):
        w.grad = None
        loss(w, x).backward()
        found.append(w.grad.clone())
    assert compiled() == 1
    for g in found:
        assert ft.allclose(g, found[0], rtol=1e-13, atol=1e-13)


def test_accumulation_keeps_the_tensor() -> None:
    w, x = data()
    loss(w, x).backward()
    once, holder = w.grad.clone(), w.grad
    for _ in range(5):
        loss(w, x).backward()
    assert w.grad is holder and holder._version == 5 and compiled() == 1
    assert ft.allclose(holder, 6 * once, rtol=1e-13)


def test_grad_of_inner_and_leaf() -> None:
    w, x = data()
    found = []
    for _ in range(4):
        h = w * 2
        found.append(ft.autograd.grad(loss(h, x), [h, w]))
    assert compiled() == 1 and w.grad is None
    for a, b in found:
        assert ft.allclose(a, found[0][0]) and ft.allclose(b, 2 * a)


def test_freed_and_retained_graphs() -> None:
    w, x = data()
    for _ in range(4):
        y = loss(w, x)
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            y.backward()


def test_a_new_shape_is_counted_for_itself() -> None:
    w, _ = data()
    for n in range(6):
        loss_of = (w[:, :1] * ft.ones(3, n + 1, dtype=ft.float64)).sum()
        loss_of.backward()
    assert compiled() == 0


@pytest.mark.parametrize("how", ["tensor", "leaf", "post", "node", "retain", "function", "anomaly"])
def test_hooks_keep_to_the_walk(how: str) -> None:
    w, x = data()
    seen: list[str] = []

    class Identity(ft.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append("function")
            return g

    if how == "leaf":
        w.register_hook(lambda g: seen.append("leaf"))
    if how == "post":
        w.register_post_accumulate_grad_hook(lambda p: seen.append("post"))
    for _ in range(4):
        h = w * 1
        if how == "tensor":
            h.register_hook(lambda g: seen.append("tensor"))
        if how == "node":
            h.grad_fn.register_hook(lambda a, b: seen.append("node"))
        if how == "retain":
            h.retain_grad()
        if how == "function":
            h = Identity.apply(h)
        with ft.autograd.set_detect_anomaly(how == "anomaly"):
            loss(h, x).backward()
        if how == "retain" and h.grad is not None:
            seen.append("retain")
    assert seen == ([] if how == "anomaly" else [how] * 4) and compiled() == 0


def test_big_tensors_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST_ELEMENTS", 10)
    w, x = data()
    for _ in range(4):
        loss(w, x).backward()
    assert compiled() == 0
