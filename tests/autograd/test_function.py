"""`autograd.Function`: every case runs with torch and with this package, results and errors must be the same."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import programs
import pytest
import torch as real_torch

import functorch_port as ft

CASES: dict[str, Any] = {}


def case(fn: Any) -> Any:
    """Register ``fn(torch, x, y)``."""
    CASES[fn.__name__] = fn
    return fn


def make(torch: Any, forward: Any, backward: Any) -> Any:
    """A Function class from two functions."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("MyFn", (torch.autograd.Function,), members)


def mul(torch: Any) -> Any:
    """A product, with an attribute on its context."""

    class Mul(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            ctx.k = 3
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    return Mul


def run(torch: Any, fn: Any) -> tuple[Any, Exception | None]:
    x = torch.tensor([1.5, -2.0, 3.0], requires_grad=True)
    y = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fn(torch, x, y), None
        except Exception as error:
            return None, error


def view_of(torch):
    return make(torch, lambda ctx, x: x.view_as(x), lambda ctx, g: g)


@case
def view_is_written_to(torch, x, y):
    view_of(torch).apply(x * 1).add_(1)


@case
def view_of_a_constant_is_written_to(torch, x, y):
    view_of(torch).apply(torch.ones(3)).add_(y)


@case
def view_of_a_constant_stays_one(torch, x, y):
    v = view_of(torch).apply(torch.ones(3))
    return v.add_(1), v._is_view(), v.requires_grad


@case
def base_of_a_view_is_written_to(torch, x, y):
    h = x * 1
    v = view_of(torch).apply(h)
    h.add_(1)
    return v * 2


@case
def view_of_what_forward_made(torch, x, y):
    def forward(ctx, x):
        view = x.clone()[:2]
        view += 2
        return view

    v = make(torch, forward, lambda ctx, g: torch.cat([g, g[:1]])).apply(x)
    (v * 2).sum().backward()
    return v, v.grad_fn.name(), x.grad


@case
def view_of_what_forward_made_is_written_to(torch, x, y):
    make(torch, lambda ctx, x: x.clone()[:2], lambda ctx, g: g).apply(x).mul_(2)


@case
def vmap_of_the_base_class(torch, x, y):
    cls = view_of(torch)
    cls.vmap(None, None, x)


@case
def class_of_its_nodes(torch, x, y):
    cls = view_of(torch)
    return cls.apply(x * 1).grad_fn.__class__ is cls._backward_cls, cls.generate_vmap_rule


@case
def saved_variables_is_deprecated(torch, x, y):
    def backward(ctx, g):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            ctx.saved_variables
        raise ValueError([str(w.message) for w in seen])

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    make(torch, forward, backward).apply(x).sum().backward()


@case
def basic(torch, x, y):
    z = mul(torch).apply(x, y)
    z.sum().backward()
    return [
        z,
        x.grad,
        y.grad,
        type(z.grad_fn).__name__,
        z.grad_fn.name(),
        [n[0].name() for n in z.grad_fn.next_functions],
    ]


@case
def twice(torch, x, y):
    z = mul(torch).apply(x, y)
    z.sum().backward()
    z.sum().backward()


@case
def twice_retain(torch, x, y):
    z = mul(torch).apply(x, y)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    return x.grad


@case
def double(torch, x, y):
    z = mul(torch).apply(x, y)
    (g,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    return [g, torch.autograd.grad(g.sum(), y)]


@case
def needs(torch, x, y):
    l = []
    f = make(
        torch,
        lambda ctx, a, b, c: (l.append(ctx.needs_input_grad), a * b)[1],
        lambda ctx, g: (l.append(ctx.needs_input_grad), g, None, None)[1:],
    )
    z = f.apply(x, y.detach(), 3)
    z.sum().backward()
    return [l, x.grad]


@case
def nograd(torch, x, y):
    f = make(torch, lambda ctx, a: a * 2, lambda ctx, g: g)
    with torch.no_grad():
        z = f.apply(x)
    return [z, z.requires_grad, f.apply(x.detach()).requires_grad]


@case
def wrong_count(torch, x, y):
    f = make(torch, lambda ctx, a, b: a * b, lambda ctx, g: g)
    f.apply(x, y).sum().backward()


@case
def too_many(torch, x, y):
    f = make(torch, lambda ctx, a: a * 1, lambda ctx, g: (g, g))
    f.apply(x).sum().backward()


@case
def too_many_none(torch, x, y):
    f = make(torch, lambda ctx, a: a * 1, lambda ctx, g: (g, None))
    f.apply(x).sum().backward()
    return x.grad


@case
def wrong_shape(torch, x, y):
    f = make(torch, lambda ctx, a: a * 1, lambda ctx, g: torch.ones(5))
    f.apply(x).sum().backward()


@case
def bcast_shape(torch, x, y):
    f = make(torch, lambda ctx, a: a * 1, lambda ctx, g: torch.ones(2, 3))
    f.apply(x).sum().backward()
    return x.grad


@case
def wrong_type(torch, x, y):
    f = make(torch, lambda ctx, a: a * 1, lambda ctx, g: 3)
    f.apply(x).sum().backward()


@case
def grad_for_nontensor(torch, x, y):
    f = make(torch, lambda ctx, a, k: a * k, lambda ctx, g: (g, g))
    f.apply(x, 2).sum().backward()


@case
def none_grad(torch, x, y):
    f = make(torch, lambda ctx, a, b: a * b, lambda ctx, g: (None, g))
    f.apply(x, y).sum().backward()
    return [x.grad, y.grad]


@case
def dtype_cast(torch, x, y):
    f = make(torch, lambda ctx, a: a * 1, lambda ctx, g: g.double())
    f.apply(x).sum().backward()
    return x.grad


@case
def multi(torch, x, y):
    f = make(torch, lambda ctx, a: (a * 2, a * 3), lambda ctx, g, h: g * 10 + h)
    a, b = f.apply(x)
    b.sum().backward()
    return [x.grad, a.output_nr, b.output_nr, a.grad_fn is b.grad_fn]


@case
def no_materialize(torch, x, y):
    l = []

    def fwd(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    f = make(torch, fwd, lambda ctx, g, h: (l.append(g is None), h)[1])
    a, b = f.apply(x)
    b.sum().backward()
    return [l, x.grad]


@case
def nondiff(torch, x, y):
    def fwd(ctx, a):
        b = a > 0
        c = a * 2
        ctx.mark_non_differentiable(b, c)
        return a * 2, b, c

    l = []
    f = make(
        torch,
        fwd,
        lambda ctx, g, h, k: (l.append((h is None, k is None, None if h is None else str(h.dtype))), g)[1],
    )
    a, b, c = f.apply(x)
    a.sum().backward()
    return [a.requires_grad, b.requires_grad, c.requires_grad, x.grad, l]


@case
def int_output(torch, x, y):
    f = make(torch, lambda ctx, a: (a * 2, a.long()), lambda ctx, g, h: g)
    a, b = f.apply(x)
    a.sum().backward()
    return [b.requires_grad, x.grad]


@case
def dirty(torch, x, y):
    def fwd(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a

    f = make(torch, fwd, lambda ctx, g: g * 2)
    z = x * 1
    w = f.apply(z)
    w.sum().backward()
    return [w is z, x.grad, z.grad_fn.name(), z._version]


@case
def dirty_leaf(torch, x, y):
    def fwd(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a

    f = make(torch, fwd, lambda ctx, g: g * 2)
    f.apply(x)


@case
def dirty_not_returned(torch, x, y):
    def fwd(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a * 1

    f = make(torch, fwd, lambda ctx, g: g * 2)
    z = x * 1
    f.apply(z).sum().backward()


@case
def dirty_view(torch, x, y):
    def fwd(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a

    f = make(torch, fwd, lambda ctx, g: g * 2)
    z = x * 1
    v = z[1:]
    f.apply(v)
    z.sum().backward()
    return [z, x.grad]


@case
def identity(torch, x, y):
    f = make(torch, lambda ctx, a: a, lambda ctx, g: g * 5)
    z = f.apply(x)
    z.sum().backward()
    return [z is x, z.data_ptr() == x.data_ptr(), x.grad, z.grad_fn.name()]


@case
def view_out(torch, x, y):
    f = make(torch, lambda ctx, a: a.view(3, 1), lambda ctx, g: g.view(3))
    z = f.apply(x)
    z.sum().backward()
    return [x.grad, z._is_view()]


@case
def setup(torch, x, y):
    class S(torch.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b

        @staticmethod
        def setup_context(ctx, inputs, output):
            a, b = inputs
            ctx.save_for_backward(a, b)
            ctx.o = output.shape

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    z = S.apply(x, y)
    z.sum().backward()
    return [z, x.grad, y.grad]


@case
def setup_save_output(torch, x, y):
    class S(torch.autograd.Function):
        @staticmethod
        def forward(a):
            return a.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            (o,) = ctx.saved_tensors
            return g * o

    z = S.apply(x)
    (g,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    return [z, g, torch.autograd.grad(g.sum(), x)]


@case
def save_output(torch, x, y):
    def fwd(ctx, a):
        o = a.exp()
        ctx.save_for_backward(o)
        return o

    f = make(torch, fwd, lambda ctx, g: g * ctx.saved_tensors[0])
    z = f.apply(x)
    (g,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    return [z, g, torch.autograd.grad(g.sum(), x)]


@case
def save_none(torch, x, y):
    def fwd(ctx, a):
        ctx.save_for_backward(a, None)
        return a * 1

    f = make(torch, fwd, lambda ctx, g: g * (ctx.saved_tensors[1] is None))
    z = f.apply(x)
    z.sum().backward()
    return x.grad


@case
def save_nontensor(torch, x, y):
    def fwd(ctx, a):
        ctx.save_for_backward(3)
        return a * 1

    f = make(torch, fwd, lambda ctx, g: g)
    f.apply(x)


@case
def saved_twice(torch, x, y):
    def fwd(ctx, a):
        ctx.save_for_backward(a)
        return a * 1

    f = make(torch, fwd, lambda ctx, g: g)
    z = f.apply(x)
    z.sum().backward()
    return z.grad_fn.saved_tensors


@case
def saved_before(torch, x, y):
    def fwd(ctx, a):
        ctx.save_for_backward(a)
        return a * 1

    f = make(torch, fwd, lambda ctx, g: g)
    z = f.apply(x)
    return z.grad_fn.saved_tensors


@case
def saved_in_forward(torch, x, y):
    def fwd(ctx, a):
        ctx.save_for_backward(a)
        return ctx.saved_tensors[0] * 1

    f = make(torch, fwd, lambda ctx, g: g)
    return f.apply(x)


@case
def once(torch, x, y):
    od = importlib.import_module(f"{torch.__name__}.autograd.function").once_differentiable
    f = make(torch, lambda ctx, a: a * 2, od(lambda ctx, g: g * 2))
    z = f.apply(x)
    (g,) = torch.autograd.grad((z**2).sum(), x, create_graph=True)
    return [g.requires_grad, torch.autograd.grad(g.sum(), x)]


@case
def once_ok(torch, x, y):
    od = importlib.import_module(f"{torch.__name__}.autograd.function").once_differentiable
    f = make(torch, lambda ctx, a: a * 2, od(lambda ctx, g: g * 2))
    z = f.apply(x)
    z.sum().backward()
    return x.grad


@case
def grad_mode_in(torch, x, y):
    l = []
    f = make(
        torch,
        lambda ctx, a: (l.append((torch.is_grad_enabled(), a.requires_grad)), a * 2)[1],
        lambda ctx, g: (l.append((torch.is_grad_enabled(), g.requires_grad)), g)[1],
    )
    z = f.apply(x)
    z.sum().backward()
    z = f.apply(x)
    torch.autograd.grad(z.sum(), x, create_graph=True)
    return l


@case
def nested_backward(torch, x, y):
    def bwd(ctx, g):
        (a,) = ctx.saved_tensors
        with torch.enable_grad():
            b = a.detach().requires_grad_()
            (b**2).sum().backward()
        return g * b.grad

    def fwd(ctx, a):
        ctx.save_for_backward(a)
        return a**2

    f = make(torch, fwd, bwd)
    f.apply(x).sum().backward()
    return x.grad


@case
def instantiate(torch, x, y):
    mul(torch)()


@case
def call(torch, x, y):
    mul(torch)(x, y)


@case
def noforward(torch, x, y):
    class S(torch.autograd.Function):
        pass

    S.apply(x)


@case
def nobackward(torch, x, y):
    class S(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

    S.apply(x).sum().backward()


@case
def kwargs(torch, x, y):
    mul(torch).apply(x, b=y)


@case
def vjp_name(torch, x, y):
    class S(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 3

    S.apply(x).sum().backward()
    return x.grad


@case
def tuple_list(torch, x, y):
    f = make(torch, lambda ctx, a: [a * 2, a * 3], lambda ctx, g, h: g + h)
    return f.apply(x)


@case
def nontensor_out(torch, x, y):
    f = make(torch, lambda ctx, a: (a * 2, 3), lambda ctx, g, h: g)
    z, k = f.apply(x)
    z.sum().backward()
    return [k, x.grad]


@case
def list_input(torch, x, y):
    f = make(torch, lambda ctx, l: l[0] * 2, lambda ctx, g: None)
    return f.apply([x]).requires_grad


@case
def ctx_attr(torch, x, y):
    z = mul(torch).apply(x, y)
    return [z.grad_fn.k, z.grad_fn.needs_input_grad]


@case
def hooks(torch, x, y):
    l = []
    z = mul(torch).apply(x, y)
    z.grad_fn.register_hook(lambda gi, go: l.append((gi[0].tolist(), go[0].tolist())))
    z.grad_fn.register_prehook(lambda go: l.append(go[0].tolist()))
    z.sum().backward()
    return l


@case
def rsave(torch, x, y):
    def fwd(ctx, a):
        t = a * 3
        ctx.save_for_backward(t)
        return a * 1

    f = make(torch, fwd, lambda ctx, g: g * ctx.saved_tensors[0])
    z = f.apply(x)
    (g,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    return [g.requires_grad]


@case
def input_modified(torch, x, y):
    z = x * 1
    w = mul(torch).apply(z, y)
    z.add_(1)
    w.sum().backward()


@case
def name_(torch, x, y):
    return [
        mul(torch).__name__,
        mul(torch).apply(x, y).grad_fn.__class__.__name__,
        str(mul(torch).apply(x, y).grad_fn)[:20],
    ]


@case
def mark_dirty_twice(torch, x, y):
    def fwd(ctx, a, b):
        a.add_(b)
        ctx.mark_dirty(a)
        return a, b * 1

    f = make(torch, fwd, lambda ctx, g, h: (g, g + h))
    z = x * 1
    o, p = f.apply(z, y)
    (o * p).sum().backward()
    return [o, x.grad, y.grad]


@case
def undefined_all(torch, x, y):
    l = []
    f = make(torch, lambda ctx, a: a * 2, lambda ctx, g: (l.append("ran"), g)[1])
    f2 = make(torch, lambda ctx, a: a * 2, lambda ctx, g: None)
    f2.apply(f.apply(x)).sum().backward()
    return [l, x.grad]


def two_rules(torch, seen=None):
    """Derivatives that are 10 times what they should be in reverse mode, and 100 times in forward mode."""

    def forward(x, y):
        return x.sin() * y, (x * 2).long()

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(seen is None)

    def backward(ctx, g, _):
        x, y = ctx.saved_tensors
        return g * x.cos() * y * 10, g * x.sin() * 10

    def jvp(ctx, x_t, y_t):
        if seen is not None:
            seen.append(y_t is None)
            return x_t * 3, None
        x, y = ctx.saved_tensors
        return (x_t * x.cos() * y + y_t * x.sin()) * 100, None

    members = {f.__name__: staticmethod(f) for f in (forward, setup_context, backward, jvp)}
    made = type("TwoRules", (torch.autograd.Function,), members)
    return lambda *args: made.apply(*args)[0]


@case
def forward_mode_in_func(torch, x, y):
    f, x, y = two_rules(torch), x.detach(), y.detach()
    return [torch.func.jvp(f, (x, y), (y, x)), torch.func.jvp(lambda x: f(x, y), (x,), (y,))]


@case
def forward_mode_in_func_of_what_is_recorded(torch, x, y):
    f = two_rules(torch)
    out = torch.func.jvp(lambda x: f(x, y), (x,), (y,))[1]
    return [out, torch.autograd.grad(out.sum(), (x, y))]


@case
def captured_in_func(torch, x, y):
    f = two_rules(torch)
    g = torch.func.grad(lambda x: (f(x, y) + f(x, y.detach())).sum())(x.detach())
    return [g, torch.autograd.grad(g.sum(), y)]


@case
def reverse_mode_around_forward_mode(torch, x, y):
    f, x, y = two_rules(torch), x.detach(), y.detach()
    return torch.func.grad(lambda x: sum(t.sum() for t in torch.func.jvp(lambda x: f(x, y), (x,), (y,))))(x)


@case
def forward_mode_without_zeros(torch, x, y):
    seen = []
    f, x, y = two_rules(torch, seen), x.detach(), y.detach()
    return [torch.func.jvp(lambda x: f(x, y), (x,), (y,)), seen]


@case
def forward_mode_is_missing(torch, x, y):
    f = make(torch, lambda x: x * 2, None)
    f.setup_context = staticmethod(lambda ctx, inputs, output: None)
    return torch.func.jvp(f.apply, (x.detach(),), (y.detach(),))


@case
def forward_mode_of_a_constant(torch, x, y):
    f, x, y = make(torch, lambda x: x * 2, None), x.detach(), y.detach()
    f.setup_context = staticmethod(lambda ctx, inputs, output: None)
    return torch.func.jvp(lambda z: z * f.apply(x), (x,), (y,))


@case
def an_output_saved_for_forward(torch, x, y):
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(output)
        ctx.save_for_backward(output)

    f = make(torch, lambda x: x.exp(), lambda ctx, g: g * ctx.saved_tensors[0] * 10)
    f.setup_context = staticmethod(setup_context)
    f.jvp = staticmethod(lambda ctx, t: t * ctx.saved_tensors[0])
    x, y = x.detach(), y.detach()
    return [
        torch.func.jvp(f.apply, (x,), (y,)),
        torch.func.grad(lambda x: torch.func.jvp(f.apply, (x,), (y,))[1].sum())(x),
    ]


@case
def needed_and_none_in_func(torch, x, y):
    seen, x, y = [], x.detach(), y.detach()

    def backward(ctx, g, h):
        seen.append((g is None, h is None, ctx.needs_input_grad))
        return g, h

    f = make(torch, lambda x, y: (x * 1, y * 1), backward)
    f.setup_context = staticmethod(lambda ctx, inputs, output: ctx.set_materialize_grads(False))
    return [torch.func.grad(lambda x: f.apply(x, y)[0].sum())(x), seen]


def changes(torch, marked=True, returned=True):
    """A function that changes its argument in place."""

    class Changes(torch.autograd.Function):
        @staticmethod
        def forward(x):
            x.mul_(2)
            return x if returned else x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            if marked:
                ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g * 20

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(20)

    return Changes


@case
def dirty_in_func(torch, x, y):
    f, x, y = changes(torch).apply, x.detach(), y.detach()

    def twice(x):
        z = x * 1
        out = f(z)
        return (out is z, out + z)[1]

    return [
        torch.func.grad(lambda x: twice(x).sum())(x),
        torch.func.jvp(twice, (x,), (y,)),
        torch.func.vjp(twice, x)[1](y),
        torch.func.grad(lambda x: f(x.clone()[1:]).sum())(x),
    ]


@case
def dirty_and_not_returned_in_func(torch, x, y):
    return torch.func.grad(lambda x: changes(torch, returned=False).apply(x * 1).sum())(x.detach())


@case
def without_setup_context_in_grad(torch, x, y):
    return torch.func.grad(lambda x: make(torch, lambda x: x * 2, None).apply(x).sum())(x.detach())


@case
def without_setup_context_in_vmap(torch, x, y):
    return torch.func.vmap(make(torch, lambda x: x * 2, None).apply)(x.detach())


@pytest.mark.parametrize("transformed", ["grad of grad", "recorded vjp"])
def test_once_differentiable_in_func(transformed: str) -> None:
    """It says so; PyTorch gives zeros, or has lost the history."""

    class Cube(ft.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @ft.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

    x = ft.tensor([1.0, 2.0], requires_grad=transformed == "recorded vjp")
    first = ft.func.grad(lambda x: Cube.apply(x).sum())
    assert first(x).tolist() == [3.0, 12.0]
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        if transformed == "recorded vjp":
            ft.func.vjp(Cube.apply, x)[1](ft.ones(2))[0].sum().backward()
        else:
            ft.func.grad(lambda x: first(x).sum())(x)


@pytest.mark.parametrize("name", CASES)
def test_function(name: str) -> None:
    theirs, error = run(real_torch, CASES[name])
    ours, my_error = run(ft, CASES[name])
    if error is not None:
        programs.compare.same_error(error, my_error, where=name)
        return
    if my_error is not None:
        raise my_error
    programs.equal(theirs, ours, where=name)
