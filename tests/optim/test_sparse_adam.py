"""Sparse gradients: of embeddings, in SGD, Adagrad and SparseAdam, and how the others refuse them."""

from __future__ import annotations

import copy
import io
import itertools
import warnings

import numpy as np
import pytest
import torch
from counting import xla_compilations
from twins import distance, outcome, plain, same_outcome, to_ours

import functorch_port as ft

# PyTorch says once per process that it does not check the indices.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_coo_tensor([[0]], [1.0], (2,))

ROWS, COLUMNS = 12, 3
TAKE = {
    "SGD": [{}, {"lr": 0.1, "maximize": True}, {"foreach": True}, {"lr": 0.1, "momentum": 0.9}]
    + [{"lr": 0.1, "momentum": 0.9, "dampening": 0.5}, {"lr": 0.1, "momentum": 0.9, "nesterov": True}],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2},
        {"maximize": True, "eps": 0.1},
    ],
    "SparseAdam": [
        {},
        {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.01},
        {"maximize": True, "lr": 0.1},
        {"betas": (0, 0)},
    ],
}
CASES = [(name, options) for name, all_options in TAKE.items() for options in all_options]
REFUSE = [
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "ASGD",
    "Adafactor",
    "Muon",
]
# Sums of a row's entries, and a dozen roundings in each step.
BOUND = {"float64": 1e-14, "float32": 5e-6}


def _batches(n, shape=(4, 5)):
    rng = np.random.default_rng(1)
    return [(rng.integers(0, ROWS, shape), rng.standard_normal((*shape, COLUMNS))) for _ in range(n)]


def _train(T, name, options, dtype="float64", steps=12, padding_idx=None):
    rng = np.random.default_rng(0)
    start = T.tensor(rng.standard_normal((ROWS, COLUMNS)).astype(dtype))
    table = T.nn.Embedding(ROWS, COLUMNS, padding_idx=padding_idx, sparse=True, _weight=start)
    optimizer = getattr(T.optim, name)(table.parameters(), **options)
    values = []
    for rows, factors in _batches(steps):
        optimizer.zero_grad()
        (table(T.tensor(rows)) * T.tensor(factors.astype(dtype))).sum().backward()
        optimizer.step()
        values.append(table.weight.detach().numpy().copy())
    return values, optimizer, table


def _dense(x):
    return x.to_dense().numpy() if hasattr(x, "to_dense") else np.asarray(x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_steps(name, options, dtype):
    theirs, their_optimizer, _ = _train(torch, name, options, dtype)
    ours, our_optimizer, _ = _train(ft, name, options, dtype)
    assert distance(theirs, ours, 1.0) <= BOUND[dtype]
    a, b = their_optimizer.state_dict(), our_optimizer.state_dict()
    assert a["param_groups"] == b["param_groups"] and list(a["state"]) == list(b["state"])
    for i in a["state"]:
        assert list(a["state"][i]) == list(b["state"][i])
        for x, y in zip(a["state"][i].values(), b["state"][i].values(), strict=True):
            assert isinstance(x, int) == isinstance(y, int)
            assert getattr(x, "is_sparse", None) == getattr(y, "is_sparse", None)
            assert distance([_dense(x)], [_dense(y)], 1.0) <= BOUND[dtype]


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_a_thousand_steps(name):
    theirs, *_ = _train(torch, name, {"lr": 0.01}, steps=1000)
    ours, *_ = _train(ft, name, {"lr": 0.01}, steps=1000)
    assert distance(theirs[-1:], ours[-1:], 1.0) < 1e-9


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_padding_is_not_touched(name, options):
    theirs, *_ = _train(torch, name, options, padding_idx=2)
    ours, _, table = _train(ft, name, options, padding_idx=2)
    assert distance(theirs, ours, 1.0) <= BOUND["float64"]
    assert (table.weight[2].detach() == ft.tensor(ours[0][2])).all()


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_tensor_lr(name):
    theirs, *_ = _train(torch, name, {"lr": torch.tensor(0.1)}, "float32")
    ours, *_ = _train(ft, name, {"lr": ft.tensor(0.1)}, "float32")
    assert distance(theirs, ours, 1.0) <= BOUND["float32"]


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_half_types(name):
    theirs, ours = (_halves(T, name) for T in (torch, ft))
    assert np.abs(theirs - ours).max() <= 2 * 2.0**-8 * np.abs(theirs).max()


def _halves(T, name):
    p = T.nn.Parameter(T.arange(24.0).reshape(ROWS, 2).div(8).bfloat16())
    optimizer = getattr(T.optim, name)([p], lr=0.05)
    for rows, factors in _batches(6, (5,)):
        values = T.tensor(factors[:, :2].astype("float32")).bfloat16()
        p.grad = T.sparse_coo_tensor(T.tensor(rows)[None], values, (ROWS, 2))
        optimizer.step()
    return np.array(plain(p)[1])


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_several_sparse_dimensions_and_no_entries(name):
    def run(T):
        p, q = (T.nn.Parameter(T.ones(3, 4, 2, dtype=T.float64)) for _ in range(2))
        optimizer = getattr(T.optim, name)([p, q], lr=0.1)
        for i in range(3):
            values = T.arange(6.0, dtype=T.float64).reshape(3, 2) + i
            p.grad = T.sparse_coo_tensor([[0, 2, 0], [3, i, 3]], values, (3, 4, 2))
            q.grad = T.sparse_coo_tensor(T.zeros(2, 0), T.zeros(0, 2, dtype=T.float64), (3, 4, 2))
            optimizer.step()
        return [t.detach().numpy() for t in (p, q)]

    assert distance(run(torch), run(ft)) < 1e-14


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_training_goes_on_from_torchs_state(name):
    options = {"lr": 0.1}
    theirs, their_optimizer, their_table = _train(torch, name, options, steps=4)
    table = ft.nn.Embedding(ROWS, COLUMNS, sparse=True, _weight=ft.tensor(theirs[-1]))
    optimizer = getattr(ft.optim, name)(table.parameters())
    optimizer.load_state_dict(to_ours(copy.deepcopy(their_optimizer.state_dict())))
    for T, t, o in ((torch, their_table, their_optimizer), (ft, table, optimizer)):
        o.zero_grad()
        (t(T.tensor([1, 5, 1])) ** 2).sum().backward()
        o.step()
    assert distance([their_table.weight.detach().numpy()], [table.weight.detach().numpy()]) < 1e-14


def test_a_sparse_buffer_is_saved_and_loaded():
    _, optimizer, table = _train(ft, "SGD", {"lr": 0.1, "momentum": 0.9}, steps=3)
    fresh = ft.optim.SGD(table.parameters(), lr=0.1, momentum=0.9)
    fresh.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    (a,), (b,) = optimizer.state.values(), fresh.state.values()
    assert b["momentum_buffer"].is_sparse and b["momentum_buffer"] is not a["momentum_buffer"]
    assert ft.equal(a["momentum_buffer"].to_dense(), b["momentum_buffer"].to_dense())
    file = io.BytesIO()
    ft.save(optimizer.state_dict(), file)
    file.seek(0)
    saved = ft.load(file)["state"][0]["momentum_buffer"]
    assert repr(saved) == repr(a["momentum_buffer"])


def _with_gradient(T, sparse=True, **more):
    p = T.nn.Parameter(T.ones(4, 2))
    g = T.sparse_coo_tensor([[0, 2, 0]], T.ones(3, 2), (4, 2))
    p.grad = g if sparse else g.to_dense()
    return p


@pytest.mark.parametrize("name", REFUSE)
def test_the_others_refuse(name):
    def run(T):
        p = _with_gradient(T)
        getattr(T.optim, name)([p]).step()

    theirs, ours = outcome(run, torch), outcome(run, ft)
    assert theirs[1] is not None and theirs[1:] == ours[1:]


def test_lbfgs_makes_them_dense():
    def run(T):
        p = _with_gradient(T)
        T.optim.LBFGS([p], max_iter=2).step(lambda: T.tensor(1.0))
        return [p.detach().numpy()]

    assert distance(run(torch), run(ft)) < 1e-6


def _sgd(T, sparse, **options):
    p = _with_gradient(T, sparse)
    optimizer = T.optim.SGD([p], lr=0.1, momentum=0.9, **options)
    optimizer.step()
    p.grad = _with_gradient(T, not sparse).grad
    optimizer.step()
    return plain(p), optimizer.state[p]["momentum_buffer"].is_sparse


def test_sparse_gradients_after_a_dense_one():
    same_outcome(lambda T: _sgd(T, False))


ERRORS = {
    "SGD, weight decay": lambda T: T.optim.SGD([_with_gradient(T)], weight_decay=0.1).step(),
    "SGD, fused": lambda T: T.optim.SGD([_with_gradient(T)], fused=True).step(),
    "SGD, differentiable": lambda T: T.optim.SGD([_with_gradient(T)], differentiable=True).step(),
    "SGD, dense after sparse": lambda T: _sgd(T, True),
    "Adagrad, weight decay": lambda T: T.optim.Adagrad([_with_gradient(T)], weight_decay=0.1).step(),
    "Adagrad, fused": lambda T: T.optim.Adagrad([_with_gradient(T)], fused=True).step(),
    "SparseAdam, dense": lambda T: T.optim.SparseAdam([_with_gradient(T, False)]).step(),
    "lr": lambda T: T.optim.SparseAdam([_with_gradient(T)], lr=0.0),
    "eps": lambda T: T.optim.SparseAdam([_with_gradient(T)], eps=0.0),
    "beta 0": lambda T: T.optim.SparseAdam([_with_gradient(T)], betas=(1.0, 0.9)),
    "beta 1": lambda T: T.optim.SparseAdam([_with_gradient(T)], betas=(0.9, -1.0)),
    "tensor lr of two": lambda T: T.optim.SparseAdam([_with_gradient(T)], lr=T.ones(2)),
    "sparse parameter": lambda T: T.optim.SparseAdam([T.ones(1), T.zeros(3, layout=T.sparse_coo)]),
    "complex parameter": lambda T: T.optim.SparseAdam([{"params": [T.zeros(3, dtype=T.complex64)]}]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    theirs, ours = outcome(ERRORS[name], torch), outcome(ERRORS[name], ft)
    assert theirs[1] is not None and theirs[1:] == ours[1:]


def test_functional_twins():
    from functorch_port.optim.adagrad import adagrad
    from functorch_port.optim.sgd import sgd
    from functorch_port.optim.sparse_adam import sparse_adam

    theirs = torch.optim._functional
    twins = {
        "torch": (theirs.sparse_adam, theirs.adagrad, theirs.sgd),
        "functorch_port": (sparse_adam, adagrad, sgd),
    }

    def run(T):
        by_adam, by_adagrad, by_sgd = twins[T.__name__]
        zeros = lambda: T.zeros(4, 2, dtype=T.float64)  # noqa: E731
        p, q, r, mean, square, total = (zeros() for _ in range(6))
        step, bufs = T.tensor(0.0), [None]
        for i in range(1, 4):
            grads = [T.sparse_coo_tensor([[0, 2, 0]], zeros()[:3] + i, (4, 2))]
            by_adam([p], grads, [mean], [square], [i], eps=1e-8, beta1=0.9, beta2=0.99, lr=0.1, maximize=True)
            by_adagrad([q], grads, [total], [step], lr=0.1, weight_decay=0, lr_decay=0.1, eps=1e-8, maximize=False,
                       has_sparse_grad=True)  # fmt: skip
            by_sgd(
                [r],
                grads,
                bufs,
                weight_decay=0,
                momentum=0.9,
                lr=0.1,
                dampening=0,
                nesterov=False,
                maximize=False,
            )
        return [t.numpy() for t in (p, q, r, mean, square, total, step)] + [bufs[0].to_dense().numpy()]

    assert distance(run(torch), run(ft)) < 1e-14


def test_text():
    same_outcome(lambda T: repr(T.optim.SparseAdam([_with_gradient(T)])))


# ---------------------------------------------------------------------- embeddings


def _table(T, **options):
    weight = T.arange(10.0).reshape(5, 2)
    return T.nn.Embedding(5, 2, sparse=True, _weight=weight, **options)


def _seen(x):
    return (plain(x.to_dense()), repr(x)) if x is not None and x.is_sparse else plain(x)


def _weighted(T, y):
    return (y * T.arange(float(y.numel())).reshape(y.shape)).sum()


def _twice(T):
    table = _table(T, padding_idx=1)
    rows = T.tensor([[0, 1, 3], [3, 3, 0]])
    _weighted(T, table(rows)).backward()
    first, seen = table.weight.grad, _seen(table.weight.grad)
    _weighted(T, table(T.tensor([4, 1, 2]))).backward()
    same = table.weight.grad is first
    again = _seen(table.weight.grad)
    _weighted(T, table(rows)).backward()
    return seen, same, again, _seen(table.weight.grad)


def _mixed(T):
    table, results = _table(T), []
    rows = T.tensor([0, 3, 3])
    for losses in ([1, 2], [2, 1], [3]):
        table.zero_grad()
        for kind in losses:
            loss = _weighted(T, table(rows)) if kind != 2 else 0
            (loss if kind == 1 else loss + (table.weight**2).sum()).backward()
        results.append(_seen(table.weight.grad))
    return results


def _hooks(T):
    table, seen = _table(T), []
    table.weight.register_hook(lambda g: seen.append(_seen(g)))
    table.weight.register_post_accumulate_grad_hook(lambda p: seen.append(_seen(p.grad)))
    _weighted(T, table(T.tensor([2, 2]))).backward()
    return seen


def _zeroed(T):
    table = _table(T)
    optimizer = T.optim.SGD(table.parameters(), lr=0.1)
    _weighted(T, table(T.tensor([2, 2, 0]))).backward()
    optimizer.zero_grad(set_to_none=False)
    zeroed = _seen(table.weight.grad)
    _weighted(T, table(T.tensor([1, 2]))).backward()
    return zeroed, _seen(table.weight.grad)


def _graph(T):
    table = _table(T)
    y = table(T.tensor([1, 2]))
    node = y.grad_fn
    (g,) = T.autograd.grad((y**2).sum(), table.weight, create_graph=True)
    (second,) = T.autograd.grad((g.to_dense() ** 2).sum(), table.weight)
    return type(node).__name__, type(node.next_functions[0][0]).__name__, plain(g.to_dense()), _seen(second)


def _second_backward(T):
    loss = _weighted(T, _table(T)(T.tensor([1, 2])))
    loss.backward()
    loss.backward()


def _gradient(T, table, rows):
    _weighted(T, table(rows)).backward()
    return _seen(table.weight.grad)


def _converted(T):
    table = _table(T)
    _weighted(T, table(T.tensor([1, 2]))).backward()
    table.double()
    return _seen(table.weight.grad), _seen(copy.deepcopy(table.weight.grad))


PROGRAMS = {
    "converted": _converted,
    "twice": _twice,
    "mixed": _mixed,
    "hooks": _hooks,
    "zeroed": _zeroed,
    "graph": _graph,
    "freed": _second_backward,
    "renorm": lambda T: _gradient(T, _table(T, max_norm=1.0), T.tensor([1, 2])),
    "int32": lambda T: _gradient(T, _table(T), T.tensor([1, 2], dtype=T.int32)),
    "no gradient": lambda T: _table(T).requires_grad_(False)(T.tensor([1])).requires_grad,
    "out of range": lambda T: _table(T)(T.tensor([5])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_embedding(name):
    same_outcome(PROGRAMS[name])


def test_a_weight_that_is_no_leaf_gets_the_same_numbers_dense():
    def run(T):
        w = T.arange(10.0).reshape(5, 2).requires_grad_()
        _weighted(T, T.nn.functional.embedding(T.tensor([1, 3, 1]), w * 2, sparse=True)).backward()
        return plain(w.grad.to_dense())

    same_outcome(run)


def test_scaler():
    def run(T):
        table = _table(T)
        optimizer = T.optim.SGD(table.parameters(), lr=0.1)
        scaler = T.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale(_weighted(T, table(T.tensor([1, 2])))).backward()
        scaler.unscale_(optimizer)
        seen = _seen(table.weight.grad)
        scaler.step(optimizer)
        return seen, plain(table.weight)

    same_outcome(run)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_steps_compile_nothing_and_reuse_the_memory(name, tuned):
    tuned(tier="compiled")
    table = ft.nn.Embedding(1000, 4, padding_idx=0, sparse=True)
    optimizer = getattr(ft.optim, name)(table.parameters(), lr=0.1)
    rng = np.random.default_rng(0)

    def step():
        optimizer.zero_grad()
        table(ft.tensor(rng.integers(0, 9, (4, 5)))).sum().backward()  # with more and less padding
        optimizer.step()

    for _ in range(3):
        step()
    place = table.weight.jax().unsafe_buffer_pointer()
    with xla_compilations() as later:
        for i in range(4):
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            step()
    assert later[0] == 0
    assert table.weight.jax().unsafe_buffer_pointer() == place


def test_what_someone_holds_is_not_reused():
    p = _with_gradient(ft)
    held = p.detach().jax()
    ft.optim.SGD([p], lr=0.1).step()
    assert (np.asarray(held) == 1).all() and p[0, 0].item() != 1


def _compiled_training(T, name, options, compile, eager_steps, uses=1):
    rng = np.random.default_rng(0)
    start = [T.tensor(rng.standard_normal((ROWS, COLUMNS))) for _ in range(2)]
    first, second = (T.nn.Embedding(ROWS, COLUMNS, padding_idx=2, sparse=True, _weight=w) for w in start)
    optimizer = getattr(T.optim, name)([first.weight, second.weight], **options)
    traces, values = itertools.count(), []

    def step(rows, factors):
        next(traces)
        optimizer.zero_grad()
        loss = (first(rows) * second(rows) * factors).sum()
        for _ in range(uses - 1):
            loss = loss + (first(rows + 1) * factors).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = compile(step)
    for i, (rows, factors) in enumerate(_batches(10)):
        loss = (step if i < eager_steps else run)(T.tensor(rows % (ROWS - 1)), T.tensor(factors))
        values += [t.detach().numpy().copy() for t in (loss, first.weight, second.weight)]
        values += [first.weight.grad.to_dense().numpy(), second.weight.grad.to_dense().numpy()]
        optimizer.param_groups[0]["lr"] *= 0.9
    state = [np.asarray(v) for s in optimizer.state.values() for v in s.values()]
    return values + state, next(traces) - eager_steps, first.weight.grad


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("eager_steps", [0, 2])
@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {"lr": 0.1}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}), ("SparseAdam", {"lr": 0.1})],
)
def test_compiled(name, options, eager_steps, uses):
    theirs, _, _ = _compiled_training(torch, name, options, lambda f: f, eager_steps, uses)
    ours, traces, grad = _compiled_training(ft, name, options, ft.compile, eager_steps, uses)
    assert distance(theirs, ours, 1.0) < 1e-12
    assert traces <= (2 if name == "SparseAdam" and not eager_steps else 1)
    assert grad.is_sparse and grad._nnz() <= 20 * uses
    assert (grad._indices() != 2).all() and "nnz=" in repr(grad)


def test_a_compiled_forward_alone_gives_a_dense_gradient():
    def run(T, compile):
        weight = T.arange(10.0).reshape(5, 2).clone()
        table = T.nn.Embedding(5, 2, padding_idx=1, sparse=True, _weight=weight)
        _weighted(T, compile(lambda x: table(x) * 2)(T.tensor([1, 3, 3]))).backward()
        return plain(table.weight.grad.to_dense()), table.weight.grad.is_sparse

    assert run(torch, lambda f: f) == (run(ft, ft.compile)[0], True)


def test_what_compiled_functions_refuse():
    p = _with_gradient(ft)
    for name in ("SGD", "Adagrad", "SparseAdam"):
        optimizer = getattr(ft.optim, name)([p], lr=0.1)
        with pytest.raises(NotImplementedError, match="zero_grad"):
            ft.compile(optimizer.step)()
        assert plain(p)[1] == [[1.0, 1.0]] * 4
    table = _table(ft)
    optimizer = ft.optim.SGD(table.parameters(), lr=0.1, momentum=0.9)

    def step(look):
        table.zero_grad()
        table(ft.tensor([1, 1])).sum().backward()
        if look:
            table.weight.grad.coalesce()
        optimizer.step()

    with pytest.raises(NotImplementedError, match="its buffer grows"):
        ft.compile(step)(False)
    with pytest.raises(NotImplementedError, match="not known"):
        ft.compile(step)(True)
    assert table.weight.grad is None and not optimizer.state
    step(False)
    assert table.weight.grad._nnz() == 2


def test_a_0_dim_parameter():
    found = []
    for T in (torch, ft):
        p = T.nn.Parameter(T.tensor(1.0))
        optimizer = T.optim.SparseAdam([p], lr=0.1)
        for _ in range(3):
            p.grad = T.sparse_coo_tensor(T.zeros((0, 1), dtype=T.int64), T.tensor([2.0]), ())
            optimizer.step()
        found.append([t.item() for t in (p, *list(optimizer.state[p].values())[1:])])
    np.testing.assert_allclose(*found, rtol=1e-6)
