"""The cross-check: what it measures, what it reports, and that it notices a wrong update."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port import cli, crosscheck
from functorch_port.crosscheck import comparison, grids, measure, problems, sides, twins

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
    import functorch_port.optim.sgd as module

    rule = module.sgd_rule

    def wrong(param, grad, state, scalars, flags):
        new, (buf,) = rule(param, grad, state, scalars, flags)
        return new, (None if buf is None else buf * factor,)

    monkeypatch.setattr(module, "sgd_rule", wrong)


def test_a_wrong_update_is_found_and_located(monkeypatch):
    _spoiled(monkeypatch, 1 + 1e-6)
    report = compare("SGD", against="torch", options={"lr": 0.1, "momentum": 0.9})
    (result,) = report.results
    assert not report.ok and result.verdict == "differs"
    assert result.first_beyond == 1 and result.first_where.startswith("momentum_buffer of ")
    assert result.relative_by_step[0] == 0 and result.run_relative > 1e-9


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
    with pytest.raises(ValueError, match="there are"):
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
    assert tape.grads[2]["0.1"] is None and tape.grads[3]["0.1"] is not None
    report = crosscheck.replay(path)
    assert report.ok and [r.against for r in report.results] == ["ours", "torch"]
    assert report.skipped == ["optax: the hyperparameters change along the way"]
    assert all(len(r.relative_by_step) == 6 and r.verdict == "equal" for r in report.results)
    assert sum(r.run_ulps for r in report.results) < 60


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
    assert not report.ok and report.results[0].first_beyond == 3 and report.results[0].first_where == "0.0"


def test_what_cannot_be_recorded(tmp_path):
    w = ft.nn.Parameter(ft.ones(1))
    optimizer = ft.optim.SGD([w], lr=0.1)
    with pytest.raises(NotImplementedError, match="closure"), crosscheck.recording(tmp_path / "a.npz", ft):
        optimizer.step(lambda: w.sum())
    with (
        pytest.raises(RuntimeError, match="nothing was recorded"),
        crosscheck.recording(tmp_path / "b.npz", ft),
    ):
        pass
    np.savez(tmp_path / "c.npz", x=np.ones(1))
    with pytest.raises(ValueError, match="not a recording"):
        crosscheck.replay(tmp_path / "c.npz")


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
    assert "there are SGD" in capsys.readouterr().err


def test_the_list(capsys):
    assert cli.main(["crosscheck", "--list"]) == 0
    assert "SGD\n  lr=0.02\n" in capsys.readouterr().out


def test_without_rich_the_table_is_plain(monkeypatch, capsys):
    from functorch_port.crosscheck import report

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
