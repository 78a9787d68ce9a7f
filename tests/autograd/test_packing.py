"""Hooks on saved tensors, and what nodes show of them: every case runs with torch and with this package."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
import twins

import functorch_port as ft


def leaf(T):
    return T.tensor([1.0, 2.0, 4.0], requires_grad=True)


def hooks(T, pack, unpack):
    return T.autograd.graph.saved_tensors_hooks(pack, unpack)


def noted(T, fn):
    """What the hooks saw, and the gradient."""
    seen = []

    def pack(t):
        seen.append(("pack", t.tolist(), T.is_grad_enabled()))
        return t.detach().clone()

    def unpack(t):
        seen.append(("unpack", t.tolist(), T.is_grad_enabled()))
        return t

    x = leaf(T)
    with hooks(T, pack, unpack):
        y = fn(x)
    y.sum().backward()
    return seen, x.grad.tolist()


def product(T):
    return noted(T, lambda x: x * x)


def result(T):
    return noted(T, lambda x: (x - 1).relu())


def number(T):
    return noted(T, lambda x: x * 3 + 1)


def power(T):
    return noted(T, lambda x: x**2)


def in_place(T):
    return noted(T, lambda x: (x * 1).mul_(T.tensor([2.0, 3.0, 4.0])))


def through_no_grad(T):
    with T.no_grad():
        return noted(T, lambda x: x.requires_grad_(False).mul(2).requires_grad_())[0]


def changed_values(T):
    """The gradient is that of what the hook gives back."""
    x = leaf(T)
    with hooks(T, lambda t: t * 5, lambda t: t):
        (x * x).sum().backward()
    return x.grad.tolist()


def the_inner_ones_count(T):
    x = leaf(T)
    with hooks(T, lambda t: t * 3, lambda t: t):
        with hooks(T, lambda t: t * 5, lambda t: t):
            y = x * x
        z = x * x
    w = x * x
    return [T.autograd.grad(t.sum(), x)[0].tolist() for t in (y, z, w)]


def second_derivative(T):
    x = leaf(T)
    with hooks(T, lambda t: t.tolist(), T.tensor):
        (g,) = T.autograd.grad((x * x * x).sum(), x, create_graph=True)
    return T.autograd.grad(g.sum(), x)[0].tolist()


def function(T):
    class Fn(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, none = ctx.saved_tensors
            assert none is None
            return 2 * x * g

    x = leaf(T)
    with hooks(T, lambda t: t * 2, lambda t: t):
        y = Fn.apply(x)
    first = y.grad_fn.saved_tensors[0].tolist()
    y.sum().backward()
    return first, x.grad.tolist()


def raw_of_a_function(T):
    class Fn(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g

    x = leaf(T)
    y = Fn.apply(x)
    y.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t * 2, lambda t: t)
    y.sum().backward()
    return x.grad.tolist()


def none_of_a_function(T):
    class Fn(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(None)
            return x * x

    y = Fn.apply(leaf(T))  # which torch needs to be alive
    y.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t, lambda t: t)


def by_name(T):
    x = leaf(T)
    y = (x * 2) * x
    same = y.grad_fn._saved_other is x
    z = y.relu()
    shown = [y.grad_fn._saved_self.tolist(), z.grad_fn._saved_result.tolist(), z.grad_fn._saved_result is z]
    w = T.stack([x, x], dim=1)
    return same, shown, z.grad_fn._saved_result.grad_fn is z.grad_fn, w.grad_fn._saved_dim


def not_saved(T):
    return hasattr((leaf(T) + 1).grad_fn, "_saved_self"), hasattr(leaf(T).exp().grad_fn, "_saved_self")


def by_name_when_freed(T):
    y = leaf(T).exp()
    y.sum().backward()
    return y.grad_fn._saved_result


def by_name_when_written_to(T):
    x = leaf(T)
    y = x * x
    with T.no_grad():
        x.add_(1)
    return y.grad_fn._saved_self


def indices(T):
    y = leaf(T)[T.tensor([0, 2])]
    return [None if t is None else t.tolist() for t in y.grad_fn._saved_indices]


def raw(T):
    x = leaf(T)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t)
    shown = y.grad_fn._saved_self.tolist(), y.grad_fn._saved_other.tolist()
    y.sum().backward()
    return shown, x.grad.tolist()


def raw_twice(T):
    y = leaf(T).exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)


def raw_when_freed(T):
    y = leaf(T).exp()
    y.sum().backward()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)


def raw_without_two_hooks(T):
    try:
        y = leaf(T).exp()
        y.grad_fn._raw_saved_result.register_hooks(lambda t: t)
    except TypeError as error:
        return str(error).split("\n\nInvoked")[0]


def unpacks_no_tensor(T):
    with hooks(T, lambda t: t, lambda t: 3):
        y = leaf(T).exp()
    y.sum().backward()


def packs_in_place(T):
    with hooks(T, lambda t: t.add_(1), lambda t: t):
        (leaf(T) * 1).exp()


def pack_raises(T):
    def pack(t):
        raise ZeroDivisionError("here")

    try:
        with hooks(T, pack, pack):
            leaf(T).exp()
    except ZeroDivisionError:
        return leaf(T).exp().grad_fn.name()


def no_functions(T):
    try:
        with hooks(T, 1, 2):
            pass
    except TypeError as error:
        return str(error).split("\n\nInvoked")[0]


def refused(T):
    graph = T.autograd.graph
    with graph.disable_saved_tensors_hooks("outer"):
        with graph.disable_saved_tensors_hooks("not here"):
            with hooks(T, lambda t: t, lambda t: t):
                pass


def refused_inside(T):
    with hooks(T, lambda t: t, lambda t: t), T.autograd.graph.disable_saved_tensors_hooks("no"):
        pass


def enabled(T):
    graph, state = T.autograd.graph, T._C._autograd._saved_tensors_hooks_is_enabled
    with graph.disable_saved_tensors_hooks("a"):
        with graph.disable_saved_tensors_hooks("b"):
            inside = state()
        between = state()
    return inside, between, state()


def made_by_hand(T):
    T.autograd.SavedTensor()


def on_cpu(T):
    x = leaf(T)
    with T.autograd.graph.save_on_cpu(pin_memory=False):
        y = x * x.exp()
    y.sum().backward()
    return [round(v, 3) for v in x.grad.tolist()]


def checkpointed(T):
    with hooks(T, lambda t: t, lambda t: t):
        x = leaf(T)
        # in double, as a gradient is -2.47835 here, which float32 rounds either way
        y = T.utils.checkpoint.checkpoint(lambda t: t.double().exp().sin(), x * 1, use_reentrant=False)
        y.sum().backward()
    return [round(v, 4) for v in x.grad.tolist()]


def nested_checkpoints(T):
    def inner(t):
        return T.utils.checkpoint.checkpoint(lambda s: s.sin().exp(), t, use_reentrant=False).sin()

    x = leaf(T)
    y = T.utils.checkpoint.checkpoint(inner, x, use_reentrant=False).sum()
    (g,) = T.autograd.grad(y, x, create_graph=True)
    return [round(v, 3) for v in [*g.tolist(), *T.autograd.grad(g.sum(), x)[0].tolist()]]


CASES = [fn for fn in list(globals().values()) if callable(fn) and getattr(fn, "__module__", "") == __name__]
CASES = [
    fn for fn in CASES if fn.__code__.co_varnames[: fn.__code__.co_argcount] == ("T",) and fn is not leaf
]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_in_torch(case) -> None:
    twins.same_outcome(case)
    assert ft._tensor.saved.state.plain


def test_values_are_let_go_of() -> None:
    x = leaf(ft)
    with ft.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), ft.from_numpy):
        h = x * 2
        y = h * h
    cell = weakref.ref(h._storage)
    del h
    gc.collect()
    assert cell() is None
    y.sum().backward()
    assert x.grad.tolist() == [8.0, 16.0, 32.0]


def test_a_result_must_come_back_as_it_was() -> None:
    with ft.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = leaf(ft).exp()
    with pytest.raises(NotImplementedError, match="Give it back as it was"):
        y.sum().backward()


def test_in_a_compiled_function() -> None:
    x = leaf(ft)

    @ft.compile
    def step():
        with ft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return x * x

    with pytest.raises(NotImplementedError, match="inside a compiled function"):
        step()
    assert torch.autograd.graph.saved_tensors_hooks is not None
