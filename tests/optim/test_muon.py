"""Muon against torch: options, state, twin, optax form, compiled steps. The iteration runs in bfloat16 in both."""

from __future__ import annotations

import copy
import importlib
import itertools

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from twins import distance, outcome, plain, to_ours, to_torch, trajectory

import functorch_port as ft
from functorch_port.optim import functional

SHAPES = ((5, 8), (12, 4), (6, 6), (1, 3))
OPTIONS = [
    {},
    {"lr": 0.1, "weight_decay": 0},
    {"momentum": 0.8, "nesterov": False},
    {"momentum": 0},
    {"adjust_lr_fn": "match_rms_adamw", "lr": 0.05},
    {"adjust_lr_fn": "original", "ns_steps": 7},
    {"ns_coefficients": (3.4, -4.7, 2.0), "eps": 1e-3, "ns_steps": 0},
]
# A product that is summed in another order may round to the neighbour in bfloat16, 2**-8 away, and a step moves a
# parameter by about lr.
NEIGHBOUR = 2.0**-8


def _trajectory(T, options, dtype="float32", steps=20, shapes=SHAPES):
    return trajectory(T, "Muon", options, dtype, steps, shapes)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options, dtype):
    theirs, their_optimizer = _trajectory(torch, options, dtype)
    ours, our_optimizer = _trajectory(ft, options, dtype)
    lr = options.get("lr", 1e-3)
    assert distance(theirs, ours, 1.0) <= 20 * lr * NEIGHBOUR / 10
    a, b = their_optimizer.state_dict(), our_optimizer.state_dict()
    assert a["param_groups"] == b["param_groups"]
    for i in a["state"]:
        assert list(a["state"][i]) == list(b["state"][i])
        exact = [a["state"][i]["momentum_buffer"].numpy()], [b["state"][i]["momentum_buffer"].numpy()]
        assert distance(*exact) <= {"float64": 1e-15, "float32": 1e-6}[dtype]


def test_one_step_is_torchs_to_the_last_bit_of_bfloat16():
    for dtype in ("float64", "float32"):
        theirs, _ = _trajectory(torch, {"lr": 1.0, "weight_decay": 0}, dtype, 1)
        ours, _ = _trajectory(ft, {"lr": 1.0, "weight_decay": 0}, dtype, 1)
        for a, b in zip(theirs, ours, strict=True):
            assert (np.abs(a - b) <= 2 * np.spacing(np.maximum(np.abs(a), 1))).mean() > 0.95
            assert np.abs(a - b).max() <= 2 * NEIGHBOUR


def test_larger_matrices():
    options, shapes = {"lr": 0.02}, ((64, 100), (130, 48))
    theirs, _ = _trajectory(torch, options, steps=5, shapes=shapes)
    ours, _ = _trajectory(ft, options, steps=5, shapes=shapes)
    assert distance(theirs, ours) < 5 * 0.02 * NEIGHBOUR / 10


def test_half_types():
    def run(T):
        rng = np.random.default_rng(0)
        draw = lambda: T.tensor(rng.standard_normal((8, 6)).astype("float32")).bfloat16()  # noqa: E731
        p = T.nn.Parameter(draw())
        optimizer = T.optim.Muon([p], lr=0.05)
        for _ in range(10):
            p.grad = draw()
            optimizer.step()
        return np.array(plain(p)[1])

    a, b = run(torch), run(ft)
    assert np.abs(a - b).max() <= 2 * NEIGHBOUR * np.abs(a).max()


def test_the_direction_is_nearly_orthogonal():
    (w,) = _trajectory(ft, {"lr": 1.0, "weight_decay": 0, "momentum": 0}, steps=1, shapes=((6, 9),))[0]
    start = np.random.default_rng(0).standard_normal((6, 9)).astype("float32")
    values = np.linalg.svd(w - start, compute_uv=False)
    assert 0.6 < values.min() and values.max() < 1.3


def test_tensor_lr_and_text():
    theirs, their_optimizer = _trajectory(torch, {"lr": torch.tensor(0.1)})
    ours, our_optimizer = _trajectory(ft, {"lr": ft.tensor(0.1)})
    assert distance(theirs, ours, 1.0) < 2 * 0.1 * NEIGHBOUR
    assert repr(their_optimizer) == repr(our_optimizer)


def test_training_goes_on_from_the_others_state():
    theirs, their_optimizer = _trajectory(torch, {}, "float64", 5)
    _, our_optimizer = _trajectory(ft, {}, "float64", 5)

    def go_on(T, state):
        params = [T.nn.Parameter(T.tensor(v)) for v in theirs[-len(SHAPES) :]]
        optimizer = T.optim.Muon(params)
        optimizer.load_state_dict(state)
        for p in params:
            p.grad = T.ones_like(p.detach())
        optimizer.step()
        return [p.detach().numpy() for p in params]

    expected = go_on(torch, copy.deepcopy(their_optimizer.state_dict()))
    assert distance(expected, go_on(ft, to_ours(their_optimizer.state_dict())), 1.0) < 1e-3 * NEIGHBOUR
    assert distance(expected, go_on(torch, to_torch(our_optimizer.state_dict())), 1.0) < 1e-3 * NEIGHBOUR


def _p(T, *shape, dtype="float32"):
    p = T.nn.Parameter(T.ones(*(shape or (2, 3)), dtype=getattr(T, dtype)))
    p.grad = T.ones_like(p.detach())
    return [p]


ERRORS = {
    "lr": lambda T: T.optim.Muon(_p(T), lr=-1.0),
    "tensor lr of two": lambda T: T.optim.Muon(_p(T), lr=T.ones(2)),
    "momentum": lambda T: T.optim.Muon(_p(T), momentum=-0.1),
    "weight decay": lambda T: T.optim.Muon(_p(T), weight_decay=-0.1),
    "adjust_lr_fn": lambda T: T.optim.Muon(_p(T), adjust_lr_fn="other"),
    "vector": lambda T: T.optim.Muon(_p(T, 3)),
    "four dimensions": lambda T: T.optim.Muon([{"params": _p(T)}, {"params": _p(T, 2, 3, 1, 1)}]),
    "complex": lambda T: T.optim.Muon(_p(T, dtype="complex64")).step(),
    "many steps": lambda T: T.optim.Muon(_p(T), ns_steps=100).step(),
    "two coefficients": lambda T: T.optim.Muon(_p(T), ns_coefficients=(1.0, 2.0)).step(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    theirs, ours = outcome(ERRORS[name], torch), outcome(ERRORS[name], ft)
    assert theirs[1] is not None and theirs[1:] == ours[1:]


def test_functional_twin():
    options = {
        "lr": 0.1, "weight_decay": 0.1, "momentum": 0.9, "nesterov": True, "ns_coefficients": (3.4445, -4.775, 2.0315),
        "ns_steps": 5, "eps": 1e-7, "adjust_lr_fn": None,
    }  # fmt: skip

    def run(T, **more):
        fn = importlib.import_module(f"{T.__name__}.optim._muon").muon
        rng = np.random.default_rng(0)
        p, buf = T.tensor(rng.standard_normal((3, 4))), T.zeros(3, 4, dtype=T.float64)
        for _ in range(3):
            fn([p], [T.tensor(rng.standard_normal((3, 4)))], [buf], **options, has_complex=False, **more)
        return [p.numpy(), buf.numpy()]

    assert distance(run(torch), run(ft)) < 1e-14
    assert outcome(run, torch)[2:] == outcome(run, ft)[2:]
    refused = [outcome(lambda T: run(T, foreach=True), T)[1:] for T in (torch, ft)]
    assert refused[0][0] is not None and refused[0] == refused[1]


def test_optax_form():
    options = {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}
    theirs, _ = _trajectory(torch, options, steps=3, shapes=((5, 8), (4, 2)))
    rng = np.random.default_rng(0)
    draw = lambda: [jnp.asarray(rng.standard_normal(s).astype("float32")) for s in ((5, 8), (4, 2))]  # noqa: E731
    optimizer = functional.muon(**options)
    params = draw()
    state = optimizer.init(params)
    for _ in range(3):
        updates, state = optimizer.update(draw(), state, params)
        params = optax.apply_updates(params, updates)
    assert distance(theirs[4:], [np.asarray(p) for p in params]) < 1e-3
    with pytest.raises(ValueError, match="not supported"):
        functional.muon(adjust_lr_fn="other")


@pytest.mark.parametrize("eager_steps", [0, 2])
def test_compiled(eager_steps):
    def run(T, compile):
        rng = np.random.default_rng(0)
        w, v = (T.nn.Parameter(T.tensor(rng.standard_normal(s))) for s in ((4, 6), (6, 3)))
        x = T.tensor(rng.standard_normal((10, 4)))
        optimizer = T.optim.Muon([w, v], lr=0.02, weight_decay=0.1)
        traces = itertools.count()

        def step():
            next(traces)
            optimizer.zero_grad()
            ((T.tanh(x @ w) @ v) ** 2).sum().backward()
            optimizer.step()

        compiled = compile(step)
        for i in range(8):
            (step if i < eager_steps else compiled)()
            optimizer.param_groups[0]["lr"] *= 0.9
            optimizer.param_groups[0]["momentum"] -= 0.01
        return [p.detach().numpy() for p in (w, v)], next(traces) - eager_steps

    theirs, _ = run(torch, lambda f: f)
    ours, traces = run(ft, ft.compile)
    assert distance(theirs, ours) < 8 * 0.02 * NEIGHBOUR
    assert traces == 1
