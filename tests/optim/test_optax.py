"""optax transformations as optimizers, our optimizers as optax transformations."""

from __future__ import annotations

import copy
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from counting import xla_compilations
from twins import distance, plain, to_ours

import functorch_port as ft

optim = ft.optim


def _data(seed=0, steps=8, shapes=((5, 3), (3,), ()), dtype="float32"):
    rng = np.random.default_rng(seed)
    start = [np.asarray(rng.standard_normal(s), dtype) for s in shapes]
    return start, [[np.asarray(rng.standard_normal(s), dtype) for s in shapes] for _ in range(steps)]


def _ours(make, start, grads, between=None):
    params = [ft.nn.Parameter(ft.tensor(v)) for v in start]
    optimizer, seen = make(params), []
    for i, row in enumerate(grads):
        for p, g in zip(params, row, strict=True):
            p.grad = None if g is None else ft.tensor(g)
        optimizer.step()
        seen += [p.detach().numpy().copy() for p in params]
        if between:
            between(i, optimizer)
    return seen, optimizer


def _optax(tx, start, grads):
    params = {str(i): jnp.asarray(v) for i, v in enumerate(start)}
    state, seen = tx.init(params), []
    update = jax.jit(tx.update)
    for row in grads:
        updates, state = update({str(i): jnp.asarray(g) for i, g in enumerate(row)}, state, params)
        params = optax.apply_updates(params, updates)
        seen += [np.asarray(params[str(i)]) for i in range(len(start))]
    return seen


TRANSFORMATIONS = {
    "sgd": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "plain sgd": lambda: optax.sgd(0.1),
    "adamw": lambda: optax.adamw(1e-2, weight_decay=0.1),
    "lion": lambda: optax.lion(1e-2),
    "lamb": lambda: optax.lamb(1e-2),
    "adafactor": lambda: optax.adafactor(1e-2),
    "clipped chain": lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2)),
    "schedule": lambda: optax.adam(optax.linear_schedule(0.1, 0.0, 5)),
    "accumulating": lambda: optax.MultiSteps(optax.adam(1e-2), 2).gradient_transformation(),
    "lookahead": lambda: optax.chain(optax.trace(0.9), optax.scale(-0.1), optax.ema(0.5)),
    "masked": lambda: optax.masked(optax.adam(1e-2), {"0": True, "1": False, "2": True}),
    "by label": lambda: optax.partition(
        {"a": optax.sgd(0.1), "b": optax.adam(0.1)}, {"0": "a", "1": "b", "2": "a"}
    ),
    "injected": lambda: optax.inject_hyperparams(optax.adamw)(1e-2, weight_decay=0.1),
    "schedule-free": lambda: optax.contrib.schedule_free_sgd(0.1),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_numbers_are_those_of_optax(name):
    start, grads = _data()
    theirs = _optax(TRANSFORMATIONS[name](), start, grads)
    ours, optimizer = _ours(lambda p: optim.from_optax(TRANSFORMATIONS[name](), p), start, grads)
    assert (
        distance(theirs, ours, 1.0) < 1e-5
    )  # here the powers of the betas are computed in float64, there in float32
    leaves = jax.tree.leaves(
        TRANSFORMATIONS[name]().init({str(i): jnp.asarray(v) for i, v in enumerate(start)})
    )
    assert sum(map(len, optimizer.state.values())) == len(leaves)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_adam_equals_torchs(dtype):
    start, grads = _data(dtype="float64")

    def run(T, make):
        kind = getattr(T, dtype)
        params = [T.nn.Parameter(T.tensor(v).to(kind)) for v in start]
        optimizer = make(params)
        for row in grads:
            for p, g in zip(params, row, strict=True):
                p.grad = T.tensor(g).to(kind)
            optimizer.step()
        return [p.detach().double().numpy() for p in params]

    theirs = run(torch, lambda p: torch.optim.Adam(p, lr=0.1))
    ours = run(ft, lambda p: optim.from_optax(optax.adam(0.1), p))
    bound = {"float64": 1e-12, "float32": 1e-6, "bfloat16": 3e-2}[dtype]
    assert distance(theirs, ours, 1.0) < bound


WAYS = {
    "a function": lambda p, **k: optim.from_optax(optax.adam, p, lr=0.1, **k),
    "injected": lambda p, **k: optim.from_optax(optax.inject_hyperparams(optax.adam)(0.1, **k), p),
    "later parameters": lambda p, **k: optim.from_optax(optax.adam, lr=0.1, **k)(p),
    "a factor": lambda p, **k: optim.from_optax(optax.adam(1.0, **k), p, lr=0.1),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_rate_is_in_the_groups_and_schedules_move_it(way):
    start, grads = _data()

    def run(T, make):
        params = [T.nn.Parameter(T.tensor(v)) for v in start]
        optimizer = make(params)
        schedule, seen = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.7), []
        for row in grads:
            for p, g in zip(params, row, strict=True):
                p.grad = T.tensor(g)
            optimizer.step()
            schedule.step()
            seen += [p.detach().numpy().copy() for p in params]
        return seen

    theirs = run(torch, lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.99)))
    assert distance(theirs, run(ft, lambda p: WAYS[way](p, b1=0.8, b2=0.99)), 1.0) < 2e-6


def test_all_numbers_are_in_the_groups():
    w, v = ft.nn.Parameter(ft.ones(2)), ft.nn.Parameter(ft.ones(3))
    groups = [{"params": [w]}, {"params": [v], "lr": 0.5, "b1": 0.0}]
    optimizer = optim.from_optax(optax.adamw, groups, lr=0.25, weight_decay=0.125)
    first, second = optimizer.param_groups
    assert (first["lr"], first["b1"], first["weight_decay"]) == (0.25, pytest.approx(0.9), 0.125)
    assert (second["lr"], second["b1"]) == (0.5, 0.0)
    assert repr(optimizer).startswith("OptaxOptimizer (\nParameter Group 0\n    b1: ")
    for p in (w, v):
        p.grad = ft.ones_like(p.detach())
    optimizer.step()
    assert w.tolist() == pytest.approx([1 - 0.25 * 1.125] * 2) and v.tolist() == pytest.approx([0.4375] * 3)
    first["weight_decay"] = 0.0
    before = w.tolist()
    optimizer.step()
    assert w.tolist() == pytest.approx([before[0] - 0.25] * 2, rel=1e-5)  # b2 is a float32 of optax's


def test_none_gradients_keep_value_and_state():
    start, grads = _data(steps=4)
    grads[1][0] = grads[2][2] = None
    seen, optimizer = _ours(lambda p: optim.from_optax(optax.adam(0.1), p), start, grads)
    assert (seen[3] == seen[0]).all() and (seen[8] == seen[5]).all() and (seen[4] != seen[1]).all()
    alone, _ = _ours(lambda p: optim.from_optax(optax.adam(0.1), p), start[1:2], [row[1:2] for row in grads])
    assert distance(alone, seen[1::3]) < 1e-6
    for p in optimizer.param_groups[0]["params"]:
        p.grad = None
    count = plain(optimizer.state["group 0"])
    optimizer.step()
    assert plain(optimizer.state["group 0"]) == count


def test_state_dict_continues():
    start, grads = _data(steps=10)
    make = lambda p: optim.from_optax(optax.inject_hyperparams(optax.adamw)(0.1), p)  # noqa: E731
    whole, _ = _ours(make, start, grads)
    first, optimizer = _ours(make, start, grads[:5])
    assert (
        list(optimizer.state_dict()["state"]) == [0, 1, 2, "group 0"] or 0 in optimizer.state_dict()["state"]
    )
    saved = copy.deepcopy(optimizer.state_dict())

    def reloaded(params):
        fresh = optim.from_optax(optax.inject_hyperparams(optax.adamw)(0.3), params)
        fresh.load_state_dict(saved)
        assert fresh.param_groups[0]["lr"] == pytest.approx(0.1)
        return fresh

    rest, _ = _ours(reloaded, first[-3:], grads[5:])
    assert distance(whole[15:], rest) == 0
    copied = copy.deepcopy(optimizer)
    assert plain(copied.state_dict()) == plain(optimizer.state_dict())
    with pytest.raises(RuntimeError, match="another transformation"):
        other = optim.from_optax(optax.sgd(0.1, momentum=0.9), [ft.nn.Parameter(ft.tensor(v)) for v in start])
        other.load_state_dict(saved)
        other.param_groups[0]["params"][0].grad = ft.tensor(start[0])
        other.step()


def test_lazy_state_and_a_new_group_in_mid_training():
    w, v = ft.nn.Parameter(ft.ones(2)), ft.nn.Parameter(ft.ones(2))
    optimizer = optim.from_optax(optax.adam(0.1), [w])
    assert optimizer.state_dict()["state"] == {}
    for i in range(4):
        if i == 2:
            optimizer.add_param_group({"params": [v], "lr": 2.0})
        w.grad = v.grad = ft.ones(2)
        optimizer.step()
    assert w.tolist() == pytest.approx([0.6] * 2) and v.tolist() == pytest.approx([0.6] * 2)
    assert {k: plain(t) for k, t in optimizer.state["group 1"].items()} == {"0.count": ("torch.int32", 2)}


def _train(T, make, compile, schedule=True, steps=10):
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Linear(6, 16), T.nn.Tanh(), T.nn.Linear(16, 3)).double()
    optimizer = make(net.named_parameters())
    rate = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    rng, traces = np.random.default_rng(0), itertools.count()
    x, y = T.tensor(rng.standard_normal((12, 6))), T.tensor(rng.integers(0, 3, 12))

    def step(x, y):
        next(traces)
        optimizer.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = compile(step)
    for _ in range(steps):
        run(x, y)
        if schedule:
            rate.step()
    return [p.detach().numpy() for p in net.parameters()], next(traces)


MAKE = {
    "adam": (lambda p: torch.optim.Adam(p, lr=0.05), lambda p: optim.from_optax(optax.adam, p, lr=0.05)),
    "sgd": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: optim.from_optax(optax.sgd(1.0, momentum=0.9, nesterov=True), p, lr=0.1),
    ),
}


@pytest.mark.parametrize("name", MAKE)
def test_compiled_with_a_schedule_is_one_trace(name):
    theirs, _ = _train(torch, MAKE[name][0], lambda f: f)
    eager, _ = _train(ft, MAKE[name][1], lambda f: f)
    ours, traces = _train(ft, MAKE[name][1], ft.compile)
    assert distance(theirs, eager, 1.0) < 1e-11 and distance(theirs, ours, 1.0) < 1e-11
    assert traces == 1


def test_new_rates_compile_nothing():
    start, grads = _data(steps=6)
    params = [ft.nn.Parameter(ft.tensor(v)) for v in start]
    optimizer = optim.from_optax(optax.adamw, params, lr=0.1)
    with xla_compilations() as later:
        for i, row in enumerate(grads):
            for p, g in zip(params, row, strict=True):
                p.grad = ft.tensor(g)
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= 0.9
            optimizer.param_groups[0]["b1"] -= 0.1
            if i == 0:
                later[0] = 0
                first = later[0]
    assert first == 0
    with xla_compilations() as later:
        optimizer.step()
    assert later[0] == 0


def test_a_closure_gives_the_loss_to_the_transformation():
    w = ft.nn.Parameter(ft.tensor([1.0]))
    tx = optax.chain(optax.sgd(0.0), optax.contrib.reduce_on_plateau(factor=0.5, patience=1))
    optimizer = optim.from_optax(tx, [w])

    def closure():
        optimizer.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    for _ in range(4):
        assert optimizer.step(closure).item() == 1.0
    scale = [v for k, v in optimizer.state["group 0"].items() if k.endswith("scale")]
    assert scale[0].item() < 1.0


def test_what_is_donated_is_nobody_elses():
    """optax may start a leaf from the parameters themselves; a copy of the state taken outside stays readable."""
    w = ft.nn.Parameter(ft.ones(3))
    optimizer = optim.from_optax(optax.contrib.schedule_free_sgd(0.1), [w])
    kept = []
    for _ in range(3):
        w.grad = ft.ones(3)
        optimizer.step()
        kept.append([t.detach() for t in optimizer.state[w].values()])
        kept.append([t.detach().clone() for t in optimizer.state[w].values()])
    assert all(t.sum().item() < 100 for row in kept for t in row)


ERRORS = {
    "no transformation": (lambda p: optim.from_optax(3, p), "needs an optax transformation"),
    "no rate": (lambda p: optim.from_optax(optax.scale_by_adam, p, lr=0.1), "takes no learning_rate"),
    "unknown number": (lambda p: optim.from_optax(optax.sgd(0.1), p, b1=0.1), "no hyperparameter 'b1'"),
    "negative rate": (lambda p: optim.from_optax(optax.adam, p, lr=-1.0), "Invalid learning rate: -1.0"),
    "unknown argument": (lambda p: optim.from_optax(optax.adam, p, lr=0.1, b3=1), "b3"),
    "no parameters": (lambda p: optim.from_optax(optax.adam, [], lr=0.1), "empty parameter list"),
    "a class without twin": (lambda p: optim.as_optax(optim.Optimizer), "as_optax of Optimizer"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, text = ERRORS[name]
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=text):
        call([ft.nn.Parameter(ft.ones(2))])


# ---------------------------------------------------------------------- as_optax


CONVERTED = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01},
    "Adam": {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.1},
    "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "Adadelta": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.9, "centered": True},
    "Rprop": {"lr": 0.1},
    "ASGD": {"lr": 0.1},
}
CONVERTED = {k: v for k, v in CONVERTED.items() if k.lower() in ft.optim.functional.__all__}


@pytest.mark.parametrize("name", CONVERTED)
def test_ours_in_a_chain_follows_torch(name):
    start, grads = _data(shapes=((5, 3), (3,), (1,)))
    tx = optax.chain(optax.identity(), optim.as_optax(getattr(optim, name), **CONVERTED[name]))
    assert isinstance(optim.as_optax(getattr(optim, name)), optax.GradientTransformationExtraArgs)
    ours = _optax(tx, start, grads)
    params = [torch.nn.Parameter(torch.tensor(v)) for v in start]
    optimizer, theirs = getattr(torch.optim, name)(params, **CONVERTED[name]), []
    for row in grads:
        for p, g in zip(params, row, strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
        theirs += [p.detach().numpy().copy() for p in params]
    assert distance(theirs, ours, 1.0) < 1e-5  # the update is rounded before it is added


def test_there_and_back_again():
    start, grads = _data()
    direct, _ = _ours(lambda p: optim.AdamW(p, lr=0.1), start, grads)
    around, optimizer = _ours(
        lambda p: optim.from_optax(optim.as_optax(optim.SGD, lr=0.1, momentum=0.9), p), start, grads
    )
    straight, _ = _ours(lambda p: optim.SGD(p, lr=0.1, momentum=0.9), start, grads)
    assert distance(straight, around, 1.0) < 1e-6 < distance(direct, around, 1.0)
    assert to_ours({}) == {} and optimizer.state


def test_a_schedule_under_plain_jit_and_scan():
    tx = optim.as_optax(optim.SGD, lr=optax.linear_schedule(1.0, 0.0, 4))

    def body(carry, grad):
        params, state = carry
        updates, state = tx.update(grad, state, params)
        return (optax.apply_updates(params, updates), state), None

    start = jnp.zeros(2)
    (end, _), _ = jax.jit(lambda g: jax.lax.scan(body, (start, tx.init(start)), g))(jnp.ones((4, 2)))
    assert end.tolist() == [-2.5, -2.5]


def test_with_a_grad_scaler_inside_compile():
    """A step whose gradients overflow leaves parameters, averages and counts as they were."""

    def run(compile, make):
        w = ft.nn.Parameter(ft.tensor([1.0, -2.0]))
        optimizer, scaler = make([w]), ft.amp.GradScaler("cpu", init_scale=64.0)

        def step(factor):
            optimizer.zero_grad()
            scaler.scale((w**2).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()

        step, seen = compile(step), []
        for i in range(6):
            step(ft.tensor(float("inf") if i in (0, 3) else 1.0))
            seen.append(w.detach().numpy().copy())
        return seen

    ours = run(ft.compile, lambda p: optim.from_optax(optax.adam, p, lr=0.1))
    assert (ours[0] == [1.0, -2.0]).all() and (ours[3] == ours[2]).all()
    assert distance(run(lambda f: f, lambda p: optim.Adam(p, lr=0.1)), ours) < 1e-5


def test_hooks_names_and_functionalize():
    net, calls = ft.nn.Linear(2, 1), []
    optimizer = optim.from_optax(optax.sgd(0.1, momentum=0.9), net.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    net(ft.ones(1, 2)).sum().backward()
    optimizer.step()
    assert calls == [1] and list(optimizer.state[net.weight]) == ["0.trace.*"]
    assert optimizer.state[net.bias]["0.trace.*"].shape == (1,)
