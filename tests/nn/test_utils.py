"""`nn.utils` against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from nn_programs import same, tries
from twins import outcome, plain

import functorch_port as ft
from functorch_port._run import call


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


def test_clipping_takes_two_programs_for_any_model(monkeypatch):
    """One for the norm and one for scaling, whatever the number of parameters."""
    net = ft.nn.Sequential(*[ft.nn.Linear(3, 3) for _ in range(5)])
    net(ft.ones(1, 3)).sum().backward()
    calls, run = [], call.run
    monkeypatch.setattr(call, "run", lambda plan, dyn: calls.append(plan.name) or run(plan, dyn))
    ft.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    assert calls == ["_total_norm", "_scaled_to_norm"]


def close(a, b):
    """Equal, numbers up to a rounding."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return a == b or (a != a and b != b) or abs(a - b) <= 4e-7 * abs(a)
    return a == b


def graded(T, shapes, dtype="float32", value=None):
    """Parameters with gradients, and one without."""
    rng, made = np.random.default_rng(0), []
    for shape in shapes:
        grad = rng.standard_normal(shape) if value is None else np.full(shape, value)
        made.append(T.zeros(shape, dtype=getattr(T, dtype), requires_grad=True))
        made[-1].grad = T.tensor(grad).to(made[-1].dtype)
    return [*made, T.zeros(2, requires_grad=True)]


def clipped(T, norm_type, max_norm=1.0, shapes=((2,), (3,)), dtype="float32", value=None, **options):
    p = graded(T, shapes, dtype, value)
    total = T.nn.utils.clip_grad_norm_(p, max_norm, norm_type, **options)
    return plain(total), [plain(q.grad) for q in p[:-1]]


INF, NAN = float("inf"), float("nan")
CASES = {
    **{
        f"norm {n}, gradients {v}, {s}": lambda T, n=n, v=v, s=s: clipped(T, n, shapes=s, value=v)
        for n in (2, 1, 0, -1, -2, INF, -INF, 0.5, "inf")
        for v in (None, 0.0, INF, NAN)
        for s in (((2,), (3,)), ((2,), (), (0,)))
    },
    **{
        f"{d}": lambda T, d=d: clipped(T, 2.0, dtype=d)
        for d in ("float64", "bfloat16", "float16", "complex64")
    },
    **{
        f"refused norm {n} of {v}": lambda T, n=n, v=v: clipped(T, n, value=v, error_if_nonfinite=True)
        for n in (2, INF, 0, 1)
        for v in (INF, NAN)
    },
    **{f"limit {m}": lambda T, m=m: clipped(T, 2.0, max_norm=m) for m in (INF, 0, -1.0, "1.0")},
    "foreach": lambda T: [clipped(T, 2.0, foreach=f) for f in (True, False)],
    "no generator left": lambda T: plain(T.nn.utils.clip_grad_norm_((p for p in ()), 1.0)),
    "no iterator left": lambda T: plain(T.nn.utils.clip_grad_norm_(iter(()), 1.0)),
    "limit None": lambda T: clipped(T, 2.0, max_norm=None),
    "limit text": lambda T: clipped(T, 2.0, max_norm="a"),
    "a number": lambda T: T.nn.utils.clip_grad_norm_(3.0, 1.0),
    "total of integers": lambda T: T.nn.utils.get_total_norm([T.arange(3)]),
    "total of mixed": lambda T: [
        plain(T.nn.utils.get_total_norm([T.ones(3, dtype=a), T.ones(3, dtype=b)]))
        for a, b in ((T.float32, T.bfloat16), (T.bfloat16, T.float16), (T.complex64, T.float64))
    ],
    "value": lambda T: (lambda p: (T.nn.utils.clip_grad_value_(p, 0.3), [plain(q.grad) for q in p[:-1]]))(
        graded(T, ((3,), (), (0,)))
    ),
    "negative value": lambda T: (lambda p: (T.nn.utils.clip_grad_value_(p, -1), plain(p[0].grad)))(
        graded(T, ((3,),))
    ),
    "value of nan": lambda T: (lambda p: (T.nn.utils.clip_grad_value_(p, 1.0), plain(p[0].grad)))(
        graded(T, ((3,),), value=NAN)
    ),
    "value of complex": lambda T: T.nn.utils.clip_grad_value_(graded(T, ((3,),), "complex64"), 1.0),
    "given norm": lambda T: (
        lambda p: (T.nn.utils.clip_grads_with_norm_(p, 1.0, T.tensor(INF)), plain(p[0].grad))
    )(graded(T, ((3,),))),
    "vector of a transposed": lambda T: T.nn.utils.parameters_to_vector([T.ones(2, 3).t()]).shape,
    "vector of mixed": lambda T: plain(
        T.nn.utils.parameters_to_vector([T.ones(2), T.ones(2, dtype=T.float64)])
    ),
    "vector of a generator": lambda T: plain(
        T.nn.utils.parameters_to_vector(p for p in graded(T, ((), (0,), (2, 2))))
    ),
    "parameters of another dtype": lambda T: (
        lambda p: (
            T.nn.utils.vector_to_parameters(T.ones(4, dtype=T.float64), [p]),
            plain(p),
            p.requires_grad,
        )
    )(T.nn.Parameter(T.zeros(2, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_clipping_cases(name):
    theirs, ours = outcome(CASES[name], torch), outcome(CASES[name], ft)
    if name.startswith("vector of a transposed"):  # the text of view's error is that of the tensor's tests
        theirs, ours = [(r, e and e[0], w) for r, e, w in (theirs, ours)]
    assert close(list(theirs), list(ours)), f"\ntorch: {theirs}\nours:  {ours}"
