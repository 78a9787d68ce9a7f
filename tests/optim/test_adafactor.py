"""Adafactor against torch: options, state, twin, optax form, compiled steps."""

from __future__ import annotations

import copy
import importlib

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from counting import xla_compilations
from twins import distance, outcome, plain, same_outcome, to_ours, to_torch, trajectory

import functorch_port as ft
from functorch_port.optim import functional

SHAPES = ((5, 8), (8,), (), (2, 3, 4), (1, 6), (3, 1))
OPTIONS = [
    {},
    {"lr": 0.1, "weight_decay": 0.1},
    {"maximize": True, "weight_decay": 0.1},
    {"beta2_decay": -0.3, "d": 2.5},
    {"eps": (1e-3, 0.5), "lr": 1.0},
    {"beta2_decay": 0, "d": 1},
    {"foreach": True},
]
# Parameters are around 1; a step is a sum over a tensor, a root and a few products, and moves them by at most 0.1.
BOUND = {"float64": 2e-15, "float32": 2e-6}


def _trajectory(T, options, dtype="float32", steps=20, shapes=SHAPES):
    return trajectory(T, "Adafactor", options, dtype, steps, shapes)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options, dtype):
    theirs, their_optimizer = _trajectory(torch, options, dtype)
    ours, our_optimizer = _trajectory(ft, options, dtype)
    assert distance(theirs, ours, 2.0) <= BOUND[dtype]
    a, b = their_optimizer.state_dict(), our_optimizer.state_dict()
    assert a["param_groups"] == b["param_groups"]
    for i in a["state"]:
        assert list(a["state"][i]) == list(b["state"][i])
        for k in a["state"][i]:
            assert distance([a["state"][i][k].numpy()], [b["state"][i][k].numpy()]) <= BOUND[dtype]


def test_a_thousand_steps():
    theirs, _ = _trajectory(torch, {"weight_decay": 0.01}, "float64", 1000)
    ours, _ = _trajectory(ft, {"weight_decay": 0.01}, "float64", 1000)
    assert distance(theirs, ours) < 1e-9


def test_first_step_of_float32():
    theirs, _ = _trajectory(torch, {"lr": 0.1}, steps=1)
    ours, _ = _trajectory(ft, {"lr": 0.1}, steps=1)
    for a, b in zip(theirs, ours, strict=True):
        # The update is around 0.1 and has some roundings of its own, which count for a parameter that ends near 0.
        assert (np.abs(a - b) <= 2 * np.spacing(np.maximum(np.abs(a), np.float32(0.25)))).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types(dtype):
    def run(T):
        rng = np.random.default_rng(0)
        kind = getattr(T, dtype)
        draw = lambda *s: T.tensor(rng.standard_normal(s).astype("float32")).to(kind)  # noqa: E731
        params = [T.nn.Parameter(draw(8, 8)), T.nn.Parameter(draw(9))]
        optimizer = T.optim.Adafactor(params, lr=0.05)
        for _ in range(10):
            for p in params:
                p.grad = draw(*p.shape)
            optimizer.step()
        return [np.array(plain(p)[1]) for p in params]

    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    for a, b in zip(run(torch), run(ft), strict=True):
        assert np.abs(a - b).max() <= 2 * unit * np.abs(a).max()


def test_the_default_eps_is_that_of_the_groups_first_parameter():
    """PyTorch keeps the first one it finds; with tiny gradients it shows."""

    def run(T):
        wide, narrow = (T.nn.Parameter(T.ones(2, 2, dtype=d)) for d in (T.float64, T.float32))
        optimizer = T.optim.Adafactor([wide, narrow])
        for p in (wide, narrow):
            p.grad = T.full_like(p.detach(), 1e-10)
        optimizer.step()
        return [p.detach().numpy() for p in (wide, narrow)]

    assert distance(run(torch), run(ft)) < 1e-7


def test_tensor_lr_and_text():
    theirs, their_optimizer = _trajectory(torch, {"lr": torch.tensor(0.1)})
    ours, our_optimizer = _trajectory(ft, {"lr": ft.tensor(0.1)})
    assert distance(theirs, ours, 2.0) < 3e-6
    assert repr(their_optimizer) == repr(our_optimizer)


def test_training_goes_on_from_the_others_state():
    theirs, their_optimizer = _trajectory(torch, {"lr": 0.1}, "float64", 10)
    ours, our_optimizer = _trajectory(ft, {"lr": 0.1}, "float64", 10)

    def go_on(T, state):
        params = [T.nn.Parameter(T.tensor(v)) for v in theirs[-len(SHAPES) :]]
        optimizer = T.optim.Adafactor(params)
        optimizer.load_state_dict(state)
        for p in params:
            p.grad = T.ones_like(p.detach())
        optimizer.step()
        return [p.detach().numpy() for p in params]

    expected = go_on(torch, copy.deepcopy(their_optimizer.state_dict()))
    assert distance(expected, go_on(ft, to_ours(their_optimizer.state_dict()))) < 1e-14
    assert distance(expected, go_on(torch, to_torch(our_optimizer.state_dict()))) < 1e-14


def _p(T, dtype="float32"):
    return [T.nn.Parameter(T.ones(2, dtype=getattr(T, dtype)))]


def _step_of_complex(T):
    (p,) = params = _p(T, "complex64")
    p.grad = T.ones_like(p.detach())
    T.optim.Adafactor(params).step()


ERRORS = {
    "lr": lambda T: T.optim.Adafactor(_p(T), lr=-1.0),
    "tensor lr of two": lambda T: T.optim.Adafactor(_p(T), lr=T.ones(2)),
    "beta2_decay": lambda T: T.optim.Adafactor(_p(T), beta2_decay=0.1),
    "eps1": lambda T: T.optim.Adafactor(_p(T), eps=(-1.0, 0.1)),
    "eps2": lambda T: T.optim.Adafactor(_p(T), eps=(None, -0.1)),
    "d": lambda T: T.optim.Adafactor(_p(T), d=0.5),
    "weight decay": lambda T: T.optim.Adafactor(_p(T), weight_decay=-1),
    "lr is a string": lambda T: T.optim.Adafactor(_p(T), lr="0.1"),
    "complex": _step_of_complex,
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    theirs, ours = outcome(ERRORS[name], torch), outcome(ERRORS[name], ft)
    assert theirs[1] is not None and theirs[1:] == ours[1:]


def test_old_state_with_a_number_as_step():
    def run(T):
        params = _p(T)
        params[0].grad = T.ones(2)
        optimizer = T.optim.Adafactor(params)
        optimizer.step()
        saved = optimizer.state_dict()
        saved["state"][0]["step"] = 7
        del saved["param_groups"][0]["foreach"]
        fresh = T.optim.Adafactor(params)
        fresh.load_state_dict(saved)
        fresh.step()
        return plain(fresh.state_dict()["state"][0]["step"]), fresh.param_groups[0]["foreach"]

    same_outcome(run)


def test_functional_twin():
    numbers = {"d": 1.0, "lr": 0.1, "beta2_decay": -0.8, "weight_decay": 0.1, "eps1": None, "eps2": 1e-3}

    def run(T):
        fn = importlib.import_module(f"{T.__name__}.optim._adafactor").adafactor
        rng = np.random.default_rng(0)
        draw = lambda *s: T.tensor(rng.standard_normal(s))  # noqa: E731
        zeros = lambda *s: T.zeros(*s, dtype=T.float64)  # noqa: E731
        params, rows, cols = [draw(3, 4), draw(4)], [zeros(3, 1), None], [zeros(1, 4), None]
        full, steps = [None, zeros(4)], [T.tensor(0.0), T.tensor(3.0)]
        for _ in range(3):
            fn(params, [draw(3, 4), draw(4)], rows, cols, full, steps, **numbers, maximize=True)
        return [t.numpy() for t in (*params, rows[0], cols[0], full[1], *steps)]

    assert distance(run(torch), run(ft)) < 1e-14


def test_functional_twin_refuses_as_torch():
    numbers = {"d": 1.0, "lr": 0.1, "beta2_decay": -0.8, "weight_decay": 0.1, "eps1": None, "eps2": 1e-3}

    def steps(T):
        fn = importlib.import_module(f"{T.__name__}.optim._adafactor").adafactor
        fn([], [], [], [], [], [1.0], **numbers, maximize=True)

    def scale(T):
        fn = importlib.import_module(f"{T.__name__}.optim._adafactor").adafactor
        fn([], [], [], [], [], [], grad_scale=T.ones(()), **numbers, maximize=True)

    same_outcome(steps)
    same_outcome(scale)


def test_optax_form():
    theirs, _ = _trajectory(torch, {"lr": 0.1, "weight_decay": 0.1}, steps=5, shapes=((5, 8), ()))
    rng = np.random.default_rng(0)
    draw = lambda: [jnp.asarray(rng.standard_normal(s).astype("float32")) for s in ((5, 8), ())]  # noqa: E731
    optimizer = functional.adafactor(lr=0.1, weight_decay=0.1)
    params = draw()
    state = optimizer.init(params)
    assert [x.shape for x in state.entries["row_var"] if x is not None] == [(5, 1)]
    for _ in range(3):
        updates, state = optimizer.update(draw(), state, params)
        params = optax.apply_updates(params, updates)
    assert distance(theirs[4:6], [np.asarray(p) for p in params], 2.0) < 2e-6


def test_steps_and_new_rates_compile_nothing(tuned):
    tuned(tier="compiled")  # else the first steps are numpy's
    params = [ft.nn.Parameter(ft.ones(s)) for s in SHAPES]
    optimizer = ft.optim.Adafactor(params)
    for p in params:
        p.grad = ft.ones_like(p.detach())
    optimizer.step()
    with xla_compilations() as later:
        for i in range(5):
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            optimizer.step()
    assert later[0] == 0
