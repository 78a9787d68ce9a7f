"""Recurrent layers as one call of machine code: the numbers and derivatives of the scan, and of PyTorch."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from by_onednn import draw
from counting import xla_compilations

import functorch_port as ft
from functorch_port._cpu.native import onednn, recurrence
from functorch_port.ops import _recurrence
from functorch_port.ops._cells import CELLS

pytestmark = [
    pytest.mark.skipif(not onednn.available(), reason="needs oneDNN and llvmlite"),
    pytest.mark.usefixtures("both_ways"),
]


@pytest.fixture(autouse=True)
def everything_in_one_call(monkeypatch, tuned):
    """What a test computes must ask for a plan, also where a scan would be as fast, and get one."""
    asked = []
    original = recurrence._known_to_xla
    tuned(recurrence_least=1)
    monkeypatch.setattr(recurrence, "_known_to_xla", lambda *args: asked.append(original(*args)) or asked[-1])
    jax.clear_caches()
    yield
    assert asked and None not in asked


def arguments(mode, steps, batch, units, bias):
    cell = CELLS[mode]
    states = tuple(draw((batch, units), k) for k in range(cell.states))
    b = draw(cell.gates * units, 4) if bias and mode == "GRU" else None
    scale = np.float32(units**-0.5)
    x, w = draw((steps, batch, cell.gates * units), 2), draw((cell.gates * units, units), 3) * scale
    return x, states, w, b


def by_scan(mode, reverse, x, states, w, b, mask=None):
    last, outs = _recurrence._forward(mode, reverse, False, x, states, w, b, None, mask)
    return outs, last


@partial(jax.jit, static_argnums=(0, 1))
def in_one_call(mode, reverse, x, states, w, b, mask=None):
    return _recurrence.recur(mode, reverse, x, states, w, b, None, mask)


def flat(tree):
    return jnp.concatenate([a.reshape(-1) for a in jax.tree.leaves(tree)])


def derivatives(fn, mode, reverse, args):
    """The value, a tangent, the gradients, and those of a function of the gradients."""

    def value(args):
        outs, last = fn(mode, reverse, *args)
        return sum(jnp.sum(jnp.sin(a) * (i + 1)) for i, a in enumerate((outs, *last)))

    ones = jax.tree.map(jnp.ones_like, args)
    tangent = jax.jit(lambda a: jax.jvp(value, (a,), (ones,))[1])(args)
    first = jax.jit(lambda a: flat(jax.grad(value)(a)))(args)
    second = jax.jit(jax.grad(lambda a: jnp.sum(jnp.cos(flat(jax.grad(value)(a))))))(args)
    return fn(mode, reverse, *args), tangent, first, second


@pytest.mark.parametrize("lengths", [None, (6, 1, 4, 6, 3)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", CELLS)
def test_derivatives_are_those_of_the_scan(mode, reverse, lengths):
    args = arguments(mode, 6, 5, 19, bias=True)
    mask = None if lengths is None else np.arange(6)[:, None] < np.array(lengths)
    one, scan = partial(in_one_call, mask=mask), partial(by_scan, mask=mask)
    mine = derivatives(one, mode, reverse, args)
    with jax.enable_x64(True):
        exact = derivatives(scan, mode, reverse, jax.tree.map(np.float64, args))
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * np.abs(b).max())


@pytest.mark.parametrize("cores", [1, 2, 3, 7])
@pytest.mark.parametrize("batch", [1, 4, 5])
def test_any_number_of_cores(monkeypatch, tuned, cores, batch):
    """The rows are cut for so many; the last part may be smaller."""
    monkeypatch.setattr(onednn, "cores", lambda: cores)
    tuned(recurrence_part=1)
    args = arguments("LSTM", 9, batch, 30 + cores, bias=True)  # not the other numbers' plans
    want = by_scan("LSTM", False, *args)
    for a, b in zip(jax.tree.leaves(in_one_call("LSTM", False, *args)), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


CASES = {
    "LSTM": {},
    "LSTM, two layers, both directions": {"num_layers": 2, "bidirectional": True},
    "LSTM without bias": {"bias": False},
    "GRU": {},
    "GRU, both directions": {"bidirectional": True},
    "GRU without bias": {"bias": False},
    "RNN": {},
    "RNN, relu": {"nonlinearity": "relu"},
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case, batch, packed):
    results = []
    for T in (ft, torch):
        T.manual_seed(0)
        layer = getattr(T.nn, case.split(",")[0].split()[0])(12, 20, **CASES[case])
        x = T.tensor(draw((7, batch, 12), 0), requires_grad=True)
        lengths = [5, 7, 1, 4, 7, 3][:batch]
        given = T.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False) if packed else x
        out, states = layer(given)
        out = out.data if packed else out
        states = states if isinstance(states, tuple) else (states,)
        (out.sin().sum() + sum((s * s).sum() for s in states)).backward()
        results.append([t.detach().numpy() for t in (out, *states)])
        results[-1] += [t.grad.numpy() for t in (x, *layer.parameters())]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * max(np.abs(b).max(), 1))


def test_not_a_number_and_infinity_stay():
    x, states, w, b = arguments("RNN_TANH", 5, 3, 4, bias=False)
    x[0, 0, 0], x[1, 1, 1], x[2, 2, 2] = np.nan, np.inf, -np.inf
    mine, scan = (f("RNN_TANH", False, x, states, w, b)[0] for f in (in_one_call, by_scan))
    np.testing.assert_array_equal(np.isnan(mine), np.isnan(scan))
    assert mine[1, 1, 1] == 1 and mine[2, 2, 2] == -1


def test_batched_by_vmap():
    x, states, w, b = arguments("GRU", 5, 3, 8, bias=True)
    xs = jnp.stack([x, 2 * x, -x])
    want = [in_one_call("GRU", False, one, states, w, b)[0] for one in xs]
    got = jax.vmap(lambda one: in_one_call("GRU", False, one, states, w, b)[0])(xs)
    np.testing.assert_allclose(got, jnp.stack(want), atol=1e-6)


def test_few_steps_are_a_scan(monkeypatch):
    """To put the weights into another layout would cost more than it gains."""
    x, states, w, b = arguments("LSTM", 4, 3, 8, bias=True)
    in_one_call("LSTM", False, x, states, w, b)
    with monkeypatch.context() as patch:
        patch.setattr(recurrence, "run", None)
        jax.clear_caches()
        in_one_call("LSTM", False, x[:3], states, w, b)


def test_other_lengths_and_sizes_compile_no_more_machine_code(monkeypatch):
    """The loops are made of the formula alone."""
    from functorch_port._cpu.native import ffi

    layer, made = ft.nn.LSTM(8, 16), []
    layer(ft.ones(5, 2, 8))[0].tolist()
    original = ffi.function
    monkeypatch.setattr(ffi, "function", lambda name, text: made.append(text) or original(name, text))
    layer(ft.ones(9, 3, 8))[0].tolist()
    ft.nn.LSTM(8, 24)(ft.ones(6, 2, 8))[0].tolist()
    assert not made


def test_a_step_is_one_program():
    layer = ft.nn.LSTM(8, 16)
    sgd = ft.optim.SGD(layer.parameters(), lr=0.1)

    @ft.compile
    def step(x):
        sgd.zero_grad()
        loss = layer(x)[0].square().mean()
        loss.backward()
        sgd.step()
        return loss

    x = ft.ones(6, 3, 8)
    step(x), step(x)
    with xla_compilations() as count:
        losses = [step(x).item() for _ in range(3)]
    assert losses[0] > losses[-1] and count == [0]
