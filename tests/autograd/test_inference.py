"""Inference mode: what is made in it is marked, and may not take part in autograd."""

from __future__ import annotations

import threading

import pytest
import torch
import twins

import functorch_port as ft
from functorch_port._array import tracing


def made(T):
    """Of a tensor, one that requires a gradient, and one from outside."""
    outside = T.ones(3, requires_grad=True) * 1
    with T.inference_mode():
        return T.ones(3), T.ones(3, requires_grad=True), outside


def described(t):
    return t.is_inference(), t.requires_grad, t.is_leaf, t._is_view(), t.tolist()


def inside(T):
    outside = T.ones(3, requires_grad=True) * 1
    with T.inference_mode():
        c, leaf = T.ones(3), T.arange(3.0, requires_grad=True)
        c.add_(1)
        leaf.mul_(2)
        outside.mul_(3)
        parts = [c, leaf, outside, c * 2, leaf * 2, outside * 2, c[1:], leaf[1:], outside[1:], c.detach()]
        parts += [T.tensor([1.0]), T.empty(2).zero_(), c.clone(), c.t(), c.requires_grad_()]
        with T.enable_grad():
            parts += [T.ones(1), outside * 2]
        with T.inference_mode(False):
            parts += [T.ones(1), outside * 2]
        return [described(t) for t in parts]


def afterwards(T):
    c, leaf, outside = made(T)
    return [
        described(t)
        for t in (c * 2, c.view(-1), leaf.view(-1), c.detach(), c.clone(), c + outside, leaf + outside)
    ]


def version(T):
    return made(T)[0]._version


def version_inside(T):
    with T.inference_mode():
        return T.ones(2)._version


def requires_grad(T):
    made(T)[0].requires_grad_()


def requires_grad_is_set(T):
    made(T)[0].requires_grad = True


def parameter(T):
    T.nn.Parameter(made(T)[0])


def saved(T):
    c, _, outside = made(T)
    return c * outside


def saved_by_a_function(T):
    class Fn(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, None

    c, _, outside = made(T)
    Fn.apply(outside, c)


def in_place(T):
    made(T)[0].add_(1)


def in_place_without_recording(T):
    with T.no_grad():
        made(T)[0].add_(1)


def item(T):
    made(T)[0][0] = 5.0


def of_a_view(T):
    made(T)[0][1:].zero_()


def out(T):
    T.mul(T.ones(3), 2, out=made(T)[0])


def random(T):
    made(T)[0].uniform_()


def data(T):
    c = made(T)[0]
    c.data.add_(1)
    return c.tolist(), c.data.is_inference()


def gradient_of_a_leaf(T):
    c, leaf, outside = made(T)
    (leaf + outside).sum().backward()
    return leaf.grad.tolist()


def view_made_inside(T):
    outside = T.ones(3, requires_grad=True) * 1
    with T.inference_mode():
        view = outside.view(-1)
    view.add_(1)


def view_made_inside_of_a_base_changed(T):
    outside = T.ones(3, requires_grad=True) * 1
    with T.inference_mode():
        view = outside.view(-1)
    outside.add_(1)
    return view.grad_fn


CASES = [fn for fn in list(globals().values()) if callable(fn) and getattr(fn, "__module__", "") == __name__]
CASES = [
    fn for fn in CASES if fn.__code__.co_varnames[: fn.__code__.co_argcount] == ("T",) and fn is not made
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_in_torch(case) -> None:
    twins.same_outcome(case)
    assert tracing.inferring is None


def test_other_threads_are_not_in_it() -> None:
    found = []
    with ft.inference_mode():
        thread = threading.Thread(target=lambda: found.append(ft.ones(2).is_inference()))
        thread.start()
        thread.join()
        found.append(ft.ones(2).is_inference())
    assert found == [False, True]


def test_an_exception_leaves_it() -> None:
    with pytest.raises(RuntimeError), ft.inference_mode():
        (ft.ones(2) * 1).backward()
    assert tracing.inferring is None
    assert not ft.ones(2).is_inference()


def test_results_of_a_compiled_function() -> None:
    double = ft.compile(lambda x: x * 2)
    with ft.inference_mode():
        first = double(ft.ones(300, 300))
    second = double(ft.ones(300, 300))
    assert (first.is_inference(), second.is_inference()) == (True, False)


STEPS = {
    "parameter": """
with torch.inference_mode(): q=torch.nn.Parameter(torch.ones(2))
q.grad=torch.ones(2); OPT([q]).step()
""",
    "module": """
with torch.inference_mode(): m=torch.nn.Linear(2,1)
m(torch.ones(1,2)).sum().backward(); OPT(m.parameters()).step()
""",
    "state": """
q=torch.nn.Parameter(torch.ones(2)); o=OPT([q]); q.grad=torch.ones(2)
with torch.inference_mode(): o.step(); o.step(); o.step()
o.step()
""",
    "gradient": """
q=torch.nn.Parameter(torch.ones(2)); o=OPT([q])
with torch.inference_mode(): q.grad=torch.ones(2)
o.step(); o.step(); r=q
""",
    "data": """
q=torch.nn.Parameter(torch.ones(2)); o=OPT([q]); q.grad=torch.ones(2)
with torch.inference_mode(): p=torch.zeros(2)
q.data=p; o.step(); r=q
""",
}


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("case", STEPS)
def test_steps_of_optimizers(case, optimizer):
    found = []
    for library in (torch, ft):
        names = {"torch": library, "r": None}
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        names["OPT"] = lambda ps, T=library, o=options: getattr(T.optim, optimizer)(ps, lr=0.1, **o)
        try:
            exec(STEPS[case], names)
            found.append(names["r"].tolist())
        except RuntimeError as error:
            found.append(str(error))
    assert found[0] == pytest.approx(found[1]) if isinstance(found[0], list) else found[0] == found[1]
