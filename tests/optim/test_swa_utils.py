"""Weight averaging against torch: averaged models, their buffers and state, batch statistics, the schedule."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from twins import distance, outcome, plain, same_outcome

import functorch_port as ft


def _swa(T):
    return T.optim.swa_utils


def _model(T, dtype="float32"):
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Linear(3, 4), T.nn.BatchNorm1d(4), T.nn.ReLU(), T.nn.Linear(4, 2))
    return net.to(getattr(T, dtype))


def _half_and_half(average, value, count):
    return average * 0.5 + value * 0.5 + count * 0.125


AVERAGES = {
    "default": lambda T: {},
    "swa": lambda T: {"avg_fn": _swa(T).get_swa_avg_fn()},
    "ema": lambda T: {"avg_fn": _swa(T).get_ema_avg_fn(0.9)},
    "multi swa": lambda T: {"multi_avg_fn": _swa(T).get_swa_multi_avg_fn()},
    "multi ema": lambda T: {"multi_avg_fn": _swa(T).get_ema_multi_avg_fn(0.9)},
    "own": lambda T: {"avg_fn": _half_and_half},
}


def _averaged(T, name, dtype, use_buffers, compile=lambda f: f):
    net = _model(T, dtype)
    average = _swa(T).AveragedModel(net, use_buffers=use_buffers, **AVERAGES[name](T))
    optimizer = T.optim.SGD(net.parameters(), lr=0.1)
    rng = np.random.default_rng(0)

    def step(x):
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()
        average.update_parameters(net)

    run = compile(step)
    for _ in range(5):
        run(T.tensor(rng.standard_normal((6, 3))).to(getattr(T, dtype)))
    return average


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name, dtype, use_buffers):
    if name == "multi swa" and use_buffers:
        texts = [outcome(_averaged, T, name, dtype, True)[1] for T in (torch, ft)]
        assert texts[0] == texts[1] and "addcdiv" in texts[0][1]  # the integer count of batches
        return
    theirs, ours = _averaged(torch, name, dtype, use_buffers), _averaged(ft, name, dtype, use_buffers)
    a, b = theirs.state_dict(), ours.state_dict()
    assert list(a) == list(b) and repr(theirs) == repr(ours)
    assert [plain(v)[0] for v in a.values()] == [plain(v)[0] for v in b.values()]
    arrays = [[v.detach().numpy() for v in d.values()] for d in (a, b)]
    assert distance(*arrays, 1.0) < (1e-14 if dtype == "float64" else 3e-6)


@pytest.mark.parametrize("name", AVERAGES)
def test_in_a_compiled_step(name):
    theirs = _averaged(torch, name, "float64", False).state_dict()
    ours = _averaged(ft, name, "float64", False, ft.compile).state_dict()
    assert distance([v.numpy() for v in theirs.values()], [v.numpy() for v in ours.values()], 1.0) < 1e-9


def test_functions_on_lists():
    def run(T):
        out = []
        for dtype in (T.float64, T.int64):
            for make in (_swa(T).get_swa_multi_avg_fn, lambda: _swa(T).get_ema_multi_avg_fn(0.5)):
                for count in (2, T.tensor(2)):
                    averages = [T.tensor([4, 8]).to(dtype), T.tensor([1]).to(dtype)]
                    values = [T.tensor([8, 4]).to(dtype), T.tensor([7]).to(dtype)]
                    try:
                        make()(averages, values, count)
                    except RuntimeError as e:
                        out.append(str(e))
                    out.append([np.round(np.array(plain(a)[1], float), 6).tolist() for a in averages])
        return out

    same_outcome(run)


def test_groups_by_dtype_and_keeps_order():
    def run(T):
        net = T.nn.ModuleList([T.nn.Linear(2, 2), T.nn.Linear(2, 2).double(), T.nn.Linear(2, 1)])
        seen = []
        average = _swa(T).AveragedModel(
            net,
            multi_avg_fn=lambda a, v, n: seen.append(
                ([str(t.dtype) for t in a], [t.shape for t in v], plain(n))
            ),
        )
        average.update_parameters(net)
        average.update_parameters(net)
        return sorted(map(str, seen)), plain(average.n_averaged)

    same_outcome(run)


ERRORS = {
    "two functions": lambda T: _swa(T).AveragedModel(_model(T), avg_fn=_half_and_half, multi_avg_fn=print),
    "decay": lambda T: _swa(T).get_ema_avg_fn(-0.1),
    "decay of many": lambda T: _swa(T).get_ema_multi_avg_fn(1.1),
    "rates": lambda T: _schedule(T, swa_lr=[0.1, 0.2, 0.3]),
    "strategy": lambda T: _schedule(T, swa_lr=0.1, anneal_strategy="square"),
    "negative": lambda T: _schedule(T, swa_lr=0.1, anneal_epochs=-1),
    "not an integer": lambda T: _schedule(T, swa_lr=0.1, anneal_epochs=2.5),
    "get_lr outside": lambda T: _schedule(T, swa_lr=0.1)[1].get_lr(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_and_warnings_are_torchs(name):
    theirs, ours = outcome(ERRORS[name], torch), outcome(ERRORS[name], ft)
    assert theirs[1:] == ours[1:] and (theirs[1] or theirs[2])


def test_save_load_copy_and_pickle():
    def run(T):
        average = _averaged(T, "default", "float32", False)
        fresh = _swa(T).AveragedModel(_model(T))
        result = fresh.load_state_dict(average.state_dict())
        copies = [fresh, copy.deepcopy(average), pickle.loads(pickle.dumps(average))]
        same = [
            all(bool((c.state_dict()[k] == v).all()) for k, v in average.state_dict().items()) for c in copies
        ]
        return str(result), same, len(list(average.parameters())), average.training

    same_outcome(run)


def test_forward_and_device():
    def run(T):
        average = _swa(T).AveragedModel(_model(T), device="cpu").eval()
        x = T.ones(2, 3)
        return (
            bool((average(x) == average.module(x)).all()),
            str(average.n_averaged.device),
            average.module.training,
        )

    same_outcome(run)


@pytest.mark.parametrize("batches", ["tensors", "pairs"])
def test_update_bn(batches):
    def run(T):
        rng = np.random.default_rng(0)
        net = _model(T, "float64").eval()
        net[1].momentum = 0.3
        data = [T.tensor(rng.standard_normal((n, 3))) for n in (4, 4, 7)]
        if batches == "pairs":
            data = [(x, None) for x in data]
        _swa(T).update_bn(data, net, device="cpu" if batches == "pairs" else None)
        assert net[1].momentum == 0.3 and not net.training and not net[1].training
        _swa(T).update_bn(iter(()), T.nn.Linear(1, 1))
        return [v.numpy() for k, v in net.state_dict().items() if k.startswith("1.")]

    assert distance(run(torch), run(ft)) < 1e-13


def _schedule(T, tensor_lr=False, **options):
    lr = T.tensor(1.0, dtype=T.float64) if tensor_lr else 1.0
    p, q = T.nn.Parameter(T.ones(1)), T.nn.Parameter(T.ones(1))
    optimizer = T.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.3}], lr=lr)
    return optimizer, _swa(T).SWALR(optimizer, **options)


SCHEDULES = {
    "cos": {"swa_lr": 0.05},
    "linear": {"swa_lr": [0.05, 0.1], "anneal_strategy": "linear", "anneal_epochs": 4},
    "at once": {"swa_lr": 0.05, "anneal_epochs": 0},
    "one": {"swa_lr": 0.5, "anneal_epochs": 1},
    "tensor": {"swa_lr": 0.05, "tensor_lr": True, "anneal_epochs": 3},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    def run(T):
        optimizer, scheduler = _schedule(T, **SCHEDULES[name])
        seen = []
        for _ in range(13):
            optimizer.step()
            scheduler.step()
            seen.append([plain(g["lr"]) for g in optimizer.param_groups])
        return seen, plain(scheduler.state_dict()), plain(optimizer.state_dict()["param_groups"])

    same_outcome(run)


def test_schedule_after_another_and_loaded():
    def run(T):
        optimizer, _ = _schedule(T, swa_lr=0.1)
        first = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        swa = _swa(T).SWALR(optimizer, 0.05, 5, "linear")
        seen = []
        for i in range(12):
            optimizer.step()
            (first if i < 3 else swa).step()
            if i == 6:
                fresh = _swa(T).SWALR(optimizer, 0.05)
                fresh.load_state_dict(swa.state_dict())
                swa = fresh
            seen.append([g["lr"] for g in optimizer.param_groups])
        return seen, plain(swa.state_dict())

    same_outcome(run)
