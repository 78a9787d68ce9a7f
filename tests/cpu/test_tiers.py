"""What is new runs by numpy, with PyTorch's numbers and no compilation, until it has come often enough."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from counting import xla_compilations

import functorch_port as ft
from functorch_port._base.tuning import tuning
from functorch_port._cpu import deferred, programs, tiers
from functorch_port._tensor.family import Family

pytestmark = pytest.mark.cpu
#: the fixture of this folder leaves these tests alone
TIER = "auto"


def close(ours: Any, theirs: Any, single: bool = False) -> None:
    """``single``: computed in float32."""
    tolerance = 1e-5 if single or ours.dtype == ft.float32 else 1e-9
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), tolerance, tolerance)


def given(lib: Any, seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    numbers = np.random.default_rng(seed)
    return [
        lib.tensor(numbers.standard_normal(shape), dtype=lib.float64, requires_grad=True) for shape in shapes
    ]


def products(lib: Any, n: int) -> Any:
    (x,) = given(lib, n, (n, 70))
    return ((x @ x.T).softmax(-1) @ x).relu().sum(0).std()


def heads(lib: Any, n: int) -> Any:
    q, k = given(lib, n, (4, n, 64), (4, n, 64))
    q, k = (t.view(4, n, 8, 8).transpose(1, 2) for t in (q, k))
    mask = lib.ones(n, n, dtype=lib.bool).tril()
    weights = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(~mask, -float("inf")).softmax(-1)
    return (weights @ k).transpose(1, 2).reshape(4, n, 64)[:, -1].exp().mean()


def rows(lib: Any, n: int) -> Any:
    table, x = given(lib, n, (3 * n, 33), (n, 33))
    index = lib.arange(n) * 2 % (3 * n)
    gathered = table[index] + x
    return (
        lib.zeros(n, 33, dtype=lib.float64).index_add(0, index % n, gathered).pow(2).sum()
        + gathered.cumsum(0).mean()
        + lib.cat([x, table]).amax()
    )


def images(lib: Any, n: int) -> Any:
    x, w = (t.float() for t in given(lib, n, (n, 3, 12, 12), (5, 3, 3, 3)))
    F = lib.nn.functional
    y = F.avg_pool2d(F.gelu(F.conv2d(x, w, padding=1)), 2).mean((2, 3)).log_softmax(-1).sum()
    return y + F.max_pool2d(x, 3, stride=2, padding=1).sum()


def losses(lib: Any, n: int) -> Any:
    (x,) = given(lib, n, (n, 70))
    F = lib.nn.functional
    target = lib.arange(n) % 70
    return F.cross_entropy(x, target) + F.layer_norm(x, (70,)).square().mean() + F.smooth_l1_loss(x, x * 2)


@pytest.mark.parametrize("work", [products, heads, rows, images, losses])
def test_new_sizes_compile_nothing_and_give_torchs_numbers(work: Callable[..., Any]) -> None:
    for n in (60, 61):  # the second one is traced with symbols
        work(ft, n).backward()
    with xla_compilations() as count:
        for n in (62, 64, 70, 33, 71, 97, 128, 5, 2):
            ours, theirs = work(ft, n), work(torch, n)
            close(ours, theirs)
    assert count[0] == 0


@pytest.mark.parametrize("work", [products, heads, rows, images, losses])
def test_gradients_at_new_sizes(work: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def gradients(lib: Any, n: int) -> list[Any]:
        made: list[Any] = []
        original = given

        def noted(*args: Any) -> list[Any]:
            found = original(*args)
            made.extend(found)
            return found

        with monkeypatch.context() as patch:
            patch.setitem(globals(), "given", noted)
            work(lib, n).backward()
        return [t.grad for t in made]

    for n in (60, 61, 1):  # a program of fixed size for `erf`, and one for few elements, are compiled once
        gradients(ft, n)
    with xla_compilations() as count:
        for n in (62, 70, 33, 97, 5, 2, 1):
            for ours, theirs in zip(gradients(ft, n), gradients(torch, n), strict=True):
                close(ours, theirs, single=work is images)
    assert count[0] == 0


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_training_of_new_shapes_compiles_nothing(name: str) -> None:
    def trained(lib: Any, width: int) -> list[Any]:
        lib.manual_seed(0)
        net = lib.nn.Sequential(
            lib.nn.Linear(80, width), lib.nn.Tanh(), lib.nn.LayerNorm(width), lib.nn.Linear(width, 3)
        ).double()
        optimizer = getattr(lib.optim, name)(net.parameters(), lr=0.01)
        x = lib.randn(90, 80, dtype=lib.float64)
        for _ in range(3):
            optimizer.zero_grad()
            lib.nn.functional.cross_entropy(net(x), lib.arange(90) % 3).backward()
            optimizer.step()
        return [p.detach() for p in net.parameters()]

    for width in (101, 102):
        trained(ft, width)
    with xla_compilations() as count:
        for width in (103, 90, 80, 64, 203):
            for ours, theirs in zip(trained(ft, width), trained(torch, width), strict=True):
                close(ours, theirs)
    assert count[0] == 0


OPTIMIZERS = {
    "LBFGS": {"max_iter": 3},
    "LBFGS, searching": {"max_iter": 3, "line_search_fn": "strong_wolfe"},
    "Muon": {},
    "SparseAdam": {"lr": 0.01},
    "Adagrad, sparse": {"lr": 0.01, "eps": 0.1},
    "Adafactor": {},
    "Adam": {},
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "ASGD": {},
    "RMSprop": {"lr": 0.01, "momentum": 0.5, "eps": 0.1},
    "Rprop": {},
}


def few_steps(lib: Any, name: str) -> list[np.ndarray]:
    """The parameters after three steps."""
    lib.manual_seed(0)
    is_sparse = "parse" in name
    model = lib.nn.Embedding(57, 83, sparse=True) if is_sparse else lib.nn.Linear(61, 89, bias=name != "Muon")
    # Muon makes all directions of a gradient as long: of one with few rows it enlarges what bfloat16 rounds
    rows = 300 if name == "Muon" else 7
    x = lib.tensor([[3, 5, 3], [9, 0, 5]]) if is_sparse else lib.randn(rows, 61)
    if "searching" in name:  # a line search branches by the last bits of a float32
        model, x = model.double(), x.double()
    optimizer = getattr(lib.optim, name.split(",")[0])(model.parameters(), **OPTIMIZERS[name])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return [p.detach().numpy() for p in model.parameters()]


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_first_steps_compile_nothing(name: str, tuned: Callable[..., None]) -> None:
    """They give PyTorch's numbers, and a compiled step's: apart from where that rounds a product and a sum at once, or
    adds up in another order.
    """
    with xla_compilations() as count:
        ours = few_steps(ft, name)
    assert count[0] == 0
    tuned(tier="compiled")
    tolerance = 2e-5 if name == "Muon" else 2e-6  # a bit of bfloat16 in steps of 1e-3
    for mine, compiled, theirs in zip(ours, few_steps(ft, name), few_steps(torch, name), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-5, tolerance)
        np.testing.assert_allclose(mine, compiled, 1e-5, tolerance)


DEVICES = """
import functorch_port as torch

for name, options in (("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("Muon", {})):
    p = torch.nn.Parameter(torch.ones(3, 40, device="cpu:1"))
    optimizer = getattr(torch.optim, name)([p], lr=0.1, **options)
    for _ in range(2):
        p.square().sum().backward()
        optimizer.step()
    print(p.device)
"""


@pytest.mark.parametrize("size", [3, 10_000, 40_000])
def test_zeros_like_an_array_of_jax(size: int) -> None:
    x = ft.Tensor._wrap(jax.numpy.ones(size))
    assert ft.zeros_like(x).sum().item() == 0 and ft.ones_like(x).sum().item() == size


@pytest.mark.parametrize("kind", ["Adam", "RMSprop"])
def test_first_steps_of_small_parameters_put_nothing_on_a_device(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(width: int) -> None:
        net = ft.nn.Sequential(ft.nn.Linear(7, width), ft.nn.Tanh(), ft.nn.Linear(width, 1))
        optimizer = getattr(ft.optim, kind)(net.parameters())
        net(ft.randn(5, 7)).sum().backward()
        optimizer.step()

    run(8)
    monkeypatch.setattr(jax, "device_put", lambda *_, **__: pytest.fail("something goes to a device"))
    run(9)


def test_tensors_filled_with_one_number_share_its_array() -> None:
    one, other = ft.zeros(11, 7), ft.zeros(11, 7)
    assert one._storage.array() is other._storage.array() is one._storage.array()
    one += 1
    assert other.sum().item() == 0 and ft.zeros(11, 7).sum().item() == 0


def test_steps_leave_parameters_on_their_device() -> None:
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", DEVICES], capture_output=True, text=True, env=flags, timeout=120
    )
    assert done.stdout.split() == ["cpu:1"] * 4, done.stderr


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences_of_any_lengths_compile_nothing(kind: str) -> None:
    def work(lib: Any, lengths: list[int]) -> list[Any]:
        lib.manual_seed(0)
        rnn, layer = lib.nn.utils.rnn, getattr(lib.nn, kind)(23, 19, batch_first=True, bidirectional=True)
        rows = [lib.randn(n, 23) for n in lengths]
        padded = rnn.pad_sequence(rows, batch_first=True).requires_grad_()
        packed = rnn.pack_padded_sequence(padded, lib.tensor(lengths), batch_first=True, enforce_sorted=False)
        out, last = layer(packed)
        found, sizes = rnn.pad_packed_sequence(out, batch_first=True)
        (found.sin().sum() + (last[0] if kind == "LSTM" else last).square().sum()).backward()
        return [found, sizes, padded.grad, *[p.grad for p in layer.parameters()]]

    with xla_compilations() as count:
        made = [work(ft, [n, 2 * n, 5, n + 1]) for n in (3, 7, 12)]
    assert count[0] == 0
    for n, ours in zip((3, 7, 12), made, strict=True):
        for mine, theirs in zip(ours, work(torch, [n, 2 * n, 5, n + 1]), strict=True):
            close(mine, theirs, single=True)


def test_small_cells_in_a_loop_stay_in_numpy() -> None:
    """A compiled program would take as long for each."""
    cell, x = ft.nn.LSTMCell(29, 31).double(), ft.randn(9, 29, dtype=ft.float64)
    with xla_compilations() as count:
        for _ in range(3):
            h, c = ft.zeros(9, 31, dtype=ft.float64), ft.zeros(9, 31, dtype=ft.float64)
            for _ in range(400):
                h, c = cell(x, (h, c))
            h.sum().backward()
    assert count[0] == 0


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operations that were put off."""
    names: list[str] = []
    outputs = deferred.Call.outputs

    def noted(call: Any, kinds: Any) -> Any:
        names.append(call.plan.name)
        return outputs(call, kinds)

    monkeypatch.setattr(deferred.Call, "outputs", noted)
    return names


def test_a_sequence_with_something_new_does_not_wait(lazy: list[str]) -> None:
    w = ft.ones(91, 93, requires_grad=True)

    def put_off(rows: int) -> list[str]:
        lazy.clear()
        y = ft.ones(rows, 91) @ w
        for _ in range(3):  # the second one is not new by itself
            y = y.tanh().t().t()
        y.sum().backward()
        return [*lazy]

    assert put_off(94) == []
    assert "tanh" in put_off(94)
    assert put_off(95) == []


def test_a_module_is_put_off_to_find_out_what_it_costs(lazy: list[str]) -> None:
    net = ft.nn.Sequential(ft.nn.Linear(91, 93), ft.nn.Tanh(), ft.nn.Linear(93, 92), ft.nn.Tanh())
    x = ft.ones(97, 91)
    found = []
    with ft.no_grad():
        for _ in range(6):
            lazy.clear()
            y = net(x)
            found.append(bool(lazy))
        want = net[2](net[0](x).tanh()).tanh()
    assert found == [False, True, False, False, False, False]
    np.testing.assert_array_equal(y.numpy(), want.numpy())


def test_a_module_that_comes_often_is_one_program(impatient: None) -> None:
    net = ft.nn.Sequential(ft.nn.Linear(91, 93), ft.nn.Tanh(), ft.nn.Linear(93, 90), ft.nn.Tanh())
    x, before = ft.ones(98, 91), len(programs._programs)
    with ft.no_grad():
        for _ in range(6):
            net(x).sum().item()
            tiers.wait()
    assert len(programs._programs) > before


def test_sampling_clipping_and_loading_compile_nothing() -> None:
    layer = ft.nn.Linear(72, 71)
    data = [(ft.arange(k, k + 73.0)[:-1], ft.tensor(k % 71)) for k in range(40)]

    def epoch() -> None:
        for x, y in ft.utils.data.DataLoader(data, 2):
            layer.zero_grad()
            loss = ft.nn.functional.cross_entropy(layer(x), y)
            loss.backward()
            ft.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            chances = ft.distributions.Categorical(logits=layer(x).detach())
            chances.log_prob(chances.sample()).sum().item()

    epoch()
    with xla_compilations() as count:
        epoch()
    assert count[0] == 0


@pytest.fixture
def impatient(tuned: Callable[..., None]) -> None:
    """Everything is compiled soon."""
    tuned(compilation_time=0.0, compilation_each=0.0, numpy_time=0.0)


@pytest.mark.parametrize("background", [False, True])
def test_what_comes_often_is_compiled(background: bool, impatient: None, tuned: Callable[..., None]) -> None:
    tuned(background=background)
    x = ft.tensor(np.random.default_rng(0).standard_normal((301 + background, 97)))
    want = np.exp(np.sin(x.numpy())).sum(0)
    with xla_compilations() as count:
        for _ in range(30):
            np.testing.assert_allclose(x.sin().exp().sum(0).numpy(), want, 1e-12)
            tiers.wait()
    assert count[0] > 0
    with xla_compilations() as count:
        np.testing.assert_allclose(x.sin().exp().sum(0).numpy(), want, 1e-12)
    assert count[0] == 0


@pytest.mark.parametrize("background", [False, True])
def test_a_training_step_that_comes_often_is_one_program(
    background: bool, impatient: None, tuned: Callable[..., None]
) -> None:
    tuned(background=background)

    def trained(lib: Any) -> list[float]:
        lib.manual_seed(0)
        net = lib.nn.Sequential(lib.nn.Linear(83, 107), lib.nn.Tanh(), lib.nn.Linear(107, 2))
        optimizer = lib.optim.AdamW(net.parameters(), lr=0.01)
        x, found = lib.randn(79 + background, 83), []
        for _ in range(12):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
            if lib is ft:
                tiers.wait()
        return found

    before = len(programs._programs)
    np.testing.assert_allclose(trained(ft), trained(torch), 1e-4)
    assert len(programs._programs) > before


def test_the_step_that_is_compiled_in_the_background_is_the_one_that_is_called(
    tuned: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    tuned(compilation_time=1.0, compilation_each=0.0)
    net = ft.nn.Linear(81, 82)
    optimizer = ft.optim.Adam(net.parameters())
    for p in net.parameters():
        p.grad = ft.ones_like(p)
    with jax.log_compiles():
        optimizer.step()
        tiers.wait()
        assert "Compiling jit(adam_rule_step)" in caplog.text
        caplog.clear()
        optimizer.step()
    assert "adam_rule_step" not in caplog.text


def test_a_thread_that_has_compiled_is_gone(impatient: None, tuned: Callable[..., None]) -> None:
    tuned(background=True)
    x = ft.ones(303, 98)
    for _ in range(9):
        x.sin().exp().sum(0).numpy()
    tiers.wait()
    assert tiers._Compiler.thread is None


@pytest.mark.parametrize("size", [20, 300])
def test_no_trace_holds_what_its_callers_have(size: int) -> None:
    """JAX keeps errors that it catches, with their frames, until the collector comes."""

    class Something:
        pass

    def run(n: int) -> Any:
        something, x = Something(), ft.randn(n, size + 7, requires_grad=True)
        y = (x.softmax(-1) @ x.T).relu().sum(0).std() + ft.topk(x, 3)[0].sum() + x.sort(0)[0].cumsum(0).mean()
        y.backward()
        return weakref.ref(something)

    gc.collect()
    gc.disable()
    try:
        held = [run(size + k)() for k in range(3)]
    finally:
        gc.enable()
    assert held == [None] * 3


@pytest.mark.parametrize("size", [3, 300])
def test_a_program_that_computes_something_else_is_not_used(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Its results are looked at when it runs first."""
    from functorch_port._cpu.numpy_programs import rules

    def wrong(writer: Any, eqn: Any, ins: Any) -> Any:
        return writer._emit(f"{ins[0].text}.astype('f8')", eqn.outvars[0].aval, ins[0].shape, ins, 1.0)

    monkeypatch.setitem(rules._ALL.each, "round", wrong)  # type: ignore[arg-type]
    x = torch.linspace(-3, 3, size * 71).reshape(size, 71)
    for _ in range(2):
        found = ft.from_numpy(x.numpy()).round()
        assert found.dtype == ft.float32
        np.testing.assert_array_equal(found.numpy(), x.round().numpy())


#: A process that ends while something is compiled for it.
ENDING = """
import threading
import time

from functorch_port._cpu import tiers


class Arrays:
    def __del__(self):
        time.sleep(0.5)
        print("let go of", flush=True)


arrays, begun = Arrays(), threading.Event()
tiers.compiled_later(
    lambda arrays=arrays: (begun.set(), time.sleep(0.2)), lambda: print("compiled", flush=True)
)
del arrays
begun.wait()
"""


def test_a_process_ends_after_its_compilation() -> None:
    """XLA ends the process if Python stops a thread in the middle of it, also where that lets go of arrays."""
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split("\n")) == (0, ["compiled", "let go of", ""]), done.stderr


def test_each_tier_can_be_forced(tuned: Callable[..., None], impatient: None) -> None:
    x = ft.tensor(np.random.default_rng(0).standard_normal((211, 53)))
    tuned(tier="numpy")
    with xla_compilations() as count:
        for _ in range(20):
            x.cosh()
    assert count[0] == 0
    tuned(tier="compiled")
    with xla_compilations() as count:
        x.cosh()
    assert count[0] == 1


def test_deterministic_algorithms_do_not_change_their_way(impatient: None) -> None:
    x = ft.tensor(np.random.default_rng(0).standard_normal((199, 51)))
    ft.use_deterministic_algorithms(True)
    try:
        with xla_compilations() as count:
            x.sinh()
        assert count[0] == 1
    finally:
        ft.use_deterministic_algorithms(False)


def test_products_of_nothing() -> None:
    for shapes in (((5, 0), (0, 3)), ((0, 4), (4, 3)), ((2, 5, 0), (2, 0, 3)), ((0, 5, 4), (0, 4, 3))):
        found = []
        for lib in (ft, torch):
            a, b = (lib.ones(*shape, requires_grad=True) for shape in shapes)
            product = a @ b
            product.sum().backward()
            found.append([t.tolist() for t in (product.detach(), a.grad, b.grad)])
        assert found[0] == found[1]


def of_vectors(lib: Any, n: int) -> Any:
    x = given(lib, n, (n, n))[0].float().detach().requires_grad_()
    _, vectors = lib.linalg.eigh(x + x.mT)
    u, _, vh = lib.linalg.svd(x)
    loss = (vectors.abs() * lib.arange(n)).sum() + (u.abs() * vh.abs() * lib.arange(n)).sum()
    return x, loss


@pytest.mark.parametrize("first, then", [("numpy", "compiled"), ("compiled", "numpy")])
def test_a_backward_pass_of_another_tier_has_the_same_vectors(
    first: str, then: str, tuned: Callable[..., None]
) -> None:
    for n in (5, 6, 7, 9):
        tuned(tier=first, numpy_elements=4096 if first == "numpy" else 1)
        x, loss = of_vectors(ft, n)
        loss.item()
        tuned(tier=then, numpy_elements=4096 if then == "numpy" else 1)
        loss.backward()
        y, theirs = of_vectors(torch, n)
        theirs.backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-2, 1e-3)


def test_errors_are_pytorchs_at_new_sizes() -> None:
    for n in (50, 51, 52, 53):
        for lib in (ft, torch):
            with pytest.raises(RuntimeError, match=f"size of tensor a \\({n}\\) must match"):
                lib.ones(n, 90) + lib.ones(n + 1, 90)
            with pytest.raises(RuntimeError, match=f"shape '\\[7, {n}\\]' is invalid"):
                lib.ones(n, 90).view(7, n)


def test_new_sizes_in_threads() -> None:
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for n in range(first, first + 40):
                x = ft.ones(n, 87)
                assert abs(((x * 2).sum(1).log().mean() - np.log(174)).item()) < 1e-5
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(100 + 13 * k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


# ------------------------------------------------------------------ one trace for all sizes


def traced(fn: Callable[..., Any], *samples: tuple[tuple[int, ...], ...]) -> tuple[list[Any], int]:
    """The results' shapes for arrays of such shapes, and how often the function ran."""
    ran = [0]

    def counted(*arrays: Any) -> Any:
        ran[0] += 1
        return fn(*arrays)

    family = Family(lambda numbers: counted)
    found = []
    for shapes in samples:
        one, sizes = family.find([np.zeros(shape, np.float32) for shape in shapes], ())
        found.append(one.shapes(sizes).shape)
    return found, ran[0]


def test_a_function_is_traced_twice_for_all_sizes() -> None:
    found, ran = traced(lambda x, y: x @ y, *[((n, 5), (5, 2 * n)) for n in range(3, 40) if n not in (5, 10)])
    assert ran == 2 and found[-1] == (39, 78)


def test_sizes_that_are_equal_by_chance_are_traced_apart() -> None:
    """A function may compare sizes: here it does something else where two are equal."""
    fn = lambda x: x.sum(0) if x.shape[0] == x.shape[1] else x
    found, _ = traced(fn, *[((n, 7),) for n in range(2, 12)])
    assert found == [(7,) if n == 7 else (n, 7) for n in range(2, 12)]


def test_what_asks_which_size_is_larger_is_traced_for_each_order() -> None:
    fn = lambda x, y: x[: y.shape[0]] if y.shape[0] < x.shape[0] else x
    samples = [((n, 3), (m, 3)) for n in range(4, 30, 5) for m in range(5, 31, 5)]
    found, ran = traced(fn, *samples)
    assert found == [(min(a[0], b[0]), 3) for a, b in samples]
    assert ran < 12


def test_what_needs_a_size_is_traced_for_each() -> None:
    def fn(x: Any) -> Any:
        for _ in range(x.shape[0]):
            x = x * 2
        return x

    found, ran = traced(fn, *[((n, 3),) for n in range(4, 9)])
    assert found == [(n, 3) for n in range(4, 9)] and ran >= 5


def test_sizes_of_0_and_1_are_traced_apart() -> None:
    fn = lambda x, y: x + y
    samples = [((n, 4), (m, 4)) for n, m in ((3, 3), (5, 5), (1, 6), (7, 1), (0, 1), (9, 9), (1, 1))]
    found, _ = traced(fn, *samples)
    assert found == [np.broadcast_shapes(*s) for s in samples]


def test_a_tier_is_one_of_three() -> None:
    assert tuning.tier in ("auto", "numpy", "compiled")
