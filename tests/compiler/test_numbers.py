"""What optimizers do with their step count before it meets a tensor stays part of one program."""

import itertools
import math

import numpy as np
import torch

import functorch_port as ft

RATES = [
    lambda t: math.sqrt(1 - 0.9**t),
    lambda t: 1 - math.pow(0.9, t),
    lambda t: 1 / math.log(t + 2, 3),
    lambda t: math.exp(-t) + math.tanh(t) * math.fabs(math.cos(t)),
    lambda t: np.sqrt(1.0 - np.float64(0.9) ** t),
    lambda t: np.minimum(np.float64(0.5) * t, 0.7),
    lambda t: 0.5 if math.isfinite(1 / t) else 0.0,
]
GUARDED = [
    lambda t: round(t / 4, 1),
    lambda t: math.floor(t / 4) + math.ceil(t / 3) + math.trunc(t),
    lambda t: (np.array([0.1, 0.2]) * t).sum(),
]


def train(T, rates, compiled, steps=5):
    """Parameters after every step, each with a rate of its own, and the number of traces."""

    class Optimizer(T.optim.Optimizer):
        @T.no_grad()
        def step(self):
            for p, rate in zip(self.param_groups[0]["params"], rates, strict=True):
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                p.sub_(p.grad, alpha=0.1 * rate(state["step"]))

    params = [T.nn.Parameter(T.ones(2, dtype=T.double)) for _ in rates]
    optimizer, runs = Optimizer(params, {}), itertools.count()

    def step():
        next(runs)  # no state that compile keeps: it counts how often Python ran
        optimizer.zero_grad()
        sum((p**2).sum() for p in params).backward()
        optimizer.step()
        return [p.clone() for p in params]

    run = T.compile(step) if compiled else step
    return [[p.tolist() for p in run()] for _ in range(steps)], next(runs)


def test_functions_of_a_count_are_traced():
    want, _ = train(torch, RATES, compiled=False)
    got, traces = train(ft, RATES, compiled=True)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert traces == 2  # the first step makes the state
    assert math.sqrt(4) == 2 and math.sqrt.__module__ == "math"


def test_other_functions_of_a_count_are_guarded():
    want, _ = train(torch, GUARDED, compiled=False, steps=3)
    got, traces = train(ft, GUARDED, compiled=True, steps=3)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert traces == 3


def test_an_optimizer_around_another_needs_no_init():
    class Around(ft.optim.Optimizer):
        def __init__(self, inner):  # as Lookahead of several libraries: Optimizer.__init__ is not called
            self.inner, self.param_groups, self.state, self.defaults = inner, inner.param_groups, {}, {}

        def step(self, closure=None):
            return self.inner.step(closure)

    w = ft.nn.Parameter(ft.ones(2))
    optimizer = Around(ft.optim.SGD([w], lr=0.25))

    @ft.compile
    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    step()
    step()
    assert w.tolist() == [0.5, 0.5] and step.traces == 1
