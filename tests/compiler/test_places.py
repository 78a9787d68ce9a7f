"""Tensors that compiled functions keep in dicts and lists: state like any other, and memory is shared as in PyTorch."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft

Case = Callable[[Any], tuple[Callable[..., Any], Callable[[], list[Any]], Callable[[], Any] | None]]
CASES: list[Any] = []


def case(traces: int, calls: int = 6) -> Callable[[Case], Case]:
    """A program: ``make(T)`` gives the step, the tensors to look at, and what is done between two calls.

    Every way in which the tensors share memory is traced once, after a first trace that finds the places.
    """

    def add(make: Case) -> Case:
        CASES.append(pytest.param(make, traces, calls, id=make.__name__))
        return make

    return add


@case(traces=2)
def views_of_one_tensor_that_nobody_reads(T):
    counts, state = T.zeros(2), [{}, {}]

    def step(x):
        norms = T.stack([x.sum(), (x * x).sum()]) + counts
        for table, norm in zip(state, norms, strict=True):
            table["norm"] = norm
        counts.add_(1)
        return norms.sum()

    return step, lambda: [state[0]["norm"], state[1]["norm"], state[0]["norm"]._base], None


@case(traces=2)
def views_that_are_read_and_written_outside(T):
    s = {"a": T.zeros(2), "b": T.zeros(2)}

    def step(x):
        both = T.stack([s["a"] + x, s["b"] * 0.5 + x])
        s["a"], s["b"] = both[0], both.unbind()[1]
        return s["a"].sum()

    return step, lambda: [s["a"], s["b"]], lambda: s["a"].add_(1)


@case(traces=2)
def a_view_written_inside_reaches_its_base(T):
    s = {"base": T.zeros(2, 2)}
    s["row"] = s["base"][1]

    def step(x):
        s["row"].add_(x)
        s["base"] = s["base"] + 1
        s["row"] = s["base"][1]
        return s["base"].sum()

    return step, lambda: [s["base"], s["row"]], lambda: s["base"].mul_(0.5)


@case(traces=2)
def one_tensor_in_two_places(T):
    s = {"a": T.zeros(2)}
    s["b"] = s["a"]

    def step(x):
        s["a"] = s["b"] = s["a"] + x
        return s["b"].sum()

    return step, lambda: [s["a"], s["b"]], lambda: s["a"].add_(1)


@case(traces=2)
def a_detached_tensor_beside(T):
    s = {"a": T.zeros(2)}
    s["b"] = s["a"].detach()

    def step(x):
        s["a"] = s["a"] + x
        s["b"] = s["a"].detach()
        s["b"].mul_(0.5)
        return s["a"].sum()

    return step, lambda: [s["a"], s["b"]], lambda: s["b"].add_(1)


@case(traces=2)
def overlapping_views(T):
    s = {"a": T.zeros(2), "b": T.zeros(2)}

    def step(x):
        three = T.cat([s["a"] + x, s["b"][:1]])
        s["a"], s["b"] = three[:2], three[1:]
        s["a"].add_(1)
        return s["b"].sum()

    return step, lambda: [s["a"], s["b"]], lambda: s["b"].mul_(0.5)


@case(traces=2)
def views_in_another_layout(T):
    s = {"h": T.zeros(3, 2)}

    def step(x):
        wide = T.stack([s["h"][:, 1], s["h"][:, 0] + 1]) * 0.5 + x.sum()
        wide.t_()
        s["h"] = wide
        s["last"] = wide[:, 1]
        return s["h"].sum()

    return step, lambda: [s["h"], s["last"]], lambda: s["last"].add_(1)


@case(traces=2)
def an_argument_that_is_kept(T):
    s = {"unread": {}}

    def step(x):
        s["unread"]["input"] = x
        return (x * x).sum()

    return step, lambda: [s["unread"]["input"]], lambda: s["unread"]["input"].mul_(2)


@case(traces=2)
def the_last_argument_is_read(T):
    class Change(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = T.zeros(2)

        def forward(self, x):
            change = x - self.last
            self.last = x
            return change.sum()

    change = Change()
    return change.forward, lambda: [change.last], lambda: change.last.add_(1)


@case(traces=3)
def a_tensor_moves_to_another_place(T):
    s = {"before": T.zeros(2), "now": T.zeros(2)}

    def step(x):
        change = s["now"] - s["before"]
        s["before"] = s["now"]
        s["now"] = s["now"] * 0.5 + x
        return change.sum()

    return step, lambda: [s["before"], s["now"]], lambda: s["before"].add_(1)


@case(traces=3)
def two_places_exchange_their_tensors(T):
    s = {"a": T.zeros(2), "b": T.ones(2)}

    def step(x):
        s["a"], s["b"] = s["b"] + x, s["a"]
        return s["a"].sum()

    return step, lambda: [s["a"], s["b"]], lambda: s["b"].mul_(0.5)


@case(traces=3)
def a_tensor_that_was_shared_once(T):
    s = {}

    def step(x):
        if not s:
            s["sum"] = s["first"] = x * 2
        else:
            s["sum"] = s["sum"] + s["first"]
        return s["sum"].sum()

    return step, lambda: [s["sum"], s["first"]], None


@case(traces=2)
def a_view_of_a_tensor_outside(T):
    table = T.ones(2, 2)
    s = {"row": T.zeros(2)}

    def step(x):
        y = (s["row"] * x).sum()
        table.add_(1)
        s["row"] = table[0]
        return y

    return step, lambda: [table, s["row"]], lambda: s["row"].mul_(0.5)


@case(traces=2)
def the_result_is_kept_too(T):
    s = {"h": T.zeros(2)}

    def step(x):
        s["h"] = s["h"] * 0.5 + x
        s["first"] = s["h"][0]
        return s["h"]

    return step, lambda: [s["h"], s["first"]], lambda result: result.add_(1)


@case(traces=2)
def what_was_there_is_returned(T):
    s = {"h": T.zeros(2)}

    def step(x):
        old = s["h"]
        s["h"] = old * 0.5 + x
        return old

    return step, lambda: [s["h"]], lambda result: result.add_(1)


@case(traces=2)
def two_hidden_states_and_a_number(T):
    s = {"hidden": (T.zeros(2), (T.ones(2), "lstm"))}

    def step(x):
        h, (c, kind) = s["hidden"]
        c = c * 0.5 + x
        s["hidden"] = (h * 0.5 + c, (c, kind))
        return h.sum()

    return step, lambda: [s["hidden"][0], s["hidden"][1][0]], None


@case(traces=2)
def reset_between_calls(T):
    s = {"h": T.zeros(2)}

    def step(x):
        s["h"] = (T.stack([s["h"], s["h"]]) * 0.5 + x)[1]
        return s["h"].sum()

    return step, lambda: [s["h"]], lambda: s.update(h=T.zeros(2))


@case(traces=2)
def set_to_look_at_other_state(T):
    w = T.ones(2)
    s = {"h": T.zeros(2)}

    def step(x):
        w.mul_(0.5)
        y = (s["h"] * w).sum()
        s["h"] = s["h"] + x
        return y

    return step, lambda: [s["h"], w], lambda: s.update(h=w.detach())


@case(traces=2)
def an_optimizer_that_replaces_its_state(T):
    class Momentum(T.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        @T.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                state["m"] = (state.get("m", T.zeros_like(p)) * 0.9 + p.grad)[:]
                p.sub_(state["m"] * self.param_groups[0]["lr"])

    w = T.ones(2, requires_grad=True)
    opt = Momentum([w])

    def step(x):
        opt.zero_grad()
        loss = (w * x).sum().square()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, lambda: [w, opt.state[w]["m"], w.grad], None


@case(traces=2)
def gradients_that_are_kept(T):
    w = T.ones(2, requires_grad=True)
    s = {}

    def step(x):
        w.grad = None
        (w * x).sum().square().backward()
        s["g"] = w.grad
        with T.no_grad():
            w.sub_(w.grad * 0.01)
        return w.sum().detach()

    return step, lambda: [w, s["g"], w.grad], lambda: s["g"].add_(1)


@case(traces=2)
def parameters_that_are_replaced(T):
    s = {"w": T.ones(2, requires_grad=True)}
    s["w"].label = "weight"

    def step(x):
        loss = (s["w"] * x).sum().square()
        loss.backward()
        new = (s["w"] - 0.01 * s["w"].grad).detach().requires_grad_()
        new.label = s["w"].label
        s["w"] = new
        return loss.detach()

    return step, lambda: [s["w"], T.tensor(len(s["w"].label))], None


@case(traces=4, calls=4)
def a_list_that_grows(T):
    s, seen = {"h": T.zeros(2)}, []

    def step(x):
        seen.append(s["h"])
        s["h"] = s["h"] + x
        return s["h"].sum()

    return step, lambda: [s["h"], *seen], None


def _describe(tensors):
    return [
        (
            (tuple(t.shape), t.stride(), t.storage_offset(), t._is_view(), t.requires_grad, t.is_leaf),
            [t.untyped_storage().data_ptr() == u.untyped_storage().data_ptr() for u in tensors],
            [t is u for u in tensors],
        )
        for t in tensors
    ]


def _run(T, make, calls, compile):
    step, look, between = make(T)
    step, told, values = compile(step), [], []
    for x in np.random.default_rng(0).standard_normal((calls, 2)):
        result = step(T.tensor(x))
        for _ in range(2):
            tensors = look()
            told.append(_describe(tensors))
            values += [result.detach().numpy().copy(), *(t.detach().numpy().copy() for t in tensors)]
            if between is None:
                break
            with T.no_grad():
                between(*([result] if between.__code__.co_argcount else []))
    return told, values, step


@pytest.mark.parametrize(("make", "traces", "calls"), CASES)
def test_as_in_torch(make: Case, traces: int, calls: int) -> None:
    old = torch.get_default_dtype()
    for T in (torch, ft):
        T.set_default_dtype(T.float64)
    try:
        want, values, _ = _run(torch, make, calls, lambda fn: fn)
        got, ours, step = _run(ft, make, calls, ft.compile)
    finally:
        torch.set_default_dtype(old)
        ft.set_default_dtype(ft.float32)
    assert got == want
    for a, b in zip(ours, values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert step.traces == traces, step.reasons


def test_a_view_at_a_position_that_a_number_says_is_traced_at_every_call() -> None:
    def run(T, compile):
        class Ring(T.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {})

            @T.no_grad()
            def step(self):
                (p,) = self.param_groups[0]["params"]
                state = self.state[p]
                state["n"] = state.get("n", 0) + 1
                state["seen"] = T.arange(4.0).mul(state["n"])[state["n"] % 4]

        w = T.zeros(1)
        opt = Ring([w])
        step = compile(opt.step)
        values = []
        for _ in range(5):
            step()
            values.append(opt.state[w]["seen"].item())
        return values, step

    values, step = run(ft, ft.compile)
    assert values == run(torch, lambda fn: fn)[0] and step.traces == 5


def test_an_argument_that_is_also_kept() -> None:
    s = {"h": ft.zeros(2)}

    @ft.compile
    def step(x, h):
        h.mul_(0.5)
        y = s["h"] + h
        s["h"] = y + x
        return y.sum()

    x, other, totals = ft.ones(2), ft.full((2,), 8.0), []
    for h in (None, None, None, other, other, None):
        totals.append(step(x, s["h"] if h is None else h).item())
    want, kept, left = [], torch.zeros(2), torch.full((2,), 8.0)
    for h in (None, None, None, left, left, None):
        h = kept if h is None else h
        h.mul_(0.5)
        y = kept + h
        kept = y + 1
        want.append(y.sum().item())
    assert totals == want and step.traces == 3


def test_a_result_that_is_a_view_keeps_no_argument() -> None:
    compiled = ft.compile(lambda x: {"flat": (x * 2).view(-1), "twice": x.repeat_interleave(2, 0)})
    for _ in range(3):
        x = ft.ones(2, 3, requires_grad=True)
        out = compiled(x)
        (out["flat"].sum() + out["twice"].sum()).backward()
        assert x.grad is not None and x.grad.tolist() == [[4.0] * 3] * 2
    assert compiled.traces == 1


def test_gradients_lead_out_of_the_program_to_what_is_kept() -> None:
    def run(T, compile):
        s = {"w": T.ones(2, dtype=T.float64, requires_grad=True)}

        def step(x):
            loss = (s["w"] * x).sum().square()
            s["w"] = (s["w"].detach() * 0.5).requires_grad_()
            s["loss"] = loss.detach()
            return loss

        step, grads = compile(step), []
        for i in range(4):
            w = s["w"]
            loss = step(T.tensor([1.0, i], dtype=T.float64))
            loss.backward()
            loss.detach().add_(1)
            grads += [*w.grad.tolist(), s["loss"].item()]
        return grads, step

    grads, step = run(ft, ft.compile)
    np.testing.assert_allclose(grads, run(torch, lambda fn: fn)[0], rtol=1e-12)
    assert step.traces == 2


def test_what_was_replaced_is_let_go_of() -> None:
    s = {"h": ft.zeros(1000)}

    @ft.compile
    def step():
        s["h"] = ft.stack([s["h"] + 1, s["h"]])[0]

    for _ in range(4):
        step()
    old = weakref.ref(s["h"]._storage)
    step()
    gc.collect()
    assert old() is None and s["h"][0].item() == 5 and step.traces == 2


def test_a_trace_that_fails_leaves_the_places_alone() -> None:
    s: dict[str, Any] = {"h": ft.zeros(2)}
    fail = False

    @ft.compile
    def step(x):
        s["h"] = ft.stack([s["h"] + x, s["h"]])[0]
        if fail:
            raise KeyError("stop")

    for _ in range(3):
        step(ft.ones(2))
    before, fail = s["h"], True
    with pytest.raises(KeyError, match="stop"):
        step(ft.ones(1))
    assert s["h"] is before and before.tolist() == [3, 3]
    fail = False
    step(ft.ones(2))
    assert s["h"].tolist() == [4, 4] and step.traces == 2


def test_a_result_whose_container_is_kept_outside():
    kept = {}

    def step(x):
        kept["out"] = {"h": x * 2, "parts": (x + 1,)}
        return kept["out"]

    compiled = ft.compile(step)
    for value in (1.0, 2.0, 3.0):
        out = compiled(ft.tensor(value))
        assert out["h"] is kept["out"]["h"] and kept["out"]["h"].item() == value * 2
        assert kept["out"]["parts"][0].item() == value + 1
