"""Learning-rate schedules: rates, state and texts against torch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from twins import outcome, plain, same_outcome

import functorch_port as ft

STEPS = 30


class Halving:
    """A callable object, whose attributes are saved."""

    def __init__(self):
        self.calls = 0

    def __call__(self, epoch):
        self.calls += 1
        return 0.5**epoch


def _warm_up(L, o, then):
    return L.SequentialLR(o, [L.LinearLR(o, start_factor=0.1, total_iters=5), then], milestones=[5])


SCHEDULES = {
    "lambda": lambda L, o: L.LambdaLR(o, lambda e: 0.95**e),
    "lambda per group": lambda L, o: L.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "lambda object": lambda L, o: L.LambdaLR(o, Halving()),
    "multiplicative": lambda L, o: L.MultiplicativeLR(o, lambda e: 1 - 0.01 * e),
    "step": lambda L, o: L.StepLR(o, 3, gamma=0.5),
    "multistep": lambda L, o: L.MultiStepLR(o, [18, 4, 4, 25], gamma=0.3),
    "constant": lambda L, o: L.ConstantLR(o, factor=0.25, total_iters=12),
    "linear": lambda L, o: L.LinearLR(o, start_factor=0.05, end_factor=0.5, total_iters=10),
    "exponential": lambda L, o: L.ExponentialLR(o, gamma=0.9),
    "polynomial": lambda L, o: L.PolynomialLR(o, total_iters=20, power=2.0),
    "cosine": lambda L, o: L.CosineAnnealingLR(o, T_max=10, eta_min=0.001),
    "warm restarts": lambda L, o: L.CosineAnnealingWarmRestarts(o, 4, T_mult=2, eta_min=1e-4),
    "cyclic": lambda L, o: L.CyclicLR(o, 0.001, 0.05, step_size_up=3, step_size_down=5, mode="triangular2"),
    "cyclic exp": lambda L, o: L.CyclicLR(o, 0.01, [0.2, 0.3], step_size_up=5, mode="exp_range", gamma=0.95),
    "cyclic function": lambda L, o: L.CyclicLR(
        o, 0.01, 0.1, step_size_up=4, scale_fn=lambda x: 1 / (5 ** (x * 0.0001)), scale_mode="iterations"
    ),
    "one cycle": lambda L, o: L.OneCycleLR(o, max_lr=[0.5, 0.2], total_steps=40),
    "one cycle, three phases": lambda L, o: L.OneCycleLR(
        o, 0.3, epochs=4, steps_per_epoch=9, three_phase=True, anneal_strategy="linear"
    ),
    "sequential": lambda L, o: _warm_up(L, o, L.CosineAnnealingLR(o, T_max=25)),
    "chained": lambda L, o: L.ChainedScheduler(
        [L.ConstantLR(o, 0.2, 4), L.ExponentialLR(o, 0.9), L.StepLR(o, 7, 0.5)]
    ),
    "plateau": lambda L, o: L.ReduceLROnPlateau(o, "min", factor=0.5, patience=2, cooldown=1),
    "plateau max": lambda L, o: L.ReduceLROnPlateau(
        o, mode="max", patience=3, threshold=0.05, min_lr=[0.01, 0.02]
    ),
    "plateau abs": lambda L, o: L.ReduceLROnPlateau(o, patience=1, threshold_mode="abs", threshold=0.02),
}


def _optimizer(T, lr=0.1):
    a, b = T.nn.Parameter(T.ones(2)), T.nn.Parameter(T.ones(3))
    return T.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.05}], lr=lr, momentum=0.9)


def _rates(optimizer, scheduler):
    values = [float(g[k]) for g in optimizer.param_groups for k in ("lr", "momentum")]
    return values + [float(x) for x in scheduler.get_last_lr()]


def _advance(optimizer, scheduler, i):
    optimizer.step()
    if "Plateau" in type(scheduler).__name__:
        scheduler.step(1.0 / (1 + i) if i < 8 else 0.2 + 0.01 * (i % 3))
    else:
        scheduler.step()


def _visible(state):
    """Schedules inside others are dicts too; functions are compared by type."""
    if isinstance(state, dict):
        return {
            k: _visible(v) for k, v in state.items() if k not in ("_get_lr_called_within_step", "_is_initial")
        }
    if isinstance(state, (list, tuple)):
        return [_visible(v) for v in state]
    return state if isinstance(state, (bool, int, float, str, type(None))) else type(state).__name__


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_and_state(name):
    def run(T):
        optimizer = _optimizer(T)
        scheduler = SCHEDULES[name](T.optim.lr_scheduler, optimizer)
        rates, halfway = [_rates(optimizer, scheduler)], None
        for i in range(STEPS):
            _advance(optimizer, scheduler, i)
            rates.append(_rates(optimizer, scheduler))
            if i == STEPS // 2 - 1:
                halfway = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
        again_optimizer = _optimizer(T)
        again = SCHEDULES[name](T.optim.lr_scheduler, again_optimizer)
        again_optimizer.load_state_dict(halfway[0])
        again.load_state_dict(halfway[1])
        for i in range(STEPS // 2, STEPS):
            _advance(again_optimizer, again, i)
            np.testing.assert_allclose(_rates(again_optimizer, again), rates[i + 1], rtol=1e-12)
        return rates, _visible(scheduler.state_dict())

    same_outcome(run)


@pytest.mark.parametrize(
    "name", [n for n in SCHEDULES if n not in ("cyclic", "cyclic exp", "cyclic function")]
)
def test_a_tensor_rate_stays_the_same_tensor(name):
    def run(T):
        lrs = [T.tensor(0.1, dtype=T.float64), T.tensor(0.05, dtype=T.float64)]
        params = [T.nn.Parameter(T.ones(2)) for _ in lrs]
        optimizer = T.optim.SGD(
            [{"params": [p], "lr": lr} for p, lr in zip(params, lrs, strict=True)], momentum=0.9
        )
        scheduler = SCHEDULES[name](T.optim.lr_scheduler, optimizer)
        rates = []
        for i in range(8):
            _advance(optimizer, scheduler, i)
            rates.append(_rates(optimizer, scheduler))
        return rates, [g["lr"] is lr for g, lr in zip(optimizer.param_groups, lrs, strict=True)]

    (theirs, their_same), error, _ = outcome(run, torch)
    assert error is None
    ours, our_same = run(ft)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert our_same == their_same


ERRORS = {
    "no optimizer": lambda T, L: L.StepLR(3, 1),
    "plateau without optimizer": lambda T, L: L.ReduceLROnPlateau(3),
    "resume without initial_lr": lambda T, L: L.StepLR(_optimizer(T), 1, last_epoch=3),
    "lambda count": lambda T, L: L.LambdaLR(_optimizer(T), [lambda e: 1]),
    "constant factor": lambda T, L: L.ConstantLR(_optimizer(T), factor=2.0),
    "linear start": lambda T, L: L.LinearLR(_optimizer(T), start_factor=0.0),
    "linear end": lambda T, L: L.LinearLR(_optimizer(T), end_factor=2.0),
    "plateau factor": lambda T, L: L.ReduceLROnPlateau(_optimizer(T), factor=1.0),
    "plateau mode": lambda T, L: L.ReduceLROnPlateau(_optimizer(T), mode="up"),
    "plateau threshold mode": lambda T, L: L.ReduceLROnPlateau(_optimizer(T), threshold_mode="up"),
    "plateau min_lr": lambda T, L: L.ReduceLROnPlateau(_optimizer(T), min_lr=[0.1]),
    "restarts T_0": lambda T, L: L.CosineAnnealingWarmRestarts(_optimizer(T), 0),
    "restarts T_mult": lambda T, L: L.CosineAnnealingWarmRestarts(_optimizer(T), 1, 0),
    "restarts eta_min": lambda T, L: L.CosineAnnealingWarmRestarts(_optimizer(T), 1, eta_min="0"),
    "restarts epoch": lambda T, L: L.CosineAnnealingWarmRestarts(_optimizer(T), 1).step(-1),
    "cyclic mode": lambda T, L: L.CyclicLR(_optimizer(T), 0.1, 0.2, mode="up"),
    "cyclic lengths": lambda T, L: L.CyclicLR(_optimizer(T), [0.1], 0.2),
    "one cycle steps": lambda T, L: L.OneCycleLR(_optimizer(T), 0.1),
    "one cycle total": lambda T, L: L.OneCycleLR(_optimizer(T), 0.1, total_steps=0),
    "one cycle epochs": lambda T, L: L.OneCycleLR(_optimizer(T), 0.1, epochs=0, steps_per_epoch=1),
    "one cycle pct": lambda T, L: L.OneCycleLR(_optimizer(T), 0.1, total_steps=5, pct_start=2.0),
    "one cycle strategy": lambda T, L: L.OneCycleLR(_optimizer(T), 0.1, total_steps=5, anneal_strategy="up"),
    "sequential empty": lambda T, L: L.SequentialLR(_optimizer(T), [], []),
    "sequential milestones": lambda T, L: L.SequentialLR(o := _optimizer(T), [L.StepLR(o, 1)], [3]),
    "sequential plateau": lambda T, L: L.SequentialLR(o := _optimizer(T), [L.ReduceLROnPlateau(o)], []),
    "chained empty": lambda T, L: L.ChainedScheduler([]),
    "chained plateau": lambda T, L: L.ChainedScheduler([L.ReduceLROnPlateau(_optimizer(T))]),
    "chained nonsense": lambda T, L: L.ChainedScheduler([3], optimizer=_optimizer(T)),
    "base class": lambda T, L: L.LRScheduler(_optimizer(T)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    def run(T):
        ERRORS[name](T, T.optim.lr_scheduler)

    theirs, ours = outcome(run, torch), outcome(run, ft)
    assert theirs[1] is not None and theirs == ours


def test_stepping_past_one_cycle():
    def run(T):
        optimizer = _optimizer(T)
        scheduler = T.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
        for _ in range(5):
            optimizer.step()
            scheduler.step()

    same_outcome(run)


def test_optimizers_that_differ():
    def run(T):
        L = T.optim.lr_scheduler
        a, b = _optimizer(T), _optimizer(T)
        L.SequentialLR(a, [L.StepLR(a, 1), L.StepLR(b, 1)], [1])

    same_outcome(run)


WARNINGS = {
    "before the optimizer": lambda T, o, s: s.step(),
    "deprecated epoch": lambda T, o, s: (o.step(), s.step(3)),
    "get_lr from outside": lambda T, o, s: s.get_lr(),
    "step replaced": lambda T, o, s: (setattr(o, "step", lambda: None), s.step()),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_are_torchs(name):
    def run(T):
        optimizer = _optimizer(T)
        scheduler = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        WARNINGS[name](T, optimizer, scheduler)
        return _rates(optimizer, scheduler)

    theirs, ours = outcome(run, torch), outcome(run, ft)
    assert theirs == ours and len(ours[2]) == 1


def test_scripts_find_the_text_of_the_epoch_warning():
    same_outcome(lambda T: T.optim.lr_scheduler.EPOCH_DEPRECATION_WARNING)


@pytest.mark.parametrize(
    "name", ["step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine"]
)
def test_closed_form(name):
    def run(T):
        optimizer = _optimizer(T)
        scheduler = SCHEDULES[name](T.optim.lr_scheduler, optimizer)
        optimizer.step()
        out = []
        for epoch in (0, 3, 7, 15, 29):
            scheduler.step(epoch)
            out.append(_rates(optimizer, scheduler))
        return out

    same_outcome(run)


def test_warm_restarts_with_fractions():
    def run(T):
        optimizer = _optimizer(T)
        scheduler = T.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2)
        out = []
        for epoch in (0.5, 2.25, 3, 9.5, 20, 26):
            scheduler.step(epoch)
            out.append(_rates(optimizer, scheduler))
        scheduler.step()
        return [*out, _rates(optimizer, scheduler), _visible(scheduler.state_dict())]

    same_outcome(run)


def test_resuming_with_last_epoch():
    def run(T):
        optimizer = _optimizer(T)
        for group in optimizer.param_groups:
            group["initial_lr"] = 0.4
        scheduler = T.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=4)
        out = [_rates(optimizer, scheduler)]
        for _ in range(3):
            optimizer.step()
            scheduler.step()
            out.append(_rates(optimizer, scheduler))
        return out, plain(optimizer.state_dict()["param_groups"])

    same_outcome(run)


def test_the_height_of_cycles_follows_a_loaded_state():
    def run(T):
        L, out = T.optim.lr_scheduler, []
        other = L.CyclicLR(_optimizer(T), 1.0, 5.0)
        for mode in ("triangular2", "exp_range", "triangular"):
            scheduler = L.CyclicLR(_optimizer(T), 1.0, 5.0, mode=mode, gamma=0.5)
            state = scheduler.state_dict()
            other.load_state_dict(state)
            out += [
                f(x) for s in (scheduler, other) for f in (s.scale_fn, s._scale_fn_ref) for x in (1, 2, 5)
            ]
            out.append("_scale_fn_ref" in state)
        return out

    same_outcome(run)


def test_a_plateau_notices_new_groups():
    def run(T, min_lr):
        optimizer = _optimizer(T)
        scheduler = T.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=min_lr)
        optimizer.add_param_group({"params": [T.nn.Parameter(T.ones(1))]})
        for _ in range(3):
            scheduler.step(T.tensor(1.0))
        return _rates(optimizer, scheduler), scheduler.in_cooldown

    same_outcome(lambda T: run(T, 0.001))
    same_outcome(lambda T: run(T, [0.1, 0.2]))


def test_a_schedule_of_ones_own():
    def run(T):
        class Sawtooth(T.optim.lr_scheduler.LRScheduler):
            def get_lr(self):
                return [base * (1 + self.last_epoch % 3) for base in self.base_lrs]

        optimizer = _optimizer(T)
        scheduler = Sawtooth(optimizer)
        out = []
        for _ in range(7):
            optimizer.step()
            scheduler.step()
            out.append(_rates(optimizer, scheduler))
        return out, isinstance(scheduler, T.optim.lr_scheduler.LRScheduler)

    same_outcome(run)


@pytest.mark.parametrize("first", ["ExponentialLR", "ConstantLR"])
def test_a_rate_that_is_a_float64_tensor_stays_exact(first):
    """What `fill_` wrote once counted as a Python number afterwards, which is rounded to float32."""

    def run(T):
        lr = T.optim.lr_scheduler
        p = T.nn.Parameter(T.ones(1))
        optimizer = T.optim.SGD([p], lr=T.tensor(0.1, dtype=T.float64))
        one = getattr(lr, first)(optimizer, 0.9)
        cycle = lr.OneCycleLR(optimizer, 0.1, total_steps=30, cycle_momentum=False)
        schedule, seen = lr.SequentialLR(optimizer, [one, cycle], [3]), []
        for _ in range(6):
            seen.append(optimizer.param_groups[0]["lr"].item())
            optimizer.step()
            schedule.step()
        return seen

    same_outcome(run)
