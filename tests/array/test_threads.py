"""Several threads: what is of a thread, what is added up, and what one does beside a compiled call of another."""

import itertools
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ours
from functorch_port._array import placing, tracing
from functorch_port._array.donation import lent
from functorch_port._array.storage import Storage
from functorch_port.utils.data import DataLoader, TensorDataset


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    """Threads take turns every 10 us, not every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*functions: Callable[[], Any]) -> list[Any]:
    """Run each in a thread of its own, all at once; returns what they return, and raises what one raises."""
    start = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            start.wait()
            results[i] = functions[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    return results


def model(seed: int = 0) -> Any:
    gen = ours.Generator().manual_seed(seed)
    net = ours.nn.Sequential(ours.nn.Linear(8, 16), ours.nn.Tanh(), ours.nn.Linear(16, 1))
    with ours.no_grad():
        for p in net.parameters():
            p.copy_(ours.randn(p.shape, generator=gen) * 0.3)
    return net


def losses(seed: int, compiled: bool, steps: int = 5) -> list[float]:
    """A training run: its losses, and the sums of the parameters after it."""
    gen = ours.Generator().manual_seed(seed)
    net, x, y = model(seed), ours.randn(16, 8, generator=gen), ours.randn(16, 1, generator=gen)
    opt = ours.optim.Adam(net.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    run = ours.compile(step) if compiled else step
    return [run(x, y).item() for _ in range(steps)] + [p.sum().item() for p in net.parameters()]


# ------------------------------------------------------------------ what is of a thread

MODES: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("autocast", lambda t: t.autocast("cpu"), lambda t: str((t.ones(2, 2) @ t.ones(2, 2)).dtype)),
    ("no_grad", lambda t: t.no_grad(), lambda t: t.is_grad_enabled()),
    ("inference_mode", lambda t: t.inference_mode(), lambda t: t.is_inference_mode_enabled()),
    ("device", lambda t: t.device("meta"), lambda t: str(t.empty(1).device)),
    ("anomaly", lambda t: t.autograd.set_detect_anomaly(True), lambda t: t.is_anomaly_enabled()),
]


@pytest.mark.parametrize(("name", "mode", "seen"), MODES, ids=[m[0] for m in MODES])
def test_a_mode_is_of_a_thread_as_in_pytorch(name: str, mode: Any, seen: Any) -> None:
    def in_and_beside(library: Any) -> tuple[Any, Any]:
        with mode(library):
            return seen(library), together(lambda: seen(library))[0]

    assert in_and_beside(ours) == in_and_beside(torch)


SETTINGS: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = [
    (
        "default_device",
        lambda t: t.set_default_device("meta"),
        lambda t: t.set_default_device(None),
        lambda t: str(t.empty(1).device),
    ),
    (
        "default_dtype",
        lambda t: t.set_default_dtype(t.float64),
        lambda t: t.set_default_dtype(t.float32),
        lambda t: str(t.get_default_dtype()),
    ),
    (
        "autocast_dtype",
        lambda t: t.set_autocast_dtype("cpu", t.float16),
        lambda t: t.set_autocast_dtype("cpu", t.bfloat16),
        lambda t: str(t.get_autocast_dtype("cpu")),
    ),
    (
        "autocast_enabled",
        lambda t: t.set_autocast_enabled("cpu", True),
        lambda t: t.set_autocast_enabled("cpu", False),
        lambda t: t.is_autocast_enabled("cpu"),
    ),
    (
        "autocast_cache",
        lambda t: t.set_autocast_cache_enabled(False),
        lambda t: t.set_autocast_cache_enabled(True),
        lambda t: t.is_autocast_cache_enabled(),
    ),
    (
        "deterministic",
        lambda t: t.use_deterministic_algorithms(True),
        lambda t: t.use_deterministic_algorithms(False),
        lambda t: t.are_deterministic_algorithms_enabled(),
    ),
]


@pytest.mark.parametrize(("name", "on", "off", "seen"), SETTINGS, ids=[s[0] for s in SETTINGS])
def test_a_setting_is_of_a_thread_as_in_pytorch(name: str, on: Any, off: Any, seen: Any) -> None:
    def here_and_beside(library: Any) -> tuple[Any, Any]:
        on(library)
        try:
            return seen(library), together(lambda: seen(library))[0]
        finally:
            off(library)

    assert here_and_beside(ours) == here_and_beside(torch)


def test_autocast_in_one_thread_only() -> None:
    a = ours.ones(4, 4)

    def inside() -> None:
        with ours.autocast("cpu"):
            assert {(a @ a).dtype for _ in range(20)} == {ours.bfloat16}

    def outside() -> None:
        assert {(a @ a).dtype for _ in range(20)} == {ours.float32}

    together(inside, outside, inside, outside)


def test_a_transform_in_one_thread_is_none_in_another() -> None:
    w = ours.ones(3, requires_grad=True)
    inside, done = threading.Event(), threading.Event()

    def square(x: Any) -> Any:
        inside.set()
        assert done.wait(60)
        return (x * x).sum()

    def beside() -> Any:
        assert inside.wait(60)
        try:
            (w * 2).sum().backward()
            return w.grad, ours.compiler.is_compiling()
        finally:
            done.set()

    grad, (beside_it, compiling) = together(lambda: ours.func.grad(square)(ours.ones(3)), beside)
    assert grad.tolist() == beside_it.tolist() == [2.0, 2.0, 2.0]
    assert not compiling


def test_transforms_in_several_threads() -> None:
    x = ours.arange(4.0)

    def run(k: float) -> list[Any]:
        f = lambda x: (k * x**3).sum()
        found = [ours.func.vmap(ours.func.grad(lambda v: k * v**3))(x), ours.func.hessian(f)(x).sum(0)]
        return [t.tolist() for t in found]

    results = together(*(lambda k=k: [run(k) for _ in range(5)] for k in (1.0, 2.0, 3.0, 4.0)))
    for k, mine in zip((1.0, 2.0, 3.0, 4.0), results, strict=True):
        assert all(
            found == [[3 * k * v**2 for v in range(4)], [6 * k * v for v in range(4)]] for found in mine
        )


def test_nobody_asks_whether_the_overlay_is_none() -> None:
    """It is not None in a thread without one while another has one (see `tracing.overlay`)."""
    root = Path(ours.__file__).parent
    wrong = [
        path.name
        for path in root.rglob("*.py")
        for text in [path.read_text()]
        if "tracing.overlay is " in text
    ]
    assert not wrong


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("size", [4, 5000])
def test_gradients_of_threads_are_added_up(size: int) -> None:
    layer = ours.nn.Linear(size, 1, bias=False)

    def run() -> None:
        for _ in range(50):
            layer(ours.ones(1, size)).sum().backward()

    together(*[run] * 4)
    assert (layer.weight.grad == 200).all()


def test_gradients_of_threads_are_added_up_in_walks() -> None:
    layer = ours.nn.Linear(3, 1, bias=False)
    seen: list[float] = []
    layer.weight.register_hook(lambda g: seen.append(1.0))

    def run() -> None:
        for _ in range(20):
            layer(ours.ones(1, 3)).sum().backward()

    together(*[run] * 4)
    assert layer.weight.grad.tolist() == [[80.0] * 3]
    assert len(seen) == 80


def test_a_hook_after_accumulation_sees_its_own_gradient() -> None:
    """PyTorch has a lock for each node, and nodes come and go: there such hooks see other sums, and None."""
    w, seen = ours.ones(3, requires_grad=True), []

    def step(p: Any) -> None:
        seen.append(p.grad[0].item())
        with ours.no_grad():
            p -= p.grad
        p.grad = None

    w.register_post_accumulate_grad_hook(step)

    def train() -> None:
        for _ in range(20):
            (w * 2).sum().backward()

    together(*[train] * 4)
    assert (seen, w.tolist()) == ([2.0] * 80, [-159.0] * 3)


def test_backward_through_one_piece_of_a_graph() -> None:
    w = ours.ones(6, requires_grad=True)
    shared = (w * 2).tanh()

    def run() -> None:
        for _ in range(5):
            (shared * 3).sum().backward(retain_graph=True)

    together(*[run] * 4)
    np.testing.assert_allclose(w.grad.numpy(), 20 * 3 * 2 * (1 - np.tanh(2.0) ** 2), rtol=1e-5)


def test_backward_through_one_piece_of_a_graph_that_is_freed() -> None:
    """One wins, the others are told so, as by PyTorch."""
    for _ in range(20):
        w = ours.ones(6, requires_grad=True)
        shared = (w * 2).tanh()

        def run(shared: Any = shared) -> bool:
            try:
                (shared * 3).sum().backward()
            except RuntimeError as error:
                assert "backward through the graph a second time" in str(error)
                return False
            return True

        assert any(together(*[run] * 4))


# ------------------------------------------------------------------ training


@pytest.mark.parametrize("compiled", [False, True])
def test_models_of_their_own(compiled: bool) -> None:
    expected = [losses(seed, compiled) for seed in range(8)]
    found = together(*(lambda seed=seed: losses(seed, compiled) for seed in range(8)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_one_compiled_function_in_several_threads() -> None:
    w, total = ours.ones(5, requires_grad=True), ours.zeros(3)

    @ours.compile
    def run(x: Any) -> Any:
        total.add_(1.0)
        (w * x).sum().backward()
        return (w * x).sum()

    found = together(*[lambda: [run(ours.ones(5)).item() for _ in range(20)]] * 4)
    assert found == [[5.0] * 20] * 4
    assert w.grad.tolist() == [80.0] * 5
    assert total.tolist() == [80.0] * 3


def test_two_compiled_functions_of_one_state() -> None:
    total = ours.zeros(4)
    one = ours.compile(lambda x: total.add_(x))
    other = ours.compile(lambda x: total.add_(2 * x))
    together(*(lambda f=f: [f(ours.ones(4)) for _ in range(20)] for f in (one, other, one, other)))
    assert total.tolist() == [120.0] * 4


def test_passes_of_a_compiled_model() -> None:
    net, x = model(), ours.ones(4, 8)
    compiled = ours.compile(net)

    def run() -> list[Any]:
        with ours.no_grad():
            return [compiled(x).tolist() for _ in range(10)]

    with ours.no_grad():
        expected = net(x)
    for found in itertools.chain(*together(*[run] * 4)):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_beside_forward_passes(compiled: bool) -> None:
    """Whoever reads parameters that a step overwrites has the old ones or the new ones."""
    net, x, running = model(), ours.ones(4, 8), threading.Event()
    opt = ours.optim.AdamW(net.parameters(), lr=1e-3)
    running.set()

    def step() -> None:
        opt.zero_grad()
        net(x).pow(2).mean().backward()
        opt.step()

    run = ours.compile(step) if compiled else step

    def train() -> None:
        try:
            for _ in range(30):
                run()
        finally:
            running.clear()

    def look() -> None:
        while running.is_set():
            assert net(x).isfinite().all()
            with ours.autograd.graph.allow_mutation_on_saved_tensors():  # a step may come between
                ours.autograd.grad(net(x).sum(), list(net.parameters()))
            assert all(v.isfinite().all() for v in net.state_dict().values())
            assert len(opt.state_dict()["param_groups"]) == 1

    together(train, look, look)


def test_a_loader_in_a_thread_beside_a_compiled_step() -> None:
    x = ours.arange(64.0).reshape(32, 2)
    data = TensorDataset(x, x.sum(1, keepdim=True))

    def run(threaded: bool) -> list[float]:
        w = ours.zeros(2, 1, requires_grad=True)
        opt = ours.optim.SGD([w], lr=1e-5)
        batches: queue.Queue[Any] = queue.Queue(2 if threaded else 0)

        @ours.compile
        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        def load() -> None:
            for batch in DataLoader(data, batch_size=4):
                batches.put(batch)
            batches.put(None)

        def train() -> list[float]:
            return [step(*batch).item() for batch in iter(batches.get, None)]

        return together(load, train)[1] if threaded else (load(), train())[1]  # type: ignore[func-returns-value]

    assert run(True) == run(False)


# ------------------------------------------------------------------ beside a trace


def test_a_trace_is_not_seen_by_other_threads() -> None:
    """They read real values, and an optimizer's plain numbers."""
    net, a = model(), ours.ones(3, 3)
    opt = ours.optim.Adam(net.parameters(), lr=0.25)
    begun, seen = threading.Event(), threading.Event()

    @ours.compile
    def step(x: Any) -> None:
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
        begun.set()
        assert seen.wait(60)

    def beside() -> tuple[Any, ...]:
        assert begun.wait(60)
        try:
            lr = opt.param_groups[0]["lr"]
            assert not ours.compiler.is_compiling()
            return (
                (a + a).tolist(),
                net(ours.zeros(1, 8)).item(),
                lr * 2,
                lr > 0.1,
                f"{lr:.2f}",
                json.dumps(lr + 0),
            )
        finally:
            seen.set()

    before = net(ours.zeros(1, 8)).item()
    _, (doubled, value, *numbers) = together(lambda: step(ours.ones(2, 8)), beside)
    assert doubled == [[2.0] * 3] * 3
    assert value == before
    assert numbers == [0.5, True, "0.25", "0.25"]
    opt.param_groups[0]["lr"] = 0.125  # the comparison above was no part of the trace
    step(ours.ones(2, 8))
    assert step.traces == 1


def test_gradients_beside_a_trace_of_another_model() -> None:
    w, begun = ours.ones(2, requires_grad=True), threading.Event()

    @ours.compile
    def run(x: Any) -> Any:
        begun.set()
        return x * 2

    def beside() -> None:
        assert begun.wait(60)
        for _ in range(10):
            (w * 3).sum().backward()

    together(lambda: run(ours.ones(2)), beside)
    assert w.grad.tolist() == [30.0, 30.0]


def test_hooks_after_accumulation_beside_a_trace() -> None:
    w, seen, begun = ours.ones(2, requires_grad=True), [], threading.Event()
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p))

    @ours.compile
    def run(x: Any) -> None:
        begun.set()
        threading.Event().wait(0.1)  # the other thread gets as far as it can
        (w * x).sum().backward()

    def beside() -> None:
        assert begun.wait(60)
        (w * 3).sum().backward()

    together(lambda: run(ours.ones(2)), beside)
    assert w.grad.tolist() == [4.0, 4.0]
    assert len(seen) == 2


# ------------------------------------------------------------------ the mechanism


def test_what_is_lent_is_waited_for() -> None:
    cell = Storage(ours.ones(200, 200).jax())
    reading, new = threading.Event(), ours.zeros(200, 200).jax()

    def lend() -> None:
        with lent([cell]):
            assert cell.value is cell.held.lent  # whose turn it is reads on
            reading.set()
            late = threading.Event()
            assert not late.wait(0.05)
            cell.put(new)

    def read() -> Any:
        assert reading.wait(60)
        return cell.value

    assert together(lend, read)[1] is new
    assert cell.held is new


def test_what_was_lent_to_a_call_that_failed_is_there_again() -> None:
    cell = Storage(ours.ones(200, 200).jax())

    def fail() -> None:
        with pytest.raises(ValueError, match="no"), lent([cell]):
            raise ValueError("no")

    together(fail, lambda: None)
    assert cell.held is cell.value
    assert cell.value.sum() == 40_000
    assert together(lambda: tracing.turn.acquire(blocking=False) and not tracing.turn.release())[0]  # type: ignore[func-returns-value]


def test_shapes_have_numbers_of_their_own() -> None:
    arrays = [np.empty((7, 1, k)) for k in range(1, 200)]
    found = together(*[lambda: [placing.form_of(a) for a in arrays]] * 4)
    assert all(numbers == found[0] for numbers in found)
    assert len(set(found[0])) == len(arrays)


def test_random_numbers_are_drawn_once() -> None:
    """Which thread gets which is chance; together they are those of one."""
    ours.manual_seed(3)
    expected = sorted(ours.rand(16 * 80).tolist())
    ours.manual_seed(3)
    drawn = together(*[lambda: [ours.rand(16).tolist() for _ in range(20)]] * 4)
    assert sorted(itertools.chain(*itertools.chain(*drawn))) == expected
