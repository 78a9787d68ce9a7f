"""Updates as one loop of machine code: the numbers of XLA's, for any sizes, and XLA where there can be none."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._cpu.native import ffi, kernels, onednn
from functorch_port.optim import _engine as engine

pytestmark = pytest.mark.skipif(not ffi.available(), reason="needs llvmlite")

SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3e38, -2.5e-8])


def in_one_loop(fn, row, written=1, numbers=()):
    """What the kernel gives for one tensor, in a program of its own."""

    @jax.jit
    def program(row, numbers):
        new = kernels.run(lambda row, joined, numbers: (fn(*row, *numbers), []), [row], written, numbers)
        return new and new[0][0]

    return program(list(row), list(numbers))


OPERATIONS = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: -x,
    lambda x, y: abs(x),
    lambda x, y: jnp.sqrt(x),
    jnp.maximum,
    jnp.minimum,
    lambda x, y: jnp.where(x > y, x, 0.1),
    lambda x, y: (x == y) + (x != y) * jnp.float32(2) + (x >= y) * jnp.float32(4),
    lambda x, y: (x < y) + (x <= y) * jnp.float32(2),
    lambda x, y: y.astype(jnp.float32),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_numbers(dtype):
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(SPECIAL, SPECIAL))
    with jax.enable_x64(True):
        pair = [jnp.asarray(x), jnp.asarray(y)]
        got = in_one_loop(lambda x, y: [op(x, y) for op in OPERATIONS], pair, 0)
        want = jax.jit(lambda x, y: [op(x, y) for op in OPERATIONS])(*pair)
    for a, b in zip(map(np.asarray, got), map(np.asarray, want), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))
        assert a.dtype == b.dtype


@pytest.mark.parametrize("size", [0, 1, 7, 65535, 65536, 65537, 131072, 400003])
def test_every_element_is_updated_once(size):
    x = np.arange(size, dtype=np.float32)
    for _ in range(5):
        row = list(map(jnp.asarray, (x, -x, x)))
        new, count, made, nothing = in_one_loop(
            lambda a, b, c, n: [a * n + c, b + 1, c * c, None], row, 2, [jnp.float32(2)]
        )
        np.testing.assert_array_equal(np.asarray(new), 3 * x)
        np.testing.assert_array_equal(np.asarray(count), 1 - x)
        np.testing.assert_array_equal(np.asarray(made), x * x)
        assert nothing is None


def test_many_at_a_time():
    """Kernels of one program run side by side, and share the threads."""

    def fn(row, joined, numbers):
        return [row[0] * 0.5 + row[1]], []

    @jax.jit
    def program(xs, y):
        return [kernels.run(fn, [[x, y]], 1, [])[0][0][0] for x in xs]

    y = jnp.ones(200_000)
    xs = [jnp.full(200_000, float(i)) for i in range(24)]
    for _ in range(10):
        xs = program(xs, y)
    for i, x in enumerate(xs):
        assert np.unique(np.asarray(x)).tolist() == [np.float32(2 + (i - 2) * 0.5**10)]


SIZES = [0, 3, 65536, 0, 0, 200_001, 1, 65537, 5, 131072, 0]


def test_tensors_of_different_sizes_in_one_call():
    """With arrays of their own, and with one that has elements of all."""

    def fn(row, joined, numbers):
        x, seen, y = row
        (total,) = joined
        return [x + y * numbers[0], seen - 1], [total + x]

    xs = [np.full(n, i, np.float32) for i, n in enumerate(SIZES)]
    total = np.arange(sum(SIZES), dtype=np.float32)

    @jax.jit
    def program(xs, number, total):
        return kernels.run(fn, [[x, x, x + 1] for x in xs], 2, [number], [total])

    for _ in range(5):
        new, (joined,) = program(list(map(jnp.asarray, xs)), jnp.float32(10), jnp.asarray(total))
        np.testing.assert_array_equal(np.asarray(joined), total + np.concatenate(xs))
        for i, (a, b) in enumerate(new):
            np.testing.assert_array_equal(np.asarray(a), np.full(SIZES[i], i + 10 * (i + 1), np.float32))
            np.testing.assert_array_equal(np.asarray(b), np.full(SIZES[i], i - 1, np.float32))


NUMBERS = [
    jnp.array([2.0, 3.0, 1.0]),
    [jnp.float32(2), jnp.int32(3), jnp.float32(1)],
    [jnp.float32(2), jnp.array(True), jnp.float32(1)],
]


@pytest.mark.parametrize("numbers", NUMBERS, ids=["one array", "an integer", "a bool"])
def test_numbers(numbers):
    def fn(row, joined, numbers):
        a, b, c = numbers
        return [jnp.where(c > 0, row[0] * a, 0.0) + b.astype(jnp.float32)], []

    [[new]], _ = jax.jit(lambda x, n: kernels.run(fn, [[x]], 1, n))(jnp.arange(40.0), numbers)
    np.testing.assert_array_equal(np.asarray(new), np.arange(40) * 2.0 + float(numbers[1]))


def test_the_first_product_of_a_sum_is_not_rounded():
    a = np.float32(1 + 2.0**-12)
    whole, rounded = 2.0**-11 + 2.0**-24, 2.0**-11  # a * a - 1
    row = [jnp.full(33, a), jnp.full(33, np.float32(-1))]

    def used_twice(x, y):
        product = x * x
        return [product + y, product]

    for fn, want in (
        (lambda x, y: [x * x + y], whole),
        (lambda x, y: [y + x * x], rounded),
        (used_twice, rounded),
    ):
        assert np.unique(np.asarray(in_one_loop(fn, row)[0])).tolist() == [want]


def test_what_has_no_kernel():
    assert in_one_loop(lambda x: [jnp.sin(x)], [jnp.ones(3)]) is None
    assert in_one_loop(lambda x, y: [x], [jnp.ones(3), jnp.ones(4)]) is None
    assert in_one_loop(lambda x: [x > 0], [jnp.ones(3)]) is None
    for dtype in (jnp.bfloat16, jnp.float16, jnp.int32, jnp.complex64, jnp.bool_):
        assert in_one_loop(lambda x: [x], [jnp.ones(3, dtype)]) is None


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("Adagrad", {"weight_decay": 0.1, "lr_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("ASGD", {"weight_decay": 0.1}),
]


def train(lib, name, options, dtype, compiled, shapes):
    rng = np.random.default_rng(0)
    params = [lib.nn.Parameter(lib.tensor(rng.standard_normal(s).astype(dtype))) for s in shapes]
    optimizer = getattr(lib.optim, name)(params, **options)

    def step(*grads):
        for p, g in zip(params, grads, strict=True):
            p.grad = g
        optimizer.step()

    step = ft.compile(step) if compiled else step
    for _ in range(4):
        step(*[lib.tensor(rng.standard_normal(s).astype(dtype)) for s in shapes])
    return [np.asarray(p.detach()) for p in params]


CASES = [
    (*case, compiled) for compiled in (False, True) for case in (OPTIMIZERS[::4] if compiled else OPTIMIZERS)
]


@pytest.mark.parametrize(("name", "options", "compiled"), CASES)
def test_every_elementwise_optimizer_has_one(name, options, compiled, monkeypatch):
    ran = []

    def run(*args):
        ran.append(values := original(*args))
        return values

    original = kernels.run
    monkeypatch.setattr(kernels, "run", run)
    shapes = [(37 + compiled, 113, 3, 3), (2 + compiled, 0)]  # of no other test, so that they are traced now
    for dtype, tolerance in ((np.float32, 2e-6), (np.float64, 1e-13)):
        ran.clear()
        ours, theirs = (
            train(lib, name, options, dtype, ours and compiled, shapes)
            for lib, ours in ((ft, True), (torch, False))
        )
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        assert ran and all(values is not None for values in ran)


def test_no_copies_are_made():
    weight = jnp.zeros((256, 64, 3, 3), jnp.float32)
    optimizer = ft.optim.AdamW([ft.zeros(1, requires_grad=True)])
    method = optimizer.method
    flags = method.flags(optimizer.param_groups[0])

    def step(written, grads, row):
        new = engine.of_all(method.rule, flags, True, row, written[0], grads, written[1])
        return [p for p, _ in new], [state for _, state in new]  # in the order of what is donated

    given = ([weight] * 3, [(weight, weight, None)] * 3), [weight] * 3, (jnp.float32(0.5),) * 7
    program = jax.jit(step, donate_argnums=0).lower(*given).compile()
    memory = program.memory_analysis()
    assert 'custom_call_target="functorch_port.adam_rule.' in program.as_text()
    assert memory.alias_size_in_bytes == 9 * weight.nbytes
    assert memory.temp_size_in_bytes < 1000


def test_functionalize_stays_portable():
    weight = ft.nn.Parameter(ft.ones(3))
    optimizer = ft.optim.AdamW([weight])

    def step(x):
        optimizer.zero_grad()
        loss = (weight * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    pure = ft.functionalize(step)
    state = pure.state(ft.ones(3))
    exported = jax.export.export(jax.jit(pure))(
        state, jnp.ones(3)
    )  # JAX refuses calls that only this process knows
    assert "custom_call" not in exported.mlir_module()
    many = jax.tree.map(lambda a: jnp.stack([a, a]), state)
    _, new = jax.vmap(pure)(many, jnp.array([[1.0, 2, 3], [4, 5, 6]]))
    assert all(a.shape[0] == 2 for a in new.values())


@pytest.mark.parametrize("why", ["absent", "several devices"])
def test_without(why):
    program = """
import sys
if sys.argv[1] == "absent":
    sys.modules["llvmlite"] = None
import functorch_port as torch
from functorch_port._cpu.native import ffi
weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
optimizer = torch.optim.SGD([weight], lr=0.5)
for _ in range(3):
    weight.grad = torch.tensor([1.0, -1.0])
    optimizer.step()
assert weight.tolist() == [-0.5, 3.5], weight
layer = torch.nn.Conv2d(16, 16, 3)
layer(torch.ones(2, 16, 20, 20)).sum().backward()
assert not ffi.available() and not ffi._registered
"""
    flags = "--xla_force_host_platform_device_count=2" if why != "absent" else ""
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", program, why], env=env, check=True, timeout=120)


@pytest.mark.skipif(not onednn.available(), reason="needs oneDNN")
def test_a_process_may_end_before_its_programs():
    """XLA's threads still run plans while Python takes its objects down."""
    program = """
import functorch_port as ft
from functorch_port._cpu.native import onednn
x, w = ft.randn(16, 64, 56, 56), ft.randn(64, 64, 3, 3)
for _ in range(60):
    x = ft.nn.functional.conv2d(x, w, None, 1, 1) * 0.01
assert onednn.available()
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=120)


def test_every_formula_of_rows_has_a_loop_whichever_comes_first():
    program = """
import functorch_port as torch
from functorch_port._cpu.native import ffi
x = torch.randn(64, 1000)
for fn in (lambda x: torch.nn.functional.layer_norm(x, (1000,)), lambda x: x.softmax(-1), lambda x: x.argmax(-1)):
    torch.compile(fn)(x)
print(*ffi._registered)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, check=True, timeout=120, capture_output=True, text=True
    )
    for name in ("normalize", "softmax", "place_of_largest"):
        assert f"functorch_port.{name}." in done.stdout
