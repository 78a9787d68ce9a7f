"""JAX's own settings: an ordinary training loop, eager and compiled, gives PyTorch's numbers under them."""

import contextlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from trained_under import CASES, all_of, train

import functorch_port as ft

ROOT = Path(__file__).parents[1]


@cache
def expected(name):
    return train(torch, *CASES[name], compiled=False)


def check(found):
    for case, losses in found.items():
        np.testing.assert_allclose(losses, expected(case.split()[0]), rtol=2e-5, atol=2e-5, err_msg=case)


#: Settings that matter where a program is traced, so that a process of its own sets them from its beginning.
FROM_THE_BEGINNING = {
    "nothing": {},
    "disable_jit": {"JAX_DISABLE_JIT": "1"},
    "check_tracer_leaks": {"JAX_CHECK_TRACER_LEAKS": "1"},
    "rank and dtype promotion": {"JAX_NUMPY_RANK_PROMOTION": "raise", "JAX_NUMPY_DTYPE_PROMOTION": "strict"},
    "debug_nans and x64": {"JAX_DEBUG_NANS": "1", "JAX_DEBUG_INFS": "1", "JAX_ENABLE_X64": "1"},
}


@pytest.mark.parametrize("setting", FROM_THE_BEGINNING)
def test_a_process_with_the_setting(setting):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        **FROM_THE_BEGINNING[setting],
    }
    command = [sys.executable, str(ROOT / "tests" / "trained_under.py"), "eager", "compiled"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    check(json.loads(done.stdout.splitlines()[-1]))


AT_ANY_TIME = {
    "disable_jit": jax.disable_jit,
    "numpy_rank_promotion": lambda: jax.numpy_rank_promotion("raise"),
    "numpy_dtype_promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "debug_nans": lambda: jax.debug_nans(True),
    "enable_x64": lambda: jax.enable_x64(True),
    "no x64": lambda: jax.enable_x64(False),
    "default_matmul_precision": lambda: jax.default_matmul_precision("highest"),
    "threefry_partitionable": lambda: jax.threefry_partitionable(False),
    "default_device": lambda: jax.default_device(jax.devices("cpu")[-1]),
    "transfer_guard": lambda: jax.transfer_guard("log"),
}


@pytest.mark.parametrize("setting", AT_ANY_TIME)
def test_a_stretch_with_the_setting(setting):
    """It was not set when the operations were traced for the first time, and is not afterwards."""
    ways = ("eager", "compiled")
    with AT_ANY_TIME[setting]():
        check(all_of(ft, ways))
    assert ft.ones(2, 3).add(ft.ones(3)).sum().item() == 12


@pytest.mark.parametrize("warm", [0, 4], ids=["first call", "later call"])
@pytest.mark.parametrize("rng", ["jax", "torch"])
def test_a_compiled_step_under_a_transfer_guard(rng, warm):
    """What it hands over from the host, numbers and draws, it hands over explicitly."""

    def losses(guard):
        ft.manual_seed(0)
        model = CASES["mlp"][0](ft)
        optimizer = ft.optim.Adam(model.parameters(), lr=0.05)
        schedule = ft.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        x = ft.tensor(np.random.default_rng(1).normal(size=(8, 8)).astype("float32"))

        @ft.compile(rng=rng)
        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        found = []
        for i in range(warm + 3):
            with guard() if i >= warm else contextlib.nullcontext():
                found.append(step(x))
                schedule.step()
        return [loss.item() for loss in found]

    assert losses(lambda: jax.transfer_guard("disallow")) == losses(contextlib.nullcontext)


def test_eager_operations_under_a_transfer_guard(tuned):
    """As in JAX itself a number beside an array is an implicit transfer: its error, and nothing has changed."""
    tuned(tier="compiled")
    w = ft.ones(200, 200)
    w.mul_(2)
    with (
        jax.transfer_guard("disallow"),
        pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device"),
    ):
        w.mul_(0.5)
    assert (w._version, w[0, 0].item()) == (1, 2.0)
    assert w.mul_(0.5)[0, 0].item() == 1


def test_nan_is_found_where_jax_looks_for_it():
    x = ft.zeros(200, 200)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        x.log().sub(x.log()).sum().item()


def test_users_rules_are_the_users_in_a_compiled_function():
    """What JAX code of the user's own does in it keeps the setting."""
    with jax.numpy_rank_promotion("raise"):

        @ft.compile
        def fn(x):
            return (x + ft.ones(3)).sum() + ft.as_tensor(jax.numpy.ones((2, 3)) + jax.numpy.ones(3)).sum()

        with pytest.raises(ValueError, match="rank_promotion"):
            fn(ft.ones(2, 3))
