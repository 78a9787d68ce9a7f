"""Programs that people write, compiled: an optimizer of their own, the v0.1 loop, and the shape of ToyModel's graph."""

from __future__ import annotations

import numpy as np
import torch

import functorch_port as ft


def _mirror_descent(T):
    class MirrorDescent(T.optim.Optimizer):
        """p <- p * exp(exp(-lr * (g + penalty))), normalised."""

        def __init__(self, params, lr=0.1, penalty=0.0):
            super().__init__(params, {"lr": lr, "penalty": penalty})

        @T.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.mul_(T.exp(T.exp(-group["lr"] * (p.grad + group["penalty"]))))
                        p.div_(p.sum(dim=-1, keepdim=True))

    x = T.tensor([[0.25, 0.75]], dtype=T.float64, requires_grad=True)
    opt = MirrorDescent([x])

    def step():
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(x, T.tensor([0]))
        loss.backward()
        opt.step()
        return loss

    return x, opt, step


def test_a_custom_optimizer_eager_and_compiled():
    def run(T, compile):
        x, opt, step = _mirror_descent(T)
        step = compile(step)
        out = []
        for i in range(100):
            opt.param_groups[0]["penalty"] = 0.01 * i
            out += [step().item(), *x.detach().numpy().ravel()]
        return np.array(out), step

    expected, _ = run(torch, lambda fn: fn)
    eager, _ = run(ft, lambda fn: fn)
    compiled, step = run(ft, ft.compile)
    np.testing.assert_allclose(eager, expected, rtol=1e-12)
    np.testing.assert_allclose(compiled, expected, rtol=1e-12)
    assert step.traces == 1


def test_the_first_versions_loop_compiled():
    data = np.random.default_rng(0).standard_normal((8, 3))

    def run(T, compile):
        w = T.autograd.Variable(T.tensor([[1.0], [2.0], [3.0]], dtype=T.float64), requires_grad=True)
        x = T.autograd.Variable(T.tensor(data))

        def step():
            loss = (x.mm(w) - 1).pow(2).sum()
            if w.grad is not None:
                w.grad.data.zero_()
            loss.backward()
            w.data -= 0.01 * w.grad.data
            return loss

        step = compile(step)
        return np.array([step().item() for _ in range(10)] + w.detach().numpy().ravel().tolist()), step

    expected, _ = run(torch, lambda fn: fn)
    np.testing.assert_allclose(run(ft, lambda fn: fn)[0], expected, rtol=1e-12)
    compiled, step = run(ft, ft.compile)
    np.testing.assert_allclose(compiled, expected, rtol=1e-12)
    assert step.traces == 2  # without and with a gradient there


def test_the_graph_of_toy_model():
    def describe(T):
        net = T.nn.Sequential(T.nn.Linear(10, 10), T.nn.ReLU(), T.nn.Linear(10, 5))
        fn = net(T.ones(2, 10)).grad_fn
        kinds = lambda n: [f.name().split("::")[-1] if f else None for f, _ in n.next_functions]  # noqa: E731
        bias, relu, t = (f for f, _ in fn.next_functions)
        return [fn.name(), kinds(fn), kinds(relu), kinds(t), bias.variable is net[2].bias]

    assert describe(ft) == describe(torch)
    name, inputs = describe(ft)[:2]
    assert name == "AddmmBackward0" and inputs == ["AccumulateGrad", "ReluBackward0", "TBackward0"]
