"""`utils.checkpoint` against PyTorch: the same gradients, from a second run of the function."""

import contextlib
import gc
import weakref

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port.utils import checkpoint as module


def grads_of(t, use, function, *shapes, **options):
    """Value and gradients of ``function`` of seeded tensors, checkpointed or not."""
    t.manual_seed(0)
    args = [t.randn(*shape, dtype=t.float64, requires_grad=True) for shape in shapes]
    scale = t.full(
        (1,), 1.5, dtype=t.float64, requires_grad=True
    )  # what modules' parameters are: a closed-over leaf

    def scaled(*tensors):
        return function(t, scale, *tensors)

    if use:
        out = t.utils.checkpoint.checkpoint(scaled, *[a * 1 for a in args], **options)
    else:
        out = scaled(*[a * 1 for a in args])
    outs = out if isinstance(out, tuple) else (out,)
    sum((o * o).sum() for o in outs).backward()
    tail = t.rand(2)
    return [x.tolist() for x in (*outs, *[a.grad for a in args], scale.grad, tail)]


FUNCTIONS = {
    "chain": (lambda t, w, x: (x * w).exp().sin().sum(0), [(3, 4)]),
    "two outputs": (lambda t, w, x, y: ((x @ y) * w, t.tanh(y)), [(3, 4), (4, 2)]),
    "in-place inside": (lambda t, w, x: (x * 2).mul_(w).add_(1), [(3,)]),
    "in-place on the argument": (lambda t, w, x: x.mul_(w) * x, [(3,)]),
    "view out": (lambda t, w, x: (x * w).reshape(2, 2).t(), [(4,)]),
    "random": (lambda t, w, x: x * w * t.rand(4, dtype=t.float64) + t.bernoulli(t.full((4,), 0.5)), [(4,)]),
    "argument handed through": (lambda t, w, x, y: (x, x * y * w), [(2,), (2,)]),
    "used twice": (lambda t, w, x: (lambda h: h * h + h)(x.sin() * w), [(3,)]),
}


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_equal_torch_and_the_plain_run(name, reentrant):
    function, shapes = FUNCTIONS[name]
    ours = grads_of(ft, True, function, *shapes, use_reentrant=reentrant)
    for a, b in zip(ours, grads_of(ft, False, function, *shapes), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    refused = {"in-place on the argument"} | ({"argument handed through"} if reentrant else set())
    if name not in refused:  # PyTorch cannot do these
        theirs = grads_of(torch, True, function, *shapes, use_reentrant=reentrant)
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("t", [ft, torch], ids=["ours", "torch"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_the_function_runs_again_once_and_only_for_backward(t, reentrant):
    runs = []

    def function(x):
        runs.append(1)
        return x.sin().exp()

    x = t.ones(2, requires_grad=True)
    y = t.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
    assert len(runs) == 1
    y.sum().backward()
    assert len(runs) == 2
    with t.no_grad():
        t.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
    assert len(runs) == 3


def test_saved_values_are_let_go():
    seen = []

    def function(x):
        hidden = x.sin()
        seen.append(weakref.ref(hidden.jax()))
        return hidden.exp().sum()

    x = ft.ones(10_000, requires_grad=True)  # smaller ones may be on the host, where `_value` is a copy
    y = ft.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    gc.collect()
    assert seen[0]() is None
    y.backward()
    z = function(x)
    assert seen[2]() is not None and z.requires_grad


def test_nested_and_sequential():
    def case(t, use):
        t.manual_seed(1)
        x = t.randn(5, dtype=t.float64, requires_grad=True)
        functions = [lambda v, k=k: (v * k).sin() for k in range(1, 6)]
        if use:
            inner = lambda v: t.utils.checkpoint.checkpoint(lambda u: u.exp() * u, v, use_reentrant=False)  # noqa: E731
            y = t.utils.checkpoint.checkpoint(lambda v: inner(v).cos(), x, use_reentrant=False)
            y = t.utils.checkpoint.checkpoint_sequential(functions, 2, y, use_reentrant=False)
        else:
            y = (x.exp() * x).cos()
            for function in functions:
                y = function(y)
        y.sum().backward()
        return x.grad.tolist()

    ours = case(ft, True)
    assert ours == case(ft, False)
    assert ours == pytest.approx(case(torch, True), rel=1e-12)


def test_autograd_grad_and_double_backward():
    def case(t):
        x = t.tensor([0.5, 2.0], dtype=t.float64, requires_grad=True)
        w = t.tensor(3.0, dtype=t.float64, requires_grad=True)
        y = t.utils.checkpoint.checkpoint(lambda v: (v * w).sin() * v, x, use_reentrant=False)
        gx, gw = t.autograd.grad(y.sum(), (x, w), create_graph=True)
        (gx.sum() * gw).backward()
        return [g.tolist() for g in (gx, gw, x.grad, w.grad)]

    for a, b in zip(case(ft), case(torch)):
        assert a == pytest.approx(b, rel=1e-12)


def test_later_changes_of_the_arguments():
    def case(t):
        x = t.ones(2, requires_grad=True)
        h = x * 2
        y = t.utils.checkpoint.checkpoint(lambda v: v.sin(), h, use_reentrant=False)
        with t.no_grad():
            h.zero_()
        y.sum().backward()
        return x.grad.tolist()

    for t in (torch, ft):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            case(t)
    with ft.autograd.graph.allow_mutation_on_saved_tensors():
        assert case(ft) == pytest.approx([2 * torch.cos(torch.tensor(2.0)).item()] * 2)


def test_a_custom_function_inside():
    def case(t):
        class Cube(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 3 * x * x * g

        x = t.tensor([2.0], requires_grad=True)
        t.utils.checkpoint.checkpoint(lambda v: Cube.apply(v * 2).sin(), x, use_reentrant=False).backward()
        return x.grad.tolist()

    assert case(ft) == pytest.approx(case(torch), rel=1e-6)


def test_nested_containers_and_keywords():
    def case(t):
        x, y = (t.tensor([v], requires_grad=True) for v in (2.0, 3.0))
        out = t.utils.checkpoint.checkpoint(
            lambda d, k=None: {"a": [d["x"] * k[0]], "b": "text"}, {"x": x}, k=(y,), use_reentrant=False
        )
        out["a"][0].backward()
        return x.grad.item(), y.grad.item(), out["b"]

    assert case(ft) == case(torch)


def test_context_fn_wraps_the_two_runs():
    seen = []

    @contextlib.contextmanager
    def note(name):
        seen.append(name)
        yield

    x = ft.ones(1, requires_grad=True)
    contexts = lambda: (note("first"), note("second"))  # noqa: E731
    y = ft.utils.checkpoint.checkpoint(lambda v: v.sin(), x, use_reentrant=False, context_fn=contexts)
    assert seen == ["first"]
    y.backward()
    assert seen == ["first", "second"]


@pytest.mark.parametrize("reentrant", [False, True])
def test_random_state_is_left_as_it_was(reentrant):
    def case(t):
        t.manual_seed(3)
        x = t.ones(4, requires_grad=True)
        y = t.utils.checkpoint.checkpoint(lambda v: v * t.rand(4), x, use_reentrant=reentrant)
        between = t.rand(1)
        y.sum().backward()
        return [v.tolist() for v in (y, x.grad, between, t.rand(1))]

    ours = case(ft)
    assert ours == case(torch) and ours[0] == ours[1]


def test_a_different_second_run_is_an_error():
    count = []

    def longer(x):
        count.append(1)
        return x.sin() if len(count) == 1 else x.sin().exp()

    def wider(x):
        count.append(1)
        return (x if len(count) == 1 else x.repeat(2)).sin().sum()

    for function, text in (
        (longer, "different number of tensors"),
        (wider, "different number|different metadata"),
    ):
        count.clear()
        y = ft.utils.checkpoint.checkpoint(function, ft.ones(2, requires_grad=True), use_reentrant=False)
        with pytest.raises(module.CheckpointError, match=text):
            y.sum().backward()


def outcome(t, case):
    with pytest.warns() if case is unsaid else contextlib.nullcontext() as seen:
        try:
            result = case(t)
        except Exception as error:
            result = type(error).__name__, str(error)
    return result, [str(w.message) for w in seen or ()]


def unsaid(t):
    return t.utils.checkpoint.checkpoint(lambda v: v * 2, t.ones(1, requires_grad=True)).item()


WRONG = {
    "unsaid": unsaid,
    "keywords": lambda t: t.utils.checkpoint.checkpoint(lambda v: v, t.ones(1), use_reentrant=True, a=1, b=2),
    "context": lambda t: t.utils.checkpoint.checkpoint(
        lambda v: v, t.ones(1), use_reentrant=True, context_fn=lambda: None
    ),
    "sequential": lambda t: t.utils.checkpoint.checkpoint_sequential(
        [], 1, t.ones(1), use_reentrant=True, foo=1
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_as_torch(name):
    assert outcome(ft, WRONG[name]) == outcome(torch, WRONG[name])


@pytest.mark.parametrize("t", [ft, torch], ids=["ours", "torch"])
def test_inputs_without_gradient_warn_with_reentrant(t):
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = t.utils.checkpoint.checkpoint(lambda v: v * 2, t.ones(1), use_reentrant=True)
    assert not y.requires_grad


# Under compile.


def training(use, **options):
    """Three compiled steps with noise; returns the losses and the weights, and the compiled step."""
    ft.manual_seed(5)
    weights = [ft.randn(4, 4, dtype=ft.float64).div(2).requires_grad_() for _ in range(3)]
    x = ft.randn(8, 4, dtype=ft.float64)

    def block(h, w):
        return ft.tanh(h @ w) * ft.bernoulli(ft.full((8, 4), 0.7, dtype=ft.float64))

    def step(x):
        h = x
        for w in weights:
            h = ft.utils.checkpoint.checkpoint(block, h, w, use_reentrant=False) if use else block(h, w)
        loss = (h * h).sum()
        for w in weights:
            w.grad = None
        loss.backward()
        with ft.no_grad():
            for w in weights:
                w.sub_(0.1 * w.grad)
        return loss

    compiled = ft.compile(step, **options)
    losses = [compiled(x).item() for _ in range(3)]
    return [losses, *[w.tolist() for w in weights]], compiled


@pytest.mark.parametrize("rng", ["jax", "torch"])
def test_compiled_step_equals_the_plain_compiled_step(rng):
    plain, _ = training(False, rng=rng)
    checked, _ = training(True, rng=rng)
    for a, b in zip(plain, checked):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-12, atol=1e-14)


def test_compiled_second_run_stands_behind_barriers():
    """What keeps XLA from merging the two runs; on the CPU it removes the barriers all the same."""
    import jax

    def barriers(compiled):
        program = compiled.programs()[0].executable
        with jax.enable_x64(True):
            return program.jit.lower(*program.avals()).as_text().count("optimization_barrier")

    assert barriers(training(True)[1]) == 3
    assert barriers(training(False)[1]) == 0


def test_inside_a_transform():
    def loss(x):
        return module.checkpoint(lambda v: v.exp().sin(), x, use_reentrant=False).sum()

    x = ft.tensor([1.0, 2.0], dtype=ft.float64)
    expected = torch.func.grad(lambda v: v.exp().sin().sum())(torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert ft.func.grad(loss)(x).tolist() == pytest.approx(expected.tolist(), rel=1e-14)


@pytest.mark.parametrize("t", [ft, torch], ids=["ours", "torch"])
def test_a_look_at_a_saved_tensor_runs_the_function_again(t):
    runs = []

    def function(x):
        runs.append(1)
        return (x * 2).exp()

    x = t.ones(2, requires_grad=True)
    y = t.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    for number in (2, 3):
        saved = y.grad_fn._saved_result
        assert len(runs) == number
        assert saved.tolist() == y.tolist() and saved.requires_grad
    y.sum().backward()
    assert len(runs) == 4
    assert x.grad.tolist() == (2 * y).tolist()
    with pytest.raises(RuntimeError, match="they have already been freed"):
        y.grad_fn._saved_result  # noqa: B018
    assert len(runs) == 4


@pytest.mark.parametrize("t", [ft, torch], ids=["ours", "torch"])
def test_a_look_into_a_checkpoint_within_another(t):
    checkpoint = t.utils.checkpoint.checkpoint

    def outer(x):
        return checkpoint(lambda x: (x * 2).exp(), x.sin(), use_reentrant=False)

    x = t.ones(2, requires_grad=True)
    y = checkpoint(outer, x, use_reentrant=False)
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), (2 * y.detach() * x.detach().cos()).tolist(), rtol=1e-6)


@pytest.mark.parametrize("t", [ft, torch], ids=["ours", "torch"])
def test_all_outputs_of_a_reentrant_checkpoint_require_grad(t):
    def constant(x):
        with t.no_grad():
            return x * 2

    checkpoint = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    alone = checkpoint(constant, x, use_reentrant=True)
    assert alone.requires_grad and type(alone.grad_fn).__name__ == "CheckpointFunctionBackward"
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        (alone + x).sum().backward()
    first, number, second = checkpoint(lambda x: (constant(x), t.tensor(3), x * 3), x, use_reentrant=True)
    assert first.requires_grad and not number.requires_grad
    x.grad = None
    (first + second).sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert not checkpoint(constant, x, use_reentrant=False).requires_grad


def test_states_of_devices() -> None:
    assert module.get_device_states(ft.ones(2), [ft.ones(1), 3]) == ([], [])
    state = ft.get_rng_state()
    first = ft.rand(2)
    module.set_device_states([0, 1], [state, state])
    assert ft.rand(2).tolist() == first.tolist()
