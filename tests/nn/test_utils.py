"""`nn.utils` against torch."""

from __future__ import annotations

import pytest
import torch
from nn_programs import same, tries
from twins import plain

import functorch_port as ft


def rounded(t):
    return [f"{v:.6g}" for v in t.detach().double().reshape(-1).tolist()]


def params(T, value=1.0):
    made = [T.ones(2, requires_grad=True), T.ones(3, requires_grad=True), T.ones(1, requires_grad=True)]
    for p in made[:2]:
        p.grad = T.full_like(p, value)
    return made


@pytest.mark.parametrize("norm_type", [2.0, 1, 3.0, float("inf"), 0])
@pytest.mark.parametrize("max_norm", [1.0, 100])
def test_clip_grad_norm(norm_type, max_norm):
    def program(T):
        p = params(T)
        total = T.nn.utils.clip_grad_norm_(iter(p), max_norm, norm_type)
        return rounded(total), rounded(p[0].grad), rounded(p[1].grad), p[2].grad is None, total.requires_grad

    same(program)


def test_clip_edge_cases():
    def program(T):
        u = T.nn.utils
        bad = params(T, float("nan"))
        one = params(T)[0]
        double = [T.ones(2), T.ones(2, dtype=T.float64)]
        grads = [p.grad for p in params(T)[:2]]
        values = params(T, 3.0)[:2]  # torch's own refuses parameters that have no gradient at all
        limited = tries(lambda: u.clip_grad_value_(values, 0.5))
        with_norm = params(T)
        u.clip_grads_with_norm_(with_norm, 1.0, T.tensor(2.0))
        return [
            tries(lambda: u.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)), rounded(bad[0].grad),
            rounded(u.clip_grad_norm_(bad, 1.0)), rounded(u.clip_grad_norm_([], 1.0)), rounded(u.get_total_norm([])),
            rounded(u.clip_grad_norm_(one, 1.0)), rounded(one.grad), plain(u.get_total_norm(double))[0],
            rounded(u.get_total_norm(grads)), limited, rounded(values[0].grad), rounded(with_norm[1].grad),
            rounded(u.clip_grad_norm(params(T), 1.0)), tries(lambda: u.clip_grad_norm_(params(T), 1.0, "nuc")),
        ]  # fmt: skip

    same(program)


def test_the_gradient_stays_the_same_tensor():
    p = params(ft)
    before = [q.grad for q in p]
    version = before[0]._version
    ft.nn.utils.clip_grad_norm_(p, 1.0)
    assert [q.grad for q in p] == before or all(q.grad is g for q, g in zip(p, before, strict=True))
    assert before[0]._version == version + 1


def test_vectors():
    def program(T):
        u, p = T.nn.utils, params(T)
        vec = u.parameters_to_vector(p)
        new = T.arange(6.0)
        u.vector_to_parameters(new, p)
        new[0] = 9.0  # the parameters are views of the vector
        return [
            plain(vec), vec.requires_grad, [plain(q) for q in p], [q.requires_grad for q in p],
            tries(lambda: u.vector_to_parameters([1.0], p), lambda: u.vector_to_parameters(T.ones(4), p),
                  lambda: plain(u.parameters_to_vector([]))),
        ]  # fmt: skip

    same(program)


def test_clipping_takes_two_programs_for_any_model():
    """One for the norm and one for scaling, whatever the number of parameters."""
    assert torch.nn.utils.clip_grad_norm_ is not None
    net = ft.nn.Sequential(*[ft.nn.Linear(3, 3) for _ in range(5)])
    net(ft.ones(1, 3)).sum().backward()
    from functorch_port.core import dispatch

    calls, run = [], dispatch.run
    dispatch.run = lambda plan, dyn: calls.append(plan.name) or run(plan, dyn)
    try:
        ft.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    finally:
        dispatch.run = run
    assert calls == ["_total_norm", "_scaled_to_norm"]
