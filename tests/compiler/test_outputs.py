"""What comes out of a compiled call is what eager gives: memory that is shared, versions, histories, hooks, `.data`.

Every case is a function, and what is done with its results and with what it saw. It runs in PyTorch, here eagerly and
here compiled, several times, and all that can be looked at is compared after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft

CALLS = 4


class Program:
    """What a case needs of a library: tensors that are the same in all of them, and a place for records."""

    def __init__(self, lib: Any, compile: Callable[[Any], Any]) -> None:
        self.lib, self.compile = lib, compile
        self.state: list[Any] = []  #: tensors outside, which are looked at after every call too
        self.records: list[Any] = []  #: what hooks saw
        self.fn: Any = None
        self.seed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lib, name)

    def new(self, *shape: int, grad: bool = False) -> Any:
        """A new tensor of known numbers."""
        self.seed += 1
        values = np.random.default_rng(self.seed).integers(-4, 5, shape).astype(np.float64) / 2
        return self.lib.tensor(values, requires_grad=grad)

    def outside(self, *shape: int, grad: bool = False) -> Any:
        """A new tensor that the function sees and that is looked at after every call."""
        self.state.append(self.new(*shape, grad=grad))
        return self.state[-1]

    def record(self, *what: Any) -> None:
        self.records.append([w.detach().numpy().copy() if hasattr(w, "detach") else w for w in what])


def leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in leaves(item)]
    return [result] if hasattr(result, "_is_view") else []


def describe(tensors: list[Any]) -> list[Any]:
    return [
        {
            "value": t.detach().numpy().copy(),
            "form": (tuple(t.shape), t.stride(), t.storage_offset(), str(t.dtype).split(".")[-1]),
            "view": (t._is_view(), next((i for i, u in enumerate(tensors) if u is t._base), None)),
            "version": t._version,
            "grad": (t.requires_grad, t.is_leaf, t.retains_grad, t.grad_fn is None),
            "class": type(t).__name__,
            "shares": [t.untyped_storage().data_ptr() == u.untyped_storage().data_ptr() for u in tensors],
            "is": [t is u for u in tensors],
            ".grad": t.grad.numpy().copy() if (t.is_leaf or t.retains_grad) and t.grad is not None else None,
        }
        for t in tensors
    ]


def run(make: Callable[..., Any], lib: Any, compile: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    p = Program(lib, compile)
    fn, arguments, use = make(p)
    compiled = compile(fn)
    told: list[Any] = []
    before: list[Any] = []
    for _ in range(CALLS):
        args = arguments()
        result = compiled(*args)
        seen = [*leaves(result), *args, *p.state, *before]
        told.append(describe(seen))
        if use is not None:
            extra = use(result, *args)
            told.append(describe([*seen, *leaves(extra)]))
        told.append(list(p.records))
        before = [t for t in leaves(result) if all(t is not u for u in (*args, *p.state))][:2]
    return told, compiled


def same(got: Any, want: Any) -> bool:
    if isinstance(got, np.ndarray) or isinstance(want, np.ndarray):
        return type(got) is type(want) and got.shape == want.shape and np.allclose(got, want, equal_nan=True)
    if isinstance(want, dict):
        return all(same(got[k], want[k]) for k in want)
    if isinstance(want, list | tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def differences(got: Any, want: Any, where: str = "", ignore: Sequence[str] = ()) -> list[str]:
    if isinstance(want, dict):
        return [
            d for k in want if k not in ignore for d in differences(got[k], want[k], f"{where}.{k}", ignore)
        ]
    if isinstance(want, list) and len(got) == len(want) and any(isinstance(w, list | dict) for w in want):
        return [
            d for i, (a, b) in enumerate(zip(got, want)) for d in differences(a, b, f"{where}[{i}]", ignore)
        ]
    return [] if same(got, want) else [f"{where}: {got!r} is not {want!r}"]


Case = Callable[[Any], tuple[Callable[..., Any], Callable[[], Any], Callable[..., Any] | None]]
CASES: list[Any] = []


def case(traces: int = 1, ignore: Sequence[str] = ()) -> Callable[[Case], Case]:
    """``ignore``: what eager has otherwise than PyTorch; what compile gives is compared with eager's all the same."""

    def enter(make: Case) -> Case:
        CASES.append(pytest.param(make, traces, ignore, id=make.__name__))
        return make

    return enter


# ------------------------------------------------------------------- memory


def add(tensors):
    """Write to each; one more in the exponent of a double that is seen as an integer."""
    for i, t in enumerate(tensors):
        t.add_(i + 1.0 if t.is_floating_point() else 1 << 52)


def of_argument(look, grad=False):
    """A result that looks at the argument; then one of them is written to."""

    def make(p):
        def use(y, x):
            with p.no_grad():
                add(leaves(y))
                x.mul_(2)

        return lambda x: look(p, x), lambda: [p.new(3, 2, grad=grad)], use

    return make


LOOKS = {
    "itself": lambda T, x: x,
    "view": lambda T, x: x.view(-1),
    "detach": lambda T, x: x.detach(),
    "data": lambda T, x: x.data,
    "item": lambda T, x: x[0],
    "slice": lambda T, x: x[1:],
    "transpose": lambda T, x: x.t(),
    "expand": lambda T, x: x[None].expand(2, 3, 2)[0],
    "two_steps": lambda T, x: x.t()[0],
    "detached_view": lambda T, x: x.t().detach()[1],
    "alias": lambda T, x: x.view_as(x),
    "reshape": lambda T, x: x.reshape(-1),
    "contiguous": lambda T, x: x.contiguous(),
    "to": lambda T, x: x.to(T.float64),
    "unbind": lambda T, x: x.unbind(0),
    "split": lambda T, x: T.split(x, 2),
    "diagonal": lambda T, x: x.diagonal(),
    "strided": lambda T, x: x.as_strided((2, 2), (1, 2), 1),
    "pair": lambda T, x: (x, x.t()),
    "view_twice": lambda T, x: (x.t(), x.t()),
    "same_twice": lambda T, x: [x.t()] * 2,
    "dict": lambda T, x: {"a": x[0], "b": x[1:]},
    "changed": lambda T, x: x.detach().add_(1).view(-1),
    "a_copy": lambda T, x: x.clone(),
    "other_dtype": lambda T, x: x.detach().view(T.int64)[0],
    "no_grad": lambda T, x: no_grad_view(T, x),
    "view_and_number": lambda T, x: (x.t(), x.sum()),
}


def no_grad_view(T, x):
    with T.no_grad():
        return x.t()


for name, look in LOOKS.items():
    for grad in (
        (False, True) if name != "no_grad" else (False,)
    ):  # PyTorch refuses to look at it after the write
        make = of_argument(look, grad)
        make.__name__ = f"argument_{name}{'_with_grad' if grad else ''}"
        if not (grad and name in ("unbind", "split")):  # PyTorch refuses the write
            case(traces=2 if name in ("itself", "contiguous", "to") else 1)(make)

    def of_made(p, look=look):
        def use(y, x):
            with p.no_grad():
                add(leaves(y))

        return lambda x: look(p, x * 2 + 1), lambda: [p.new(3, 2)], use

    of_made.__name__ = f"made_{name}"
    case()(of_made)

    def of_outside(p, look=look):
        w = p.outside(3, 2)

        def use(y, x):
            with p.no_grad():
                add(leaves(y))
                w.mul_(2)

        return lambda x: look(p, w), lambda: [p.new(2)], use

    of_outside.__name__ = f"outside_{name}"
    case()(of_outside)

    def of_written(p, look=look):
        w = p.outside(3, 2)

        def fn(x):
            w.add_(x)
            return look(p, w)

        def use(y, x):
            with p.no_grad():
                add(leaves(y))
                w.mul_(2)

        return fn, lambda: [p.new(2)], use

    of_written.__name__ = f"written_{name}"
    case()(of_written)

    def of_view(p, look=look):
        def use(y, x):
            with p.no_grad():
                add(leaves(y))
                x.mul_(2)
            return [x._base]

        def args():
            whole = p.new(4, 3)
            return [whole[:2].t()]

        def fn(x):
            return look(p, x)

        return fn, args, use

    if name not in (
        "view",
        "changed",
        "a_copy",
        "other_dtype",
        "strided",
    ):  # refused, or the strides are others
        of_view.__name__ = f"of_view_{name}"
        case()(of_view)


@case()
def two_results_of_one_that_is_not_returned(p):
    def fn(x):
        y = x * 2
        return y[0], y[1:], y.t()

    def use(r, x):
        r[0].add_(1)
        r[2].mul_(2)
        return [r[0]._base]

    return fn, lambda: [p.new(3, 2)], use


@case()
def a_result_and_its_view(p):
    def fn(x):
        y = x * 2
        return y, y.view(-1), y

    def use(r, x):
        r[1].add_(1)
        r[0].mul_(3)

    return fn, lambda: [p.new(3, 2)], use


@case()
def recorded_in_place_on_a_view_result(p):
    def fn(x):
        y = x * 2
        return y, y[0]

    def use(r, x):
        r[1].mul_(3)
        (r[0] * r[0]).sum().backward()

    return fn, lambda: [p.new(3, 2, grad=True)], use


@case()
def recorded_in_place_on_a_base_result(p):
    def fn(x):
        y = x * 2
        return y, y[0]

    def use(r, x):
        r[0].mul_(3)
        (r[1] * r[1]).sum().backward()

    return fn, lambda: [p.new(3, 2, grad=True)], use


@case()
def recorded_in_place_on_views_of_a_hidden_base(p):
    def fn(x):
        y = x * 2
        return y[0], y[:2]

    def use(r, x):
        r[0].mul_(3)
        (r[1] * r[1]).sum().backward()

    return fn, lambda: [p.new(3, 2, grad=True)], use


@case()
def backward_through_views(p):
    def fn(x):
        y = x * x
        return y.t(), y.view(-1), x[0]

    def use(r, x):
        (r[0][0] * r[1][0]).sum().backward(retain_graph=True)
        (r[2] * r[2]).sum().backward()

    return fn, lambda: [p.new(3, 2, grad=True)], use


@case()
def recorded_in_place_on_a_view_of_the_argument(p):
    def use(y, x):
        y.mul_(3)
        (x * x).sum().backward()

    def args():
        w = p.outside(3, 2, grad=True)
        p.state[:] = [w]
        return [w * 1]

    return lambda x: x[0], args, use


@case()
def view_of_a_parameter(p):
    w = p.outside(3, 2, grad=True)

    def use(y, x):
        (y * x).sum().backward()
        with p.no_grad():
            w.sub_(0.1 * w.grad)

    return lambda x: w.t()[0], lambda: [p.new(3)], use


@case()
def gradient_is_returned(p):
    w = p.outside(3, grad=True)

    def fn(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad, w.grad[0]

    def use(r, x):
        r[0].add_(1)
        return [w.grad]

    return fn, lambda: [p.new(3)], use


@case()
def the_gradient_from_before_is_returned(p):
    w = p.outside(3, grad=True)

    def fn(x):
        old = w.grad
        w.grad = None
        (w * x).sum().backward()
        return old, old[1:], w.grad.detach()

    def args():
        w.grad = p.new(3)
        return [p.new(3)]

    def use(r, x):
        r[0].add_(1)
        r[2].mul_(2)
        return [w.grad]

    return fn, args, use


@case()
def the_gradient_that_is_added_to_is_returned(p):
    w = p.outside(3, grad=True)
    w.grad = p.new(3)

    def fn(x):
        (w * x).sum().backward()
        return w.grad

    def use(r, x):
        r.mul_(0.5)

    return fn, lambda: [p.new(3)], use


@case()
def an_argument_that_is_changed_and_returned(p):
    def fn(x):
        x.add_(1)
        return x, x.t()

    def use(r, x):
        r[1].mul_(2)

    return fn, lambda: [p.new(3, 2)], use


@case()
def two_arguments_that_share_memory(p):
    def args():
        x = p.new(3, 2)
        return [x, x.t()]

    def use(r, x, y):
        r[0].add_(1)
        r[1].mul_(2)

    return lambda x, y: (x.view(-1), y[0]), args, use


@case()
def the_last_result_comes_back(p):
    held = []

    def args():
        return [held.pop() if held else p.new(3, 2)]

    def use(r, x):
        r[1].add_(1)
        held.append(r[0])

    def fn(x):
        y = x * 0.5
        return y, y.view(-1)

    return fn, args, use


@case()
def state_beside_its_view(p):
    w = p.outside(3, 2)

    def fn(x):
        w.mul_(0.5)
        old = w[0]
        w.add_(x)
        return old, w.detach()

    def use(r, x):
        r[0].add_(1)

    return fn, lambda: [p.new(2)], use


@case(ignore=["version"])
def a_buffer_of_a_module(p):
    m = p.nn.BatchNorm1d(2).double()
    p.state.append(m.running_mean)

    def fn(x):
        y = m(x)
        return y, m.running_mean, m.running_mean[:1], m.weight.detach()

    def use(r, x):
        r[2].zero_()
        with p.no_grad():
            r[3].add_(0.5)

    return fn, lambda: [p.new(4, 2)], use


@case()
def a_position_that_the_call_knows(p):
    def fn(x, i):
        return x[i], x

    def use(r, x, i):
        r[0].add_(1)

    n = iter(range(10))
    return fn, lambda: [p.new(3, 2), p.tensor(next(n) % 3)], use


# -------------------------------------------------------------------- flags


@case()
def requires_grad_of_a_result(p):
    def use(y, x):
        (y * y).sum().backward()

    return lambda x: (x * 2).requires_grad_(), lambda: [p.new(3)], use


@case()
def a_leaf_made_inside_and_what_was_made_of_it(p):
    def fn(x):
        y = (x * 2).requires_grad_()
        return y, (y * y).sum()

    def use(r, x):
        r[1].backward()

    return fn, lambda: [p.new(3)], use


@case()
def a_leaf_made_inside_that_nobody_sees(p):
    w = p.outside(3, grad=True)

    def fn(x):
        y = (x * 2).requires_grad_()
        return (y * y * w).sum()

    return fn, lambda: [p.new(3)], lambda r, x: r.backward()


@case()
def requires_grad_of_an_argument(p):
    def fn(x):
        x.requires_grad_()
        return (x * x).sum()

    def use(r, x):
        r.backward()

    return fn, lambda: [p.new(3)], use


@case()
def requires_grad_of_an_argument_taken_away(p):
    def fn(x):
        y = (x * x).sum()
        x.requires_grad_(False)
        return y, x * 2

    def use(r, x):
        r[0].backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def requires_grad_of_a_tensor_outside(p):
    w = p.outside(3)

    def fn(x):
        w.requires_grad_()
        return (w * x).sum()

    return fn, lambda: [p.new(3)], lambda r, x: r.backward()


@case()
def requires_grad_of_a_detached_result(p):
    w = p.outside(3, grad=True)

    def fn(x):
        return w.detach().requires_grad_(), (w * x).sum().detach()

    def use(r, x):
        (r[0] * x).sum().backward()
        with p.no_grad():
            r[0].add_(1)

    return fn, lambda: [p.new(3)], use


@case()
def a_detached_result_of_state(p):
    w = p.outside(3)

    def use(r, x):
        r.requires_grad_()
        (r * x).sum().backward()

    return lambda x: w.detach(), lambda: [p.new(3)], use


@case()
def a_parameter_made_inside(p):
    def fn(x):
        y = p.nn.Parameter(x * 2)
        return y, (y * x).sum()

    def use(r, x):
        r[1].backward()

    return fn, lambda: [p.new(3)], use


@case()
def a_parameter_over_the_argument(p):
    def use(r, x):
        (r * r).sum().backward()
        with p.no_grad():
            r.add_(1)

    return lambda x: p.nn.Parameter(x), lambda: [p.new(3)], use


# -------------------------------------------------------------------- hooks


@case()
def a_hook_on_the_argument(p):
    def fn(x):
        x.register_hook(lambda g: g * 2)
        return (x * x).sum()

    return fn, lambda: [p.new(3, grad=True)], lambda r, x: r.backward()


@case()
def a_recording_hook_on_the_argument(p):
    def fn(x):
        x.register_hook(p.record)
        return (x * x).sum()

    return fn, lambda: [p.new(3, grad=True)], lambda r, x: r.backward()


@case(traces=2)
def a_hook_on_the_argument_that_goes(p):
    def fn(x):
        handle = x.register_hook(lambda g: g * 2)
        y = (x * x).sum()
        y.backward()
        handle.remove()
        return y.detach()

    return fn, lambda: [p.new(3, grad=True)], None


@case()
def a_hook_on_an_argument_with_a_history(p):
    def args():
        w = p.new(3, grad=True)
        p.state[:] = [w]
        return [w * 2]

    def fn(x):
        x.register_hook(lambda g: g * 10)
        return (x * x).sum()

    return fn, args, lambda r, x: r.backward()


@case()
def a_post_accumulate_hook_on_the_argument(p):
    def fn(x):
        x.register_post_accumulate_grad_hook(lambda t: p.record(t.grad))
        return (x * x).sum()

    return fn, lambda: [p.new(3, grad=True)], lambda r, x: r.backward()


@case()
def a_hook_on_a_tensor_outside(p):
    w = p.outside(3, grad=True)

    def fn(x):
        w.register_hook(lambda g: g * 2)
        return (w * x).sum()

    return fn, lambda: [p.new(3)], lambda r, x: r.backward()


@case()
def a_hook_on_a_result(p):
    def fn(x):
        y = x * 2
        y.register_hook(lambda g: g * 10)
        return y

    def use(y, x):
        (y * y).sum().backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def a_recording_hook_on_a_result_and_another(p):
    def fn(x):
        y = x * 2
        y.register_hook(p.record)
        return y, (y * y).sum()

    def use(r, x):
        (r[1] + r[0].sum()).backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def hooks_on_intermediates(p):
    def fn(x):
        a = x * 2
        a.register_hook(lambda g: p.record("a", g))
        b = a.sin()
        b.register_hook(lambda g: p.record("b", g))
        b.register_hook(lambda g: g * 3)
        return (b * a).sum(), b

    def use(r, x):
        (r[0] * 2 + r[1].sum()).backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def a_hook_that_uses_a_tensor_of_the_call(p):
    def fn(x):
        mask = x.detach() > 0
        y = x * 2
        y.register_hook(lambda g: g * mask)
        return (y * y).sum()

    return fn, lambda: [p.new(3, grad=True)], lambda r, x: r.backward()


@case(traces=CALLS)
def a_hook_on_a_result_that_uses_a_tensor_of_the_call(p):
    def fn(x):
        mask = x.detach() > 0
        y = x * 2
        y.register_hook(lambda g: g * mask)
        return y

    def use(y, x):
        y.retain_grad()
        (y * y).sum().backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case(traces=CALLS)
def a_hook_on_the_argument_that_uses_a_tensor_of_the_call(p):
    def fn(x):
        mask = x.detach() > 0
        x.register_hook(lambda g: g * mask)
        return (x * x).sum()

    return fn, lambda: [p.new(3, grad=True)], lambda r, x: r.backward()


@case()
def retain_grad_on_results(p):
    def fn(x):
        y = x * 2
        y.retain_grad()
        z = y.sin()
        z.retain_grad()
        return y, z, (y * z).sum()

    def use(r, x):
        r[2].backward(retain_graph=True)
        r[1].sum().backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def retain_grad_outside_on_a_result(p):
    def fn(x):
        y = x * 2
        return y, y * y

    def use(r, x):
        r[0].retain_grad()
        (r[1].sum() + r[0].sum()).backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def a_hook_outside_on_a_result(p):
    def fn(x):
        y = x * 2
        return y, y * y

    def use(r, x):
        r[0].register_hook(lambda g: g * 10)
        (r[1].sum() + r[0].sum()).backward()

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def gradient_of_one_result_by_another(p):
    def fn(x):
        y = x * 2
        return y, (y * y).sum()

    def use(r, x):
        p.record(*p.autograd.grad(r[1], r[0]))

    return fn, lambda: [p.new(3, grad=True)], use


@case()
def retain_grad_on_the_argument(p):
    def args():
        w = p.new(3, grad=True)
        p.state[:] = [w]
        return [w * 2]

    def fn(x):
        x.retain_grad()
        return (x * x).sum()

    return fn, args, lambda r, x: r.backward()


@case()
def a_node_hook(p):
    def fn(x):
        y = (x * 2).sin()
        y.grad_fn.register_hook(lambda gi, go: p.record(gi[0], go[0]))
        return y.sum()

    return fn, lambda: [p.new(3, grad=True)], lambda r, x: r.backward()


@case()
def a_module_backward_hook(p):
    m = p.nn.Linear(3, 2).double()
    with p.no_grad():
        for q in m.parameters():
            q.copy_(p.new(*q.shape))
    m.register_full_backward_hook(lambda m, gi, go: p.record(gi[0], go[0]))
    p.state += list(m.parameters())
    return lambda x: m(x).sin().sum(), lambda: [p.new(4, 3, grad=True)], lambda r, x: r.backward()


# --------------------------------------------------------------------- data


@case(ignore=["version"])
def data_exchanged(p):
    a, b = p.outside(3), p.outside(3)
    a_view, b_view = a.view(-1), b.detach()
    p.state += [a_view, b_view]

    def fn(x):
        a.data, b.data = b.data, a.data
        return (a * x).sum()

    def use(r, x):
        a.add_(1)
        b.mul_(2)

    return fn, lambda: [p.new(3)], use


@case(ignore=["version"])
def data_exchanged_of_parameters(p):
    a, b = p.outside(3, grad=True), p.outside(3, grad=True)
    opt = p.optim.SGD([a, b], lr=0.5, momentum=0.9)

    def fn(x):
        a.data, b.data = b.data, a.data
        opt.zero_grad()
        loss = (a * x + b).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    return fn, lambda: [p.new(3)], None


@case(ignore=["version"])
def the_old_data_is_returned(p):
    w = p.outside(3)

    def fn(x):
        old = w.data
        w.data = old + 1
        return old

    return fn, lambda: [p.new(3)], lambda old, x: old.add_(5)


@case(ignore=["version"])
def data_doubled(p):
    q = p.outside(3, grad=True)
    alias = q.detach()
    p.state.append(alias)

    def fn(x):
        q.data = q.data * 2
        return (q * x).sum()

    def use(r, x):
        r.backward()
        alias.add_(1)
        q.data.sub_(1)

    return fn, lambda: [p.new(3)], use


@case(ignore=["version"])
def data_doubled_in_place(p):
    q = p.outside(3, grad=True)
    alias = q.detach()
    p.state.append(alias)

    def fn(x):
        q.data.mul_(2)
        return (q * x).sum()

    return fn, lambda: [p.new(3)], lambda r, x: r.backward()


@case(ignore=["version"])
def data_of_the_argument(p):
    def fn(x):
        x.data = x.data * 2
        return x.sum()

    def args():
        x = p.new(3)
        p.state[:] = [x.view(-1)]
        return [x]

    return fn, args, lambda r, x: x.add_(1)


@case(ignore=["version"])
def data_of_the_argument_becomes_anothers(p):
    w = p.outside(3)

    def fn(x):
        x.data = w
        return x.sum()

    return fn, lambda: [p.new(3)], lambda r, x: x.add_(1)


@case(ignore=["version", "view"])
def data_of_a_view_argument(p):
    def fn(x):
        x.data = x.data * 2
        return x.sum()

    def args():
        whole = p.new(4, 3)
        p.state[:] = [whole]
        return [whole[1]]

    return fn, args, lambda r, x: x.add_(1)


@case(traces=2, ignore=["version"])
def data_of_another_shape(p):
    w = p.outside(3)

    def fn(x):
        w.data = p.cat([w.data, x])[-3:] if w.shape[0] == 3 and x.sum() is None else p.cat([w.data, x])[1:]
        return w.sum()

    return fn, lambda: [p.new(1)], lambda r, x: w.add_(1)


@case(ignore=["version"])
def data_becomes_the_argument(p):
    w = p.outside(3)

    def fn(x):
        w.data = x
        return (w * 2).sum()

    def use(r, x):
        x.add_(1)
        w.mul_(2)

    return fn, lambda: [p.new(3)], use


@case(ignore=["version"])
def data_and_then_an_optimizer(p):
    w = p.outside(3, grad=True)
    opt = p.optim.AdamW([w], lr=0.1)

    def fn(x):
        w.data = w.data * 0.5
        opt.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    return fn, lambda: [p.new(3)], lambda r, x: None


@case(ignore=["version"])
def an_optimizer_and_then_data(p):
    w = p.outside(3, grad=True)
    opt = p.optim.AdamW([w], lr=0.1)

    def fn(x):
        opt.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        opt.step()
        w.data = w.data.clamp(-1, 1)
        return loss.detach(), w.data

    return fn, lambda: [p.new(3)], lambda r, x: r[1].add_(1)


@case(ignore=["version"])
def data_in_a_module(p):
    m = p.nn.BatchNorm1d(2).double()
    p.state += [m.running_mean, m.weight]

    def fn(x):
        y = m(x)
        m.running_mean.data = m.running_mean.data * 0.5
        m.weight.data = m.weight.data + 1
        return y.detach()

    return fn, lambda: [p.new(4, 2)], None


@case(traces=2, ignore=["version"])
def two_become_one(p):
    a, b = p.outside(3), p.outside(3)

    def fn(x):
        a.data = b.data
        a.add_(x)
        return a.sum()

    return fn, lambda: [p.new(3)], lambda r, x: b.mul_(2)


@case(traces=2, ignore=["version"])
def set_to_another(p):
    a, b = p.outside(3), p.outside(3)

    def fn(x):
        a.set_(b)
        a.add_(x)
        return a.sum()

    return fn, lambda: [p.new(3)], lambda r, x: b.mul_(2)


@case(ignore=["version"])
def the_gradient_gets_other_data(p):
    w = p.outside(3, grad=True)

    def fn(x):
        w.grad = None
        (w * x).sum().backward()
        g = w.grad
        g.data = g.data * 2
        return g

    return fn, lambda: [p.new(3)], lambda r, x: r.add_(1)


@case(traces=CALLS, ignore=["version"])
def the_gradient_from_before_gets_other_data(p):
    w = p.outside(3, grad=True)

    def fn(x):
        w.grad.data = w.grad.data * 2
        return w.grad.sum()

    def args():
        w.grad = p.new(3)
        return [p.new(3)]

    return fn, args, lambda r, x: w.grad.add_(1)


# ------------------------------------------------------------ random programs


VIEWS: list[Callable[[Any], Any]] = [
    lambda t: t.t(), lambda t: t[0], lambda t: t[1:], lambda t: t[:, 0], lambda t: t.detach(), lambda t: t.data,
    lambda t: t.reshape(-1)[:4].view(2, 2), lambda t: t.view_as(t), lambda t: t.unsqueeze(0)[0], lambda t: t.diagonal(),
    lambda t: t.expand(2, *t.shape)[1],
]  # fmt: skip


def random_program(seed: int) -> Case:
    """Looks, writes and rebindings of random tensors, of which random ones are returned and written to outside."""

    def make(p):
        rng = np.random.default_rng(seed)
        state = [p.outside(2, 2) for _ in range(2)] + [p.outside(2, 2, grad=True)]
        state.append(state[int(rng.integers(3))].detach().t())
        p.state.append(state[-1])
        plan = [
            (int(rng.integers(8)), *(int(n) for n in rng.integers(1000, size=3)))
            for _ in range(rng.integers(2, 7))
        ]
        which = [int(n) for n in rng.integers(1000, size=rng.integers(1, 4))]
        outside = [(int(n), float(f)) for n, f in rng.integers(1, 100, size=(3, 2))]
        as_views, grads = bool(rng.integers(2)), bool(rng.integers(2))

        def do(pool, kind, a, b, c):
            t, u = pool[a % len(pool)], pool[b % len(pool)]
            wide = [x for x in pool if tuple(x.shape) == (2, 2)]
            v, w = wide[a % len(wide)], wide[b % len(wide)]
            if kind < 3:
                pool.append(VIEWS[c % len(VIEWS)](v))
            elif kind == 3:
                pool.append(v * 0.5 + w)
            elif kind == 4:
                with p.no_grad():
                    t.add_(1 + c % 3)
            elif kind == 5:
                with p.no_grad():
                    v.mul_(w.clone() * 0.25)
            elif kind == 6:
                v.data = w.data if c % 2 else w.data * 0.5
            else:
                pool.append(u.detach().clone())

        def fn(x, y):
            pool = [x, y, *state]
            for step in plan:
                do(pool, *step)
            return [pool[n % len(pool)] for n in which]

        def args():
            if as_views:
                whole = p.new(4, 2)
                return [whole[:2], whole[2:].t()]
            return [p.new(2, 2), p.new(2, 2, grad=grads)]

        def use(result, x, y):
            seen = [*result, x, y, *state]
            with p.no_grad():
                for n, f in outside:
                    seen[n % len(seen)].mul_(1 + f / 100)

        return fn, args, use

    return make


def random_graph(seed: int) -> Case:
    """Random recorded operations, with hooks and `retain_grad` on some; backward passes outside from random results."""

    def make(p):
        rng = np.random.default_rng(seed)
        w = p.outside(2, 2, grad=True)
        plan = [tuple(int(n) for n in rng.integers(1000, size=4)) for _ in range(rng.integers(2, 8))]
        which = [int(n) for n in rng.integers(1000, size=rng.integers(1, 4))]
        outside = [tuple(int(n) for n in rng.integers(1000, size=3)) for _ in range(3)]

        def do(pool, kind, a, b, c):
            t, u = pool[a % len(pool)], pool[b % len(pool)]
            kind %= 9
            if kind < 2:
                pool.append(
                    [lambda: t.t(), lambda: t[0].expand(2, 2), lambda: t.view_as(t), lambda: t.detach()][
                        c % 4
                    ]()
                )
            elif kind < 5:
                pool.append([lambda: t * u, lambda: t.sin() + u, lambda: t - 2 * u][c % 3]())
            elif kind == 5 and len(pool) > 2:
                pool[2].mul_(1 + c % 2)
            elif kind == 6 and t.requires_grad:
                t.register_hook((lambda g: g * 2) if c % 2 else (lambda g: p.record(g)))
            elif kind == 7 and t.requires_grad:
                t.retain_grad()
            elif kind == 8 and t.requires_grad:
                mask = u.detach() > 0
                t.register_hook(lambda g: g * mask)

        def fn(x, y):
            pool = [x, y, x * y + w]
            for step in plan:
                do(pool, *step)
            return [pool[n % len(pool)] for n in which]

        def use(result, x, y):
            for kind, a, b in outside:
                t = result[a % len(result)]
                if kind % 3 == 0 and t.requires_grad and not t.is_leaf:
                    t.mul_(2)
                elif kind % 3 == 1 and t.requires_grad:
                    t.register_hook(lambda g: g * 3)
                elif kind % 3 == 2 and t.requires_grad:
                    t.retain_grad()
            total = [(t * t).sum() for t in result if t.requires_grad]
            if total:
                sum(total).backward()

        return fn, lambda: [p.new(2, 2, grad=True), p.new(2, 2)], use

    return make


def random_case(make: Case, compile: Any) -> list[str]:
    """What a program does otherwise than in eager; nothing if eager refuses it."""
    try:
        eager, _ = run(make, ft, lambda fn: fn)
    except RuntimeError:
        return []
    return differences(run(make, ft, compile)[0], eager)[:8]


@pytest.fixture(autouse=True)
def doubles():
    old = torch.get_default_dtype()
    for lib in (torch, ft):
        lib.set_default_dtype(lib.float64)
    yield
    torch.set_default_dtype(old)
    ft.set_default_dtype(ft.float32)


@pytest.mark.parametrize(("make", "traces", "ignore"), CASES)
def test_as_eager(make: Case, traces: int, ignore: Sequence[str]) -> None:
    want, _ = run(make, torch, lambda fn: fn)
    eager, _ = run(make, ft, lambda fn: fn)
    assert differences(eager, want, ignore=ignore)[:8] == []
    got, step = run(make, ft, ft.compile)
    assert differences(got, eager)[:8] == []
    assert step.traces <= traces, step.reasons


@pytest.mark.parametrize("make", [random_program, random_graph])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(make: Callable[[int], Case], seed: int) -> None:
    assert random_case(make(seed), ft.compile) == []


def test_a_hook_that_keeps_what_it_makes_of_a_tensor_of_the_call_is_refused() -> None:
    kept = []

    @ft.compile
    def f(x):
        mask = x.detach() > 0
        y = x * 2
        y.register_hook(lambda g: kept.append(g * mask))
        return y.sum()

    with pytest.raises(RuntimeError, match="register the hook outside"):
        f(ft.ones(3, requires_grad=True))


def test_as_strided_of_a_view_is_refused() -> None:
    f = ft.compile(lambda x: x.as_strided((2,), (1,)))
    assert f(ft.ones(2, 3)).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="pass its base"):
        f(ft.ones(2, 3).t())


def test_second_derivatives_where_one_result_comes_from_another() -> None:
    def second(lib, compile):
        def f(x):
            y = x.sin()
            return y, (y * y * x).sum()

        x = lib.tensor([0.5, -1.0], requires_grad=True)
        y, z = compile(f)(x)
        (g,) = lib.autograd.grad(z + y.sum(), x, create_graph=True)
        return g.detach().numpy(), lib.autograd.grad((g * g).sum(), x)[0].numpy()

    for got, want in zip(second(ft, ft.compile), second(torch, lambda fn: fn), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("hook", [lambda y, x: lambda g: g * 2, lambda y, x: lambda g: g * x])
def test_second_derivatives_by_a_hook_are_refused(hook: Any) -> None:
    @ft.compile
    def f(x):
        y = x.sin()
        y.register_hook(hook(y, x))
        return (y * y * x).sum()

    x = ft.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="create_graph"):
        ft.autograd.grad(f(x), x, create_graph=True)


def test_a_hook_added_between_calls_runs_in_the_backward_pass_inside() -> None:
    def run_steps(lib, compile):
        w = lib.tensor([1.0, 2.0], requires_grad=True)

        def step(x):
            w.grad = None
            (w * x).sum().backward()
            return w.grad.sum()

        step, x, told = compile(step), lib.tensor([1.0, 1.0]), []
        told.append(step(x).item())
        handle = w.register_hook(lambda g: g * 10)
        told += [step(x).item(), step(x).item()]
        handle.remove()
        return [*told, step(x).item()]

    assert run_steps(ft, ft.compile) == run_steps(torch, lambda fn: fn)


def test_an_error_after_data_was_set_leaves_everything_as_it_was() -> None:
    w = ft.ones(2)
    cell = w._storage

    @ft.compile
    def f(x):
        w.data = w.data * 2
        raise ValueError

    with pytest.raises(ValueError):
        f(ft.ones(2))
    assert w._storage is cell and w.tolist() == [1, 1]


def _no_grad(lib: Any, x: Any) -> Any:
    y = x**3
    with lib.no_grad():
        z = y * 2
    return (y * z).sum()


def _detach(lib: Any, x: Any) -> Any:
    y = x**3
    return (y * (y * 2).detach() + x * x.detach() ** 2).sum()


def _gradient_norm(lib: Any, x: Any) -> Any:
    (grad,) = lib.autograd.grad((x**3).sum(), x, create_graph=True)
    with lib.no_grad():
        size = grad.norm()
    return (grad / (size + 1)).sum()


def _data(lib: Any, x: Any) -> Any:
    return (lib.exp(x) * x.data).sum()


def _argmax(lib: Any, x: Any) -> Any:
    return (x * lib.softmax(x.detach(), 0)).sum() ** 2 + (x - x.max().detach()).exp().sum()


@pytest.mark.parametrize(
    "fn", [_no_grad, _detach, _gradient_norm, _data, _argmax], ids=lambda fn: fn.__name__[1:]
)
def test_second_derivatives_stop_where_nothing_is_recorded(fn: Any) -> None:
    found = []
    for lib, compiled in ((torch, False), (ft, False), (ft, True)):
        x = lib.tensor([1.0, 2.0, 0.5], dtype=lib.float64, requires_grad=True)
        call = ft.compile(lambda x, lib=lib: fn(lib, x)) if compiled else (lambda x, lib=lib: fn(lib, x))
        for _ in range(2):
            (first,) = lib.autograd.grad(call(x), x, create_graph=True)
            (second,) = lib.autograd.grad((first * first.detach()).sum(), x)
        found.append([first.tolist(), second.tolist()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)


def test_second_derivatives_that_jax_has_otherwise_are_refused() -> None:
    class Double(ft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0].detach() * 3

    def written(x: Any) -> Any:
        with ft.no_grad():
            x.mul_(2)
        return (x**2).sum()

    x = ft.tensor([1.0, 2.0], requires_grad=True)
    for fn, why in (
        (lambda x: (Double.apply(x) ** 2).sum(), "autograd.Function"),
        (written, "a write inside"),
    ):
        call = ft.compile(fn)
        (first,) = ft.autograd.grad(call(x), x, create_graph=False)
        with pytest.raises(NotImplementedError, match=f"create_graph=True .* {why}"):
            ft.autograd.grad(call(x), x, create_graph=True)
