"""Compiled programs keep the state of small parameters in one array per entry; nobody else notices."""

import copy

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base.tuning import tuning

pytestmark = pytest.mark.usefixtures("both_ways")

OPTIMIZERS = [
    ("AdamW", {"lr": 0.1}),
    ("SGD", {"lr": 1e-3, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
]


class Run:
    """Forty parameters, and two functions that step them: of one some take no part in the step of the other."""

    def __init__(self, T, name="AdamW", **options):
        self.T = T
        rng = np.random.default_rng(0)
        self.params = [T.nn.Parameter(T.tensor(rng.standard_normal((3, 4)))) for _ in range(40)]
        self.optimizer = getattr(T.optim, name)(self.params, **options)
        self.x = T.ones(3, 4, dtype=T.float64)
        compile = ft.compile if T is ft else lambda f: f
        self.some, self.all = compile(self.step_some), compile(self.step_all)

    def _step(self, params):
        self.optimizer.zero_grad()
        loss = sum((p * self.x).sum() ** 2 for p in params)
        loss.backward()
        self.optimizer.step()
        return loss

    def step_some(self):
        return self._step(self.params[:37])

    def step_all(self):
        return self._step(self.params)

    def of(self, *functions):
        return [f().item() for f in functions]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_numbers_and_traces_whatever_comes_between(name, options):
    found = []
    for T in (torch, ft):
        run = Run(T, name, **options)
        losses = run.of(run.some, run.some, run.step_some, run.some, run.all, run.some, run.step_all, run.all)
        saved = copy.deepcopy(run.optimizer.state_dict())
        losses += run.of(run.some, run.all)
        if T is ft:
            assert run.some.traces == run.all.traces == 1
        run.optimizer.load_state_dict(saved)
        losses += run.of(run.some, run.all, run.step_some, run.some)
        run.params[0].requires_grad_(False)
        losses += run.of(run.some, run.all, run.all)
        state = run.optimizer.state
        losses += [t.sum().item() for p in run.params for t in state[p].values()]
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11)


@pytest.mark.parametrize(("most", "packs"), [(64, 1), (32, 2)])
def test_fewer_arrays(monkeypatch, most, packs):
    monkeypatch.setattr(tuning, "pack_parameters", most)
    monkeypatch.setattr(tuning, "pack_parameters_by_xla", most)
    run = Run(ft, lr=0.1)
    run.of(run.all)
    (program,) = run.all.programs()
    # parameters; of a pack with 40 of them, or two with 32 and 8, two averages each; the count and x
    assert len(program.inputs.donated) + len(program.inputs.cells) == 40 + 2 * packs + 2
    count = min(most, 40)
    text = run.all.explain(analyse=False)
    assert f"state[0].exp_avg and {count - 1} more: float64[{12 * count}]" in text


def test_the_state_is_tensors_like_any_others():
    run = Run(ft, lr=0.1)
    run.of(run.all)
    average = run.optimizer.state[run.params[3]]["exp_avg"]
    assert average.shape == (3, 4) and average.is_contiguous() and not average._is_view()
    before = average.clone()
    run.of(run.all)
    assert not ft.equal(average, before)
    average.zero_()  # is what the next step starts from
    others = [run.optimizer.state[p]["exp_avg"].clone() for p in run.params]
    twin = Run(ft, lr=0.1)
    twin.of(twin.step_all, twin.step_all)
    twin.optimizer.state[twin.params[3]]["exp_avg"].zero_()
    for p, mine in zip(twin.params, others, strict=True):
        np.testing.assert_allclose(mine.numpy(), twin.optimizer.state[p]["exp_avg"].numpy(), rtol=1e-12)
    assert run.of(run.all, run.all) == pytest.approx(twin.of(twin.step_all, twin.step_all), rel=1e-12)
    assert run.all.traces == 1


def test_views_of_the_state_keep_looking_at_it():
    run, twin = Run(ft, lr=0.1), Run(torch, lr=0.1)
    views = []
    for r in (run, twin):
        r.of(r.all)
        views.append(r.optimizer.state[r.params[1]]["exp_avg"][0])
        r.of(r.step_all, r.all)
        r.optimizer.state_dict()
        r.of(r.step_all, r.all)
    np.testing.assert_allclose(views[0].numpy(), views[1].numpy(), rtol=1e-11)
    assert run.all.traces == 1


def test_a_failed_trace_leaves_the_state_alone():
    run = Run(ft, lr=0.1)
    run.of(run.step_all)
    before = copy.deepcopy(run.optimizer.state_dict()["state"])

    @ft.compile
    def fails():
        run.step_all()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    for i, entries in run.optimizer.state_dict()["state"].items():
        for k, t in entries.items():
            assert ft.equal(t, before[i][k])
            assert t._view is None


def test_another_reader_and_functionalize():
    """A compiled function that only looks at the state sees every step, and plain JAX gets the tensors one by one."""
    run = Run(ft, lr=0.1)
    run.of(run.all)
    look = ft.compile(lambda: run.optimizer.state[run.params[2]]["exp_avg"] * 1)
    for step in (run.all, run.step_all, run.all, run.some):
        run.of(step)
        assert ft.equal(look(), run.optimizer.state[run.params[2]]["exp_avg"])
    assert look.traces == 1
    pure = ft.functionalize(run.step_all)
    averages = [v for n, v in pure.state().items() if "exp_avg" in n]
    assert len(averages) == 2 * 40 and all(v.shape == (3, 4) for v in averages)


def test_large_parameters_and_other_devices_types_keep_their_own():
    params = [ft.nn.Parameter(ft.ones(40, 40)) for _ in range(8)]
    params += [
        ft.nn.Parameter(ft.ones(3, dtype=d)) for d in (ft.float32, ft.float64, ft.bfloat16) for _ in range(5)
    ]
    optimizer = ft.optim.Adam(params)
    for p in params:
        p.grad = ft.ones_like(p)
    step = ft.compile(optimizer.step)
    step()
    assert sorted(len(pack.params) for pack in optimizer._packs) == [5, 5, 5]
    assert optimizer.state[params[0]]["exp_avg"]._view is None
