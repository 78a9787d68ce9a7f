"""Parameters whose last dimension is short are updated as one row: the same numbers, and no memory for copies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port.optim import _engine as engine
from functorch_port.optim.adam import METHOD, Scalars

SHAPES = [(64, 16, 3, 3), (4096, 2), (8, 1, 1, 1), (64, 64), (5,), ()]


def train(lib, name, compiled):
    rng = np.random.default_rng(0)
    params = [lib.nn.Parameter(lib.tensor(rng.standard_normal(s))) for s in SHAPES]
    optimizer = getattr(lib.optim, name)(params, lr=0.01)
    grads = [[lib.tensor(rng.standard_normal(s)) for s in SHAPES] for _ in range(4)]

    def step(*given):
        for p, g in zip(params, given, strict=True):
            p.grad = g
        optimizer.step()

    step = ft.compile(step) if compiled else step
    for given in grads:
        step(*given)
    return [np.asarray(p.detach()) for p in params]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["AdamW", "SGD", "Adagrad", "Adafactor"])
def test_the_numbers_are_pytorchs(name, compiled):
    tolerance = 1e-7 if name == "Adafactor" else 1e-12  # PyTorch's Adafactor keeps its factors in float32
    for ours, theirs in zip(train(ft, name, compiled), train(torch, name, False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_no_copies_are_made():
    weight = jnp.zeros((256, 64, 3, 3), jnp.float32)
    flags = METHOD.flags(ft.optim.AdamW([ft.zeros(1, requires_grad=True)]).param_groups[0])
    rule = engine.of_one(METHOD.rule, flags, True)

    row = (jnp.float32(0.5),) * len(Scalars._fields)

    def step(param, state, grad, row):
        return rule(param, grad, state, row)

    program = (
        jax.jit(step, donate_argnums=(0, 1)).lower(weight, (weight, weight, None), weight, row).compile()
    )
    memory = program.memory_analysis()
    assert memory.alias_size_in_bytes == 3 * weight.nbytes
    assert memory.temp_size_in_bytes < weight.nbytes / 2
