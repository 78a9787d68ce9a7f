"""`compile(options=, mode=)`: options of XLA reach it, PyTorch's mean what they do there, others are refused."""

from __future__ import annotations

import pytest
import torch
from twins import outcome

import functorch_port as ft


def double(x):
    return x * 2 + 1


def test_options_of_xla_reach_it():
    run = ft.compile(options={"xla_llvm_disable_expensive_passes": True})(double)
    assert run(ft.ones(3)).tolist() == [3.0] * 3
    (program,) = run.programs()
    assert program.executable.compiler_options["xla_llvm_disable_expensive_passes"] is True
    assert run(ft.ones(3)).tolist() == [3.0] * 3 and run.traces == 1
    module = ft.compile(ft.nn.Linear(2, 2), options={"xla_no_such_option": 1})
    with pytest.raises(Exception, match="No such compile option: 'xla_no_such_option'"):
        module(ft.ones(2))


def test_options_of_pytorch():
    drop = lambda x: ft.nn.functional.dropout(x, 0.5)
    ft.manual_seed(0)
    wanted = drop(ft.ones(8)).tolist()
    ft.manual_seed(0)
    assert ft.compile(drop, options={"fallback_random": True})(ft.ones(8)).tolist() == wanted
    ft.manual_seed(0)
    assert ft.compile(drop, options={"fallback_random": False, "max_autotune": True}).traces == 0


@pytest.mark.parametrize("given", [{"mode": "fast"}, {"mode": "default", "options": {"max_autotune": True}}])
def test_errors_are_pytorchs(given):
    assert outcome(lambda T: T.compile(double, **given), torch) == outcome(
        lambda T: T.compile(double, **given), ft
    )


def test_unknown_options_are_refused():
    with pytest.raises(RuntimeError, match="Unexpected optimization option coordinate_descent_tuning"):
        ft.compile(double, options={"coordinate_descent_tuning": True})
    with pytest.raises(RuntimeError, match="Unexpected type of attr max_autotune, got list"):
        ft.compile(double, options={"max_autotune": [1]})
    with pytest.raises(TypeError, match="must be a dict, got int"):
        ft.compile(double, options=3)
    for mode in ("reduce-overhead", "max-autotune"):
        assert ft.compile(double, mode=mode)(ft.ones(1)).item() == 3
