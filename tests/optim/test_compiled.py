"""Optimizers inside a compiled step: the numbers of torch, one trace, whatever happens to the hyperparameters."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from twins import distance

import functorch_port as ft

MAKE = {
    "SGD": lambda T, p: T.optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda T, p: T.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "SGD, dampening": lambda T, p: T.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "SGD, uphill": lambda T, p: T.optim.SGD(p, lr=0.01, momentum=0.5, maximize=True),
    "SGD, tensor lr": lambda T, p: T.optim.SGD(p, lr=T.tensor(0.1), momentum=0.5),
    "Adam": lambda T, p: T.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda T, p: T.optim.AdamW(p, lr=0.01),
    "Adamax": lambda T, p: T.optim.Adamax(p, lr=0.01, weight_decay=0.1),
    "NAdam": lambda T, p: T.optim.NAdam(p, lr=0.01, weight_decay=0.1, momentum_decay=0.1),
    "NAdam, decoupled": lambda T, p: T.optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True),
    "RAdam": lambda T, p: T.optim.RAdam(p, lr=0.01, weight_decay=0.1),
    "Adagrad": lambda T, p: T.optim.Adagrad(p, lr_decay=0.1, initial_accumulator_value=0.1),
    "Adadelta": lambda T, p: T.optim.Adadelta(p, weight_decay=0.1),
    "RMSprop": lambda T, p: T.optim.RMSprop(p, momentum=0.9, centered=True, eps=1e-3),
    "Rprop": lambda T, p: T.optim.Rprop(p, lr=0.01),
    "ASGD": lambda T, p: T.optim.ASGD(p, lr=0.1, lambd=0.1, t0=5, weight_decay=0.1),
    "Adafactor": lambda T, p: T.optim.Adafactor(p, lr=0.05, weight_decay=0.1),
}


def _schedule(optimizer, i):
    for group in optimizer.param_groups:
        if not hasattr(group["lr"], "shape"):
            group["lr"] *= 0.97
        if group.get("momentum"):
            group["momentum"] -= 0.01


def _train(T, name, compile, eager_steps):
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Linear(6, 16), T.nn.Tanh(), T.nn.Linear(16, 3)).double()
    optimizer = MAKE[name](T, net.parameters())
    rng = np.random.default_rng(0)
    x, y = T.tensor(rng.standard_normal((12, 6))), T.tensor(rng.integers(0, 3, 12))
    traces = itertools.count()

    def step(x, y):
        next(traces)
        optimizer.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = compile(step)
    for i in range(12):
        (step if i < eager_steps else run)(x, y)
        _schedule(optimizer, i)
    values = [p.detach().numpy() for p in net.parameters()]
    state = [v.numpy() for s in optimizer.state_dict()["state"].values() for v in s.values()]
    return values + state, next(traces) - eager_steps


@pytest.mark.parametrize("eager_steps", [0, 3])
@pytest.mark.parametrize("name", MAKE)
def test_compiled_equals_torch_with_one_trace(name, eager_steps):
    theirs, _ = _train(torch, name, lambda step: step, eager_steps)
    ours, traces = _train(ft, name, ft.compile, eager_steps)
    assert distance(theirs, ours, 1e-3) < 1e-10
    lazy_state_cannot_be_made_ahead = "dampening" in name and eager_steps == 0
    assert traces == (2 if lazy_state_cannot_be_made_ahead else 1)


def test_a_schedule_steps_outside():
    w = ft.tensor([1.0, 2.0], requires_grad=True)
    opt = ft.optim.SGD([w], lr=1.0)
    schedule = ft.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)

    def step(inside):
        opt.zero_grad()
        (w * 1.0).sum().backward()
        opt.step()
        if inside:
            schedule.step()

    run = ft.compile(step)
    with pytest.raises(NotImplementedError, match="after the compiled step"):
        run(True)
    assert (w.tolist(), schedule.last_epoch) == ([1.0, 2.0], 0)
    for expected in (0.0, -0.5, -0.75):
        run(False)
        schedule.step()
        assert w[0].item() == expected
    assert run.traces == 1


def test_equal_step_counts_are_one_input():
    """Until one of them changes: then the program is traced again, and the numbers stay PyTorch's."""
    found = []
    for T in (torch, ft):
        params = [T.nn.Parameter(T.full((2,), k + 1.0, dtype=T.float64)) for k in range(6)]
        optimizer = T.optim.NAdam(params, lr=0.1)
        for k, p in enumerate(params):
            p.grad = T.full_like(p, 0.1 * k - 0.2)
        step = ft.compile(optimizer.step) if T is ft else optimizer.step
        for _ in range(3):
            step()
        if T is ft:
            assert step.traces == 1
            (program,) = step.programs()
            # of every parameter itself and its gradient; together two averages, a count and a product
            assert len(program.executable.input_avals) - len(program.inputs.numbers.inputs) == 6 * 2 + 4
        optimizer.state[params[2]]["step"].fill_(1)
        for _ in range(3):
            step()
        if T is ft:
            assert step.traces == 2
        for key in ("step", "mu_product"):  # as loaded: every one an array of its own
            for p in params:
                optimizer.state[p][key] = optimizer.state[p][key].clone()
        for _ in range(2):
            step()
        if T is ft:
            assert step.traces == 3
        found.append([t.tolist() for p in params for t in (p, *optimizer.state[p].values())])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_counts_that_are_written_apart_are_traced_once_more():
    params = [ft.nn.Parameter(ft.ones(2)) for _ in range(4)]
    optimizer = ft.optim.Adam([{"params": params[:2]}, {"params": params[2:], "lr": 0.1}])
    for p in params:
        p.grad = ft.ones(2)

    @ft.compile
    def step():
        optimizer.step()
        for p in params:
            optimizer.state[p]["step"].fill_(3)

    for _ in range(5):
        step()
    assert step.traces <= 2 and all(optimizer.state[p]["step"].item() == 3 for p in params)
