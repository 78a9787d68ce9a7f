"""`jax.grad` by what a functionalized function takes: what has no history is differentiated, what lost it is not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])
W = np.array([[0.3, -0.2, 0.1]])


def _net(lib: Any) -> Any:
    net = lib.nn.Linear(3, 1, bias=False, dtype=lib.float64)
    with lib.no_grad():
        net.weight.copy_(lib.tensor(W))
    return net


def _plain(lib: Any, net: Any, x: Any) -> Any:
    return (net(x) ** 3).sum()


def _prepared(lib: Any, net: Any, x: Any) -> Any:
    x = (x - x.mean(0)) * 2
    x[:, 0].mul_(3)
    return (net(x.t().contiguous().t()) ** 2 * x[0, 1].exp()).sum()


def _noise(lib: Any, net: Any, x: Any) -> Any:
    return (net(x + lib.zeros(2, 3, dtype=lib.float64).normal_(0, 1e-30)) ** 3).sum()


def _no_grad(lib: Any, net: Any, x: Any) -> Any:
    with lib.no_grad():
        target = net(x) * 2
    return (net(x) ** 3 * target).sum()


def _detach(lib: Any, net: Any, x: Any) -> Any:
    y = net(x)
    return (y * y.detach() ** 2 + y * net.weight.detach().sum() + y.data * net.weight.sum()).sum()


def _looped(lib: Any, net: Any, x: Any) -> Any:
    return lib.utils.checkpoint.checkpoint(lambda x: net(x * 2) ** 3 * x.sum(), x, use_reentrant=False).sum()


@pytest.mark.parametrize(
    "fn", [_plain, _prepared, _noise, _no_grad, _detach, _looped], ids=lambda f: f.__name__[1:]
)
def test_derivatives_are_those_of_pytorch_with_all_that_requires_grad(fn: Any) -> None:
    net = _net(torch)
    x = torch.tensor(X, requires_grad=True)
    wanted = torch.autograd.grad(fn(torch, net, x.clone()), [x, net.weight])
    ours = _net(ft)
    pure = ft.functionalize(lambda x: fn(ft, ours, x))
    with jax.enable_x64(True):
        given = jnp.asarray(X)
        state = pure.state(given)
        (name,) = (n for n in state if n.endswith("weight"))
        by = lambda x, w: pure(state | {name: w}, x)[0]
        found = jax.grad(by, argnums=(0, 1))(given, state[name])
    for has, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(has, want.numpy(), rtol=1e-10, atol=1e-12)


def test_the_gradient_of_a_step_is_differentiated_by_its_data() -> None:
    """The second step's loss by the data, through the first step's update."""
    net = _net(ft)
    optimizer = ft.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    def wanted(x: Any) -> Any:
        loss = lambda w: jnp.sum((x @ w.T) ** 2)
        w = jnp.asarray(W)
        return loss(w - 0.1 * jax.grad(loss)(w))

    pure = ft.functionalize(step)
    with jax.enable_x64(True):
        given = jnp.asarray(X)
        state = pure.state(given)
        found = jax.grad(lambda x: pure(pure(state, x)[1], x)[0])(given)
        np.testing.assert_allclose(found, jax.grad(wanted)(given), rtol=1e-10, atol=1e-12)


def test_what_never_had_a_history_in_a_scan() -> None:
    """A scanned stack of modules that is multiplied by the data in each round."""

    class Block(ft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = ft.nn.Parameter(ft.tensor(0.5, dtype=ft.float64))

        def forward(self, x: Any, data: Any) -> Any:
            return x * self.weight * data

    stack = ft.nn.ScanStack([Block() for _ in range(3)])
    pure = ft.functionalize(lambda data: stack(ft.ones((), dtype=ft.float64), data))
    with jax.enable_x64(True):
        data = jnp.asarray(2.0)
        state = pure.state(data)
        found = jax.grad(lambda data: pure(state, data)[0])(data)
    np.testing.assert_allclose(found, 3 * 2.0**2 * 0.5**3, rtol=1e-10, atol=1e-12)


def _straight_through(lib: Any, x: Any) -> Any:
    return ((x + (x.round() - x).detach()) ** 3).sum()


def _twice(lib: Any, x: Any) -> Any:
    y = x.detach()
    return (x * y[0] * lib.exp(x.t().detach())[1, 0] * y.detach().sum()).sum()


def _gumbel(lib: Any, x: Any) -> Any:
    soft = lib.softmax(x, -1)
    hard = lib.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    return ((hard - soft.detach() + soft) * lib.arange(3, dtype=lib.float64)).sum()


@pytest.mark.parametrize("fn", [_straight_through, _twice, _gumbel], ids=lambda f: f.__name__[1:])
def test_detach_is_stop_gradient_where_nothing_requires_grad(fn: Any) -> None:
    x = torch.tensor(X, requires_grad=True)
    (wanted,) = torch.autograd.grad(fn(torch, x), x)
    pure = ft.functionalize(lambda x: fn(ft, x))
    with jax.enable_x64(True):
        given = jnp.asarray(X)
        state = pure.state(given)
        ways = {
            "functionalize": lambda x: pure(state, x)[0],
            "eager": lambda x: fn(ft, ft.from_jax(x)).jax(),
            "jit": jax.jit(lambda x: fn(ft, ft.from_jax(x)).jax()),
            "vmap": lambda x: jax.vmap(lambda x: fn(ft, ft.from_jax(x)).jax())(x[None])[0],
        }
        for name, way in ways.items():
            np.testing.assert_allclose(jax.grad(way)(given), wanted.numpy(), rtol=1e-10, err_msg=name)
