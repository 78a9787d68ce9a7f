"""Tensors that an operation saved and that were written to: refused as in PyTorch, in its words."""

from __future__ import annotations

import pytest
import torch

import functorch_port as ft
from functorch_port._run.registry import ops
from functorch_port._tensor.saved import RULES


def leaf(T):
    w, x = T.ones(3, requires_grad=True), T.ones(3, requires_grad=True)
    y = (w * x).sum()
    with T.no_grad():
        w.add_(1)
    y.backward()


def result(T):
    x = T.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def between(T):
    h = T.ones(2, 3, requires_grad=True) * 1
    y = h * h
    h.add_(1)
    y.sum().backward()


def again_after_a_step(T):
    x, w, v = T.ones(2, 3), T.ones(4, 3, requires_grad=True), T.ones(1, 4, requires_grad=True)
    optimizer = T.optim.SGD([w, v], lr=0.1)
    loss = T.nn.functional.linear(T.nn.functional.linear(x, w), v).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    loss.backward()


def again_after_a_step_that_needs_no_weight(T):
    w = T.ones(4, 3, requires_grad=True)
    optimizer = T.optim.SGD([w], lr=0.1)
    loss = T.nn.functional.linear(T.ones(2, 3), w).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    loss.backward()
    return w.grad.tolist()


def through_detach(T):
    w = T.ones(3, requires_grad=True)
    y = (w * w).sum()
    w.detach().add_(1)
    y.backward()


def base_of_a_view(T):
    h = T.ones(4, requires_grad=True) * 1
    v = h[:2]
    y = v * v
    h[3] = 5.0
    y.sum().backward()


def through_a_late_view(T):
    h = T.ones(3, 2, requires_grad=True) * 1
    v = h.t()
    y = v * v
    h.detach().add_(1)
    y.sum().backward()


def in_place_saves_a_copy(T):
    a, b = T.ones(3, requires_grad=True), T.full((3,), 2.0, requires_grad=True)
    h = a * 1
    h.mul_(b)
    h.mul_(b)
    h.sum().backward()
    return a.grad.tolist(), b.grad.tolist()


def in_place_result(T):
    a = T.zeros(3, requires_grad=True)
    h = a * 1
    h.exp_()
    h.sum().backward()
    return a.grad.tolist()


def in_place_result_changed(T):
    h = T.zeros(3, requires_grad=True) * 1
    h.exp_()
    h.add_(1)
    h.sum().backward()


def in_place_relu(T):
    a = T.ones(3, requires_grad=True)
    h = T.nn.functional.relu(a * 1, inplace=True)
    (T.nn.functional.relu(h + 1, inplace=True) * 2).sum().backward()
    return a.grad.tolist()


def in_place_on_a_view(T):
    a = T.ones(4, requires_grad=True)
    h = a * 1
    h[:2].mul_(h[2:].detach() * 3)
    h[:2].exp_()
    h.sum().backward()
    return a.grad.tolist()


def in_place_on_another_dtype(T):
    a = T.ones(3, dtype=T.float16, requires_grad=True)
    h = a * 1
    h.mul_(T.full((3,), 2.0))
    h.sum().backward()
    return a.grad.tolist()


def gradient_of_a_gradient(T):
    x = T.ones(2, requires_grad=True)
    (g,) = T.autograd.grad((x * x * x).sum(), x, create_graph=True)
    with T.no_grad():
        x.add_(1)
    g.sum().backward()


def recorded_walk(T):
    h = T.ones(2, requires_grad=True) * 1
    y = (h * h).sum()
    h.add_(1)
    T.autograd.grad(y, h, create_graph=True)


def with_anomaly_detection(T):
    with T.autograd.set_detect_anomaly(True):
        y = T.ones(3, requires_grad=True).exp()
        y.add_(1)
        y.sum().backward()


def a_function(T):
    class Times(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    h = T.ones(3, requires_grad=True) * 1
    y = Times.apply(h)
    h.add_(1)
    y.sum().backward()


def allowed(T):
    x = T.ones(3, requires_grad=True)
    with T.autograd.graph.allow_mutation_on_saved_tensors():
        h = x * 1
        y = h * h
        h.add_(1)
        y.sum().backward()
    return x.grad.tolist()


def batch_norm_twice(T):
    layer, x = T.nn.BatchNorm1d(2), T.ones(3, 2, requires_grad=True)
    (layer(x) + layer(x * 2)).sum().backward()
    return x.grad.tolist()


def recurrent(T):
    for kind in (T.nn.GRU, T.nn.RNN):
        layer = kind(2, 2)
        optimizer = T.optim.SGD(layer.parameters(), lr=0.1)
        y = layer(T.ones(3, 1, 2))[0].sum()
        y.backward(retain_graph=True)
        optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def lstm(T):
    layer = T.nn.LSTM(2, 2)
    optimizer = T.optim.SGD(layer.parameters(), lr=0.1)
    y = layer(T.ones(3, 1, 2))[0].sum()
    y.backward(retain_graph=True)
    optimizer.step()
    y.backward()


def positions(T):
    i = T.tensor([0, 1])
    y = T.ones(3, requires_grad=True)[i]
    i.add_(1)
    y.sum().backward()


def condition(T):
    x = T.ones(3, requires_grad=True)
    c = x > 0
    y = T.where(c, x, x * 2)
    c.logical_not_()
    y.sum().backward()


def half(T):
    for kind in ("bfloat16", "float16", "float64", "complex64"):
        h = T.ones(3, dtype=getattr(T, kind), requires_grad=True) * 1
        y = h * h
        h.add_(1)
        with pytest.raises(RuntimeError) as error:
            y.sum().abs().backward()
    return str(error.value)


def freed_first(T):
    x = T.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with T.no_grad():
        x.add_(1)
    y.backward()


def detached_in_place(T):
    a = T.ones(2, requires_grad=True).clone()
    b = a.sin()
    a.detach_()
    b.sum().backward()


def result_detached_in_place(T):
    leaf = T.ones(2, requires_grad=True)
    a = leaf.clone()
    b = a.relu()
    a.detach_()
    b.sum().backward()
    return leaf.grad.tolist()


def another_detached_in_place(T):
    leaf = T.ones(2, requires_grad=True)
    a = leaf.clone()
    b = a * a
    a.square().detach_()
    b.sum().backward()
    return leaf.grad.tolist()


CASES = [
    detached_in_place, result_detached_in_place, another_detached_in_place,
    leaf, result, between, again_after_a_step, again_after_a_step_that_needs_no_weight, through_detach, base_of_a_view,
    through_a_late_view,
    in_place_saves_a_copy, in_place_result, in_place_result_changed, in_place_relu, in_place_on_a_view,
    in_place_on_another_dtype, gradient_of_a_gradient, recorded_walk, with_anomaly_detection, a_function, allowed,
    batch_norm_twice, recurrent, lstm, positions, condition, half, freed_first,
]  # fmt: skip


def outcome(T, case):
    T.manual_seed(0)
    try:
        return case(T)
    except RuntimeError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore:Error detected in", "ignore:Anomaly Detection")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_in_torch(case) -> None:
    assert outcome(ft, case) == outcome(torch, case)


@pytest.mark.parametrize("case", [leaf, result, between, in_place_result_changed, condition])
def test_in_a_compiled_function(case) -> None:
    assert outcome(ft, lambda T: T.compile(lambda: case(T))()) == outcome(torch, case)


def test_in_a_program_of_forward_and_backward() -> None:
    """A graph that comes again runs as one program: it is refused there too, before any gradient is added."""
    w = ft.ones(200, 200, requires_grad=True)
    for step in range(5):
        h = w * 2
        y = (h.sin() * h).sum()
        if step == 4:
            with ft.no_grad():
                h.add_(1)
            with pytest.raises(RuntimeError, match="which is output 0 of Mul, is at version 1"):
                y.backward()
        else:
            y.backward()
    assert (
        w.grad is not None
        and float((w.grad - 4 * (2 * 2 * ft.tensor(2.0).cos() + 2 * ft.tensor(2.0).sin())).abs().max()) < 1e-3
    )


@pytest.mark.parametrize("T", [ft, torch], ids=["ours", "torch"])
def test_backward_is_in_the_context_that_allows_writes(T) -> None:
    allow = T.autograd.graph.allow_mutation_on_saved_tensors
    with allow():
        out = (T.ones(2, requires_grad=True) ** 2).sum()
    with pytest.raises(AssertionError, match="Trying to backward outside of the"):
        out.backward()
    with allow(), pytest.raises(AssertionError, match="Trying to backward outside of the"):
        out.backward()


def test_nested_contexts_are_refused() -> None:
    allow = ft.autograd.graph.allow_mutation_on_saved_tensors
    with allow(), pytest.raises(RuntimeError, match="cannot be nested"), allow():
        pass


def test_what_a_context_knows_of_them() -> None:
    """How many saved tensors were written to, as long as their backward is to come."""

    def program(T):
        counts = []
        with T.autograd.graph.allow_mutation_on_saved_tensors() as context:

            def count():
                counts.append((len(context.cloned), len(context.tid_to_weakhandle)))

            a = T.ones(3, requires_grad=True).clone()
            b, c = a**2, a**2
            count()
            a.sin_()
            count()
            d = a**2
            a.sin_()
            count()
            del b, c
            count()
            d.sum().backward()
            count()
        return [cloned for cloned, _ in counts], counts[0][1]

    assert program(ft) == program(torch)


#: operations of one tensor, and of two
ONE = (
    "exp expm1 tanh sigmoid sqrt rsqrt reciprocal tan relu softmax log_softmax sin cos log log1p abs square erf neg "
    "sum mean cumsum prod cumprod logsumexp amax max norm std var sort topk nn.functional.gelu nn.functional.silu "
    "nn.functional.elu nn.functional.leaky_relu nn.functional.softplus nn.functional.hardtanh floor clone t reshape "
    "flip"
).split()
TWO = "add sub mul div matmul maximum atan2 pow lerp dot hypot where".split()
ARGUMENTS = {
    "softmax": (0,), "log_softmax": (0,), "cumsum": (0,), "cumprod": (0,), "logsumexp": (0,), "topk": (2,),
    "flip": ((0,),), "reshape": ((9,),),
}  # fmt: skip


def refused(T, name: str, count: int, wanted: int, changed: int) -> bool:
    """Whether backward is refused after a change of input ``changed``, or of the output (-1)."""
    shape = (3,) if name == "dot" else (3, 3)
    inputs = [T.rand(shape, dtype=T.float64) + 0.5 for _ in range(count)]
    inputs[wanted].requires_grad_()
    fn = T
    for part in name.split("."):
        fn = getattr(fn, part)
    if name == "where":
        out = fn(T.ones(3, 3) > 0, *inputs)
    elif name == "lerp":
        out = fn(*inputs, 0.5)
    elif name in ("max", "sort") or count > 1:
        out = fn(*inputs)
    else:
        out = fn(*inputs, *ARGUMENTS.get(name, ()))
    out = out if isinstance(out, T.Tensor) else out[0]
    with T.no_grad():
        (out if changed < 0 else inputs[changed]).add_(0)
    try:
        out.sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return True
    return False


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_which_are_saved(name: str) -> None:
    count = 1 if name in ONE else 2
    for wanted in range(count):
        for changed in range(-1, count):
            ours, theirs = (refused(T, name, count, wanted, changed) for T in (ft, torch))
            assert ours == theirs, (wanted, changed)


POWERS = {
    "square": lambda T, x: x**2, "root": lambda T, x: x**0.5, "other": lambda T, x: x**2.7, "of two": lambda T, x: 2**x,
    "expit": lambda T, x: T.special.expit(x), "vector": lambda T, x: T.nn.functional.linear(x[0], x[1]),
    "kl_div": lambda T, x: T.nn.functional.kl_div(x, T.full((3, 3), 0.5, dtype=T.float64), reduction="none"),
}  # fmt: skip


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize("changed", ["input", "result"])
def test_which_other_forms_save(name: str, changed: str) -> None:
    def program(T):
        x = T.full((3, 3), 0.5, dtype=T.float64, requires_grad=True)
        out = POWERS[name](T, x)
        with T.no_grad():
            (x if changed == "input" else out).add_(0)
        out.sum().backward()

    kinds = []
    for T in (ft, torch):
        error = outcome(T, program)
        kinds.append(error if error is None else "modified by an inplace operation" in error)
    assert kinds[0] == kinds[1]


def test_rules_are_of_operations() -> None:
    assert {spec.name for spec in ops.values()} >= RULES.keys()
