"""Gradients that a compiled step leaves behind: not returned until somebody reads them, and right when he does."""

import copy
import itertools

import numpy as np
import pytest
import torch
from counting import xla_compilations

import functorch_port as ft

ROWS = np.random.default_rng(0).standard_normal((6, 4))
LABELS = np.array([0, 1, 2, 0, 1, 2])


class Case:
    """A small network and its training step, in PyTorch or (compiled) here, in float64."""

    def __init__(self, lib, wrap=lambda fn: fn, momentum=0.9):
        nn, self.lib = lib.nn, lib
        lib.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
        self.optimizer = lib.optim.SGD(self.model.parameters(), lr=0.1, momentum=momentum)
        self.step = wrap(self._step)
        self.batches = {n: (lib.tensor(ROWS[:n]), lib.tensor(LABELS[:n])) for n in (4, 6)}

    def _step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.lib.nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, rows=6):
        return self.step(*self.batches[rows])

    def grads(self):
        return [p.grad.numpy().copy() for p in self.model.parameters()]

    def params(self):
        return [p.detach().numpy().copy() for p in self.model.parameters()]


def pair():
    return Case(ft, ft.compile), Case(torch)


def close(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)


def pending(case):
    return [p.executable.pending is not None for p in case.step.programs()]


@pytest.mark.parametrize("read_at", [(0,), (3,), (1, 2, 4), ()])
def test_gradients_are_right_whenever_they_are_read(read_at):
    ours, theirs = pair()
    for step in range(6):
        close([ours.run().item()], [theirs.run().item()])
        if step in read_at:
            close(ours.grads(), theirs.grads())
    close(ours.params(), theirs.params())
    close(ours.grads(), theirs.grads())
    assert ours.step.traces == 1


def test_nobody_reads_so_nothing_is_returned():
    warm_up()
    case = Case(ft, ft.compile)
    with xla_compilations() as count:
        for _ in range(4):
            case.run()
    assert count[0] == 1
    assert pending(case) == [True]


def test_who_reads_once_gets_them_returned_from_then_on():
    warm_up()
    case = Case(ft, ft.compile)
    case.run()
    case.grads()
    assert pending(case) == [False]
    case.run()
    with xla_compilations() as count:
        for _ in range(3):
            case.run()
            case.grads()
    assert count[0] == 0


def test_a_gradient_that_was_taken_stays_what_it_was():
    ours, theirs = pair()
    ours.run(), theirs.run()
    taken = ours.model[0].weight.grad
    expected = theirs.model[0].weight.grad.clone()
    for _ in range(3):
        ours.run(), theirs.run()
    np.testing.assert_allclose(taken.numpy(), expected.numpy(), rtol=1e-10)
    assert ours.model[0].weight.grad is not taken


def warm_up():
    """Programs that only move arrays are compiled once per process, whichever test comes first."""
    case = Case(ft, ft.compile)
    for rows in (6, 6, 4, 6):
        case.run(rows)
    case.grads()


def test_other_shapes_do_not_compute_them():
    warm_up()
    ours, theirs = pair()
    with xla_compilations() as count:
        for rows in (6, 6, 4, 6, 4, 6):
            ours.run(rows)
    assert count[0] == 2
    for rows in (6, 6, 4, 6, 4, 6):
        theirs.run(rows)
    close(ours.params(), theirs.params())
    close(ours.grads(), theirs.grads())


@pytest.mark.parametrize("by", ["optimizer", "model", "hand"])
def test_dropping_them_is_no_reading(by):
    case = Case(ft, ft.compile)
    case.run()
    if by == "hand":
        for p in case.model.parameters():
            p.grad = None
    else:
        getattr(case, by).zero_grad()
    assert pending(case) == [True]
    assert all(p.grad is None for p in case.model.parameters())
    case.run()
    assert len(case.grads()) == 6


def test_another_compiled_function_reads_them():
    ours, theirs = pair()
    norm = ft.compile(lambda: sum((p.grad**2).sum() for p in ours.model.parameters()))
    for _ in range(3):
        ours.run(), theirs.run()
        expected = sum((p.grad**2).sum() for p in theirs.model.parameters())
        close([norm().item()], [expected.item()])


def test_a_trace_that_reads_them_runs_once():
    ours, theirs = pair()
    ours.run(), theirs.run()
    runs = itertools.count()

    @ft.compile
    def first_gradient():
        next(runs)
        return ours.model[0].weight.grad

    for _ in range(2):
        np.testing.assert_allclose(first_gradient().numpy(), theirs.model[0].weight.grad.numpy(), rtol=1e-10)
    assert next(runs) == 1
    close(ours.grads(), theirs.grads())


def test_an_eager_step_reads_them():
    ours, theirs = pair()
    for case in (ours, theirs):
        for _ in range(3):
            case.run()
            case.optimizer.step()  # a second time, with the gradients left behind
    close(ours.params(), theirs.params())


def test_accumulated_gradients_are_kept():
    def scenario(lib, wrap):
        w = lib.ones(3, requires_grad=True)
        backward = wrap(lambda x: (w * x).sum().backward())
        out = []
        for k in range(3):
            backward(lib.tensor([1.0, 2.0, 3.0]) * k)
            out.append(w.grad.tolist())
        return out

    assert scenario(ft, ft.compile) == scenario(torch, lambda fn: fn)


def test_dropout_is_drawn_once():
    """The gradient that is read belongs to the mask that the step was taken with."""
    model = ft.nn.Sequential(ft.nn.Linear(4, 50), ft.nn.Dropout(0.5), ft.nn.Linear(50, 1)).double()
    optimizer = ft.optim.SGD(model.parameters(), lr=0.5)

    @ft.compile
    def step(x):
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()

    for _ in range(3):
        before = [p.detach().numpy().copy() for p in model.parameters()]
        step(ft.tensor(ROWS))
        for old, p in zip(before, model.parameters(), strict=True):
            np.testing.assert_allclose((old - p.detach().numpy()) / 0.5, p.grad.numpy(), atol=1e-9)


def test_memory_is_not_reused_under_the_eyes_of_others():
    """A step writes where the parameters of the step before the last one were."""
    case = Case(ft, ft.compile)
    seen = []
    for _ in range(5):
        p = case.model[0].weight
        seen.append((p.jax(), np.asarray(p.jax()), p.detach().clone(), p.detach().numpy().copy()))
        case.run()
    for array, view, clone, expected in seen:
        for kept in (np.asarray(array), view, clone.numpy()):
            np.testing.assert_array_equal(kept, expected)


def test_two_steps_over_the_same_parameters():
    def scenario(lib, wrap):
        lib.manual_seed(0)
        a, b = lib.nn.Linear(4, 4).double(), lib.nn.Linear(4, 4).double()
        first, second = (lib.optim.SGD(m.parameters(), lr=0.05, momentum=0.5) for m in (a, b))
        x = lib.tensor(ROWS)

        def step(optimizer, sign):
            optimizer.zero_grad()
            loss = sign * b(a(x)).tanh().sum()
            loss.backward()
            optimizer.step()
            return loss

        one, two = wrap(lambda: step(first, 1.0)), wrap(lambda: step(second, -1.0))
        losses = [f().item() for _ in range(5) for f in (one, two)]
        grads = [p.grad.numpy().copy() for m in (a, b) for p in m.parameters()]
        return [losses, *grads, *(p.detach().numpy().copy() for m in (a, b) for p in m.parameters())]

    close(scenario(ft, ft.compile), scenario(torch, lambda fn: fn))


def test_copies_of_a_model_with_pending_gradients():
    ours, theirs = pair()
    for case in (ours, theirs):
        case.run()
        case.run()
    twin = copy.deepcopy(ours.model)
    close([p.detach().numpy() for p in twin.parameters()], theirs.params())
    close(ours.grads(), theirs.grads())
    ours.run(), theirs.run()
    close(ours.params(), theirs.params())


def test_explain_tells_what_runs():
    case = Case(ft, ft.compile)
    case.run()
    assert "FLOPs" in case.step.explain()
    assert pending(case) == [True]


def test_gradients_that_are_not_kept():
    ours, theirs = Case(ft, ft.compile(keep_grads=False)), Case(torch)
    for _ in range(4):
        close([ours.run().item()], [theirs.run().item()])
        assert all(p.grad is None for p in ours.model.parameters())
    close(ours.params(), theirs.params())
    assert ours.step.traces == 1
    (program,) = ours.step.programs()
    # their momentum is one array, and there are batch norm's statistics
    inputs = len(list(ours.model.parameters())) + 1 + 3
    assert len(program.inputs.donated) == inputs
    assert len(program.lower().out_info) == inputs + 1  # and the loss


def test_not_kept_are_only_those_that_were_used_up():
    w, v = (ft.ones(2, requires_grad=True) for _ in range(2))
    optimizer = ft.optim.SGD([w], lr=0.5)

    @ft.compile(keep_grads=False)
    def step():
        (w * v * 3).sum().backward()
        optimizer.step()

    step()
    assert w.grad is None
    assert w.tolist() == [-0.5, -0.5]
    assert v.grad.tolist() == [3.0, 3.0]
