"""Caches have a bound, and what they forget is computed again."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base.bounded import Bounded
from functorch_port._cpu.native import ffi, onednn


def test_the_oldest_go():
    known = Bounded(8)
    for n in range(9):
        known[n] = str(n)
    assert list(known) == [3, 4, 5, 6, 7, 8] and known[8] == "8" and 2 not in known
    known[5] = "five"  # is there: nothing goes
    assert known.setdefault(9, "9") == "9" and known.setdefault(5, "") == "five"
    assert list(known) == [3, 4, 5, 6, 7, 8, 9]
    assert Bounded(1).setdefault("key", 2) == 2


def test_threads_may_forget_together():
    known, errors = Bounded(16), []

    def enter(start):
        try:
            for n in range(start, start + 20_000):
                known[n] = n
                known.get(n - 1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=enter, args=(k * 10**6,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(known) <= 16 + 4


@pytest.fixture
def nearly_no_room(tuned):
    """Every cache of this kind keeps two entries."""
    tuned(cached_plans=2, cached_kinds=2, cached_programs=2, cached_traces=2)
    before = {id(known): (known, known.most) for known in bounded()}
    for known, _ in before.values():
        known.most = 2
    yield
    for known, most in before.values():
        known.most = most


def bounded():
    return [known for known in gc.get_objects() if type(known) is Bounded]


def training(T, n):
    """Views, writes through them, and gradients, of sizes that depend on ``n``."""
    x = T.arange(n * 3, dtype=T.float32).reshape(n, 3).requires_grad_()
    turned = x.t().clone()
    turned[0] += 1
    turned[:, -1].mul_(2)
    block = T.zeros(n, 4)
    block[:, :3] = x.detach()
    block.view(-1)[n:].add_(1)
    rows = T.cat([x, x * 2]).expand(2, 2 * n, 3)
    loss = (rows * turned.sum()).mean() + x[1:, 1].sum() + x.flatten()[:n].square().sum() + block.sum()
    loss.backward()
    return [t.detach().numpy() for t in (loss, x.grad, turned, block)]


@pytest.mark.parametrize("elements", [0, 4096], ids=["compiled", "by numpy"])
@pytest.mark.usefixtures("nearly_no_room")
def test_what_is_forgotten_is_computed_again(tuned, elements):
    tuned(numpy_elements=elements)
    for n in (3, 5, 4, 6, 3, 5):
        for ours, theirs in zip(training(ft, n), training(torch, n), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert all(len(known) <= known.most for known in bounded())


@pytest.mark.usefixtures("nearly_no_room")
def test_compiled_functions_that_are_forgotten():
    model = ft.nn.Linear(2, 2)
    step, pure = ft.compile(lambda x: model(x).sum()), ft.functionalize(lambda x: model(x).sum())
    for n in (1, 2, 3, 4, 1, 2):
        x = ft.ones(n, 2)
        wanted = model(x).sum()
        ft.testing.assert_close(step(x), wanted)
        given, _ = pure(pure.state(x), x)
        np.testing.assert_allclose(given, wanted.detach(), rtol=1e-6)
    assert len(step._programs) <= 2 and len(pure._programs) <= 2


@pytest.mark.skipif(not onednn.available(), reason="needs oneDNN and llvmlite")
def test_handlers_have_a_bound(tuned):
    """They stay as long as the process; what comes later is XLA's."""
    tuned(handlers=len(ffi._registered))
    before = set(ffi._registered)
    image, weight = (
        np.random.default_rng(0).standard_normal(s).astype("f") for s in ((5, 7, 31, 29), (11, 7, 3, 3))
    )
    compiled = ft.compile(lambda x, w: ft.nn.functional.conv2d(x, w, padding=1).relu().softmax(-1))
    ours = compiled(ft.tensor(image), ft.tensor(weight))
    assert "functorch_port." not in compiled.programs()[0].lower().as_text()
    theirs = (
        torch.nn.functional.conv2d(torch.tensor(image), torch.tensor(weight), padding=1).relu().softmax(-1)
    )
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)
    assert set(ffi._registered) == before


def test_sizes_of_products_make_no_handlers():
    if not ffi.available():
        pytest.skip("needs llvmlite")
    weight = ft.ones(64, 64)
    product = ft.compile(lambda x: x @ weight)
    product(ft.ones(8, 64)), product(ft.ones(800, 64))
    before = set(ffi._registered)
    for n in (9, 10, 801, 802):
        assert product(ft.ones(n, 64)).eq(64).all()
    assert set(ffi._registered) == before


def test_a_program_that_is_let_go_of_needs_no_collector(tuned):
    """It holds what XLA compiled, which is large, and Python sees only few objects."""
    tuned(cached_traces=2)
    model = ft.nn.Linear(3, 3)
    optimizer = ft.optim.SGD(model.parameters(), lr=0.01)

    @ft.compile
    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    made = weakref.WeakSet()
    gc.collect()
    gc.disable()
    try:
        for size in range(2, 8):
            step(ft.ones(size, 3))
            made.update(program.executable for program in step.programs())
        assert step.traces == 6 and len(made) == 2
    finally:
        gc.enable()


#: Trains on batches of 500 sizes, and prints how many MB the second half leaves of what JAX lets go of, too.
GROWTH = """
import ctypes, gc, sys

import jax
import functorch_port as torch

model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

if sys.argv[1] == "compiled":
    step = torch.compile(step)

def megabytes():
    jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

for size in range(300, 800):  # too many numbers for numpy
    if size == 550:
        before = megabytes()
    step(torch.ones(size, 16))
print(megabytes() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for the memory")
@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_sizes_of_batches_do_not_fill_the_memory(how):
    """What XLA keeps of the first compilations (100 MB and more, as it does for JAX alone) is not counted."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FUNCTORCH_PORT")} | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "FUNCTORCH_PORT_CACHE": "0",
        "FUNCTORCH_PORT_KEEP_MEMORY": "0",
        # in half the time
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    }
    script = [sys.executable, "-W", "ignore", "-c", GROWTH, how]
    done = subprocess.run(script, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 45
