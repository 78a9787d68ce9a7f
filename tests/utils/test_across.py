"""Training that PyTorch saves in mid-run goes on here with PyTorch's numbers, through files, and the other way."""

import functools

import numpy as np
import pytest
import torch

import functorch_port as ft

WAYS = {"to here": (torch, ft), "to PyTorch": (ft, torch)}
pytestmark = pytest.mark.filterwarnings("ignore")


def through(here, there, value, path, **options):
    """What one library saves, as the other loads it."""
    here.save(value, path / "state.pt")
    return there.load(path / "state.pt", **options)


def kinds(value):
    """What a saved value is made of: types, dtypes and shapes."""
    if isinstance(value, dict):
        return type(value).__name__, {k: kinds(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [kinds(v) for v in value]
    if isinstance(value, torch.Tensor | ft.Tensor):
        return str(value.dtype), tuple(value.shape)
    return type(value).__name__


def numbers(value, path=""):
    """All numbers in a saved value, by where they are."""
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in numbers(part, f"{path}.{key}").items()}
    if isinstance(value, list | tuple):
        return {k: v for i, part in enumerate(value) for k, v in numbers(part, f"{path}[{i}]").items()}
    if isinstance(value, torch.Tensor | ft.Tensor):
        return {path: np.array(value.tolist(), float)}
    return {path: np.array(float(value))} if isinstance(value, int | float) else {}


def alike(found, expected, rtol=2e-5, atol=1e-6):
    assert kinds(found) == kinds(expected)
    ours, theirs = numbers(found), numbers(expected)
    for name, number in theirs.items():
        np.testing.assert_allclose(ours[name], number, rtol, atol, err_msg=name)


# Optimizers with their options.

W = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
B = np.random.default_rng(2).standard_normal(3).astype(np.float32)
G = np.random.default_rng(1).standard_normal((8, 3, 4)).astype(np.float32)

TENSOR = "tensor"  # the learning rate is one

OPTIMIZERS = {
    "SGD": [
        {}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "dampening": 0.1},
        {"momentum": 0.5, "weight_decay": 0.1, "maximize": True}, {"momentum": 0.9, "foreach": True},
        {"momentum": 0.9, "fused": True},
    ],
    "Adam": [
        {}, {"amsgrad": True}, {"maximize": True, "weight_decay": 0.1}, {"foreach": True}, {"foreach": False},
        {"fused": True}, {"fused": True, "amsgrad": True}, {"decoupled_weight_decay": True, "weight_decay": 0.1},
        {"betas": (0.5, 0.8), "eps": 1e-4}, {"lr": TENSOR}, {"lr": TENSOR, "fused": True, "maximize": True},
    ],
    "AdamW": [{}, {"amsgrad": True}, {"maximize": True}, {"fused": True}, {"foreach": True}, {"lr": TENSOR}],
    "Adamax": [{}, {"maximize": True, "weight_decay": 0.1}, {"foreach": True, "lr": TENSOR}],
    "NAdam": [
        {}, {"decoupled_weight_decay": True, "weight_decay": 0.1}, {"foreach": True}, {"maximize": True, "lr": TENSOR},
    ],
    "RAdam": [
        {}, {"decoupled_weight_decay": True, "weight_decay": 0.1}, {"foreach": True}, {"maximize": True, "lr": TENSOR},
    ],
    "Adagrad": [{}, {"lr_decay": 0.1, "initial_accumulator_value": 0.5}, {"fused": True}, {"maximize": True}],
    "Adadelta": [{}, {"rho": 0.5, "weight_decay": 0.1}, {"foreach": True}, {"maximize": True, "lr": TENSOR}],
    "RMSprop": [
        {}, {"momentum": 0.9, "centered": True}, {"foreach": True, "weight_decay": 0.1},
        {"maximize": True, "lr": TENSOR},
    ],
    "Rprop": [{}, {"etas": (0.4, 1.3), "step_sizes": (1e-4, 1.0)}, {"foreach": True}, {"maximize": True}],
    "ASGD": [{}, {"t0": 2, "lambd": 0.01, "alpha": 0.5}, {"foreach": True}, {"maximize": True, "lr": TENSOR}],
    "Adafactor": [{}, {"weight_decay": 0.1, "d": 1.5, "lr": TENSOR}, {"maximize": True}],
    "LBFGS": [{"max_iter": 3}, {"max_iter": 3, "line_search_fn": "strong_wolfe"}],
    "Muon": [{}, {"weight_decay": 0.0, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}],
}  # fmt: skip
OPTIONS = [(name, options) for name, rows in OPTIMIZERS.items() for options in rows]


def spelled(value):
    return value if isinstance(value, str) else ",".join(f"{k}={v}" for k, v in value.items()) or "default"


def make(t, name, options):
    kind = t.float64 if name == "LBFGS" else t.float32  # its line search makes much of rounding
    weight, bias = (t.nn.Parameter(t.tensor(x, dtype=kind)) for x in (W, B))
    params = [{"params": [weight]}, {"params": [bias], "weight_decay": 0.2}]
    if name in ("LBFGS", "Muon", "Rprop"):
        params = [weight]  # one group; matrices
    lr = t.tensor(0.05) if options.get("lr") is TENSOR else 0.05
    return weight, bias, getattr(t.optim, name)(params, **{**options, "lr": lr})


def train(t, made, steps):
    weight, bias, optimizer = made
    for i in steps:

        def loss(i=i):
            optimizer.zero_grad()
            grad = t.tensor(G[i], dtype=weight.dtype)
            value = ((weight - grad) ** 4).sum() * 0.1 + (bias * grad[:, 0]).cos().sum()
            value.backward()
            return value

        optimizer.step(loss)
    return {"weight": weight.detach(), "bias": bias.detach(), "optimizer": optimizer.state_dict()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=spelled)
def test_optimizers(name, options, way, tmp_path):
    here, there = WAYS[way]
    whole, first, second = (make(t, name, options) for t in (torch, here, there))
    state = through(here, there, train(here, first, range(4)), tmp_path)
    alike(state, train(torch, whole, range(4)))
    with there.no_grad():
        second[0].copy_(state["weight"])
        second[1].copy_(state["bias"])
    second[2].load_state_dict(state["optimizer"])
    alike(train(there, second, range(4, 8)), train(torch, whole, range(4, 8)))


@pytest.mark.parametrize("way", WAYS)
def test_sparse_adam(way, tmp_path):
    def steps(t, table, optimizer, count):
        for i in range(count):
            optimizer.zero_grad()
            table(t.tensor([i % 3, 1])).pow(2).sum().backward()
            optimizer.step()
        return {"table": table.state_dict(), "optimizer": optimizer.state_dict()}

    def made(t):
        table = t.nn.Embedding(5, 4, sparse=True)
        table.weight.data.copy_(t.arange(20.0).reshape(5, 4))
        return table, t.optim.SparseAdam(table.parameters(), lr=0.1)

    here, there = WAYS[way]
    whole, first, second = made(torch), made(here), made(there)
    state = through(here, there, steps(here, *first, 4), tmp_path)
    alike(state, steps(torch, *whole, 4))
    second[0].load_state_dict(state["table"])
    second[1].load_state_dict(state["optimizer"])
    alike(steps(there, *second, 4), steps(torch, *whole, 4))


def test_flags_of_a_gpu_come_along(tmp_path):
    """A file of a GPU has capturable=True, and the numbers of steps as tensors."""
    saved = train(torch, make(torch, "Adam", {}), range(4))
    for group in saved["optimizer"]["param_groups"]:
        group.update(capturable=True, fused=True)
    torch.save(saved, tmp_path / "state.pt")
    made = make(ft, "Adam", {})
    state = ft.load(tmp_path / "state.pt")
    with ft.no_grad():
        made[0].copy_(state["weight"])
        made[1].copy_(state["bias"])
    made[2].load_state_dict(state["optimizer"])
    found = train(ft, made, range(4, 8))
    assert found["optimizer"]["param_groups"][0]["capturable"] is True
    expected = train(torch, make(torch, "Adam", {}), range(8))
    np.testing.assert_allclose(found["weight"].tolist(), expected["weight"].tolist(), 2e-5, 1e-6)


# Schedules.


class Decay:
    """A function with a state, which a schedule saves."""

    def __init__(self, rate):
        self.rate, self.calls = rate, 0

    def __call__(self, epoch):
        self.calls += 1
        return self.rate**epoch / (1 + 0.01 * self.calls)


def shrinking(x):
    return 0.9**x


SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda e: 0.9**e),
    "LambdaLR of objects": lambda s, o: s.LambdaLR(o, [Decay(0.9), lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "MultiplicativeLR of objects": lambda s, o: s.MultiplicativeLR(o, [Decay(0.95), Decay(0.9)]),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 2, 5, 6], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.3, 0.9, 6),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 7, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 4, 0.001),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.5, 3, 2, mode="exp_range", gamma=0.9),
    "CyclicLR of a function": lambda s, o: s.CyclicLR(o, 0.01, 0.5, 3, scale_fn=shrinking),
    "CyclicLR of an object": lambda s, o: s.CyclicLR(
        o, 0.01, 0.5, 3, scale_fn=Decay(0.9), scale_mode="iterations"
    ),
    "CyclicLR of a partial": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.5, 0.4], 3, scale_fn=functools.partial(pow, 0.5)
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=12),
    "OneCycleLR in three phases": lambda s, o: s.OneCycleLR(
        o, [0.3, 0.1], epochs=3, steps_per_epoch=4, three_phase=True, anneal_strategy="linear"
    ),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(
        o, factor=0.5, patience=1, cooldown=1, min_lr=[0.001, 0.002]
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 3), s.CosineAnnealingLR(o, 5), s.ExponentialLR(o, 0.9)], [3, 6]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 5), s.ExponentialLR(o, 0.9)]),
    "SequentialLR of chains": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 2), s.LambdaLR(o, Decay(0.8))], [4]
    ),
    "SWALR": lambda s, o: s.SWALR(o, swa_lr=[0.5, 0.4], anneal_epochs=5),
    "SWALR, linear": lambda s, o: s.SWALR(o, swa_lr=0.5, anneal_epochs=6, anneal_strategy="linear"),
}
METRICS = [1.0, 0.9, 0.95, 0.96, 0.97, 0.98, 0.5, 0.6, 0.7, 0.8, 0.9, 0.4]


@pytest.mark.parametrize("when", [1, 5])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name, way, when, tmp_path):
    def made(t):
        optimizer = t.optim.SGD(
            [{"params": [t.nn.Parameter(t.ones(1))]}, {"params": [t.nn.Parameter(t.ones(1))], "lr": 0.2}],
            lr=0.1,
            momentum=0.9,
        )
        schedules = t.optim.lr_scheduler
        schedules.SWALR = t.optim.swa_utils.SWALR
        return optimizer, SCHEDULES[name](schedules, optimizer)

    def seen(pair, steps):
        rates = []
        for i in steps:
            pair[0].step()
            pair[1].step(*([METRICS[i]] if name == "ReduceLROnPlateau" else []))
            rates += [[g["lr"], g["momentum"]] for g in pair[0].param_groups] + [pair[1].get_last_lr()]
        return rates

    here, there = WAYS[way]
    whole, first, second = made(torch), made(here), made(there)
    alike(seen(first, range(when)), seen(whole, range(when)), 1e-12, 0)
    state = through(here, there, [x.state_dict() for x in first], tmp_path, weights_only="object" in name)
    alike(state, [x.state_dict() for x in whole], 1e-12, 0)
    for each, saved in zip(second, state, strict=True):
        each.load_state_dict(saved)
    alike(seen(second, range(when, 12)), seen(whole, range(when, 12)), 1e-12, 1e-17)


AVERAGES = {
    "SWA": lambda u: {},
    "EMA": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
    "EMA of buffers": lambda u: {"avg_fn": u.get_ema_avg_fn(0.9), "use_buffers": True},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_models(name, way, tmp_path):
    def made(t):
        net = t.nn.Sequential(t.nn.Linear(4, 3), t.nn.BatchNorm1d(3))
        return net, t.optim.swa_utils.AveragedModel(net, **AVERAGES[name](t.optim.swa_utils))

    def steps(t, net, averaged, which):
        for i in which:
            with t.no_grad():
                net[0].weight.copy_(t.tensor(G[i]))
            net(t.tensor(G[i]))
            averaged.update_parameters(net)
        return {"net": net.state_dict(), "averaged": averaged.state_dict()}

    here, there = WAYS[way]
    whole, first, second = made(torch), made(here), made(there)
    for t, (net, averaged) in ((torch, whole), (here, first)):
        for module in (net, averaged.module):
            with t.no_grad():
                module[0].bias.copy_(t.tensor(B))
    state = through(here, there, steps(here, *first, range(4)), tmp_path)
    alike(state, steps(torch, *whole, range(4)))
    for module, saved in zip(second, state.values(), strict=True):
        module.load_state_dict(saved)
    alike(steps(there, *second, range(4, 8)), steps(torch, *whole, range(4, 8)))


# The scale of a loss.


@pytest.mark.parametrize("way", WAYS)
def test_grad_scaler(way, tmp_path):
    """Saved in the middle of an interval, and after an infinity."""

    def made(t):
        return t.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3, backoff_factor=0.25)

    def scales(t, scaler, values):
        weight = t.nn.Parameter(t.ones(2))
        optimizer = t.optim.SGD([weight], lr=0.1)
        seen = []
        for value in values:
            optimizer.zero_grad()
            scaler.scale((weight * value).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append((scaler.get_scale(), weight.tolist()))
        return seen

    bad = float("inf")
    first_values, then = [1.0, 1.0, 1.0, 1.0, bad, 2.0, 2.0], [1.0, 1.0, 1.0, bad, 1.0]
    here, there = WAYS[way]
    whole, first = made(torch), made(here)
    scales(torch, whole, first_values)
    scales(here, first, first_values)
    assert first.state_dict() == whole.state_dict() and whole.state_dict()["_growth_tracker"] == 2
    state = through(here, there, first.state_dict(), tmp_path)
    for used in (False, True):  # a scaler that has begun has tensors, too
        second = made(there)
        if used:
            scales(there, second, [1.0])
        second.load_state_dict(state)
        again = made(torch)
        again.load_state_dict(whole.state_dict())
        assert scales(there, second, then) == scales(torch, again, then)
    again, other = made(torch), made(there)
    again.load_state_dict(whole.state_dict())
    other.load_state_dict(through(torch, there, again.state_dict(), tmp_path))
    assert other.state_dict() == again.state_dict()  # before its first step


# Random streams.

DRAWS = {
    "nothing": lambda t, g: None,
    "uniform": lambda t, g: t.rand(7, generator=g),
    "one normal, the other is kept": lambda t, g: t.randn(3, generator=g),
    "double normals": lambda t, g: t.randn(5, dtype=t.float64, generator=g),
    "many normals": lambda t, g: t.randn(37, generator=g),
    "a permutation": lambda t, g: t.randperm(11, generator=g),
    "past all words": lambda t, g: t.rand(1300, generator=g),
    "all words": lambda t, g: t.rand(624, generator=g),
    "many sorts": lambda t, g: (
        t.randint(0, 2**40, (3,), generator=g), t.empty(3).exponential_(generator=g),
        t.empty(5).normal_(generator=g), t.bernoulli(t.full((3,), 0.5), generator=g),
        t.multinomial(t.tensor([0.2, 0.8]), 3, True, generator=g),
    ),
}  # fmt: skip
SEEDS = [0, 2**31, 2**40 + 3, -5]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("own", [False, True], ids=["default", "own"])
@pytest.mark.parametrize("name", DRAWS)
def test_random_streams(name, own, way, tmp_path):
    """The states have the same bytes, and what comes after them the same numbers."""
    here, there = WAYS[way]
    for seed in SEEDS:
        whole = torch.Generator().manual_seed(seed)
        first = (here.Generator() if own else here.default_generator).manual_seed(seed)
        DRAWS[name](torch, whole)
        DRAWS[name](here, first if own else None)
        state = first.get_state() if own else here.get_rng_state()
        assert bytes(state.tolist()) == bytes(whole.get_state().tolist())
        loaded = through(here, there, {"rng": state}, tmp_path)["rng"]
        second = there.Generator() if own else there.default_generator
        there.randn(3, generator=second)  # what it had is forgotten
        second.set_state(loaded) if own else there.set_rng_state(loaded)
        assert second.initial_seed() == whole.initial_seed()
        for draw in DRAWS.values():
            assert repr(draw(there, second if own else None)) == repr(draw(torch, whole))
        assert bytes(second.get_state().tolist()) == bytes(whole.get_state().tolist())


# Samplers.

LOADERS = {
    "RandomSampler": lambda d, s, g: d.DataLoader(range(13), sampler=s.RandomSampler(range(13), generator=g)),
    "with replacement": lambda d, s, g: d.DataLoader(
        range(13), 3, sampler=s.RandomSampler(range(13), True, 50, generator=g)
    ),
    "shuffle": lambda d, s, g: d.DataLoader(range(13), 4, shuffle=True, generator=g),
    "workers": lambda d, s, g: d.DataLoader(range(13), 4, shuffle=True, generator=g, num_workers=2),
    "SubsetRandomSampler": lambda d, s, g: d.DataLoader(
        range(13), 2, sampler=s.SubsetRandomSampler([3, 5, 9], generator=g)
    ),
    "WeightedRandomSampler": lambda d, s, g: d.DataLoader(
        range(4), sampler=s.WeightedRandomSampler([0.1, 0.2, 0.3, 0.4], 9, generator=g)
    ),
    "BatchSampler": lambda d, s, g: d.DataLoader(
        range(13), batch_sampler=s.BatchSampler(s.RandomSampler(range(13), generator=g), 5, True)
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LOADERS)
def test_orders_of_samples(name, way, tmp_path):
    """The second and third pass come on the other side, from the state of the generator after the first."""
    here, there = WAYS[way]

    def passes(t, generator, count):
        loader = LOADERS[name](t.utils.data, t.utils.data, generator)
        return [[batch.tolist() for batch in loader] for _ in range(count)]

    whole, first, second = (t.Generator().manual_seed(3) for t in (torch, here, there))
    expected = passes(torch, whole, 3)
    assert passes(here, first, 1) == expected[:1]
    second.set_state(through(here, there, first.get_state(), tmp_path))
    assert passes(there, second, 2) == expected[1:]
    assert bytes(second.get_state().tolist()) == bytes(whole.get_state().tolist())


def test_states_that_are_none_are_refused_as_there():
    """And leave the generator as it was."""
    good = torch.Generator().manual_seed(1).get_state()

    def changed(at, value):
        state = good.clone()
        state[at] = value
        return state

    states = [
        good[:7],
        good[:5048],
        good.float(),
        changed(8, 0),
        changed(11, 255),
        changed(12, 0),
        changed(17, 3),
    ]
    for state in states:
        ends = []
        for t in (torch, ft):
            generator = t.Generator().manual_seed(4)
            before = generator.get_state().tolist()
            try:
                generator.set_state(t.tensor(state.tolist(), dtype=getattr(t, str(state.dtype)[6:])))
                ends.append(None)
            except Exception as error:
                ends.append((type(error), str(error)))
            assert generator.get_state().tolist() == before
        assert ends[0] == ends[1] and ends[0]
