"""Backward as one program: the same gradients as the walk, and the walk wherever something must be seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import functorch_port as ft
from functorch_port._base.tuning import tuning
from functorch_port._cpu import programs

pytestmark = pytest.mark.usefixtures("no_programs")


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
    return len(programs._programs)


@pytest.mark.cpu
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


@pytest.mark.cpu
def test_accumulation_keeps_the_tensor() -> None:
    w, x = data()
    loss(w, x).backward()
    once, holder = w.grad.clone(), w.grad
    for _ in range(5):
        loss(w, x).backward()
    assert w.grad is holder and holder._version == 5 and compiled() == 1
    assert ft.allclose(holder, 6 * once, rtol=1e-13)


@pytest.mark.cpu
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


def test_graphs_of_huge_tensors_are_walked(tuned: Callable[..., None]) -> None:
    tuned(program_small=10, program_elements=11)
    w, x = data()
    for _ in range(4):
        loss(w, x).backward()
    assert compiled() == 0


def gradients(dtype: ft.dtype, times: int) -> list[ft.Tensor]:
    layers = [ft.nn.Linear(6, 6, dtype=dtype) for _ in range(2)]
    attention = ft.nn.MultiheadAttention(6, 2, batch_first=True, dtype=dtype)
    for layer in (*layers, attention):
        for k, p in enumerate(layer.parameters()):
            ft.nn.init.constant_(p, 0.1 * (k + 1))
    x = ft.linspace(-1, 1, 60, dtype=dtype).view(2, 5, 6)
    parameters = [p for layer in (*layers, attention) for p in layer.parameters()]
    for _ in range(times):
        for p in parameters:
            p.grad = None
        y = layers[0](x)
        y = y + attention(y, y, y, need_weights=False)[0]
        (layers[1](y) ** 2).sum().backward()
    return [p.grad for p in parameters if p.grad is not None]


@pytest.mark.cpu
def test_graphs_of_large_tensors_are_programs_of_their_own(tuned: Callable[..., None]) -> None:
    tuned(program_small=10)
    walked = {dtype: gradients(dtype, 1) for dtype in (ft.float64, ft.float32)}
    for dtype, want in walked.items():
        for a, b in zip(gradients(dtype, 6), want, strict=True):
            assert a.dtype == dtype and ft.allclose(a, b, rtol=1e-5, atol=1e-6)
    assert (
        compiled() == programs._large.programs == 1 and programs._large.calls >= 4
    )  # it has a form for each dtype


@pytest.mark.cpu
def test_large_graphs_that_come_a_few_times_each_are_walked(tuned: Callable[..., None]) -> None:
    """To compile them takes longer than they would."""
    tuned(program_small=10)
    w = ft.ones(80, 80, requires_grad=True)  # too large for the host

    def come(n: int, times: int) -> None:
        for _ in range(times):
            w.grad = None
            ((w * 2) ** 2 * ft.ones(n, 80, 80)).sum().backward()

    for n in range(1, 12):
        come(n, 3)
    assert compiled() == 3
    come(1, 2 * tuning.program_pays)  # now they have paid
    for n in range(1, 12):
        come(n, 1)
    assert compiled() == 5


@pytest.mark.cpu
def test_programs_of_passes_are_let_go_of(tuned: Callable[..., None]) -> None:
    tuned(cached_passes=2)
    for n in range(6000, 6006):
        for _ in range(3):
            x = ft.ones(n, requires_grad=True)
            (x.cos().tanh().exp() * x).sum().backward()
    assert len(programs._programs) == len(programs._kept) == 2
    assert x.grad.isfinite().all()
