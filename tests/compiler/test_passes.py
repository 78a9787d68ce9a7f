"""The order of passes in a program: a forward pass comes after the backward passes that the function ran before it."""

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base.jaxprs import operations

ROWS = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)


def net_of(lib):
    lib.manual_seed(0)
    return lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.ReLU(), lib.nn.Linear(4, 2))


def in_parts(lib, net, optimizer, parts, zero=True):
    def step(x):
        if zero:
            optimizer.zero_grad()
        total = 0.0
        for part in x.chunk(parts):
            loss = net(part).square().mean() / parts
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return step


def run(lib, parts, compiled, zero=True, steps=4):
    net = net_of(lib).train()
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    step = in_parts(lib, net, optimizer, parts, zero)
    step = lib.compile(step) if compiled else step
    totals = [float(step(lib.tensor(ROWS))) for _ in range(steps)]
    return totals, {name: t.detach().numpy() for name, t in net.state_dict().items()}, step


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("parts", [1, 3])
def test_in_parts_as_pytorch(parts, zero):
    """State that is written in each part (running statistics, gradients from before) goes on."""
    wanted, state, _ = run(torch, parts, False, zero)
    found, ours, step = run(ft, parts, True, zero)
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    for name, value in state.items():
        np.testing.assert_allclose(ours[name], value, rtol=2e-4, atol=1e-6, err_msg=name)
    assert len(step.programs()) <= 2


def traced(fn, *args):
    jaxpr = ft.functionalize(fn).jaxpr(*args).jaxpr
    return [e for e in operations([jaxpr]) if e.primitive.name == "optimization_barrier"]


def test_one_barrier_between_parts_and_none_in_a_plain_step():
    net = net_of(ft).eval()
    optimizer = ft.optim.SGD(net.parameters(), lr=0.1)
    count = lambda parts: len(traced(in_parts(ft, net, optimizer, parts), ft.tensor(ROWS)))
    assert [count(parts) for parts in (1, 2, 3)] == [0, 1, 2]

    def measured(x):
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        with ft.no_grad():
            return loss, net(x)

    assert not traced(measured, ft.tensor(ROWS))


def test_the_barrier_has_the_gradients_and_what_is_read_later():
    w, x = ft.ones(3, requires_grad=True), ft.tensor(ROWS)

    def step(x):
        total = ft.zeros(())
        for part in x.chunk(2):
            loss = (part @ w).sum()
            loss.backward()
            total = total + loss.detach()
        grad, w.grad = w.grad, None
        return total, grad

    (barrier,) = traced(step, x)
    shapes = sorted(v.aval.shape for v in barrier.outvars)
    assert shapes.count((3,)) == 2 and (12, 3) in shapes and () in shapes  # w, its gradient; x; total
    total, grad = ft.compile(step)(x)
    np.testing.assert_allclose(float(total), ROWS.sum(), rtol=1e-5)
    np.testing.assert_allclose(grad.numpy(), ROWS.sum(0), rtol=1e-5)


def test_two_networks_in_turn():
    """The loss of one goes through the other, which was updated before."""

    def train(lib, compiled):
        lib.manual_seed(0)
        one, other = lib.nn.Linear(3, 3), lib.nn.Linear(3, 1)
        first, second = (lib.optim.Adam(net.parameters(), lr=0.05) for net in (one, other))

        def step(x):
            second.zero_grad()
            (other(x).mean() - other(one(x).detach()).mean()).backward()
            second.step()
            first.zero_grad()
            loss = other(one(x)).mean()
            loss.backward()
            first.step()
            return loss

        step = lib.compile(step) if compiled else step
        return [step(lib.tensor(ROWS)).item() for _ in range(5)]

    np.testing.assert_allclose(train(ft, True), train(torch, False), rtol=1e-5, atol=1e-6)


def test_a_derivative_from_outside_goes_through():
    """The result of a function that ran a backward pass before is differentiated outside."""
    w, v = ft.ones(3, requires_grad=True), ft.full((3,), 2.0, requires_grad=True)

    @ft.compile
    def step(x):
        (x @ w).sum().backward()
        return (x @ (w * v)).sum()

    step(ft.tensor(ROWS)).backward()
    np.testing.assert_allclose(v.grad.numpy(), ROWS.sum(0), rtol=1e-5)
    np.testing.assert_allclose(w.grad.numpy(), 3 * ROWS.sum(0), rtol=1e-5)
