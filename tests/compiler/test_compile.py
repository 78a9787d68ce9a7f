"""`compile`: what is captured, what is guarded, what happens when a trace fails, and what donation may not touch."""

from __future__ import annotations

import copy
import gc
from itertools import pairwise

import chex
import numpy as np
import pytest
import torch
from counting import xla_compilations

import functorch_port as ft


def _step(w, opt):
    def step(x):
        opt.zero_grad()
        loss = (w * w * x).sum()
        loss.backward()
        opt.step()
        return loss

    return step


def _parameter(*values):
    return ft.tensor(list(values or (1.0, 2.0)), requires_grad=True)


X = ft.tensor([1.0, 2.0])


# ------------------------------------------------------------------ captured


def test_state_made_inside_comes_out_as_arrays_not_tracers():
    w = _parameter()
    opt = ft.optim.SGD(
        [w], lr=0.1, momentum=0.9, dampening=0.5
    )  # no zero buffer can stand for the first step
    kept, attribute = [], type("Box", (), {})()
    module_like = {}

    @ft.compile
    def step(x):
        opt.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        opt.step()
        kept.append(loss.detach())
        attribute.last = loss.detach() * 2
        module_like["grad"] = w.grad
        return loss

    losses = [step(X).item() for _ in range(3)]
    assert [k.item() for k in kept] == losses
    assert attribute.last.item() == 2 * losses[-1]
    np.testing.assert_array_equal(module_like["grad"].numpy(), X.numpy())
    np.testing.assert_array_equal(w.grad.numpy(), X.numpy())
    assert opt.state[w]["momentum_buffer"].shape == (2,)


def test_globals_closures_and_tensors_in_containers_are_state():
    total, pair = ft.zeros(2), (ft.zeros(()), [ft.ones(2)])

    @ft.compile
    def add(x):
        total.add_(x)
        pair[0].add_(1)
        pair[1][0].mul_(2)
        return total * pair[0]

    for n in range(1, 4):
        np.testing.assert_array_equal(add(X).numpy(), n * n * X.numpy())
    assert (pair[0].item(), pair[1][0].tolist(), add.traces) == (3.0, [8.0, 8.0], 1)


def test_a_view_of_state_is_written_through():
    base = ft.zeros(3, 2)
    row = base[1]

    @ft.compile
    def write(x):
        row.add_(x)
        base[:, 0] += 1

    write(X)
    write(X)
    assert base.tolist() == [[2, 0], [4, 4], [2, 0]] and row.tolist() == [4, 4] and write.traces == 1


def test_an_argument_that_is_a_slice_is_not_burned_in():
    data = ft.arange(6.0)
    double = ft.compile(lambda x: x * 2)
    assert [double(data[2 * i : 2 * i + 2]).tolist() for i in range(3)] == [[0, 2], [4, 6], [8, 10]]
    assert double.traces == 1


def test_an_argument_written_in_place_is_changed_outside():
    @ft.compile
    def fill(x):
        x.mul_(3)

    a, rows = ft.ones(2), ft.ones(2, 2)
    fill(a)
    fill(a)
    fill(rows[1])
    assert a.tolist() == [9, 9] and rows.tolist() == [[1, 1], [3, 3]]


def test_gradients_accumulate_over_calls():
    w = _parameter()

    @ft.compile
    def accumulate(x):
        (w * x).sum().backward()

    for n in range(1, 5):
        accumulate(X)
        np.testing.assert_array_equal(w.grad.numpy(), n * X.numpy())
    assert accumulate.traces == 2  # without and with a gradient there


def test_the_first_state_is_made_up_front_and_stays_invisible():
    for attempt in range(2):  # the first also compiles what moves arrays about, once per process
        w = _parameter()
        opt = ft.optim.SGD([w], lr=0.1, momentum=0.9)
        assert opt.state_dict()["state"] == {}
        run = ft.compile(_step(w, opt))
        with xla_compilations() as count:
            for _ in range(4):
                run(X)
        assert run.traces == 1
    assert attempt == 1 and count[0] == 1


def test_inside_a_compiled_function_another_one_is_inlined():
    inner = ft.compile(lambda x: x + 1)
    outer = ft.compile(lambda x: inner(x) * 2)
    assert outer(X).tolist() == [4, 6] and inner.traces == 0


def test_outputs_keep_their_structure():
    @ft.compile
    def out(x):
        return {"a": x, "b": [x + 1, None, "text", 3]}, (x * 2,)

    first, second = out(X), out(X)
    for got in (first, second):
        assert got[0]["a"] is X and got[0]["b"][0].tolist() == [2, 3] and got[0]["b"][1:] == [None, "text", 3]


def test_a_compiled_forward_is_differentiated_outside():
    w, x = _parameter(), ft.tensor([3.0, 4.0], requires_grad=True)
    forward = ft.compile(lambda x: (w * x * x).sum())
    for _ in range(2):
        w.grad = x.grad = None
        forward(x).backward()
        np.testing.assert_allclose(w.grad.numpy(), [9, 16])
        np.testing.assert_allclose(x.grad.numpy(), [6, 16])
    (g,) = ft.autograd.grad(forward(x), x, create_graph=True)
    (gg,) = ft.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(gg.numpy(), [2, 4])
    assert forward.traces == 2  # an argument with a gradient is this very tensor


# ------------------------------------------------------------------- guarded


def test_a_thousand_learning_rates_are_one_trace():
    w, reference = (ft.tensor([1.0, 2.0], dtype=ft.float64, requires_grad=True) for _ in range(2))
    opt = ft.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=1e-3)
    plain = ft.optim.SGD([reference], lr=0.1, momentum=0.9, weight_decay=1e-3)
    eager = _step(reference, plain)
    run = ft.compile(chex.assert_max_traces(_step(w, opt), n=1))
    for _ in range(2):  # a number that stays becomes an array at the second call
        run(X), eager(X)
    for i in range(1, 1000):
        for o in (opt, plain):
            o.param_groups[0].update(lr=0.1 / i, momentum=0.9 - i * 1e-4, weight_decay=1e-3 / i)
        with xla_compilations() as count:
            run(X)
        assert count == [0]
        if i < 20:
            eager(X)
            np.testing.assert_allclose(w.detach().numpy(), reference.detach().numpy(), rtol=1e-12)
    assert run.traces == 1


def test_numbers_that_stay_are_compared_no_more_and_are_arrays_once():
    opts = []
    for _ in range(2):
        w = ft.tensor([1.0, 2.0], dtype=ft.float64, requires_grad=True)
        opts.append((w, ft.optim.Adam([w], lr=0.1, betas=(0.8, 0.99))))
    run, eager = ft.compile(_step(*opts[0])), _step(*opts[1])
    given, found = [], []
    for lr, betas in [(0.1, (0.8, 0.99))] * 4 + [(0.2, (0.8, 0.99))] * 3 + [(0.2, (0.5, 0.9))] * 3:
        for _, o in opts:
            if (lr, betas) != tuple(o.param_groups[0][k] for k in ("lr", "betas")):
                o.param_groups[0].update(lr=lr, betas=betas)
        run(X), eager(X)
        np.testing.assert_allclose(opts[0][0].tolist(), opts[1][0].tolist(), rtol=1e-12)
        (program,) = run.programs()
        given.append(program.inputs.numbers.check([X]))
        _, rest, _ = program.inputs.gather([X], given[-1], 0)
        found.append(rest[-len(program.inputs.numbers.inputs) :])
    same = lambda values: [a is b for a, b in pairwise(values)]  # noqa: E731
    assert same(given) == [True] * 3 + [False] + [True] * 2 + [False] + [True] * 2
    for k in (2, 5, 8):
        assert all(a is b for a, b in zip(found[k], found[k + 1], strict=True))
    assert run.traces == 1


@pytest.mark.parametrize(
    ("name", "value"), [("nesterov", True), ("maximize", True), ("momentum", 0.0), ("weight_decay", 0.1)]
)
def test_a_flag_is_a_guard_and_changing_back_hits_the_cache(name, value):
    w, other = _parameter(), _parameter()
    make = lambda p: ft.optim.SGD([p], lr=0.1, momentum=0.9)  # noqa: E731
    opt, plain = make(w), make(other)
    run, eager = ft.compile(_step(w, opt)), _step(other, plain)
    before = opt.param_groups[0][name]
    for setting, traces in ((before, 1), (value, 2), (before, 2), (value, 2)):
        opt.param_groups[0][name] = plain.param_groups[0][name] = setting
        run(X), eager(X)
        np.testing.assert_allclose(w.detach().numpy(), other.detach().numpy(), rtol=1e-6)
        assert run.traces == traces, run.reasons


def test_modes_and_flags_are_guards():
    w = _parameter()
    run = ft.compile(lambda x: (w * x).sum())
    assert run(X).requires_grad
    with ft.no_grad():
        assert not run(X).requires_grad
    assert run(X).requires_grad and run.traces == 2
    w.requires_grad_(False)
    assert not run(X).requires_grad and run.traces == 3
    w.requires_grad_(True)
    assert run(X).requires_grad and run.traces == 3


def test_default_dtype_is_a_guard():
    make = ft.compile(lambda: ft.ones(2))
    assert make().dtype is ft.float32
    ft.set_default_dtype(ft.float64)
    try:
        assert make().dtype is ft.float64
    finally:
        ft.set_default_dtype(ft.float32)
    assert make().dtype is ft.float32 and make.traces == 2


def test_shapes_dtypes_and_static_arguments_retrace():
    scale = ft.compile(lambda x, k: x * k)
    assert scale(ft.ones(2), 3).tolist() == [3, 3]
    assert scale(ft.ones(3), 3).tolist() == [3, 3, 3]
    assert scale(ft.ones(2, dtype=ft.int64), 3).dtype is ft.int64
    assert scale(ft.ones(2), 4).tolist() == [4, 4] and scale.traces == 4
    assert [scale(ft.ones(2), k).tolist()[0] for k in (0.5, 1.5, 2.5)] == [
        0.5,
        1.5,
        2.5,
    ] and scale.traces == 5  # floats are traced


def test_a_branch_on_a_float_argument_is_guarded_by_its_outcome():
    @ft.compile
    def choose(x, k):
        return x * k if k > 1 else x

    assert [choose(ft.ones(1), k).item() for k in (0.5, 0.7, 2.0, 3.0, 0.1)] == [1.0, 1.0, 2.0, 3.0, 1.0]
    assert choose.traces == 2


def test_loading_a_state_dict_between_calls_takes_effect():
    w = _parameter()
    opt = ft.optim.SGD([w], lr=0.1, momentum=0.9)
    run = ft.compile(_step(w, opt))
    run(X)
    saved, weights = copy.deepcopy(opt.state_dict()), w.detach().clone()
    run(X)
    expected = w.detach().clone()
    run(X)
    opt.load_state_dict(saved)
    w.data.copy_(weights)
    run(X)
    np.testing.assert_array_equal(w.detach().numpy(), expected.numpy())


def test_a_group_added_later_is_trained():
    w, v = _parameter(), _parameter(5.0, 6.0)
    opt = ft.optim.SGD([w], lr=0.1)

    @ft.compile
    def step(x):
        opt.zero_grad()
        loss = (w * v * x).sum()
        loss.backward()
        opt.step()
        return loss

    step(X)
    assert v.tolist() == [5, 6]
    opt.add_param_group({"params": [v]})
    step(X)
    assert v.tolist() != [5, 6] and step.traces == 2


def test_reasons_say_why_it_was_traced():
    w = _parameter()
    opt = ft.optim.SGD([w], lr=0.1, momentum=0.9)
    run = ft.compile(_step(w, opt))
    run(X)
    opt.param_groups[0]["nesterov"] = True
    run(X)
    assert run.reasons == ["the first call", "'nesterov' changed from False to True"]
    report = run.explain()
    for part in (
        "traced 2 time(s)",
        "w: float32[2]",
        "momentum_buffer",
        "numbers that may change: lr, momentum",
        "FLOPs",
        "temporary",
    ):
        assert part in report, report


# -------------------------------------------------------------------- errors


def test_a_failed_trace_leaves_everything_as_it_was():
    w, count, kept = _parameter(), ft.zeros(()), ft.ones(2)
    opt = ft.optim.SGD([w], lr=0.1, momentum=0.9)
    opt.zero_grad()
    (w * 3).sum().backward()
    grad = w.grad

    @ft.compile
    def step(x, fail):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        count.add_(1)
        kept.requires_grad_(True)
        opt.param_groups[0]["lr"] = opt.param_groups[0]["lr"] * 0.5
        opt.param_groups[0]["note"] = "changed"
        if fail:
            raise RuntimeError("on purpose")

    version = w._version
    with pytest.raises(RuntimeError, match="on purpose"):
        step(X, True)
    assert w.tolist() == [1, 2] and w.grad is grad and w._version == version and count.item() == 0
    assert (
        opt.state_dict()["state"] == {}
        and opt.param_groups[0]["lr"] == 0.1
        and "note" not in opt.param_groups[0]
    )
    assert not kept.requires_grad and w.is_leaf
    step(X, False)
    np.testing.assert_allclose(w.detach().numpy(), [0.9, 1.8], rtol=1e-6)
    assert (count.item(), opt.param_groups[0]["lr"]) == (1.0, 0.05)
    step(X, False)
    assert opt.param_groups[0]["lr"] == 0.025


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 0),
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: float(x.sum()),
        lambda x: [1, 2][x.sum().long()],
        lambda x: x[x > 0],
        lambda x: ft.nonzero(x),
    ],
)
def test_values_are_not_known_while_tracing(ask):
    run = ft.compile(ask)
    with pytest.raises(RuntimeError, match=r"torch\.where|compil"):
        run(X)
    assert ft.ones(2).add(1).tolist() == [2, 2]


def test_an_argument_that_cannot_be_compared_is_refused():
    class Unhashable:
        __hash__ = None

    with pytest.raises(TypeError, match="Unhashable"):
        ft.compile(lambda a: None)(Unhashable())


# ------------------------------------------------------------------ donation


def test_donation_spares_what_someone_else_can_see():
    w = _parameter()
    opt = ft.optim.SGD([w], lr=0.1, momentum=0.9)
    run = ft.compile(_step(w, opt))
    run(X)
    seen = {
        "detach().clone()": w.detach().clone(),
        "jax()": w.jax(),
        "numpy": np.array(w.detach()),
        "zero-copy numpy": np.asarray(w.jax()),
        "view": w.detach().view(-1) * 1,
        "buffer": opt.state[w]["momentum_buffer"].jax(),
        "state_dict": opt.state_dict()["state"][0]["momentum_buffer"].jax(),
        "deepcopy": copy.deepcopy(w),
    }
    before = {k: np.array(v.detach() if isinstance(v, ft.Tensor) else v) for k, v in seen.items()}
    alias = w.detach()
    for _ in range(3):
        run(X)
    for name, value in seen.items():
        np.testing.assert_array_equal(
            np.asarray(value.detach() if isinstance(value, ft.Tensor) else value), before[name], err_msg=name
        )
    np.testing.assert_array_equal(alias.numpy(), w.detach().numpy())  # an alias follows, as in PyTorch


def test_returned_state_survives_the_next_call():
    w = _parameter()
    opt = ft.optim.SGD([w], lr=0.1)

    @ft.compile
    def step(x):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return w.detach().clone(), w.grad

    first = step(X)
    held = [t.numpy().copy() for t in first]
    step(X)
    for t, expected in zip(first, held, strict=True):
        np.testing.assert_array_equal(t.numpy(), expected)


# -------------------------------------------------------------------- random


def test_masks_are_not_burned_in_and_seeds_reproduce():
    draw = ft.compile(lambda: ft.rand(64))
    ft.manual_seed(0)
    a, b = draw().numpy(), draw().numpy()
    ft.manual_seed(0)
    c = draw().numpy()
    assert (a != b).all() and (a == c).all() and draw.traces == 1
    assert 0.3 < a.mean() < 0.7


def test_torch_stream_on_request():
    def program(T):
        T.manual_seed(3)
        mask = lambda x: T.nn.functional.dropout(x, 0.5) + T.randn(40) + T.randint(0, 9, (40,))  # noqa: E731
        run = ft.compile(mask, rng="torch") if T is ft else mask
        return [run(T.ones(40)).numpy() for _ in range(3)] + [T.rand(3).numpy()], run

    ours, run = program(ft)
    theirs, _ = program(torch)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert run.traces == 1


def test_rng_must_be_known():
    with pytest.raises(ValueError, match='"jax" or "torch"'):
        ft.compile(lambda x: x, rng="numpy")


def test_a_view_as_an_argument_is_no_reason_to_run_the_function_twice():
    runs = []

    @ft.compile
    def f(x):
        runs.append(1)
        return x + 1

    assert ft.equal(f(ft.arange(8.0).reshape(4, 2)[1:]), ft.arange(8.0).reshape(4, 2)[1:] + 1)
    assert len(runs) == f.traces == 1


# ------------------------------------------------------------------ 64 bits

WIDE = {
    "narrow": (lambda x: x.exp().sum(1) * 2, False),
    "an index": (lambda x: x.argmax(1), True),
    "in between": (lambda x: x.double().sum(1).float(), True),
    "a number": (lambda x: x * 1.5 + 2, False),
    "complex": (lambda x: ft.view_as_real(ft.complex(x, x) ** 2), False),
    "in a branch": (lambda x: ft.where(x.sum() > 0, x.cumsum(0), x).double().float(), True),
    "indices": (lambda x: x[ft.tensor([1, 0])].relu(), True),
}


@pytest.mark.parametrize("name", WIDE)
def test_only_programs_with_64_bits_run_with_them_switched_on(name):
    fn, wide = WIDE[name]
    x = ft.arange(12.0).reshape(4, 3) / 7 - 0.5
    want = fn(x)
    compiled = ft.compile(fn)
    compiled(x)
    with xla_compilations() as count:
        got = compiled(x)
    (program,) = compiled.programs()
    assert program.executable.is_narrow is not wide
    assert got.dtype is want.dtype and count == [0]
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")  # of PyTorch's compiler
def test_the_stance_of_the_compiler():
    def run(T):
        calls = []
        double = T.compile(lambda x: (calls.append(1), x * 2)[1])
        with T.compiler.set_stance("force_eager"):
            [double(T.ones(2)) for _ in range(3)]
        seen = [len(calls)]

        @T.compiler.set_stance("force_eager")
        def inside():
            return [double(T.ones(2)) for _ in range(2)]

        inside()
        seen.append(len(calls))
        T.compiler.set_stance("force_eager")
        double(T.ones(2))
        seen.append(len(calls))
        T.compiler.set_stance("default")
        return seen, double

    ours, double = run(ft)
    assert ours == run(torch)[0] == [3, 5, 6] and double.traces == 0
    assert double(ft.ones(1)).tolist() == double(ft.ones(1)).tolist() == [2.0] and double.traces
    for T in (torch, ft):
        with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
            T.compiler.set_stance("force_eager", force_backend="eager")
    with pytest.raises(NotImplementedError, match="fail_on_recompile"):
        ft.compiler.set_stance("fail_on_recompile")


def test_a_generator_that_the_collector_does_not_list():
    """It is state without the collector: else the function ran twice, and a tracer was left in what it had made."""
    ft.compile(lambda: ft.rand(2))()  # makes its key
    net = ft.nn.Linear(3, 2)
    optimizer, scaler = ft.optim.SGD(net.parameters(), lr=0.1), ft.amp.GradScaler("cpu", growth_interval=1)

    @ft.compile
    def step(x):
        optimizer.zero_grad()
        scaler.scale(ft.nn.functional.dropout(net(x)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    gc.collect()
    gc.freeze()
    try:
        step(ft.ones(4, 3))
        step(ft.ones(4, 3))
    finally:
        gc.unfreeze()
    assert scaler.get_scale() == 4 * 2**16


def test_optimizers_that_the_collector_does_not_list():
    """`gc.freeze` hides them and their counters from it."""
    net = ft.nn.Linear(3, 2)
    optimizer = ft.optim.AdamW(net.parameters())

    @ft.compile
    def step():
        optimizer.zero_grad()
        net(ft.ones(3)).sum().backward()
        optimizer.step()

    step()
    step()
    gc.collect()
    gc.freeze()
    try:
        assert ft.compile(lambda: ft.ones(2) * 2)().tolist() == [2, 2]
        step()
    finally:
        gc.unfreeze()
    assert optimizer.state[net.weight]["step"] == 3
