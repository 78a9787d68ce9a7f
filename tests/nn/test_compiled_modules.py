"""Modules under `compile`: hooks of all kinds run, and a change of hooks or mode is noticed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import functorch_port as ft


def network():
    ft.manual_seed(0)
    nn = ft.nn
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=None), nn.ReLU(), nn.Linear(3, 1))
    m[0].register_full_backward_hook(lambda mod, gi, go: tuple(None if g is None else g * 2 for g in gi))
    m[3].register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,))
    m[2].register_forward_hook(lambda mod, args, out: out + 1)
    m[3].register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
    return m


def run(compiled):
    m = network()
    opt = ft.optim.SGD(m.parameters(), lr=0.1)
    x = ft.arange(8.0).reshape(4, 2)
    traces = itertools.count()

    def step(x):
        next(traces)
        x = x.clone().requires_grad_()
        opt.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        ft.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        return loss, x.grad

    fn = ft.compile(step) if compiled else step
    losses, grads = [], []

    def record():
        loss, grad = fn(x)
        losses.append(loss.item())
        grads.append(grad.numpy())

    for _ in range(3):
        record()
    handle = m[2].register_forward_hook(lambda mod, args, out: out * 5)
    record()
    handle.remove()
    record()
    m.eval()
    record()
    m.train()
    record()
    return losses, grads, {k: v.numpy() for k, v in m.state_dict().items()}, next(traces)


def test_hooks_and_modes_compiled():
    eager, compiled = run(False), run(True)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-5)
    for a, b in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    for name, value in eager[2].items():
        np.testing.assert_allclose(compiled[2][name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert (
        compiled[3] <= 5
    )  # the first call, grads as they are from then on, the hook, evaluation, and the eager one


def test_a_compiled_module():
    m = ft.nn.Sequential(ft.nn.Linear(2, 2), ft.nn.Tanh())
    x = ft.ones(3, 2)
    want = m(x)
    m.compile()
    got = m(x)
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-6)
    got.sum().backward()
    assert m[0].weight.grad is not None
    assert "_compiled_call_impl" not in m.__getstate__()


@pytest.mark.parametrize("padding", [0, 1])
def test_convolution_compiled(padding):
    """The unpadded float32 convolution takes another way on a CPU; it must agree with float64."""
    ft.manual_seed(1)
    conv = ft.nn.Conv2d(8, 16, 3, padding=padding)
    x = ft.randn(2, 8, 9, 7)

    def gradients(conv, x):
        x = x.clone().requires_grad_()
        y = conv(x)
        y.square().sum().backward()
        return [y.detach(), x.grad, conv.weight.grad, conv.bias.grad]

    ours = [t.numpy() for t in gradients(conv, x)]
    conv.zero_grad()
    compiled = [t.numpy() for t in ft.compile(lambda x: gradients(conv, x))(x)]
    conv.zero_grad()
    exact = [t.numpy() for t in gradients(conv.double(), x.double())]
    for a, b, c in zip(ours, compiled, exact, strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(b, c, rtol=1e-4, atol=1e-4)
