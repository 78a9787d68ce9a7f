"""Compiled = eager = PyTorch over the table of training programs, and how often each is traced."""

from __future__ import annotations

import chex
import numpy as np
import pytest
import torch
from counting import xla_compilations
from training_cases import CASES

import functorch_port as ft

# float64 throughout: what is left is the order of additions, a few ulp per step
TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


def _run(case, T, compile):
    T.manual_seed(0)
    return case(T, compile)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_compiled_is_eager_is_torch(case):
    expected = _run(case, torch, lambda fn: fn)
    eager = _run(case, ft, lambda fn: fn)
    made = []

    def compile(fn):
        made.append(ft.compile(chex.assert_max_traces(fn, n=CASES[case]), rng="torch"))
        return made[-1]

    chex.clear_trace_counter()
    compiled = _run(case, ft, compile)
    assert len(expected) == len(eager) == len(compiled)
    for i, (a, b, c) in enumerate(zip(expected, eager, compiled, strict=True)):
        np.testing.assert_allclose(b, a, **TOLERANCE, err_msg=f"eager, value {i}")
        np.testing.assert_allclose(c, a, **TOLERANCE, err_msg=f"compiled, value {i}")
    assert made[0].traces == CASES[case], made[0].reasons


@pytest.mark.parametrize("case", [c for c, traces in CASES.items() if traces <= 2], ids=lambda c: c.__name__)
def test_xla_compilations_of_the_step(case):
    """The step itself: as many XLA programs as traces, none afterwards. (Making data, models and constants compiles
    small ones, the first time.)
    """
    _run(case, ft, ft.compile)
    counts = []

    def compile(fn):
        run = ft.compile(fn)

        def counted(*args):
            with xla_compilations() as count:
                out = run(*args)
            counts.append(count[0])
            return out

        return counted

    _run(case, ft, compile)
    # slicing a new shape of argument, or one `+` of the first accumulated gradient, may compile beside the step
    assert sum(counts) <= CASES[case] + 2 and not any(counts[12:]), counts
