"""``torch._foreach_*`` against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from compare import same
from nn_programs import tries

import functorch_port as ft

NUMBERS = [[0.5, -1.5, 2.0], [[1.0, 0.25]], [3.0]]
OTHERS = [[2.0, 1.5, -0.5], [[0.75, 4.0]], [0.5]]


def made(T, values, dtype="float32"):
    return [T.tensor(v, dtype=getattr(T, dtype)) for v in values]


NAMES = sorted(n.removeprefix("_foreach_") for n in dir(torch) if n.startswith("_foreach_"))
SECOND = {
    "add": [1, 0.5, [1, 2.0, 3], "tensors", "scalar tensor"],
    "sub": [1, [1, 2.0, 3], "tensors"],
    "mul": [2.5, [1, 2.0, 3], "tensors", "scalar tensor"],
    "div": [2, [1, 2.0, 3], "tensors", "scalar tensor"],
    "pow": [2, [1, 2.0, 3], "tensors"],
    "maximum": [0.5, [1, 2.0, 3], "tensors"],
    "minimum": [0.5, [1, 2.0, 3], "tensors"],
    "clamp_min": [0.5, [1, 2.0, 3], "tensors"],
    "clamp_max": [0.5, [1, 2.0, 3], "tensors"],
}
MORE = {
    "lerp": [("tensors", 0.3), ("tensors", [0.1, 0.2, 0.3]), ("tensors", "tensors")],
    "addcmul": [("tensors", "tensors"), ("tensors", "tensors", 2), ("tensors", "tensors", [1, 2, 3])],
    "addcdiv": [("tensors", "tensors"), ("tensors", "tensors", 0.5), ("tensors", "tensors", [1, 2, 3])],
    "norm": [(), (1,), (float("inf"),)],
    "powsum": [(2,)],
    "copy_": [("tensors",)],
    "mm": [],
}


def second(T, what):
    if isinstance(what, str):
        return T.tensor(1.5) if what == "scalar tensor" else made(T, OTHERS)
    return list(what) if isinstance(what, list) else what


def calls():
    for name in NAMES:
        base = name.rstrip("_")
        for other in SECOND.get(base, ()):
            yield name, (other,)
        for args in MORE.get(name, MORE.get(base, ())):
            yield name, args
        if base not in SECOND and base not in MORE and name not in MORE:
            yield name, ()


ALL = sorted({n for n, _ in calls()})


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((n, "float32") for n in ALL),
        *((n, "bfloat16") for n in ("add_", "mul", "lerp_", "addcdiv_", "norm")),
    ],
)
def test_same_as_torch(name, dtype):
    for _, args in [c for c in calls() if c[0] == name]:
        results = []
        for T in (torch, ft):
            tensors = made(T, NUMBERS, dtype)
            given = [second(T, a) for a in args]
            given = [
                [t.to(getattr(T, dtype)) if isinstance(t, T.Tensor) else t for t in g]
                if isinstance(g, list)
                else g
                for g in given
            ]
            out = getattr(T, f"_foreach_{name}")(tensors, *given)
            assert not name.endswith("_") or out is tensors or list(map(id, out)) == list(map(id, tensors))
            results.append(list(out))
        tol = (
            2e-2 if dtype == "bfloat16" else 1e-5
        )  # torch rounds intermediate results of bfloat16 differently
        same(*results, tol=tol, where=f"{name}{args}")


def test_all_names_are_there():
    assert [n for n in NAMES if not hasattr(ft, f"_foreach_{n}")] == []
    assert not hasattr(ft, "_foreach_nothing")


def test_errors_and_keywords():
    def program(T):
        a, i = made(T, NUMBERS), [T.tensor([1, 2])]
        return tries(
            lambda: T._foreach_add(a, [1]),
            lambda: T._foreach_add(a, a[:1]),
            lambda: T._foreach_add([], 1),
            lambda: T._foreach_add(a, T.ones(1)),
            lambda: T._foreach_add(a, a, alpha=2),
            lambda: T._foreach_sub(a, a, alpha=3),
            lambda: T._foreach_pow(2, a),
            lambda: T._foreach_addcdiv(a, a, a, T.tensor([1.0, 2.0, 3.0])),
            lambda: T._foreach_addcmul(a, a, a, value=2),
            lambda: T._foreach_norm(a, ord=1, dtype=T.float64),
            lambda: T._foreach_sqrt(i),
            lambda: T._foreach_sqrt_(i),
            lambda: T._foreach_div_(i, 2),
            lambda: T._foreach_mm([T.ones(2, 2)], [T.ones(2, 2)]),
        )

    theirs, ours = program(torch), program(ft)
    assert len(theirs) == len(ours)
    for t, o in zip(theirs, ours, strict=True):
        assert t == o or torch.allclose(torch.tensor([x[1] for x in t][0]), torch.tensor([x[1] for x in o][0])), (
            t, o)  # fmt: skip


def test_gradients_and_compiled():
    def run(T, call):
        w = [T.ones(2, requires_grad=True), T.ones(3, requires_grad=True)]
        sum(t.sum() for t in T._foreach_mul(w, [2.0, 3.0])).backward()
        with T.no_grad():
            step = lambda: T._foreach_add_(w, [t.grad for t in w], alpha=-0.1)  # noqa: E731
            (call(step) if call else step)()
        return [t.tolist() for t in w]

    for a, b, c in zip(run(torch, None), run(ft, None), run(ft, ft.compile), strict=True):
        assert a == pytest.approx(b, rel=1e-6) and a == pytest.approx(c, rel=1e-6)
