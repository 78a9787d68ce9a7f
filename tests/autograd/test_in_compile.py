"""The tape inside `compile`: every function gives the same eagerly and compiled, called twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functorch_port as ft

W = ft.tensor([1.0, 2.0], requires_grad=True)


class Triple(ft.autograd.Function):
    """Its backward is wrong on purpose, so that it is seen which one ran."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * a * 3


class Doubled(ft.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        return g * 2


def custom_function(x):
    loss = Triple.apply(W * x).sum()
    loss.backward()
    return loss, W.grad


def in_place_function_on_a_view(x):
    y = W * x
    Doubled.apply(y[1:])
    y.sum().backward()
    return y, W.grad


def hooks(x):
    y = W * x
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    handle = W.register_hook(lambda g: g + 1)
    y.sum().backward()
    handle.remove()
    return y.grad, W.grad


def post_accumulate_hook(x):
    def double(p):
        p.grad.mul_(2)

    handle = W.register_post_accumulate_grad_hook(double)
    (W * x).sum().backward()
    handle.remove()
    return W.grad


def double_backward(x):
    (g,) = ft.autograd.grad((W**3 * x).sum(), W, create_graph=True)
    (g**2).sum().backward()
    return g, W.grad


def views_in_place(x):
    y = W * x
    v = y[0:1]
    v.mul_(3)
    y[1] = v[0] * 2
    y.view(2, 1).t().add_(1)
    (y * y).sum().backward()
    return y, W.grad


def retained(x):
    y = (W * x).exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return W.grad


def some_inputs(x):
    y = W * x
    (y * y).sum().backward(inputs=[W])
    return W.grad


def jacobian(x):
    return ft.autograd.functional.jacobian(lambda q: q**2 * W, x)


def indexing(x):
    y = x.clone()
    y[ft.tensor(1)] = 5
    y[y > 4] = W[0]
    y[[0]] += 2
    (y * W).sum().backward()
    return y[0], y[None, ::1], y[ft.tensor([1, 0])], W.grad


FUNCTIONS = [
    custom_function,
    in_place_function_on_a_view,
    hooks,
    post_accumulate_hook,
    double_backward,
    views_in_place,
    retained,
    some_inputs,
    jacobian,
    indexing,
]


def results(fn: Any) -> list[Any]:
    found = []
    for x in (ft.ones(2), ft.tensor([2.0, -3.0])):
        W.grad = None
        out = fn(x)
        found.append([t.tolist() for t in (out if isinstance(out, tuple) else (out,))])
    return found


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_compiled_is_eager(fn: Any) -> None:
    eager = results(fn)
    compiled = ft.compile(fn)
    for mine, wanted in zip(results(compiled), eager, strict=True):
        for a, b in zip(mine, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert compiled.traces == 1


def test_a_mask_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"Use torch.where\(mask, x, other\)"):
        ft.compile(lambda x: x[x > 0])(ft.ones(2))
