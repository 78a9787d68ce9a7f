"""A compiled forward pass whose backward runs outside gives PyTorch's gradients: the tape's, not the values'."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch

import functorch_port as ft

VALUES = [0.5, -1.5]


def triple(lib: Any) -> Any:
    class Triple(lib.autograd.Function):
        """Its backward is wrong on purpose, so that it is seen which one ran."""

        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return g * a * 3

    return Triple


def custom_function(lib: Any, w: Any, x: Any) -> Any:
    return triple(lib).apply(x * w).sum()


def tensor_hook(lib: Any, w: Any, x: Any) -> Any:
    y = x * w
    y.register_hook(lambda g: g * 10)
    return y.exp().sum()


def constant(lib: Any, w: Any, x: Any) -> Any:
    with lib.no_grad():
        factor = w * 3
    return (x * w * factor).sum()


def detached(lib: Any, w: Any, x: Any) -> Any:
    return (x * w * w.detach()).sum()


def changed_without_grad(lib: Any, w: Any, x: Any) -> Any:
    y = x * w
    with lib.no_grad():
        y.add_(w)
    return (y * y).sum()


def two_results(lib: Any, w: Any, x: Any) -> Any:
    y = x * w
    return y.sin().sum() + 0 * y.detach().sum(), y


def stepped_inside(lib: Any, w: Any, x: Any) -> Any:
    (w * w).sum().backward()
    with lib.no_grad():
        w.sub_(w.grad)
    w.grad = None
    return (x * w * w).sum()


CASES = [
    custom_function, tensor_hook, constant, detached, changed_without_grad, two_results, stepped_inside,
]  # fmt: skip


def gradients(lib: Any, case: Callable[..., Any], wrap: Callable[..., Any]) -> list[Any]:
    w = lib.tensor(VALUES, dtype=lib.float64, requires_grad=True)
    before = lib.tensor([2.0, 3.0], dtype=lib.float64, requires_grad=True)
    fn, found = wrap(lambda x: case(lib, w, x)), []
    for factor in (1.0, 2.0):
        w.grad = before.grad = None
        out = fn(before * factor)
        total = sum(o.sum() for o in out) if isinstance(out, tuple) else out
        total.backward()
        found.append([total.item(), w.grad.tolist(), before.grad.tolist()])
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_gradients_are_those_of_the_tape(case: Callable[..., Any]) -> None:
    compiled = gradients(ft, case, ft.compile)
    for ours, theirs in zip(compiled, gradients(torch, case, lambda fn: fn), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_parameter_that_is_a_view() -> None:
    found = []
    for lib in (ft, torch):
        w = lib.nn.Parameter(lib.arange(10.0).reshape(5, 2))
        fn = (
            (lambda x, w=w: (x @ w.t()).sum())
            if lib is torch
            else ft.compile(lambda x, w=w: (x @ w.t()).sum())
        )
        fn(lib.ones(3, 2)).backward()
        found.append((tuple(w.grad.shape), w.grad.tolist()))
    assert found[0] == found[1]


def test_hooks_of_leaves_run_once() -> None:
    found = []
    for lib in (ft, torch):
        w, seen = lib.ones(2, requires_grad=True), []
        w.register_hook(seen.append)
        fn = (lambda x, w=w: (x * w).sum()) if lib is torch else ft.compile(lambda x, w=w: (x * w).sum())
        fn(lib.ones(2)).backward()
        found.append((len(seen), seen[0].tolist(), w.grad.tolist()))
    assert found[0] == found[1]


def test_one_output_of_several_may_be_used() -> None:
    found = []
    for lib in (ft, torch):
        w, v = (lib.tensor(VALUES, requires_grad=True) for _ in range(2))

        def both(x, w=w, v=v):
            return (x * w).sum(), (x * v).sum()

        fn = both if lib is torch else ft.compile(both)
        first, _ = fn(lib.ones(2))
        first.backward()
        found.append((w.grad.tolist(), v.grad if v.grad is None else v.grad.tolist()))
    assert found[0][0] == found[1][0]
    assert found[0][1] in (None, [0.0, 0.0])  # one node stands for the whole function


def test_no_second_backward_without_retain_graph() -> None:
    w = ft.ones(2, requires_grad=True)
    out = ft.compile(lambda x: (x * w).sum())(ft.ones(2))
    out.backward(retain_graph=True)
    out.backward()
    assert w.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


def added_to_an_argument(buffer: Any, w: Any) -> Any:
    buffer.add_(w * 3)
    return buffer * 2


def added_to_a_view(buffer: Any, w: Any) -> Any:
    buffer[0].mul_(w[0])
    return buffer.sum() * w[1]


@pytest.mark.parametrize("fn", [added_to_an_argument, added_to_a_view], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("through", ["result", "argument"])
def test_in_place_on_an_argument_is_differentiated(fn: Callable[..., Any], through: str) -> None:
    """What a call writes to a tensor from outside has the call in its history, as its results have."""
    found = []
    for lib in (ft, torch):
        w, called = lib.tensor(VALUES, requires_grad=True), ft.compile(fn) if lib is ft else fn
        for _ in range(2):
            buffer = lib.ones(2)
            result = called(buffer, w)
            (result if through == "result" else buffer * 5).sum().backward()
        found.append((buffer.requires_grad, buffer.tolist(), w.grad.tolist()))
    assert found[0] == found[1]


def test_a_sum_of_losses_that_were_differentiated_inside() -> None:
    w, total = ft.ones(2, requires_grad=True), ft.zeros(())

    @ft.compile
    def step(x: Any) -> Any:
        loss = (x * w).sum()
        loss.backward()
        total.add_(loss)
        return (w * 2).sum()

    out = step(ft.ones(2))
    assert w.grad.tolist() == [1.0, 1.0] and total.item() == 2.0
    out.backward()  # the result has its gradient, which the sum of losses cannot have
    assert w.grad.tolist() == [3.0, 3.0]


def test_a_checkpoint_is_recomputed_in_the_walk() -> None:
    """With the random numbers of the forward pass; running statistics move once, as under `torch.compile`."""
    found = []
    for checkpointed in (False, True):
        ft.manual_seed(0)
        net = ft.nn.Sequential(ft.nn.Linear(3, 8), ft.nn.BatchNorm1d(8), ft.nn.Dropout(0.5)).double()
        x = ft.randn(5, 3, dtype=ft.float64, requires_grad=True)

        @ft.compile
        def called(x: Any, net: Any = net, checkpointed: bool = checkpointed) -> Any:
            return ft.utils.checkpoint.checkpoint(net, x, use_reentrant=False) if checkpointed else net(x)

        for _ in range(2):
            called(x).sin().sum().backward()
        found.append([t.tolist() for t in (x.grad, *(p.grad for p in net.parameters()), *net.buffers())])
        found[-1].append(ft.rand(1).item())
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_what_lies_between_two_arguments_is_not_walked_in_the_trace() -> None:
    """A checkpointed argument that was made of another one, and a hook between the two."""
    w, called = ft.arange(1.0, 4.0).requires_grad_(), []
    h = 2 * w.detach().numpy()
    parts = (
        lambda a: a.sin(),
        lambda a: ft.utils.checkpoint.checkpoint(lambda b: (b * 1).sin(), a, use_reentrant=False),
    )
    compiled = ft.compile(lambda x, y: (x * y).sum())
    for outer in parts:
        y = w * 2
        between = y + 0
        between.grad_fn.register_prehook(lambda grads: called.append(grads[0] is None))
        w.grad = None
        compiled(outer(between), y).backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * (np.sin(h) + h * np.cos(h)), 1e-6)
    assert called == [False] * 2


def test_the_walk_back_takes_weights_as_they_were_given() -> None:
    """As outputs of the program they would be copies."""
    net = ft.nn.Sequential(*(ft.nn.Linear(64, 64) for _ in range(3)))
    compiled, x = ft.compile(net), ft.ones(2, 64)

    def matrices() -> int:
        gc.collect()
        return sum(a.shape == (64, 64) for a in jax.live_arrays())

    compiled(x)
    before = matrices()
    out = compiled(x)
    assert matrices() == before
    with ft.no_grad():
        net[2].weight.zero_()  # an error in PyTorch; here the walk has what the forward pass had
    out.sum().backward()
    assert net[0].weight.grad.abs().sum() > 0


def test_a_leaf_gets_what_comes_through_a_result_and_past_it() -> None:
    w = ft.tensor([1.0, 2.0], requires_grad=True)

    @ft.compile
    def f(w):
        square, total = w * w, w.sum()
        return total, (square * total).sum()

    for _ in range(2):
        w.grad = None
        sum(f(w)).backward()
        assert w.grad.tolist() == [1 + 2 * 1 * 3 + 5, 1 + 2 * 2 * 3 + 5]
