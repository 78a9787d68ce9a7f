"""Adam and AdamW against torch: options, state, functional twin, host counting of steps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from counting import xla_compilations
from twins import distance, outcome, plain, same_outcome, to_ours

import functorch_port as ft

pytestmark = pytest.mark.usefixtures("both_ways")

STEPS = 20
# Parameters are around 1 and move by about lr per step, with a few roundings in each.
BOUND = {"float64": 2e-15, "float32": 1e-6}
OPTIONS = [
    {},
    {"lr": 0.1},
    {"weight_decay": 0.1},
    {"amsgrad": True},
    {"maximize": True, "weight_decay": 0.1},
    {"amsgrad": True, "weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-4, "lr": 0.05},
    {"betas": (0.0, 0.0)},
    {"foreach": True},
    {"fused": True},
]


def _trajectory(T, name, options, dtype="float32", complex_=False):
    rng = np.random.default_rng(0)
    draw = lambda s: rng.standard_normal(s).astype(dtype)  # noqa: E731
    if complex_:
        draw = lambda s: rng.standard_normal(s) + 1j * rng.standard_normal(s)  # noqa: E731
    params = [T.nn.Parameter(T.tensor(draw(s))) for s in ((5, 8), (8,), ())]
    optimizer = getattr(T.optim, name)(params, **options)
    values = []
    for i in range(STEPS):
        for p in params:
            p.grad = T.tensor(draw(tuple(p.shape)))
        if i in (3, 4):
            params[1].grad = None  # from here on it is two steps behind
        optimizer.step()
        values += [p.detach().numpy().copy() for p in params]
    return values, optimizer


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_options(name, options, dtype):
    theirs, their_optimizer = _trajectory(torch, name, options, dtype)
    ours, our_optimizer = _trajectory(ft, name, options, dtype)
    assert distance(theirs, ours, 2.0) <= BOUND[dtype]
    a, b = their_optimizer.state_dict(), our_optimizer.state_dict()
    assert a["param_groups"] == b["param_groups"]
    for i in a["state"]:
        assert list(a["state"][i]) == list(b["state"][i])
        assert plain(a["state"][i]["step"]) == plain(b["state"][i]["step"])
        for k in a["state"][i]:
            assert distance([a["state"][i][k].numpy()], [b["state"][i][k].numpy()], 1.0) <= BOUND[dtype]


def test_complex_parameters():
    options = {"weight_decay": 0.1, "amsgrad": True}
    theirs, _ = _trajectory(torch, "Adam", options, complex_=True)
    ours, _ = _trajectory(ft, "Adam", options, complex_=True)
    assert distance(theirs, ours) < 1e-14


def test_first_step_of_float32_has_exact_corrections():
    """1 - beta2**1 in float32 would be off by 6e-6."""

    def run(T):
        p = T.nn.Parameter(T.zeros(3))
        p.grad = T.tensor([1e-3, 1.0, 1e3])
        T.optim.Adam([p], lr=0.1).step()
        return [p.detach().numpy()]

    assert distance(run(torch), run(ft)) < 2e-7


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types(dtype):
    def run(T):
        rng = np.random.default_rng(0)
        kind = getattr(T, dtype)
        p = T.nn.Parameter(T.tensor(rng.standard_normal((8, 8)).astype("float32")).to(kind))
        optimizer = T.optim.AdamW([p], lr=0.05)
        for _ in range(10):
            p.grad = T.tensor(rng.standard_normal((8, 8)).astype("float32")).to(kind)
            optimizer.step()
        return plain(p)[1]

    theirs, ours = np.array(run(torch)), np.array(run(ft))
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    assert np.abs(theirs - ours).max() <= 2 * unit * np.abs(theirs).max()


def test_tensor_hyperparameters():
    def options(T):
        return {"lr": T.tensor(0.1), "betas": (T.tensor(0.8), T.tensor(0.9))}

    theirs, _ = _trajectory(torch, "Adam", options(torch))
    ours, optimizer = _trajectory(ft, "Adam", options(ft))
    assert distance(theirs, ours, 2.0) <= 1e-5  # torch raises float32 betas to powers in float32
    assert repr(optimizer).startswith("Adam (")


def _p(T):
    return [T.nn.Parameter(T.ones(2))]


ERRORS = {
    "lr": lambda T: T.optim.Adam(_p(T), lr=-1.0),
    "eps": lambda T: T.optim.Adam(_p(T), eps=-1.0),
    "beta 0": lambda T: T.optim.Adam(_p(T), betas=(1.0, 0.9)),
    "beta 1": lambda T: T.optim.Adam(_p(T), betas=(0.9, -0.1)),
    "weight decay": lambda T: T.optim.AdamW(_p(T), weight_decay=-0.1),
    "mixed betas": lambda T: T.optim.Adam(_p(T), betas=(0.9, T.tensor(0.9))),
    "int betas": lambda T: T.optim.Adam(_p(T), betas=(0, 0.9)),
    "tensor lr with foreach": lambda T: T.optim.Adam(_p(T), lr=T.tensor(0.1), foreach=True),
    "tensor lr of two": lambda T: T.optim.Adam(_p(T), lr=T.ones(2)),
    "tensor beta with foreach": lambda T: T.optim.Adam(
        _p(T), betas=(T.tensor(0.1), T.tensor(0.1)), foreach=True
    ),
    "tensor beta of two": lambda T: T.optim.Adam(_p(T), betas=(T.full((1,), 0.5), T.full((2,), 0.5))),
    "fused and foreach": lambda T: T.optim.Adam(_p(T), fused=True, foreach=True),
    "fused and differentiable": lambda T: T.optim.AdamW(_p(T), fused=True, differentiable=True),
    "lr is a string": lambda T: T.optim.Adam(_p(T), lr="0.1"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    theirs, ours = outcome(ERRORS[name], torch), outcome(ERRORS[name], ft)
    assert theirs[1] is not None and theirs[1:] == ours[1:]


def test_printed_text_and_lazy_state():
    def run(T):
        p = T.nn.Parameter(T.ones(2))
        p.grad = T.ones(2)
        optimizer = T.optim.AdamW([p], amsgrad=True)
        before = repr(optimizer), str(optimizer.state_dict())
        optimizer.step()
        return before, repr(optimizer), list(optimizer.state_dict()["state"][0])

    same_outcome(run)


def test_old_state_with_a_number_as_step():
    def run(T):
        p = T.nn.Parameter(T.ones(2))
        p.grad = T.ones(2)
        optimizer = T.optim.Adam([p])
        optimizer.step()
        saved = optimizer.state_dict()
        saved["state"][0]["step"] = 7
        fresh = T.optim.Adam([p])
        fresh.load_state_dict(saved)
        fresh.step()
        return plain(fresh.state_dict()["state"][0]["step"])

    same_outcome(run)


def test_training_goes_on_from_torchs_state():
    theirs, their_optimizer = _trajectory(torch, "AdamW", {"lr": 0.1, "amsgrad": True}, "float64")
    state = copy.deepcopy(their_optimizer.state_dict())
    params = [ft.nn.Parameter(ft.tensor(v)) for v in theirs[-3:]]
    optimizer = ft.optim.AdamW(params, amsgrad=True)
    optimizer.load_state_dict(to_ours(state))
    assert [s["step"].item() for s in optimizer.state.values()] == [20.0, 18.0, 20.0]
    for p, q in zip(params, their_optimizer.param_groups[0]["params"], strict=True):
        p.grad, q.grad = ft.ones_like(p.detach()), torch.ones_like(q)
    optimizer.step()
    their_optimizer.step()
    their_values = [p.detach().numpy() for p in their_optimizer.param_groups[0]["params"]]
    assert distance(their_values, [p.detach().numpy() for p in params]) < 1e-14


@pytest.mark.parametrize("decoupled", [False, True])
def test_functional_twin(decoupled):
    import importlib

    options = {
        "amsgrad": True,
        "beta1": 0.9,
        "beta2": 0.99,
        "lr": 0.1,
        "weight_decay": 0.1,
        "eps": 1e-8,
        "maximize": False,
    }

    def run(T):
        module = "adamw" if decoupled else "adam"
        fn = getattr(importlib.import_module(f"{T.__name__}.optim.{module}"), module)
        rng = np.random.default_rng(0)
        lists = [
            [T.tensor(rng.standard_normal(4))],
            *([T.zeros(4, dtype=T.float64)] for _ in range(3)),
            [T.tensor(0.0)],
        ]
        for _ in range(3):
            params, *moments = lists
            fn(params, [T.tensor(rng.standard_normal(4))], *moments, **options)
        return [entry[0].numpy() for entry in lists]

    assert distance(run(torch), run(ft)) < 1e-14


def test_differentiable_step():
    def run(T):
        start = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
        grad = T.tensor([0.5, -1.0], dtype=T.float64, requires_grad=True)
        p = start.clone()
        optimizer = T.optim.Adam([p], lr=0.1, weight_decay=0.1, differentiable=True)
        p.grad = grad
        optimizer.step()
        (p**2).sum().backward()
        return [t.detach().numpy() for t in (p, start.grad, grad.grad)]

    assert distance(run(torch), run(ft)) < 2e-5  # there torch computes the corrections in float32


def test_steps_and_new_rates_compile_nothing():
    params = [ft.nn.Parameter(ft.ones(3, 2 + i)) for i in range(3)]
    optimizer = ft.optim.Adam(params)
    for p in params:
        p.grad = ft.ones_like(p.detach())
    optimizer.step()
    with xla_compilations() as later:
        for i in range(10):
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            optimizer.param_groups[0]["betas"] = (0.9 - 0.01 * i, 0.99)
            optimizer.step()
    assert later[0] == 0
