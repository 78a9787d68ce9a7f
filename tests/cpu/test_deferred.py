"""Operations that are put off: nobody can tell but by counting programs."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from twins import same_outcome

import functorch_port as ft
from functorch_port._array.executor import Executor
from functorch_port._base.tuning import tuning
from functorch_port._cpu import deferred, programs
from functorch_port._tensor.plan import Plan

pytestmark = pytest.mark.cpu
N = 72  # N * N elements are more than the host keeps


@pytest.fixture(autouse=True)
def nothing_waits(no_programs: None) -> Iterator[None]:
    gc.collect()
    before = deferred.waiting.count()
    yield
    gc.collect()
    assert deferred.waiting.count() == before


@contextlib.contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the operations that run one by one, forward and backward."""
    names: list[str] = []
    run, compute = Plan.run_recorded, Executor.compute

    def noted(self: Any, mask: Any, values: Any) -> Any:
        names.append(self.name)
        return run(self, mask, values)

    def noted_too(self: Any, plan: Any, values: Any) -> Any:
        names.append(plan.name)
        return compute(self, plan, values)

    with monkeypatch.context() as patch:
        patch.setattr(Plan, "run_recorded", noted)
        patch.setattr(Executor, "compute", noted_too)
        yield names


def data(T: Any = ft) -> tuple[Any, Any]:
    w = T.linspace(-1, 1, N * N, dtype=T.float64).view(N, N).clone().requires_grad_()
    return w, T.linspace(-2, 3, N * N, dtype=T.float64).view(N, N).clone()


def waits(tensor: ft.Tensor) -> bool:
    held = tensor._storage.held
    return held.__class__ is deferred.Deferred and held.call.results is None


def programs_made() -> int:
    return len(programs._programs)


def close(program: Callable[[Any], list[Any]]) -> None:
    """``program(T)`` gives lists of tensors of the same shapes, dtypes and values, to rounding."""
    theirs, ours = program(torch), program(ft)
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------- what runs, and when


def test_nothing_runs_before_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = data()
    with counted(monkeypatch) as ran:
        h = (x @ w).tanh()
        y = h.sum()
        assert y.shape == () and h.shape == (N, N) and h.dtype is ft.float64 and h.device.type == "cpu"
        assert h.numel() == N * N and h.stride() == (N, 1) and h.is_contiguous() and h.grad_fn is not None
        assert h.element_size() * h.nelement() == 8 * N * N and not h.is_leaf
        assert not ran and waits(h) and waits(y)
        value = h.detach().numpy()
        assert ran == ["matmul", "tanh"] and not waits(h) and waits(y)
        assert y.data_ptr()  # an address is one of the value
        assert ran == ["matmul", "tanh", "sum"] and not waits(y)
    np.testing.assert_allclose(value, np.tanh(x.numpy() @ w.detach().numpy()), rtol=1e-13)


def test_forward_and_backward_become_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = data()
    found = []
    for i in range(5):
        w.grad = None
        with counted(monkeypatch) as ran:
            loss = (x @ w).tanh().sum()
            loss.backward()
            assert bool(ran) == (i < tuning.replay_after)
            found.append((loss.item(), w.grad.clone()))
    assert len(programs._programs) == 1
    for value, grad in found:
        assert abs(value - found[0][0]) <= 1e-13 * abs(found[0][0])
        assert ft.allclose(grad, found[0][1], rtol=1e-13, atol=1e-13)


def test_new_operations_are_compiled_at_once(
    monkeypatch: pytest.MonkeyPatch, tuned: Callable[..., None]
) -> None:
    """Instead of one by one."""
    tuned(program_new=8)
    sizes = iter(range(N + 1, N + 100))

    def step(n: int, deep: int = 3) -> tuple[float, list[str]]:
        x = ft.ones(n, N, dtype=ft.float64, requires_grad=True)
        with counted(monkeypatch) as ran:
            y = x
            for _ in range(deep):
                y = y.tanh()
            loss = y.exp().sum()
            loss.backward()
        return loss.item(), ran

    n = next(sizes)
    value, ran = step(n)
    assert not ran and programs_made() == 1
    assert abs(value - n * N * np.exp(np.tanh(np.tanh(np.tanh(1))))) <= 1e-12 * value
    assert not step(n)[1] and programs_made() == 1
    # many times the same operation
    n = next(sizes)
    assert step(n, 40)[1] and step(n, 40)[1] and programs_made() == 1
    assert not step(n, 40)[1] and programs_made() == 2
    # operations that have run before, in another order
    assert step(n, 2)[1] and programs_made() == 2


def test_what_somebody_holds_is_a_result_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = data()
    for _ in range(4):
        w.grad = None
        h = x @ w
        kept = {"h": h, "a": h.tanh()}
        row = kept["a"][3]
        row.sum().backward()
    with counted(monkeypatch) as ran:
        values = [kept["h"].detach().numpy(), kept["a"].detach().numpy()]
        assert not ran
    np.testing.assert_allclose(values[0], x.numpy() @ w.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(values[1], np.tanh(values[0]), rtol=1e-13)
    np.testing.assert_allclose(row.detach().numpy(), values[1][3], rtol=1e-13)


def test_a_value_looked_at_early_is_an_argument() -> None:
    def run(T):
        w, x = data(T)
        out = []
        for _ in range(5):
            w.grad = None
            h = x @ w
            top = h.detach().abs().max()  # runs at once: nothing of it is recorded
            loss = (h / top).tanh().sum()
            loss.backward()
            out += [loss, w.grad.clone(), top]
        return out

    close(run)


def test_values_that_nobody_wants_are_never_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = data()
    with counted(monkeypatch) as ran:
        y = (x @ w).exp()
        del y
        gc.collect()
        assert not ran


def test_memory_is_freed_with_the_graph() -> None:
    w, x = data()
    refs = []
    for _ in range(4):
        h = x @ w
        loss = h.exp().sum()
        loss.backward()
        refs.append(weakref.ref(h._value))
    del h
    gc.collect()
    assert [ref() for ref in refs] == [None] * 4


def test_a_limit_to_what_waits(tuned: Callable[..., None]) -> None:
    tuned(waiting_elements=deferred.waiting.count() + 2 * N * N)
    w, x = data()
    made = [x @ w for _ in range(5)]
    assert [waits(y) for y in made] == [True] * 3 + [False] * 2
    made[0]._value, made[1]._value
    assert waits(x @ w)


# ------------------------------------------------------------- the same as PyTorch's


def test_in_place_on_what_waits() -> None:
    def run(T):
        w, x = data(T)
        out = []
        for _ in range(5):
            w.grad = None
            h = x @ w
            h.mul_(2.0).add_(x)
            h[1:3].zero_()
            assert h._version == 3
            T.nn.functional.relu(h, inplace=True)
            (h * h).mean().backward()
            out += [h, w.grad.clone()]
        return out

    close(run)


def test_views_of_what_waits() -> None:
    def run(T):
        w, x = data(T)
        out = []
        for _ in range(5):
            w.grad = None
            h = x @ w
            a, b = h.view(2, -1, N).transpose(1, 2).unbind(0)
            c = h.t()[::2, 1:]
            loss = (a * b).sum() + c.exp().mean() + h.diagonal().sum()
            loss.backward()
            out += [loss, c.contiguous(), w.grad.clone()]
        return out

    close(run)


def test_a_result_in_another_graph() -> None:
    """As a generator's output goes to a discriminator twice, once detached."""

    def run(T):
        w, x = data(T)
        v = (x.clone() / 7).requires_grad_()
        out = []
        for _ in range(5):
            w.grad = v.grad = None
            fake = T.tanh(x @ w)
            real = (fake.detach() @ v).sigmoid().mean()
            real.backward()
            with T.no_grad():
                v -= 0.1 * v.grad
            loss = (fake @ v).sigmoid().mean()
            loss.backward()
            out += [real, loss, w.grad.clone(), v.grad.clone()]
        return out

    close(run)


@pytest.mark.parametrize("retain", [False, True])
def test_two_roots_that_share_a_part(retain: bool) -> None:
    def run(T):
        w, x = data(T)
        out = []
        for _ in range(5):
            w.grad = None
            h = (x @ w).tanh()
            one, two = h.sum(), (h * h).sum()
            if retain:
                one.backward(retain_graph=True)
                two.backward()
            else:
                T.autograd.backward([one, two])
            out += [one, two, w.grad.clone()]
        return out

    close(run)


def test_a_second_backward_is_refused() -> None:
    def run(T):
        w, x = data(T)
        for _ in range(4):
            loss = (x @ w).tanh().sum()
            loss.backward()
            loss.backward()

    same_outcome(run)


def test_gradients_of_inner_values_and_of_gradients() -> None:
    def run(T):
        w, x = data(T)
        out = []
        for _ in range(4):
            h = x @ w
            y = h.tanh().sum()
            inner, leaf = T.autograd.grad(y, [h, w], create_graph=True)
            (again,) = T.autograd.grad((inner * leaf).sum(), w)
            out += [y, inner, leaf, again]
        return out

    close(run)


def test_hooks_and_custom_functions_see_values() -> None:
    def run(T):
        class Cube(T.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                return a**3

            @staticmethod
            def backward(ctx, g):
                (a,) = ctx.saved_tensors
                return 3 * a * a * g

        w, x = data(T)
        out = []
        for _ in range(4):
            w.grad = None
            h = (x @ w) / N
            h.register_hook(lambda g: out.append(g.clone()))
            h.retain_grad()
            loss = Cube.apply(h).sum()
            loss.backward()
            out += [loss, h, h.grad, w.grad.clone()]
        return out

    close(run)


def test_anomaly_mode() -> None:
    def run(T):
        w, x = data(T)
        out = []
        for _ in range(3):
            with T.autograd.detect_anomaly(check_nan=True):
                w.grad = None
                ((x @ w).tanh() ** 2).sum().backward()
            out.append(w.grad.clone())
        return out

    with pytest.warns(UserWarning, match="Anomaly Detection"):
        close(run)


def test_running_statistics() -> None:
    def run(T):
        T.manual_seed(0)
        net = T.nn.Sequential(T.nn.Linear(N, N), T.nn.BatchNorm1d(N), T.nn.ReLU(inplace=True)).double()
        _, x = data(T)
        out = []
        for _ in range(5):
            net.zero_grad()
            (net(x) ** 2).mean().backward()
            out += [net[1].running_mean.clone(), net[1].running_var.clone(), net[0].weight.grad.clone()]
        net.train()
        net(x)  # nobody asks for the output, but the statistics have moved
        saved = {k: v.clone() for k, v in net.state_dict().items()}
        net.eval()
        return [*out, *saved.values(), net(x)]

    close(run)


def test_an_update_between_forward_and_backward() -> None:
    """What waits is computed from the values there were when it was called, whatever becomes of the parameter."""
    w, x = data()
    optimizer = ft.optim.SGD([w], lr=0.5)
    for _ in range(5):
        before = w.detach().clone()
        late = (x @ w).tanh()
        (w * x).sum().backward()
        optimizer.step()  # its program may take the parameter's memory
        optimizer.zero_grad()
        np.testing.assert_allclose(
            late.detach().numpy(), np.tanh(x.numpy() @ before.numpy()), rtol=1e-12, atol=1e-12
        )


# ------------------------------------------------------------- passes without gradients


def net(T: Any = ft) -> Any:
    T.manual_seed(0)
    nn = T.nn
    layers = nn.Linear(N, N), nn.BatchNorm1d(N), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(N, N)
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_pass_becomes_one_program(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    model, (_, x) = net().eval(), data()
    found = []
    with getattr(ft, mode)():
        for i in range(5):
            with counted(monkeypatch) as ran:
                found.append(model(x))
                assert bool(ran) == (i < tuning.replay_after) and not waits(found[-1])
        assert programs_made() == 1
        with counted(monkeypatch) as ran:
            model(x)
            assert not ran  # nobody can ask for it
    for y in found:
        assert ft.allclose(y, found[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("train", [False, True])
def test_passes_are_torchs(train: bool) -> None:
    def run(T):
        model, (_, x) = net(T).train(train), data(T)
        out = []
        with T.no_grad():
            for i in range(5):
                T.manual_seed(i)  # dropout draws
                out += [model(x), model[1].running_mean.clone(), model[1].running_var.clone()]
        return out

    close(run)


def test_what_a_forward_keeps_and_looks_at() -> None:
    def run(T):
        class Model(T.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = net(T).eval()
                self.seen, self.kept = [], {}

            def forward(self, x):
                h = self.inner(x)
                if float(h.detach().sum()) > 0:
                    h = -h
                self.seen.append(h.abs().max().item())
                self.kept["h"] = h
                rows = h.view(2, -1, N)[1]
                self.inner[0].bias.clamp_(max=0.05)
                T.nn.init.constant_(self.inner[4].bias, 0.25)
                return {"rows": rows * 2, "top": h.topk(3)}

        model, (_, x) = Model(), data(T)
        out = []
        with T.no_grad():
            for _ in range(5):
                y = model(x)
                out += [y["rows"], *y["top"], model.kept["h"], *(p.clone() for p in model.parameters())]
        return [*out, T.tensor(model.seen, dtype=T.float64)]

    close(run)


def test_gradients_inside_of_a_pass_without() -> None:
    """As a model of energies computes forces."""

    def run(T):
        class Forces(T.nn.Module):
            def __init__(self):
                super().__init__()
                self.energy = net(T).eval()

            def forward(self, x):
                scaled = x / 2
                with T.enable_grad():
                    at = scaled.detach().requires_grad_()
                    e = (self.energy(at) * scaled).sum()
                    (force,) = T.autograd.grad(e, at)
                return e.detach(), force * 2

        model, (_, x) = Forces(), data(T)
        with T.no_grad():
            return [value for _ in range(5) for value in model(x)]

    close(run)


def test_a_pass_that_fails_leaves_right_values() -> None:
    class Model(ft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", ft.zeros(N, N, dtype=ft.float64))

        def forward(self, x: ft.Tensor, fail: bool) -> ft.Tensor:
            self.total += x * 2
            if fail:
                raise KeyError("stop")
            return self.total.clone()

    model, (_, x) = Model(), data()
    with ft.no_grad():
        for _ in range(3):
            with pytest.raises(KeyError, match="stop"):
                model(x, True)
        assert deferred.scope.calls is None
        np.testing.assert_allclose(model(x, False).numpy(), 8 * x.numpy(), rtol=1e-13)


def test_only_modules_put_off_what_is_not_recorded() -> None:
    _, x = data()
    with ft.no_grad():
        assert not waits(x @ x)

    class Model(ft.nn.Module):
        def forward(self, x: ft.Tensor) -> ft.Tensor:
            h = x @ x
            assert waits(h) == (not ft.is_grad_enabled())
            return h

    Model()(x)
    with ft.no_grad():
        Model()(x)


def test_passes_in_threads() -> None:
    model, (_, x) = net().eval(), data()

    def run(k: int) -> np.ndarray:
        with ft.no_grad():
            return [model(x * k).numpy() for _ in range(4)][-1]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(run, range(6)))
    with ft.no_grad():
        for k, value in enumerate(found):
            np.testing.assert_allclose(value, model(x * k).numpy(), rtol=1e-12, atol=1e-12)


def test_a_pass_lets_go_of_what_it_computes() -> None:
    refs = []

    class Model(ft.nn.Module):
        def forward(self, x: ft.Tensor) -> ft.Tensor:
            h = x @ x
            y = h.exp()
            refs.append(weakref.ref(h._value))
            return y

    _, x = data()
    with ft.no_grad():
        for _ in range(4):
            y = Model()(x)
    gc.collect()
    assert [ref() for ref in refs] == [None] * 4 and y.shape == (N, N)


# ------------------------------------------------------------- everything that takes a value


def test_every_way_to_a_value() -> None:
    w, x = data()
    expected = x.numpy() * w.detach().numpy()
    ways: dict[str, Callable[[ft.Tensor], Any]] = {
        "numpy": lambda t: t.detach().numpy(),
        "tolist": lambda t: np.array(t.tolist()),
        "asarray": lambda t: np.asarray(t.detach()),
        "dlpack": lambda t: np.from_dlpack(t.detach()),
        "jax": lambda t: np.asarray(jnp.asarray(t.detach())),
        "pickle": lambda t: pickle.loads(pickle.dumps(t.detach())).numpy(),
        "deepcopy": lambda t: copy.deepcopy(t.detach()).numpy(),
        "clone": lambda t: t.clone().detach().numpy(),
        "data": lambda t: t.data.numpy(),
        "to": lambda t: t.to(ft.float64).detach().numpy(),
        "copy_": lambda t: ft.empty(N, N, dtype=ft.float64).copy_(t).detach().numpy(),
        "jit": lambda t: np.asarray(jax.jit(lambda: jnp.asarray(t.detach()) * 1.0)()),
        "compile": lambda t: ft.compile(lambda: t.detach() * 1.0)().numpy(),
        "vmap": lambda t: ft.vmap(lambda row: row * 1.0)(t).detach().numpy(),
    }
    for name, way in ways.items():
        waiting = x * w
        assert waits(waiting), name
        with jax.enable_x64(True):
            np.testing.assert_allclose(way(waiting), expected, rtol=1e-13, err_msg=name)
    assert repr((x * w).sum()).startswith("tensor(") and bool((x * w).sum() > -1)


def test_inside_a_trace_of_jax() -> None:
    w, x = data()
    waiting = x * w

    @jax.jit
    def f(a: jax.Array) -> jax.Array:
        return a + jnp.asarray(waiting.detach())

    with jax.enable_x64(True):
        found = np.asarray(f(x._value))
    np.testing.assert_allclose(found, x.numpy() + x.numpy() * w.detach().numpy(), rtol=1e-13)
    assert isinstance(waiting._value, jax.Array) and not isinstance(waiting._value, jax.core.Tracer)


def test_a_compiled_step_reads_what_waits() -> None:
    w, x = data()
    state = {"h": x * w}

    @ft.compile
    def step() -> ft.Tensor:
        return (state["h"].detach() * 2).sum()

    expected = 2 * (x.numpy() * w.detach().numpy()).sum()
    for _ in range(3):
        state["h"] = x * w
        assert waits(state["h"])
        assert abs(step().item() - expected) <= 1e-12 * abs(expected)


def test_from_several_threads() -> None:
    w, x = data()
    expected = 8 * np.exp(x.numpy() * w.detach().numpy())
    for _ in range(10):
        waiting = [(x * w).exp() for _ in range(8)]
        total = sum(waiting[1:], waiting[0])
        with ThreadPoolExecutor(4) as pool:
            for value in pool.map(lambda t: t.detach().numpy(), [total] * 8):
                np.testing.assert_allclose(value, expected, rtol=1e-13)


# ------------------------------------------------------------- what does not wait


def test_errors_come_at_once_and_nothing_is_left() -> None:
    def run(T):
        w, x = data(T)
        h = x @ w
        h @ T.ones(3, 3, dtype=T.float64)

    w, x = data()
    h = x @ w
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        h @ ft.ones(3, 3, dtype=ft.float64)
    assert waits(h)
    with pytest.raises(IndexError):
        ft.nn.functional.cross_entropy(h.float(), ft.full((N,), N + 5))
    h.sum().backward()
    assert w.grad is not None
    same_outcome(run)


def test_values_that_were_put_on_one_of_several_devices_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = data()
    put = ft.from_jax(jax.device_put(x._value, jax.devices("cpu")[0]))
    assert put._value.committed and waits(put * w)
    monkeypatch.setattr(deferred.host, "_only_cpu", set)
    assert not waits(put * w) and not waits(w + put) and waits(w * x)


def test_without_a_gradient_nothing_waits() -> None:
    w, x = data()
    with ft.no_grad():
        assert not waits(x @ w)
    assert not waits(x @ x) and not waits((x @ w).argmax(1))


def test_nothing_is_computed_for_the_order_alone() -> None:
    """The Storage with the other order is made when somebody looks at it."""
    out = ft.arange(60_000.0).reshape(200, 300).t() + 1
    twice = out * 2
    assert waits(out)
    assert float(twice[0, 1]) == 602.0
    assert out.as_strided((2,), (1,)).tolist() == [1.0, 2.0]


def test_deterministic_algorithms_put_no_operations_together() -> None:
    def step() -> bool:
        x = ft.ones(100, 100, requires_grad=True)
        with ft.enable_grad():
            y = (x * 2).sum()
        found = waits(y)
        y.backward()
        return found

    assert step()
    ft.use_deterministic_algorithms(True)
    try:
        assert not step()
    finally:
        ft.use_deterministic_algorithms(False)
    assert step()
