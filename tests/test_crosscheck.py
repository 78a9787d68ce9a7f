"""The cross-check: what it measures, what it reports, and that it notices a wrong update."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port import cli, crosscheck
from functorch_port.crosscheck import _comparison as comparison
from functorch_port.crosscheck import _grids as grids
from functorch_port.crosscheck import _measure as measure
from functorch_port.crosscheck import _problems as problems
from functorch_port.crosscheck import _sides as sides
from functorch_port.crosscheck import _twins as twins

NAMES = grids.names()


def compare(*args, **options):
    return crosscheck.compare(*args, **{"steps": 20, **options})


# ---------------------------------------------------------------------- the problems and the measures


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_gradients_are_those_of_the_loss(name):
    problem = problems.load(name, 3)
    _, grads = problem.evaluate(problem.start)
    rng = np.random.default_rng(0)
    towards = {k: rng.standard_normal(v.shape) for k, v in problem.start.items()}
    at = lambda t: problem.evaluate({k: v + t * towards[k] for k, v in problem.start.items()})[0]  # noqa: E731
    slope = (at(1e-5) - at(-1e-5)) / 2e-5
    assert slope == pytest.approx(sum(float(np.sum(grads[k] * towards[k])) for k in grads), rel=1e-6)


def test_a_seed_decides_the_problem():
    a, b, c = (problems.load("convex", s).start["matrix"] for s in (0, 0, 1))
    assert (a == b).all() and (a != c).any()


def test_units_in_the_last_place():
    one = np.ones(1)
    for dtype, unit in {
        "float64": 2.0**-52,
        "float32": 2.0**-23,
        "float16": 2.0**-10,
        "bfloat16": 2.0**-7,
    }.items():
        assert measure.spacing(one, dtype) == unit
        assert measure.ulps(one, one + 3 * unit, one, dtype) == 3
        assert measure.ulps(one, one + unit, 4 * one, dtype) == 0.25  # the unit is that of the start
    assert (
        measure.ulps(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), np.zeros(2), "float32").max()
        == 0
    )
    assert measure.ulps(one, np.array([np.nan]), one, "float32") == np.inf
    assert measure.relative(np.array([1.0, 4.0]), np.array([2.0, 4.0])) == 0.25
    assert (
        measure.relative(np.zeros(2), np.zeros(2)) == 0
        and measure.relative(np.zeros(2), np.ones(2)) == np.inf
    )


# ---------------------------------------------------------------------- comparing


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_every_optimizer_agrees(name, dtype):
    report = compare(name, dtype=dtype)
    wrong = [r for r in report.results if r.verdict == "differs"]
    assert report.ok and not wrong and not report.skipped
    assert {r.against for r in report.results} == {"torch", "optax"}
    for r in report.results:
        if r.against == "torch" and name not in grids.ROUNDING:
            assert r.run_relative <= (1e-11 if dtype == "float64" else 1e-3) and r.first_ulps <= 3
        assert r.verdict == "skipped" or len(r.relative_by_step) == r.steps == 20


def test_every_optimizer_has_a_grid_and_an_entry_for_optax():
    assert set(NAMES) >= {"SGD", "Adam", "AdamW"}
    assert not [n for n in NAMES if n not in grids.GRIDS]
    for name, choices in grids.GRIDS.items():
        for options in choices:
            for twin in twins.twins(name, options):
                assert (twin.call is None) <= (twin.note is not None)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types(dtype):
    report = compare(["SGD", "AdamW"], dtype=dtype, against=["torch"])
    assert report.ok and all(r.first_ulps <= 2 for r in report.results)


@pytest.mark.parametrize("problem", ["rosenbrock", "digits"])
def test_other_problems_and_own_gradients(problem):
    report = compare("Adam", problem=problem, own_gradients=True, against="torch")
    assert report.ok and all(r.run_relative < 1e-9 for r in report.results)


def test_known_differences_of_optax_and_the_flags():
    results = compare("AdamW", against="optax", options={"lr": 0.1}).results
    assert [r.verdict for r in results] == ["known", "equal"]
    assert "1e-4" in results[0].note and results[1].flags == "weight_decay=0.01"
    (dampened,) = compare(
        "SGD", against="optax", options={"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
    ).results
    assert (dampened.verdict, dampened.first_beyond) == ("known", 2) and "no dampening" in dampened.note


def _spoiled(monkeypatch, factor):
    from functorch_port.optim.sgd import METHOD, SGD

    def wrong(param, grad, state, scalars, flags):
        new, (buf,) = METHOD.rule(param, grad, state, scalars, flags)
        return new, (None if buf is None else buf * factor,)

    monkeypatch.setattr(SGD, "method", METHOD._replace(rule=wrong))


def test_a_wrong_update_is_found_and_located(monkeypatch):
    _spoiled(monkeypatch, 1 + 1e-6)
    report = compare("SGD", against="torch", options={"lr": 0.1, "momentum": 0.9})
    (result,) = report.results
    assert not report.ok and result.verdict == "differs"
    assert result.first_beyond == 1 and result.first_where.startswith("momentum_buffer of ")
    assert result.relative_by_step[0] < 1e-15 and result.run_relative > 1e-9


def test_tolerances():
    options = {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
    assert not compare("AdamW", against="torch", tolerance=0.0, first_ulps=0.0).ok
    (result,) = compare("SGD", against="optax", options=options, tolerance=1e9, first_ulps=1e30).results
    assert result.verdict == "equal"


def test_the_users_own_problem(tmp_path, monkeypatch):
    (tmp_path / "my_problem.py").write_text(
        "import numpy as np\n"
        "def line(seed):\n"
        "    return {'x': np.full(3, seed + 1.0)}, lambda p: (float(p['x'].sum()), {'x': np.ones(3)})\n"
    )
    monkeypatch.chdir(tmp_path)
    report = compare(
        "SGD", problem="my_problem:line", options={"lr": 0.5}, seed=1, against="torch", numbers=1
    )
    (number,) = report.results[0].numbers
    assert number == {"element": "x[0]", "before": 2.0, "ours": -0.5, "theirs": -0.5, "ulps": 0.0}
    import my_problem

    assert compare("SGD", problem=my_problem.line, options={"lr": 0.5}, against="torch").ok
    monkeypatch.delitem(sys.modules, "my_problem")


def test_what_is_missing_is_left_out_and_named(monkeypatch):
    real = sides.library

    def without(name):
        if name != "ours":
            raise ImportError("No module named 'torch'")
        return real(name)

    monkeypatch.setattr(sides, "library", without)
    report = compare("Adam")
    assert report.skipped == ["torch: No module named 'torch'"]
    assert report.ok and {r.against for r in report.results} == {"optax"}
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "torch", ft)
    assert sides.missing("torch") == "in this process `torch` is functorch_port"
    monkeypatch.setitem(sys.modules, "optax", None)
    assert "optax" in sides.missing("optax")


ERRORS = {
    "optimizer": lambda: compare("Adamm"),
    "dtype": lambda: compare("SGD", dtype="float8"),
    "library": lambda: compare("SGD", against="keras"),
    "problem": lambda: compare("SGD", problem="hard"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_there_is(name):
    with pytest.raises(ValueError, match="must be one of"):
        ERRORS[name]()


def test_runs_that_leave_the_finite_numbers():
    report = compare(
        "SGD", problem="rosenbrock", options={"lr": 50.0}, steps=40, own_gradients=True, against="torch"
    )
    assert len(report.results[0].relative_by_step) < 40


# ---------------------------------------------------------------------- recordings


def _training(T, steps=6, dtype="float32", **options):
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Linear(4, 8), T.nn.Tanh(), T.nn.Linear(8, 2)).to(getattr(T, dtype))
    other = T.optim.SGD([T.nn.Parameter(T.ones(1))], lr=0.1)
    optimizer = T.optim.AdamW(net.parameters(), **{"lr": 0.05, **options})
    schedule = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for i in range(steps):
        x = T.tensor(np.random.default_rng(i).standard_normal((16, 4))).to(getattr(T, dtype))
        optimizer.zero_grad()
        net(x).square().mean().backward()
        if i == 2:
            net[0].bias.grad = None
        other.step()
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("source", [torch, ft], ids=["torch", "ours"])
def test_recorded_and_replayed(tmp_path, source, dtype):
    path = tmp_path / "run.npz"
    with crosscheck.recording(path, source, which=1):
        _training(source, dtype=dtype, amsgrad=True)
    tape = crosscheck.Recording.load(path)
    assert (tape.meta["optimizer"], tape.meta["dtype"], len(tape.params)) == ("AdamW", dtype, 6)
    assert [g["lr"] for (g,) in tape.groups] == pytest.approx([0.05 * 0.9**i for i in range(6)])
    assert tape.grads[2]["0.bias"] is None and tape.grads[3]["0.bias"] is not None
    report = crosscheck.replay(path)
    assert report.ok and [r.against for r in report.results] == ["ours", "torch", "optax"]
    assert [r.verdict for r in report.results[:2]] == ["equal"] * 2 and not report.skipped
    assert all(len(r.relative_by_step) == 6 and r.first_ulps <= 4 for r in report.results)
    assert sum(r.run_ulps for r in report.results[:2]) < 60


def test_replay_through_optax_and_a_changed_recording(tmp_path):
    path = tmp_path / "run.npz"
    with crosscheck.recording(path, ft, steps=4):
        w = ft.nn.Parameter(ft.tensor([1.0, -2.0], dtype=ft.float64))
        optimizer = ft.optim.SGD([{"params": [w]}], lr=0.1, momentum=0.9)
        for _ in range(6):
            optimizer.zero_grad()
            (w**2).sum().backward()
            optimizer.step()
    report = crosscheck.replay(path)
    assert (
        report.ok and [r.against for r in report.results] == ["ours", "torch", "optax"] and not report.skipped
    )
    tape = crosscheck.Recording.load(path)
    assert len(tape.params) == 4
    tape.params[2]["0.0"][0] += 1e-3
    tape.save(path)
    report = crosscheck.replay(path, through=["ours"])
    (result,) = report.results
    wrong = tape.params[2]["0.0"][0]
    assert not report.ok and result.first_beyond == 3
    assert result.first_where == f"0.0[0]: {wrong - 1e-3:.17g} ours, {wrong:.17g} recorded"


def test_what_cannot_be_recorded(tmp_path):
    w, v = ft.nn.Parameter(ft.ones(1)), ft.nn.Parameter(ft.ones(1, dtype=ft.float64))
    with pytest.raises(NotImplementedError, match="float32 and float64"):
        with crosscheck.recording(tmp_path / "a.npz", ft):
            ft.optim.SGD([w, v], lr=0.1).step()
    optimizer = ft.optim.SGD([w], lr=0.1)
    step = ft.functionalize(lambda: optimizer.step())
    with pytest.raises(NotImplementedError, match="functionalize"):
        with crosscheck.recording(tmp_path / "a.npz", ft):
            step(step.state())
    assert not list(tmp_path.iterdir())
    with (
        pytest.raises(RuntimeError, match="nothing was recorded"),
        crosscheck.recording(tmp_path / "b.npz", ft),
    ):
        pass
    np.savez(tmp_path / "c.npz", x=np.ones(1))
    with pytest.raises(ValueError, match="not a recording"):
        crosscheck.replay(tmp_path / "c.npz")


def _record(path, T, make, steps=4, dtype="float64", step=None, **options):
    """A recording of a small linear model's training."""
    T.manual_seed(0)
    net = T.nn.Linear(3, 2).to(getattr(T, dtype))
    x = T.tensor(np.random.default_rng(0).standard_normal((8, 3))).to(getattr(T, dtype))
    optimizer = make(T, net)

    def closure():
        optimizer.zero_grad()
        loss = (net(x) - 1).square().mean()
        loss.backward()
        return loss

    with crosscheck.recording(path, T, **options):
        for i in range(steps):
            step(T, optimizer, closure, i) if step else (closure(), optimizer.step())
    return crosscheck.Recording.load(path)


def _by_closure(T, optimizer, closure, i):
    optimizer.step(closure)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("source", [torch, ft], ids=["torch", "ours"])
def test_steps_with_closures(tmp_path, source, search):
    tape = _record(
        tmp_path / "run.npz",
        source,
        lambda T, net: T.optim.LBFGS(net.parameters(), lr=0.5, max_iter=3, line_search_fn=search),
        step=_by_closure,
    )
    assert all(len(e) >= 3 and e[0].loss > 0 for e in tape.evaluations)
    report = crosscheck.replay(tmp_path / "run.npz")
    assert report.ok
    assert [(r.against, r.verdict) for r in report.results] == [("ours", "equal"), ("torch", "equal")]
    assert max(r.run_relative for r in report.results) < 1e-9
    assert report.skipped[0].startswith("optax: LBFGS's steps evaluate their closure several times")


def test_a_replay_that_goes_another_way_differs(tmp_path):
    path = tmp_path / "run.npz"
    make = lambda T, net: T.optim.LBFGS(net.parameters(), lr=0.5, max_iter=3)
    tape = _record(path, ft, make, step=_by_closure)
    tape.evaluations[1] = tape.evaluations[1][:2]
    tape.save(path)
    report = crosscheck.replay(path, "ours")
    (result,) = report.results
    assert (result.first_beyond, result.verdict, report.ok) == (2, "differs", False)
    assert result.first_where == "ours needs more evaluations than the 2 recorded"


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_closures_of_other_optimizers_and_their_state(tmp_path, name):
    make = lambda T, net: getattr(T.optim, name)(net.parameters(), lr=0.1)
    tape = _record(
        tmp_path / "run.npz",
        torch,
        make,
        step=lambda T, optimizer, closure, i: optimizer.step(closure=closure),
    )
    assert [len(e) for e in tape.evaluations] == [1] * 4
    entries = () if name == "SGD" else ("step", "exp_avg", "exp_avg_sq")
    assert set(tape.states[0]) == {f"{entry} of {p}" for entry in entries for p in ("weight", "bias")}
    report = crosscheck.replay(tmp_path / "run.npz")
    assert [r.verdict for r in report.results if not r.note] == ["equal"] * 3


def test_the_state_entry_that_is_off_is_named(tmp_path):
    tape = _record(tmp_path / "run.npz", ft, lambda T, net: T.optim.Adam(net.parameters(), lr=0.1))
    before = tape.states[1]["exp_avg_sq of weight"][1, 2]
    tape.states[1]["exp_avg_sq of weight"][1, 2] += 1
    tape.save(tmp_path / "run.npz")
    (result,) = crosscheck.replay(tmp_path / "run.npz", "torch").results
    assert result.first_beyond == 2
    place, values = result.first_where.split(": ")
    assert place == "exp_avg_sq of weight[1, 2]"
    assert values.endswith(f"{before + 1:.17g} recorded") and " torch, " in values
    assert float(values.split()[0]) == pytest.approx(before, rel=1e-12)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")  # of PyTorch's compiler
@pytest.mark.parametrize("source", [torch, ft], ids=["torch", "ours"])
def test_compiled_steps_are_recorded(tmp_path, source):
    def compiled(T, optimizer, closure, i):
        T.compile(lambda: (closure(), optimizer.step()))()

    make = lambda T, net: T.optim.AdamW(net.parameters(), lr=0.1)
    tape = _record(tmp_path / "run.npz", source, make, step=compiled)
    plain = _record(tmp_path / "plain.npz", source, make)
    assert len(tape.params) == 4 and (tape.params[-1]["weight"] == plain.params[-1]["weight"]).all()
    assert crosscheck.replay(tmp_path / "run.npz").ok


def _one_cycle(T, optimizer, most):
    schedule = T.optim.lr_scheduler.OneCycleLR(optimizer, most, total_steps=8)
    optimizer.register_step_post_hook(lambda *_: schedule.step())
    return optimizer


def _parts(net, **options):
    return [{"params": [net.weight]}, {"params": [net.bias], **options}]


CHANGING = {
    "cycled momentum, groups": lambda T, net: _one_cycle(
        T, T.optim.SGD(_parts(net, lr=0.3), lr=0.1, momentum=0.9), [0.1, 0.3]
    ),
    "cycled betas": lambda T, net: _one_cycle(T, T.optim.Adam(net.parameters(), lr=0.1), 0.1),
    "groups": lambda T, net: T.optim.AdamW(_parts(net, lr=0.01, weight_decay=0.1), lr=0.02),
}


@pytest.mark.parametrize("name", CHANGING)
def test_optax_takes_schedules_groups_and_missing_gradients(tmp_path, name):
    def step(T, optimizer, closure, i):
        closure()
        if i == 2:
            optimizer.param_groups[-1]["params"][-1].grad = None
        optimizer.step()

    tape = _record(tmp_path / "run.npz", torch, CHANGING[name], step=step, steps=6)
    assert tape.grads[2]["bias"] is None
    report = crosscheck.replay(tmp_path / "run.npz")
    assert not report.skipped and [r.verdict for r in report.results] == ["equal"] * 3
    assert all(r.run_relative < 1e-13 and len(r.ulps_by_step) == 6 for r in report.results)
    assert "for each group and step" in report.results[2].call


MINE = """
import torch
class Signs(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr, shrink=abs))
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["sum"] = state.get("sum", 0) + p.grad
                p.sub_(torch.sign(state["sum"]), alpha=group["lr"])
"""


def _signs(lr):
    """The same in optax."""
    import jax
    import jax.numpy as jnp
    import optax

    def update(grads, state, params):
        state = jax.tree.map(jnp.add, grads, state)
        return jax.tree.map(lambda s: -lr * jnp.sign(s), state), state

    return optax.GradientTransformation(lambda params: jax.tree.map(jnp.zeros_like, params), update)


def test_an_optimizer_of_ones_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine_signs.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    mine = problems.found("mine_signs:Signs", "optimizer")
    tape = _record("run.npz", torch, lambda T, net: mine(net.parameters()))
    assert tape.meta["home"] == "mine_signs" and tape.groups[0] == [{"lr": 0.1}]
    report = crosscheck.replay("run.npz")
    assert not report.ok and not report.results and len(report.skipped) == 3
    assert "--optimizer module:Signs" in report.skipped[0] and "--optax module:function" in report.skipped[2]
    assert cli.main(["crosscheck", "replay", "run.npz"]) == 2
    assert "NOTHING WAS COMPARED" in capsys.readouterr().out

    report = crosscheck.replay("run.npz", optimizer="mine_signs:Signs", optax=_signs)
    assert report.ok and not report.skipped
    found = [(r.against, r.verdict, r.run_ulps, r.options) for r in report.results]
    assert found == [(side, "equal", 0, {"lr": 0.1}) for side in ("ours", "torch", "optax")]
    with pytest.raises(ValueError, match="has no 'Sings'"):
        crosscheck.replay("run.npz", "torch", optimizer="mine_signs:Sings")
    (other,) = crosscheck.replay("run.npz", "torch", optimizer="SGD").results
    assert other.verdict == "differs"
    monkeypatch.delitem(sys.modules, "mine_signs")


def test_parameters_have_the_names_of_their_modules(tmp_path):
    def make(T, net):
        other, alone = T.nn.Linear(1, 1).double(), T.nn.Parameter(T.ones(1, dtype=T.float64))
        groups = [{"params": [*net.parameters()]}, {"params": [*other.parameters(), alone]}]
        optimizer = T.optim.SGD(groups, lr=0.1)
        optimizer.kept = other
        return optimizer

    names = _record(tmp_path / "run.npz", ft, make).meta["names"]
    assert sorted(names) == ["1.2", "Linear.bias", "Linear.weight", "bias", "weight"]


NONSENSE = {
    "no steps": lambda: crosscheck.compare("SGD", steps=0),
    "fewer": lambda: crosscheck.compare("SGD", steps=-5),
    "nan tolerance": lambda: compare("SGD", tolerance=float("nan")),
    "negative tolerance": lambda: compare("SGD", tolerance=-1.0),
    "negative ulps": lambda: compare("SGD", first_ulps=-1.0),
    "negative numbers": lambda: compare("SGD", numbers=-1),
    "negative seed": lambda: compare("SGD", seed=-1),
    "nan lr": lambda: compare("SGD", options={"lr": float("nan")}),
    "negative lr": lambda: compare("SGD", options={"lr": -1.0}),
    "unknown option": lambda: compare("SGD", options={"momentun": 0.9}),
    "no library": lambda: compare("SGD", against=[]),
    "several for one optax": lambda: compare(["SGD", "Adam"], optax=_signs),
    "not of optax": lambda: compare("SGD", optax=lambda lr: None),
    "argument that is no option": lambda: compare("SGD", optax=lambda learning_rate: None),
    "problem gives something else": lambda: compare("SGD", problem=lambda seed: 3),
    "problem without gradients": lambda: compare("SGD", problem=lambda seed: ({"x": np.ones(2)}, lambda p: (0.0, {}))),
    "problem without numbers": lambda: compare("SGD", problem=lambda seed: ({}, lambda p: (0.0, {}))),
    "negative which": lambda: crosscheck.recording("x.npz", ft, which=-1).__enter__(),
    "no first steps": lambda: crosscheck.recording("x.npz", ft, steps=0).__enter__(),
    "no file": lambda: crosscheck.replay("no_such_file.npz"),
    "no recording": lambda: crosscheck.replay(__file__),
}  # fmt: skip


@pytest.mark.parametrize("name", NONSENSE)
def test_what_makes_no_sense_is_refused(name):
    with pytest.raises(ValueError):
        NONSENSE[name]()


def _vector(scale, slope):
    return lambda seed: ({"x": np.full(2, scale)}, lambda p: (0.0, {"x": slope * p["x"]}))


NOTHING = {
    "no lr": lambda: compare("SGD", options={"lr": 0.0}),
    "no gradient": lambda: compare("SGD", options={"lr": 0.1}, problem=_vector(1.0, 0.0)),
    "no counterpart": lambda: compare("LBFGS", against="optax"),
    "no matrix": lambda: compare("Muon", problem=_vector(1.0, 1.0)),
    "infinite at once": lambda: compare("SGD", options={"lr": 1e308}, problem=_vector(1e3, -1.0)),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_compares_nothing_is_not_equal(name):
    report = NOTHING[name]()
    assert not report.ok and not [r for r in report.results if r.verdict == "equal"]


def test_ones_own_optax_transformation():
    import optax

    mine = lambda lr, momentum: optax.sgd(lr, momentum)
    report = compare("SGD", options={"lr": 0.1, "momentum": 0.9}, optax=mine)
    assert [(r.against, r.verdict) for r in report.results] == [("torch", "equal"), ("optax", "equal")]
    (result,) = compare("SGD", options={"lr": 0.1}, optax=optax.sgd(0.2), against="optax").results
    assert (result.verdict, result.first_beyond) == ("differs", 1)
    name, values = result.first_where.split(": ")
    ours, theirs = (float(part.split()[0]) for part in values.split(", "))
    start, evaluate = problems.load("convex")
    key, _, index = name.rstrip("]").partition("[")
    at = tuple(map(int, index.split(", "))) if index else ()
    grad = evaluate(start)[1][key][at]
    assert (ours, theirs) == pytest.approx((start[key][at] - 0.1 * grad, start[key][at] - 0.2 * grad))


# ---------------------------------------------------------------------- the command


def test_the_command(tmp_path, capsys):
    files = [str(tmp_path / n) for n in ("all.json", "apart.png", "page.md")]
    status = cli.main(
        ["crosscheck", "--optimizer", "SGD,adamw", "--steps", "5", "--dtype", "float64,float32", "--numbers", "1",
         "--json", files[0], "--plot", files[1], "--markdown", files[2]]
    )  # fmt: skip
    out = capsys.readouterr().out
    assert status == 0 and "AdamW" in out and "known difference" in out and "weight_decay is 1e-4" in out
    assert "matrix[0, 0]" in out
    data = json.loads((tmp_path / "all.json").read_text())
    assert [r["ok"] for r in data["reports"]] == [True, True] and data["settings"]["steps"] == 5
    assert len(data["reports"][1]["results"][0]["relative_by_step"]) == 5
    assert (tmp_path / "apart.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "page.md").read_text()
    assert (
        page.startswith("# Cross-check") and "| AdamW | `lr=0.02` | torch |" in page and "(apart.png)" in page
    )


def test_exit_status_of_a_difference(monkeypatch, capsys):
    _spoiled(monkeypatch, 1.1)
    assert cli.main(["crosscheck", "--optimizer", "SGD", "--steps", "3", "--against", "torch"]) == 1
    assert "differs" in capsys.readouterr().out
    assert cli.main(["crosscheck", "--optimizer", "Addam"]) == 2
    assert "must be one of SGD" in capsys.readouterr().err


def test_the_list(capsys):
    assert cli.main(["crosscheck", "--list"]) == 0
    assert "SGD\n  lr=0.02\n" in capsys.readouterr().out


def test_without_rich_the_table_is_plain(monkeypatch, capsys):
    from functorch_port.crosscheck import _report as report

    monkeypatch.setitem(sys.modules, "rich.console", None)
    report.print_report("title", comparison.compare("SGD", steps=2, against="optax"))
    out = capsys.readouterr().out
    assert out.startswith("title\noptimizer") and "equal" in out and "┃" not in out


def test_recording_a_script(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\n"
        "assert sys.argv[1:] == ['--epochs', '2']\n"
        "w = torch.nn.Parameter(torch.ones(3))\n"
        "optimizer = torch.optim.Adam([('w', w)], lr=0.1)\n"
        "for _ in range(3):\n"
        "    optimizer.zero_grad()\n"
        "    (w ** 2).sum().backward()\n"
        "    optimizer.step()\n"
    )
    out = str(tmp_path / "run.npz")
    assert cli.main(["crosscheck", "record", "--out", out, str(script), "--epochs", "2"]) == 0
    assert "3 steps of Adam, 1 parameters" in capsys.readouterr().out
    assert cli.main(["crosscheck", "replay", out]) == 0
    assert "recording of torch" not in capsys.readouterr().err


FAILING = """
import sys, torch
w = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (w**2).sum().backward()
    optimizer.step()
END
"""


@pytest.mark.parametrize(
    "end, status, written",
    [
        ("raise ValueError('my trouble')", 1, False),
        ("1 / 0", 1, False),
        ("sys.exit(5)", 5, True),
        ("sys.exit()", None, True),
    ],
)
def test_recording_a_script_that_ends_early(tmp_path, capsys, end, status, written):
    (tmp_path / "train.py").write_text(FAILING.replace("END", end))
    out = tmp_path / "run.npz"
    arguments = ["--out", str(out), str(tmp_path / "train.py")]
    assert cli.main(["crosscheck", "record", *arguments]) == status
    told = capsys.readouterr()
    assert out.exists() is written and len(list(tmp_path.iterdir())) == 1 + written
    if not written:
        assert f'train.py", line 9, in <module>\n    {end}\n' in told.err and "--first 3" in told.err
        assert (
            told.err.startswith("Traceback (most recent call last):\n  File") and "launcher" not in told.err
        )
        assert cli.main(["crosscheck", "record", "--first", "3", *arguments]) == status
        assert len(crosscheck.Recording.load(out).params) == 3


def test_a_recording_that_breaks_off_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    make = lambda T, net: T.optim.SGD(net.parameters(), lr=0.1)
    _record(path, ft, make, steps=2)
    before = path.read_bytes()

    def step(T, optimizer, closure, i):
        if i == 2:
            raise KeyError("trouble")
        closure()
        optimizer.step()

    with pytest.raises(KeyError):
        _record(path, ft, make, step=step)
    monkeypatch.setattr(np, "savez_compressed", lambda file, **arrays: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _record(path, ft, make)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "arguments, text",
    [
        ("--steps -5", "steps must be"), ("--ulps nan", "ulps must be"), ("--set lr=nan", "lr=nan"),
        ("--set lr=-1", "Invalid learning rate"), ("--set momentun=.9", "its options: lr, momentum"),
        ("--problem nothing_here:x", "no module 'nothing_here'"), ("--optax math:nothing", "has no 'nothing'"),
        ("--optax math", "module:name"), ("--plot /", "is a folder"),
        ("--plot x.what", "must end in one of"), ("--seed -1", "seed must be"), ("record no_such.py", "no_such.py"),
        ("--json /no/such/folder/x", "there is no folder"),
        ("record --first 0 -c 1", "at least 1"), ("record --out /no/such/x -c 1", "there is no folder"),
        ("replay no_such.npz", "there is no such file"),
    ],
)  # fmt: skip
def test_wrong_use_of_the_command(arguments, text, capsys):
    assert cli.main(["crosscheck", "--optimizer", "SGD", "--steps", "2", *arguments.split()]) == 2
    told = capsys.readouterr()
    assert text in told.err and "Traceback" not in told.err and "equal" not in told.out


def test_a_fault_in_the_users_code_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faulty.py").write_text("def problem(seed):\n    raise ValueError('of mine')\n")
    assert cli.main(["crosscheck", "--optimizer", "SGD", "--problem", "faulty:problem"]) == 2
    assert 'faulty.py", line 2, in problem' in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "faulty")


def test_options_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_adam.py").write_text(
        "import optax\ndef adam(lr, betas, eps): return optax.adam(lr, *betas, eps)\n"
    )
    words = ["crosscheck", "--optimizer", "adam", "--steps", "3", "--json", "all.json"]
    words += ["--set", "lr=.02", "betas=.9,.95", "maximize=false", "--optax", "my_adam:adam"]
    assert cli.main(words) == 0
    (report,) = json.loads((tmp_path / "all.json").read_text())["reports"]
    wanted = {"lr": 0.02, "betas": [0.9, 0.95], "maximize": False}
    assert [(r["against"], r["options"]) for r in report["results"]] == [("torch", wanted), ("optax", wanted)]
    assert "optax, adam" in capsys.readouterr().out
    monkeypatch.delitem(sys.modules, "my_adam")


def test_tolerances_before_the_word_replay_count(tmp_path):
    path = tmp_path / "run.npz"
    tape = _record(path, ft, lambda T, net: T.optim.SGD(net.parameters(), lr=0.1))
    tape.params[2]["weight"][0, 0] += 1e-3
    tape.save(path)
    assert cli.main(["crosscheck", "replay", str(path), "--through", "torch"]) == 1
    assert cli.main(["crosscheck", "--tolerance", "1e-1", "replay", str(path), "--through", "torch"]) == 0


@pytest.mark.parametrize("command", [[], ["record"], ["replay"]])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["crosscheck", *command, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and "examples" in text and "exit status" in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_the_updates_of_a_replay_are_called_by_their_sides(tmp_path, capsys):
    path = tmp_path / "run.npz"
    _record(path, ft, lambda T, net: T.optim.SGD(net.parameters(), lr=0.1))
    assert cli.main(["crosscheck", "replay", str(path), "--through", "torch", "--numbers", "1"]) == 0
    heads = [line.split() for line in capsys.readouterr().out.splitlines() if "before" in line]
    assert heads == ["before update, torch update, recorded ulp".split()]
