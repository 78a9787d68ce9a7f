"""What eager mode refuses for its values a compiled function refuses too: PyTorch's error, and the state as before."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft


@dataclass
class Case:
    """An operation, good arguments and bad ones.

    Attributes:
        fn: of a torch-like module and its tensors.
        good, bad: arguments, as nested lists of numbers.
        raised: the error's type where PyTorch has none (it counts modulo the size, or gives NaN).
        text: False where PyTorch's text names its source file.
    """

    fn: Callable[..., Any]
    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    raised: type[Exception] | None = None
    text: bool = True


def _case(fn: Any, good: Any, bad: Any, **options: Any) -> Case:
    return Case(
        fn, good if isinstance(good, tuple) else (good,), bad if isinstance(bad, tuple) else (bad,), **options
    )


TABLE = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
EYE, SINGULAR = [[2.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]
INDEFINITE, UNKNOWN = [[1.0, 2.0], [2.0, 1.0]], [[1.0, float("nan")], [0.0, 1.0]]
D = "distributions"

CASES = {
    "embedding": _case(lambda t, i: t.nn.functional.embedding(i, t.tensor(TABLE)), [0, 2], [0, 3]),
    "embedding_negative": _case(lambda t, i: t.nn.functional.embedding(i, t.tensor(TABLE)), [0, 2], [0, -1]),
    "embedding_bag": _case(
        lambda t, i: t.nn.functional.embedding_bag(i, t.tensor(TABLE)), [[0, 2]], [[0, 5]]
    ),
    "embedding_bag_offsets": _case(
        lambda t, i, o: t.nn.functional.embedding_bag(i, t.tensor(TABLE), o),
        ([0, 1, 2], [0, 2]),
        ([0, 1, 2], [1, 2]),
    ),
    "cross_entropy": _case(lambda t, y: t.nn.functional.cross_entropy(t.tensor(TABLE), y), [0, 1, 2], [0, 3, 1]),
    "cross_entropy_negative": _case(
        lambda t, y: t.nn.functional.cross_entropy(t.tensor(TABLE), y), [0, -100, 2], [0, -1, 1]
    ),
    "cross_entropy_smoothed": _case(
        lambda t, y: t.nn.functional.cross_entropy(t.tensor(TABLE), y, label_smoothing=0.1), [0, 1, 2], [0, 9, 1]
    ),
    "nll_loss": _case(lambda t, y: t.nn.functional.nll_loss(t.tensor(TABLE), y), [0, 1, 2], [0, 1, 7]),
    "nll_loss_pixels": _case(
        lambda t, y: t.nn.functional.nll_loss(t.tensor(TABLE).reshape(1, 3, 3, 1), y),
        [[[0], [1], [2]]],
        [[[0], [1], [4]]],
    ),
    "multi_margin_loss": _case(
        lambda t, y: t.nn.functional.multi_margin_loss(t.tensor(TABLE), y), [0, 1, 2], [0, 1, 3]
    ),
    "gather": _case(lambda t, i: t.tensor(TABLE).gather(1, i), [[0, 2]], [[0, 3]]),
    "gather_of_computed": _case(
        lambda t, x: t.tensor(TABLE).gather(1, (x * 2).long()), [[0.0, 1.0]], [[0.0, 2.0]]
    ),
    "take_along_dim": _case(
        lambda t, i: t.take_along_dim(t.tensor(TABLE), i, 1), [[0, 2]], [[0, 3]], raised=RuntimeError
    ),
    "index_select": _case(lambda t, i: t.tensor(TABLE).index_select(0, i), [0, 2], [0, 3]),
    "take": _case(lambda t, i: t.take(t.tensor(TABLE), i), [0, -9], [0, 9]),
    "put": _case(lambda t, i: t.tensor(TABLE).put(i, t.ones(2)), [0, 8], [0, 9]),
    "index": _case(lambda t, i: t.tensor(TABLE)[i], [0, -3], [0, 3]),
    "index_two": _case(lambda t, i, j: t.tensor(TABLE)[i, j], ([0, 2], [1, 2]), ([0, 2], [1, -4])),
    "index_number": _case(lambda t, i: t.tensor(TABLE)[i] * 1, 2, 3),
    "index_put": _case(lambda t, i: t.tensor(TABLE).index_put((i,), t.ones(3)), [0, 2], [0, 3]),
    "setitem": _case(lambda t, i: _set(t.tensor(TABLE), i), [0, 2], [0, 3]),
    "index_add": _case(lambda t, i: t.tensor(TABLE).index_add(0, i, t.ones(2, 3)), [0, 2], [0, 3], text=False),
    "index_copy": _case(lambda t, i: t.tensor(TABLE).index_copy(0, i, t.ones(2, 3)), [0, 2], [0, 3]),
    "index_fill": _case(lambda t, i: t.tensor(TABLE).index_fill(0, i, 1.0), [0, 2], [0, 3]),
    "scatter": _case(lambda t, i: t.tensor(TABLE).scatter(1, i, 9.0), [[0, 2]], [[0, 3]]),
    "scatter_add": _case(lambda t, i: t.tensor(TABLE).scatter_add(1, i, t.ones(1, 2)), [[0, 2]], [[0, -1]]),
    "scatter_reduce": _case(
        lambda t, i: t.tensor(TABLE).scatter_reduce(1, i, t.ones(1, 2), "amax"), [[0, 2]], [[0, 4]]
    ),
    "one_hot": _case(lambda t, i: t.nn.functional.one_hot(i, 3), [0, 2], [0, 3]),
    "one_hot_negative": _case(lambda t, i: t.nn.functional.one_hot(i, 3), [0, 2], [0, -1]),
    "max_unpool": _case(
        lambda t, i: t.nn.functional.max_unpool1d(t.ones(1, 1, 2), i, 2), [[[0, 2]]], [[[0, 9]]], text=False
    ),
    "masked_scatter": _case(
        lambda t, m: t.tensor(TABLE).masked_scatter(m, t.ones(2)), [[True, False, False]] * 2 + [[False] * 3],
        [[True, False, True]] * 2 + [[False] * 3], text=False,
    ),
    "ctc_loss": _case(
        lambda t, n: t.nn.functional.ctc_loss(
            t.zeros(4, 1, 3).log_softmax(2), t.tensor([[1, 2]]), n, t.tensor([2])
        ),
        [4], [5],
    ),
    "div_floor": _case(lambda t, d: t.tensor([4, 6]) // d, [2, 3], [2, 0]),
    "div_trunc": _case(lambda t, d: t.div(t.tensor([4, 6]), d, rounding_mode="trunc"), [2, 3], [2, 0]),
    "remainder": _case(lambda t, d: t.tensor([4, 6]) % d, [2, 3], [2, 0]),
    "fmod": _case(lambda t, d: t.fmod(t.tensor([4, 6]), d), [2, 3], [2, 0]),
    "quantile": _case(lambda t, q: t.quantile(t.tensor(TABLE), q), [0.5], [1.5]),
    "bce": _case(
        lambda t, x: t.nn.functional.binary_cross_entropy(x * 1, t.tensor([0.0, 1.0])), [0.2, 0.7], [0.2, 1.5]
    ),
    "bce_target": _case(
        lambda t, y: t.nn.functional.binary_cross_entropy(t.tensor([0.2, 0.7]), y), [0.0, 1.0], [0.0, -1.0],
        raised=RuntimeError,
    ),
    "gaussian_nll": _case(
        lambda t, v: t.nn.functional.gaussian_nll_loss(t.ones(2), t.zeros(2), v), [1.0, 2.0], [1.0, -2.0]
    ),
    "cholesky": _case(lambda t, a: t.linalg.cholesky(a), EYE, INDEFINITE),
    "cholesky_batch": _case(lambda t, a: t.linalg.cholesky(a), [EYE, EYE], [EYE, INDEFINITE]),
    "inv": _case(lambda t, a: t.linalg.inv(a), EYE, SINGULAR),
    "solve": _case(lambda t, a: t.linalg.solve(a, t.ones(2)), EYE, SINGULAR),
    "lu_factor": _case(lambda t, a: t.linalg.lu_factor(a), EYE, SINGULAR),
    "svd": _case(lambda t, a: t.linalg.svd(a).S, EYE, UNKNOWN, text=False),
    "eig": _case(lambda t, a: t.linalg.eigvals(a), EYE, UNKNOWN, raised=RuntimeError),
    "multinomial": _case(lambda t, p: t.multinomial(p, 1) * 0, [0.5, 0.5], [0.0, 0.0]),
    "multinomial_negative": _case(lambda t, p: t.multinomial(p, 1) * 0, [0.5, 0.5], [1.0, -0.5]),
    "multinomial_again": _case(lambda t, p: t.multinomial(p, 2, True) * 0, [0.5, 0.5], [0.0, 0.0]),
    "normal": _case(lambda t, s: t.normal(t.zeros(2), s) * 0, [1.0, 1.0], [1.0, -1.0]),
    "bernoulli": _case(lambda t, p: t.bernoulli(p) * 0, [0.5, 0.5], [0.5, 2.0]),
    "poisson": _case(lambda t, p: t.poisson(p) * 0, [0.5, 0.5], [0.5, -2.0]),
    "cov": _case(lambda t, w: t.cov(t.tensor(TABLE), fweights=w), [1, 1, 1], [1, -1, 1]),
    "assert_async": _case(lambda t, x: _asserted(t, x), [1], [0]),
    "normal_scale": _case(
        lambda t, s: getattr(t, D).Normal(0.0, s).log_prob(t.ones(2)), [1.0, 1.0], [1.0, -1.0]
    ),
    "normal_one_scale": _case(lambda t, s: getattr(t, D).Normal(0.0, s).log_prob(t.ones(2)), 1.0, -1.0),
    "categorical_value": _case(
        lambda t, v: getattr(t, D).Categorical(logits=t.zeros(3)).log_prob(v), [0, 2], [0, 3]
    ),
    "bernoulli_value": _case(
        lambda t, v: getattr(t, D).Bernoulli(t.tensor(0.5)).log_prob(v), [0.0, 1.0], [0.0, 0.5]
    ),
    "geometric": _case(
        lambda t, p: getattr(t, D).Geometric(p).log_prob(t.ones(2)), [0.5, 0.5], [0.5, 0.0]
    ),
    "multivariate": _case(
        lambda t, c: getattr(t, D).MultivariateNormal(t.zeros(2), c).log_prob(t.ones(2)), EYE, INDEFINITE
    ),
    "clip_grad_norm": _case(lambda t, g: _clipped(t, g), [1.0, 2.0], [1.0, float("inf")]),
}  # fmt: skip


def _set(x: Any, at: Any) -> Any:
    x[at] = 0.0
    return x


def _asserted(t: Any, x: Any) -> Any:
    t._assert_async(x > 0, "it must be positive")
    return x + 1


def _clipped(t: Any, g: Any) -> Any:
    p = t.nn.Parameter(t.ones(2))
    p.grad = g * 1
    return t.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def _leaves(result: Any) -> list[np.ndarray]:
    items = result if isinstance(result, tuple | list) else (result,)
    return [np.asarray(x.detach()) for x in items]


def _raised(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


@pytest.fixture(autouse=True)
def validating():
    """PyTorch's own compiler, which other tests import, switches the checks of distributions off."""
    torch.distributions.Distribution.set_default_validate_args(True)


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_function_raises_what_eager_and_pytorch_raise(name):
    case = CASES[name]
    good, bad = ([ft.tensor(a) for a in args] for args in (case.good, case.bad))
    eager = _raised(lambda: case.fn(ft, *bad))
    if case.raised is None:
        theirs = _raised(lambda: case.fn(torch, *(torch.tensor(a) for a in case.bad)))
        assert type(eager).__name__.lstrip("_") == type(theirs).__name__.lstrip("_")
        assert not case.text or str(eager).split("\n")[0] == str(theirs).split("\n")[0]
    else:
        assert type(eager) is case.raised
    compiled = ft.compile(lambda *args: case.fn(ft, *args))

    def fails():
        error = _raised(lambda: compiled(*bad))
        assert type(error) is type(eager)
        assert str(error) == str(eager)

    wanted = _leaves(case.fn(ft, *good))
    fails()  # the first call
    for _ in range(2):
        for ours, other in zip(_leaves(compiled(*good)), wanted, strict=True):
            np.testing.assert_allclose(ours, other, rtol=1e-6, atol=1e-7)
        fails()  # a warm one
    assert compiled.traces == 2


# ------------------------------------------------------------------ state


class _Model(ft.nn.Module):
    def __init__(self, bad_by_value: bool) -> None:
        super().__init__()
        self.embedding, self.norm = ft.nn.Embedding(5, 4), ft.nn.BatchNorm1d(4)
        self.drop, self.head = ft.nn.Dropout(0.5), ft.nn.Linear(4, 3)
        self.calls = 0

    def forward(self, x):
        return self.head(self.drop(self.norm(self.embedding(x))))


def _training(optimizer: str, kind: str, **options: Any) -> Any:
    ft.manual_seed(0)
    model = _Model(True)
    make = getattr(ft.optim, optimizer)
    opt = make(model.parameters(), lr=0.1, **({"momentum": 0.9} if optimizer == "SGD" else {}))
    schedule = ft.optim.lr_scheduler.ExponentialLR(opt, 0.9)

    def step(x, y, scale):
        opt.zero_grad()
        out = model(x)
        loss = ft.nn.functional.cross_entropy(out, y)
        if kind == "within":  # of what the program computes
            loss = loss + ft.linalg.cholesky((out.T @ out + ft.eye(3)) * scale).sum()
        loss.backward()
        opt.step()
        return loss

    return model, opt, schedule, ft.compile(step, **options)


def _state(model: Any, opt: Any) -> list[Any]:
    ft_state = copy.deepcopy(opt.state_dict())
    tables = [v for table in ft_state["state"].values() for v in table.values()]
    grads = [p.grad for p in model.parameters()]
    key = ft.default_generator.get_state()
    found = [*model.state_dict().values(), *tables, *grads, key, opt.param_groups[0]["lr"]]
    return [
        None if v is None else np.asarray(v.detach() if isinstance(v, ft.Tensor) else v).copy() for v in found
    ]


def _same(a: list[Any], b: list[Any]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_array_equal(x, y)


X, Y, ONE = ft.tensor([0, 1, 2, 4]), ft.tensor([0, 1, 2, 0]), ft.tensor(1.0)
BAD = {
    "index": (ft.tensor([0, 1, 2, 5]), Y, ONE),
    "target": (X, ft.tensor([0, 1, 3, 0]), ONE),
    "within": (X, Y, ft.tensor(-1.0)),
}


@pytest.mark.parametrize(
    ("kind", "optimizer", "rng"),
    [
        ("index", "Adam", "jax"),
        ("target", "SGD", "torch"),
        ("within", "SGD", "jax"),
        ("within", "Adam", "torch"),
    ],
)
def test_a_check_that_fails_leaves_all_state_as_it_was(kind, optimizer, rng):
    """Parameters, buffers, gradients, optimizer state, random numbers: training goes on as if it had not been."""
    runs = []
    for fails in (False, True):
        model, opt, schedule, step = _training(optimizer, kind, rng=rng)
        losses = []
        for n in range(4):
            if fails and n != 2:
                before = _state(model, opt)
                with pytest.raises((IndexError, ft.linalg.LinAlgError)):
                    step(*BAD[kind])
                _same(before, _state(model, opt))
            losses.append(float(step(X, Y, ONE)))
            schedule.step()
        runs.append((losses, _state(model, opt), step.traces))
    assert runs[0][0] == runs[1][0]
    _same(runs[0][1], runs[1][1])
    assert runs[1][2] <= runs[0][2] + 1  # the call that failed first


def test_gradients_of_the_step_before_can_be_read_after_one_that_failed():
    model, _, _, step = _training("SGD", "target")
    step(X, Y, ONE)
    other, _, _, again = _training("SGD", "target")
    again(X, Y, ONE)
    for _ in range(2):
        with pytest.raises(IndexError, match=re.escape("Target 3 is out of bounds.")):
            step(*BAD["target"])
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())


def test_many_small_parameters_that_are_joined_stay_as_they_were():
    ft.manual_seed(0)
    model = ft.nn.Sequential(*(ft.nn.Linear(3, 3) for _ in range(40)))
    opt = ft.optim.Adam(model.parameters())

    @ft.compile
    def step(x, scale):
        opt.zero_grad()
        loss = ft.linalg.cholesky(model(x).square().mean() * scale * ft.eye(2)).sum()
        loss.backward()
        opt.step()
        return loss

    x = ft.randn(2, 3)
    step(x, ONE)
    step(x, ONE)
    before = _state(model, opt)
    with pytest.raises(ft.linalg.LinAlgError):
        step(x, -ONE)
    _same(before, _state(model, opt))
    step(x, ONE)


def test_what_is_changed_in_place_stays_as_it_was():
    counts, seen = ft.zeros(3), ft.zeros(())

    @ft.compile
    def count(x):
        seen.add_(1)
        counts.index_add_(0, (x * 2).long(), ft.ones(2))
        x.mul_(2)
        return x.sum()

    good, bad = ft.tensor([0.0, 1.0]), ft.tensor([0.0, 2.0])
    count(good)
    with pytest.raises(IndexError, match="index out of range in self"):
        count(bad)
    assert (counts.tolist(), seen.item(), bad.tolist()) == ([1.0, 0.0, 1.0], 1.0, [0.0, 2.0])


@pytest.mark.cpu
def test_slices_and_reshapes_of_arguments_are_checked_before_the_program_runs():
    table = ft.nn.Embedding(5, 3)

    @ft.compile
    def loss(tokens):
        scores = table(tokens[:, :-1]) @ table.weight.T
        return ft.nn.functional.cross_entropy(scores.reshape(-1, 5), tokens[:, 1:].reshape(-1))

    good = ft.tensor([[0, 1, 2], [2, 3, 4]])
    loss(good)
    (program,) = loss.programs()
    assert program.within is None and len(program.before) == 2
    with pytest.raises(IndexError, match=r"Target 5 is out of bounds\."):
        loss(ft.tensor([[0, 1, 5], [2, 3, 4]]))
    with pytest.raises(IndexError, match="index out of range in self"):
        loss(ft.tensor([[-1, 1, 2], [2, 3, 4]]))
    loss(good)
    assert loss.traces == 1


def test_the_first_check_that_fails_is_the_one_that_is_reported():
    @ft.compile
    def both(a, b):
        return ft.linalg.cholesky(a * 1).sum() + ft.linalg.inv(b * 1).sum()

    eye, bad = ft.eye(2), ft.zeros(2, 2)
    both(eye, eye)
    for a, b, name in ((bad, eye, "cholesky"), (eye, bad, "inv"), (bad, bad, "cholesky")):
        with pytest.raises(ft.linalg.LinAlgError, match=f"linalg.{name}: "):
            both(a, b)


# ------------------------------------------------- inside of loops, branches and transforms


def _row(i):
    return ft.nn.functional.embedding(i, ft.tensor(TABLE)).sum()


def _loss(x, y):
    return ft.nn.functional.cross_entropy(x, y)


NESTED = {
    "vmap": (lambda i: ft.vmap(_row)(i), [[0, 1], [2, 0]], [[0, 1], [3, 0]], "index out of range in self"),
    "vmap_of_grad": (
        lambda y: ft.func.vmap(ft.func.grad(_loss), in_dims=(0, 0))(ft.tensor(TABLE), y),
        [0, 1, 2], [0, 5, 2], "Target 5 is out of bounds.",
    ),
    "grad_of_vmap": (
        lambda y: ft.func.grad(lambda x: ft.vmap(_loss)(x, y).sum())(ft.tensor(TABLE)),
        [0, 1, 2], [0, 5, 2], "Target 5 is out of bounds.",
    ),
    "grad": (
        lambda y: ft.func.grad(lambda x: _loss(x, y))(ft.tensor(TABLE)),
        [0, 1, 2], [0, 7, 2], "Target 7 is out of bounds.",
    ),
    "hessian": (
        lambda y: ft.func.hessian(lambda x: _loss(x, y))(ft.tensor(TABLE)),
        [0, 1, 2], [0, 7, 2], "Target 7 is out of bounds.",
    ),
    "jacfwd": (
        lambda y: ft.func.jacfwd(lambda x: _loss(x, y))(ft.tensor(TABLE)),
        [0, 1, 2], [0, 7, 2], "Target 7 is out of bounds.",
    ),
    "scan": (
        lambda y: ft.func.scan(lambda c, t: (c + _loss(ft.tensor([TABLE[0]]), t), c), ft.tensor(0.0), y)[0],
        [[0], [1], [2]], [[0], [6], [8]], "Target 6 is out of bounds.",
    ),
    "map": (lambda i: ft._higher_order_ops.map(_row, i), [[0, 1], [2, 0]], [[0, 1], [3, 0]],
            "index out of range in self"),
    "while_loop": (
        lambda i: ft.while_loop(lambda n, s: n < 3, lambda n, s: (n + 1, s + _row(i + n)), (0, ft.tensor(0.0)))[1],
        [0], [1], "index out of range in self",
    ),
    "cond": (
        lambda i: ft.cond(i.sum() > 1, lambda i: _row(i), lambda i: _loss(ft.tensor([TABLE[0]]), i), (i,)),
        [2], [4], "index out of range in self",
    ),
    "cond_numbers": (
        lambda i: ft.cond(i.sum() > 1, lambda i: _loss(ft.tensor([TABLE[0]]), i), lambda i: _row(i), (i,)),
        [2], [4], "Target ? is out of bounds.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_checks_inside_of_loops_branches_and_transforms(name):
    fn, good, bad, text = NESTED[name]
    good, bad = ft.tensor(good), ft.tensor(bad)
    wanted = fn(good).numpy()
    compiled = ft.compile(fn)
    with pytest.raises(IndexError):
        fn(bad)
    for _ in range(2):
        np.testing.assert_allclose(compiled(good).numpy(), wanted, rtol=1e-5, atol=1e-6)
        with pytest.raises(IndexError, match=re.escape(text)):
            compiled(bad)


W = ft.ones(2, requires_grad=True)


def _bce(x):
    return ft.nn.functional.binary_cross_entropy(x, ft.tensor([1.0, 0.0]))


OF_COMPUTED = {
    "vmap": lambda x: ft.vmap(_bce)(x * W).sum(),
    "vmap_of_grad": lambda x: ft.vmap(ft.func.grad(_bce))(x),
    "grad": lambda x: ft.func.grad(_bce)(x[1] * W),
    "hessian": lambda x: ft.func.hessian(_bce)(x[1]),
    "jacrev": lambda x: ft.func.jacrev(_bce)(x[1]),
    "jvp": lambda x: ft.func.jvp(_bce, (x[1],), (x[0],))[1],
    "scan": lambda x: ft.func.scan(lambda c, row: (c + _bce(row * W), c), ft.tensor(0.0), x)[0],
    "cond": lambda x: ft.cond(x.sum() > 0, lambda x: _bce(x[1] * W), lambda x: x.sum(), (x,)),
    "while_loop": lambda x: ft.while_loop(
        lambda n, s: n < 2, lambda n, s: (n + 1, s + _bce(x[1] * W)), (0, ft.tensor(0.0))
    )[1],
}


@pytest.mark.parametrize("name", OF_COMPUTED)
def test_checks_of_computed_values_that_have_a_gradient(name):
    fn = OF_COMPUTED[name]
    compiled = ft.compile(fn)
    good, bad = ft.tensor([[0.5, 0.25], [0.5, 0.5]]), ft.tensor([[0.5, 0.25], [0.5, 3.0]])
    for _ in range(2):
        np.testing.assert_allclose(compiled(good).detach().numpy(), fn(good).detach().numpy(), rtol=1e-5)
        for call in (fn, compiled):
            with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
                call(bad)


def test_gradients_that_are_given_up_stay_so_in_a_program_with_checks():
    ft.manual_seed(0)
    model = ft.nn.Linear(2, 2)
    opt = ft.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        loss = ft.linalg.cholesky(model(x).T @ model(x) + ft.eye(2)).sum()
        loss.backward()
        opt.step()

    for keep in (False, True):
        ft.compile(step, keep_grads=keep)(ft.ones(2, 2))
        assert [p.grad is not None for p in model.parameters()] == [keep, keep]


def test_a_branch_that_is_not_taken_is_not_checked():
    compiled = ft.compile(lambda i: ft.cond(i.sum() < 3, _row, lambda i: i.sum() * 1.0, (i,)))
    assert compiled(ft.tensor([7])).item() == 7.0
    assert compiled(ft.tensor([1])).item() == 12.0


def test_layers_in_a_scan_are_checked():
    class Layer(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = ft.nn.Parameter(ft.ones(4, 3))

        def forward(self, x):
            return x + self.table[(x[0, 0] * 2).long()]

    stack = ft.nn.ScanStack([Layer() for _ in range(3)])
    compiled = ft.compile(lambda x: stack(x).sum())
    assert compiled(ft.tensor([[-2.0, 0.0, 0.0]])).item() == 7.0
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        compiled(ft.tensor([[1.0, 0.0, 0.0]]))


def test_checks_in_a_backward_pass_outside_of_the_function():
    class Strange(ft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ft.tensor(TABLE)[0][(x * 2).long()]

    compiled = ft.compile(lambda x: Strange.apply(x).sum())
    x = ft.tensor([0.0, 1.0], requires_grad=True)
    compiled(x).backward()
    assert x.grad.tolist() == [0.0, 2.0]
    bad = ft.tensor([0.0, 2.0], requires_grad=True)
    loss = compiled(bad)
    with pytest.raises(IndexError, match="index [?] is out of bounds for dimension 0 with size 3"):
        loss.backward()
    assert bad.grad is None


def test_a_result_that_is_differentiated_outside_is_checked():
    w = ft.tensor([1.0, 2.0], requires_grad=True)
    compiled = ft.compile(lambda scale: ft.linalg.cholesky(ft.diag(w * scale)).sum())
    compiled(ft.tensor(1.0)).backward()
    w.grad = None
    with pytest.raises(ft.linalg.LinAlgError, match="order 1 is not positive-definite"):
        compiled(ft.tensor(-1.0))
    compiled(ft.tensor(4.0)).backward()
    np.testing.assert_allclose(w.grad.numpy(), [1.0, 2**-0.5], rtol=1e-6)


def test_a_compiled_function_in_another_one_is_checked():
    inner = ft.compile(_row)
    outer = ft.compile(lambda i: inner(i) * 2)
    assert outer(ft.tensor([1])).item() == 24.0
    with pytest.raises(IndexError, match="index out of range in self"):
        outer(ft.tensor([3]))


# ------------------------------------------------------------------ the switch


@pytest.mark.cpu
def test_constant_indices_are_checked_once_and_what_comes_after_them_before_the_program_runs():
    tokens, places = ft.nn.Embedding(5, 3), ft.nn.Embedding(4, 3)

    @ft.compile
    def loss(x, y):
        scores = (tokens(x) + places(ft.arange(x.shape[1]))) @ tokens.weight.T
        return ft.nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())

    x = ft.tensor([[0, 1, 2], [2, 3, 4]])
    loss(x, x)
    (program,) = loss.programs()
    assert program.within is None and len(program.before) == 2
    with pytest.raises(IndexError, match=r"Target 5 is out of bounds\."):
        loss(x, x + 1)
    with pytest.raises(IndexError, match="index out of range in self"):
        loss(ft.zeros(2, 5, dtype=ft.int64), ft.zeros(2, 5, dtype=ft.int64))


def test_without_checks_nothing_is_raised_and_the_loss_of_a_bad_target_is_nan():
    scores = ft.tensor(TABLE, requires_grad=True)
    for options in ({}, {"label_smoothing": 0.1}, {"reduction": "sum"}):
        loss = ft.compile(lambda y, o=options: ft.nn.functional.cross_entropy(scores, y, **o), checks=False)
        assert np.isfinite(loss(ft.tensor([0, 1, -100])).item())
        for bad in (3, -1, 2**40):
            assert np.isnan(loss(ft.tensor([0, 1, bad])).item())
    nll = ft.compile(lambda y: ft.nn.functional.nll_loss(scores.reshape(1, 3, 3, 1), y), checks=False)
    assert np.isnan(nll(ft.tensor([[[0], [1], [9]]])).item())
    (program,) = nll.programs()
    assert program.within is None and not program.before


def test_the_environment_says_it_for_all(monkeypatch):
    index = ft.tensor([0, 3])
    monkeypatch.setenv("FUNCTORCH_PORT_CHECKS", "0")
    ft.compile(_row)(index)
    with pytest.raises(IndexError):
        ft.compile(_row, checks=True)(index)
    monkeypatch.setenv("FUNCTORCH_PORT_CHECKS", "1")
    with pytest.raises(IndexError):
        ft.compile(_row)(index)
    ft.compile(_row, checks=False)(index)


def test_functionalize_is_pure_and_gives_nan_for_a_bad_target():
    pure = ft.functionalize(lambda y: _loss(ft.tensor(TABLE), y))
    state = pure.state(ft.tensor([0, 1, 2]))
    loss, _ = pure(state, ft.tensor([0, 1, 3]))
    assert np.isnan(float(loss))


def test_a_program_without_checks_has_no_more_outputs():
    lean, checked = (ft.compile(lambda a: ft.linalg.inv(a * 1), checks=c) for c in (False, True))
    counts = []
    for fn in (lean, checked):
        fn(ft.eye(200))  # too large to be looked at before the program runs
        (program,) = fn.programs()
        counts.append(len(program.executable.jaxpr.jaxpr.outvars))
    assert counts == [1, 2]
    assert "checks of values in the program: 1" in checked.explain(analyse=False)


def test_views_numpy_arrays_and_the_same_batch_again():
    compiled = ft.compile(_row)
    base = ft.tensor([0, 1, 2, 9])
    assert compiled(base[:3]).item() == 36.0
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(base[1:])
    index = ft.tensor([0, 1])
    compiled(index)
    index[1] = 5  # another value of the same tensor
    with pytest.raises(IndexError):
        compiled(index)
    index[1] = 2
    assert compiled(index).item() == 24.0
