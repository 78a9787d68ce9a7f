"""Gradients of slices that fill what was sliced: one concatenation, and the same numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.extend.core import jaxpr_as_fun

import functorch_port as ft
from functorch_port._cpu.passes.pads import join_pads
from functorch_port._trace import assemble


def _joined(fn, *args):
    """How many concatenations come in, after a check that the numbers are the same."""
    closed = jax.make_jaxpr(fn)(*args)
    new = closed.replace(jaxpr=join_pads(closed.jaxpr))
    for a, b in zip(jaxpr_as_fun(closed)(*args), jaxpr_as_fun(new)(*args), strict=True):
        np.testing.assert_array_equal(a, b)
    return sum(str(eqn.primitive) == "concatenate" for eqn in new.jaxpr.eqns)


def _padded(array, start, end=0, dimension=0, value=0.0, inside=0):
    config = [(start, end, inside) if d == dimension else (0, 0, 0) for d in range(array.ndim)]
    return jax.lax.pad(array, jnp.asarray(value, array.dtype), config)


ROWS = jnp.arange(12.0).reshape(6, 2) + 1


@pytest.mark.parametrize(
    ("fn", "count"),
    [
        (lambda x: _padded(x[:3], 0, 3) + _padded(x[3:], 3), 1),
        (lambda x: _padded(x[:1], 5) + _padded(x[:2], 0, 4) + _padded(x[:3], 2, 1), 1),
        (lambda x: _padded(x[:1], 5) + (_padded(x[:2], 0, 4) + _padded(x[:3], 2, 1)), 1),
        (lambda x: _padded(x[:, :1], 0, 1, 1) + _padded(x[:, 1:], 1, 0, 1), 1),
        # a gap, an overlap, the same twice, another dimension, another value, room between the elements
        (lambda x: _padded(x[:2], 0, 4) + _padded(x[3:], 3), 0),
        (lambda x: _padded(x[:4], 0, 2) + _padded(x[3:], 3), 0),
        (lambda x: _padded(x[:3], 0, 3) + _padded(x[3:], 0, 3), 0),
        (lambda x: _padded(x[:3], 0, 3) + _padded(x[:, :1], 0, 1, 1), 0),
        (lambda x: _padded(x[:3], 0, 3, value=1.0) + _padded(x[3:], 3), 0),
        (lambda x: _padded(x[:3], 0, 1, inside=1) + _padded(x[:0], 6), 0),
        (lambda x: _padded(x[:3], 0, 3) + x, 0),
        (lambda x: _padded(x[:3], 0, 3) - _padded(x[3:], 3), 0),
    ],
)
def test_which_sums_are_concatenations(fn, count):
    assert _joined(lambda x: [fn(x)], ROWS) == count


def test_what_is_used_elsewhere_stays():
    def fn(x):
        a, b, c = _padded(x[:2], 0, 4), _padded(x[2:4], 2, 2), _padded(x[4:], 4)
        return [a, a + b, a + b + c, (a + b) + (a + b + c)]

    assert _joined(fn, ROWS) == 2  # `a + b + c` is written twice


def test_long_sums_take_a_moment():
    x = jnp.arange(2000.0)

    def fn(x):
        total = _padded(x[:1], 0, 1999)
        for i in range(1, 2000):
            total = total + _padded(x[i : i + 1], i, 1999 - i)
        return [total]

    *_, last = join_pads(jax.make_jaxpr(fn)(x).jaxpr).eqns
    assert last.params == {"dimension": 0} and len(last.invars) == 2000


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


@pytest.mark.cpu
def test_a_training_step_has_no_sums_of_padded_arrays():
    layer = ft.nn.Linear(8, 24)

    def step(x):
        q, k, v = layer(x).view(2, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        (q * k + v).sum().backward()
        return layer.weight.grad

    program = ft.functionalize(step).jaxpr(ft.randn(2, 4, 8))
    text = jax.jit(jaxpr_as_fun(program)).lower(*program.in_avals).compile().as_text()
    assert "concatenate" in text and "pad(" not in text


def test_a_backward_pass_outside_is_joined_too(monkeypatch):
    joined = []

    def watched(jaxpr):
        joined.append([str(eqn.primitive) for eqn in join_pads(jaxpr).eqns].count("concatenate"))
        return join_pads(jaxpr)

    monkeypatch.setattr(assemble.lowering, "rewritten", watched)
    data = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)

    def gradient(T, wrap):
        x = T.tensor(data, requires_grad=True)

        def product(x):
            a, b, c = x.chunk(3, dim=1)
            return (a * b * c).sum()

        wrap(product)(x).backward()
        return x.grad.numpy()

    np.testing.assert_allclose(gradient(ft, ft.compile), gradient(torch, lambda f: f), rtol=1e-6)
    assert 1 in joined
