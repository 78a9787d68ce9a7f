"""Gradients of slices that fill what was sliced, or do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import functorch_port as ft

CASES = {
    "unbind": lambda x: x.unbind(0),
    "iteration": lambda x: tuple(x.permute(1, 0, 2)),
    "split": lambda x: x.split(2, dim=1),
    "unequal split": lambda x: x.split([1, 3, 2], dim=1),
    "chunk": lambda x: x.chunk(2, dim=-1),
    "slices": lambda x: (x[:, :2], x[:, 2:]),
    "some parts": lambda x: x.split(2, dim=1)[1:],
    "overlapping": lambda x: (x[:, :4], x[:, 2:]),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_pytorchs(case):
    data = np.random.default_rng(0).standard_normal((3, 6, 4)).astype(np.float32)

    def gradients(T, wrap):
        x = T.tensor(data, requires_grad=True)

        def step():
            x.grad = None
            parts = CASES[case](x * 1.5)
            loss = sum((part**2).sum() * (i + 1) for i, part in enumerate(parts))
            (first,) = T.autograd.grad(loss, x, create_graph=True)
            (first**2).sum().backward()
            return loss.detach(), first.detach()

        step = wrap(step)
        results = [step() for _ in range(2)][-1]
        return [t.numpy() for t in (*results, x.grad)]

    theirs = gradients(torch, lambda f: f)
    for wrap in (lambda f: f, ft.compile):
        for ours, wanted in zip(gradients(ft, wrap), theirs, strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-5)


def test_a_backward_pass_outside():
    data = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)

    def gradient(T, wrap):
        x = T.tensor(data, requires_grad=True)

        def product(x):
            a, b, c = x.chunk(3, dim=1)
            return (a * b * c).sum()

        wrap(product)(x).backward()
        return x.grad.numpy()

    np.testing.assert_allclose(gradient(ft, ft.compile), gradient(torch, lambda f: f), rtol=1e-6)
