"""flax modules in loops like PyTorch's, our modules in flax's loops, and weights carried between them."""

from __future__ import annotations

import copy
import doctest
import itertools
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx
from flax.training.train_state import TrainState

import functorch_port as ft

RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True) ** 2


class Net(nnx.Module):
    def __init__(self, rngs, rate=0.0):
        self.layers = nnx.List([nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)])
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(rate, rngs=rngs)

    def __call__(self, x):
        return self.layers[1](self.dropout(nnx.relu(self.norm(self.layers[0](x)))))


class LinenNet(linen.Module):
    rate: float = 0.0

    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.relu(linen.BatchNorm(use_running_average=not train)(linen.Dense(4)(x)))
        return linen.Dense(1)(linen.Dropout(self.rate, deterministic=not train)(x))


def our_net(rate=0.0):
    return ft.nn.Sequential(
        ft.nn.Linear(3, 4), ft.nn.BatchNorm1d(4), ft.nn.ReLU(), ft.nn.Dropout(rate), ft.nn.Linear(4, 1)
    )


def our_losses(model, compiled, steps=4):
    """A PyTorch loop."""
    optimizer = ft.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    traces = itertools.count()

    def step(x, y):
        next(traces)
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = ft.compile(step) if compiled else step
    losses = [run(ft.tensor(X), ft.tensor(Y)).item() for _ in range(steps)]
    assert next(traces) == (1 if compiled else steps)
    return losses


def nnx_losses(model, steps=4):
    """An NNX loop."""
    optimizer = nnx.Optimizer(model, optax.sgd(0.05, momentum=0.9), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, x, y):
        loss, grads = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, grads)
        return loss

    return [step(model, optimizer, X, Y).item() for _ in range(steps)]


def linen_losses(model, variables, steps=4, seed=0):
    """A Linen loop. Returns the losses and the variables at its end."""

    class State(TrainState):
        batch_stats: dict

    state = State.create(
        apply_fn=model.apply,
        params=variables["params"],
        tx=optax.sgd(0.05, momentum=0.9),
        batch_stats=variables["batch_stats"],
    )

    @jax.jit
    def step(state, key, x, y):
        def loss_of(params):
            out, new = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats},
                x,
                train=True,
                mutable=["batch_stats"],
                rngs={"dropout": key},
            )
            return jnp.mean((out - y) ** 2), new

        (loss, new), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads, batch_stats=new["batch_stats"]), loss

    losses = []
    for key in jax.random.split(jax.random.key(seed), steps):
        state, loss = step(state, key, X, Y)
        losses.append(loss.item())
    return losses, {"params": state.params, "batch_stats": state.batch_stats}


@pytest.mark.parametrize("compiled", [False, True])
def test_nnx_in_our_loop(compiled):
    theirs = Net(nnx.Rngs(0))
    ours = ft.flax.from_nnx(theirs)
    assert sorted(ours.state_dict()) == [
        "layers.0.bias", "layers.0.kernel", "layers.1.bias", "layers.1.kernel",
        "norm.bias", "norm.mean", "norm.scale", "norm.var",
    ]  # fmt: skip
    assert {name for name, _ in ours.named_buffers()} == {"norm.mean", "norm.var"}
    np.testing.assert_allclose(our_losses(ours, compiled), nnx_losses(theirs), rtol=2e-5)
    np.testing.assert_allclose(ours.norm.mean.numpy(), theirs.norm.mean[...], rtol=1e-4, atol=1e-6)
    theirs.eval()
    np.testing.assert_allclose(ours.eval()(ft.tensor(X)).numpy(force=True), theirs(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(ours.unwrap().norm.var[...], ours.norm.var.numpy())


@pytest.mark.parametrize("compiled", [False, True])
def test_linen_in_our_loop(compiled):
    net = LinenNet()
    variables = net.init(jax.random.key(0), X, train=False)
    ours = ft.flax.from_linen(net, variables=variables)
    assert "batch_stats.BatchNorm_0.mean" in ours.state_dict() and "Dense_0.kernel" in ours.state_dict()
    losses, after = linen_losses(net, variables)
    np.testing.assert_allclose(our_losses(ours, compiled), losses, rtol=2e-5)
    module, now = ours.unwrap()
    assert module is net
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), now, after)
    np.testing.assert_allclose(
        ours.eval()(ft.tensor(X)).numpy(force=True), net.apply(after, X, train=False), rtol=1e-4, atol=1e-5
    )


def test_linen_initialised_from_our_generator():
    def made(seed):
        generator = ft.Generator().manual_seed(seed)
        return ft.flax.from_linen(LinenNet(), ft.tensor(X), generator=generator).state_dict()

    first, again, other = made(0), made(0), made(1)
    assert ft.equal(first["Dense_0.kernel"], again["Dense_0.kernel"])
    assert not ft.equal(first["Dense_0.kernel"], other["Dense_0.kernel"])


@pytest.mark.parametrize("kind", ["nnx", "linen"])
def test_dropout_draws_from_our_generator(kind):
    if kind == "nnx":
        model = ft.flax.from_nnx(Net(nnx.Rngs(0), rate=0.5))
    else:
        model = ft.flax.from_linen(LinenNet(rate=0.5), ft.tensor(X))
    x = ft.tensor(X)

    def drawn(run, seed):
        ft.manual_seed(seed)
        return run(x), run(x)

    a, b = drawn(model, 0)
    c, _ = drawn(model, 0)
    assert ft.equal(a, c) and not ft.equal(a, b)
    run = ft.compile(lambda x: model(x))
    a, b = drawn(run, 0)
    assert not ft.equal(a, b)
    model.eval()
    ft.manual_seed(0)
    before = ft.get_rng_state()
    assert ft.equal(model(x), model(x)) and ft.equal(before, ft.get_rng_state())  # nothing is drawn


def test_a_wrapped_module_is_a_module():
    ft.manual_seed(0)
    model = ft.flax.from_nnx(Net(nnx.Rngs(0)))
    x = ft.tensor(X)
    model.eval()
    want = model(x)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert ft.equal(twin(x), want)
        with ft.no_grad():
            twin.norm.bias.add_(1.0)
        assert not ft.equal(twin(x), want) and ft.equal(model(x), want)
    other = ft.flax.from_nnx(Net(nnx.Rngs(1))).eval()
    assert not ft.equal(other(x), want)
    other.load_state_dict(model.state_dict())
    assert ft.equal(other(x), want)
    state = {name: ft.zeros_like(value) for name, value in model.state_dict().items()}
    assert not ft.func.functional_call(model, state, (x,)).any() and ft.equal(model(x), want)
    mapped = ft.func.vmap(lambda row: model(row[None])[0])(x)
    np.testing.assert_allclose(mapped.numpy(force=True), want.numpy(force=True), rtol=1e-5, atol=1e-6)
    both = ft.nn.Sequential(model, ft.nn.Linear(1, 2))
    both(x).sum().backward()
    assert all(p.grad is not None for p in both.parameters())
    x.requires_grad_()
    model(x).sum().backward()
    assert x.grad.shape == x.shape


def test_types_of_the_flax_module_are_its_own():
    class Sampler(nnx.Module):
        def __init__(self, rngs):
            self.embed, self.rngs = nnx.Embed(5, 2, rngs=rngs), rngs

        def __call__(self, ids):
            x = self.embed(ids)
            return x + jax.random.normal(self.rngs(), x.shape), {"best": jnp.argmax(x, -1), "none": None}

    noisy, rest = ft.flax.from_nnx(Sampler(nnx.Rngs(0)))(ft.tensor([1, 2]))
    assert noisy.dtype is ft.float32 and rest["best"].dtype is ft.int32 and rest["none"] is None
    noisy.sum().backward()


def test_double_backward_through_flax():
    model = ft.flax.from_nnx(nnx.Linear(3, 1, rngs=nnx.Rngs(0)))
    x = ft.tensor(X, requires_grad=True)
    (slope,) = ft.autograd.grad((model(x) ** 2).sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    w = model.kernel.numpy(force=True)
    f = lambda w: jnp.sum(jax.grad(lambda x: jnp.sum((x @ w + model.bias.jax()) ** 2))(X) ** 2)
    np.testing.assert_allclose(model.kernel.grad.numpy(), jax.grad(f)(w), rtol=1e-4)


def test_ours_in_an_nnx_loop():
    ft.manual_seed(0)
    ours = our_net()
    theirs = ft.flax.as_nnx(copy.deepcopy(ours))
    assert set(theirs.params) == {name for name, _ in ours.named_parameters()}
    np.testing.assert_allclose(nnx_losses(theirs), our_losses(ours, True), rtol=2e-5)
    back = theirs.unwrap()
    for name, value in ours.state_dict().items():
        np.testing.assert_allclose(back.state_dict()[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-6)
    theirs.eval()
    np.testing.assert_allclose(theirs(X), ours.eval()(ft.tensor(X)).numpy(force=True), rtol=1e-4, atol=1e-5)
    assert back.training and all(m.training for m in back.modules())
    graph, state = nnx.split(theirs)
    np.testing.assert_array_equal(nnx.merge(graph, state)(X), theirs(X))


def test_ours_in_a_linen_loop():
    ft.manual_seed(0)
    ours = our_net()
    theirs = ft.flax.as_linen(copy.deepcopy(ours))
    variables = theirs.init(jax.random.key(0), X)
    losses, after = linen_losses(theirs, variables)
    np.testing.assert_allclose(losses, our_losses(ours, False), rtol=2e-5)
    back = theirs.unwrap(after)
    for name, value in ours.state_dict().items():
        np.testing.assert_allclose(back.state_dict()[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        theirs.apply(after, X, train=False), ours.eval()(ft.tensor(X)).numpy(force=True), rtol=1e-4, atol=1e-5
    )


def test_dropout_of_ours_takes_flax_keys():
    model = ft.flax.as_nnx(our_net(0.5), nnx.Rngs(0))
    run = nnx.jit(lambda m, x: m(x))
    a, b = run(model, X), run(model, X)
    again = ft.flax.as_nnx(model.module, nnx.Rngs(0))
    assert not np.allclose(a, b)
    np.testing.assert_array_equal(run(again, X), a)
    with pytest.raises(RuntimeError, match="draws random numbers"):
        ft.flax.as_nnx(our_net(0.5))(X)
    theirs = ft.flax.as_linen(our_net(0.5))
    variables = theirs.init(jax.random.key(0), X)
    first, second = (
        theirs.apply(variables, X, train=True, mutable=["batch_stats"], rngs={"dropout": jax.random.key(i)})[
            0
        ]
        for i in (0, 1)
    )
    assert not np.allclose(first, second)


def test_frozen_parts_keep_their_mode():
    net = our_net()
    net[1].eval()
    theirs = ft.flax.as_nnx(net)
    theirs(X)
    np.testing.assert_array_equal(theirs.buffers["1.running_mean"][...], 0)
    theirs.eval()
    theirs(X)
    assert net.training and not net[1].training


# ------------------------------------------------------------------ weights

IMAGE = RNG.standard_normal((2, 8, 7, 4)).astype(np.float32)  # channels last
IDS = RNG.integers(0, 9, (2, 5))
TOKENS = RNG.standard_normal((2, 5, 6)).astype(np.float32)
ROWS = RNG.standard_normal((2, 3)).astype(np.float32)
STATE = RNG.standard_normal((2, 2, 4)).astype(np.float32)

nn = ft.nn
first = lambda image: image.moveaxis(-1, 1)
last = lambda image: image.moveaxis(1, -1)
T = ft.tensor
EPS = {"epsilon": 1e-5}

#: name: ours, Linen's, NNX's (given rngs), call of ours, call of theirs
LAYERS = {
    "linear": (
        lambda: nn.Linear(3, 4), lambda: linen.Dense(4), lambda r: nnx.Linear(3, 4, rngs=r),
        lambda m: m(T(ROWS)), lambda f: f(ROWS),
    ),
    "no bias": (
        lambda: nn.Linear(3, 4, bias=False), lambda: linen.Dense(4, use_bias=False),
        lambda r: nnx.Linear(3, 4, use_bias=False, rngs=r), lambda m: m(T(ROWS)), lambda f: f(ROWS),
    ),
    "conv1d": (
        lambda: nn.Conv1d(6, 4, 3, stride=2, padding=1), lambda: linen.Conv(4, (3,), 2, padding=1),
        lambda r: nnx.Conv(6, 4, (3,), 2, padding=1, rngs=r),
        lambda m: last(m(first(T(TOKENS)))), lambda f: f(TOKENS),
    ),
    "conv2d": (
        lambda: nn.Conv2d(4, 6, (3, 2), groups=2, dilation=2),
        lambda: linen.Conv(6, (3, 2), padding="VALID", feature_group_count=2, kernel_dilation=2),
        lambda r: nnx.Conv(4, 6, (3, 2), padding="VALID", feature_group_count=2, kernel_dilation=2, rngs=r),
        lambda m: last(m(first(T(IMAGE)))), lambda f: f(IMAGE),
    ),
    "conv transpose": (
        lambda: nn.ConvTranspose2d(4, 5, (3, 2), stride=2),
        lambda: linen.ConvTranspose(5, (3, 2), (2, 2), padding="VALID"),
        lambda r: nnx.ConvTranspose(4, 5, (3, 2), (2, 2), padding="VALID", rngs=r),
        lambda m: last(m(first(T(IMAGE)))), lambda f: f(IMAGE),
    ),
    "embedding": (
        lambda: nn.Embedding(9, 4), lambda: linen.Embed(9, 4), lambda r: nnx.Embed(9, 4, rngs=r),
        lambda m: m(T(IDS)), lambda f: f(IDS),
    ),
    "layer norm": (
        lambda: nn.LayerNorm(6), lambda: linen.LayerNorm(**EPS), lambda r: nnx.LayerNorm(6, **EPS, rngs=r),
        lambda m: m(T(TOKENS)), lambda f: f(TOKENS),
    ),
    "group norm": (
        lambda: nn.GroupNorm(2, 4), lambda: linen.GroupNorm(2, **EPS), lambda r: nnx.GroupNorm(4, 2, **EPS, rngs=r),
        lambda m: last(m(first(T(IMAGE)))), lambda f: f(IMAGE),
    ),
    "rms norm": (
        lambda: nn.RMSNorm(6, eps=1e-5), lambda: linen.RMSNorm(**EPS), lambda r: nnx.RMSNorm(6, **EPS, rngs=r),
        lambda m: m(T(TOKENS)), lambda f: f(TOKENS),
    ),
    "batch norm": (
        lambda: nn.BatchNorm2d(4).eval(), lambda: linen.BatchNorm(True, **EPS),
        lambda r: nnx.BatchNorm(4, use_running_average=True, **EPS, rngs=r),
        lambda m: last(m(first(T(IMAGE)))), lambda f: f(IMAGE),
    ),
    "lstm cell": (
        lambda: nn.LSTMCell(3, 4), lambda: linen.LSTMCell(4), lambda r: nnx.LSTMCell(3, 4, rngs=r),
        lambda m: m(T(ROWS), tuple(T(STATE))), lambda f: f((STATE[1], STATE[0]), ROWS)[0][::-1],
    ),
    "optimized lstm cell": (
        lambda: nn.LSTMCell(3, 4), lambda: linen.OptimizedLSTMCell(4), lambda r: nnx.OptimizedLSTMCell(3, 4, rngs=r),
        lambda m: m(T(ROWS), tuple(T(STATE))), lambda f: f((STATE[1], STATE[0]), ROWS)[0][::-1],
    ),
    "gru cell": (
        lambda: nn.GRUCell(3, 4), lambda: linen.GRUCell(4), lambda r: nnx.GRUCell(3, 4, rngs=r),
        lambda m: m(T(ROWS), T(STATE[0])), lambda f: f(STATE[0], ROWS)[0],
    ),
    "attention": (
        lambda: nn.MultiheadAttention(6, 2, batch_first=True), lambda: linen.MultiHeadAttention(2),
        lambda r: nnx.MultiHeadAttention(2, 6, decode=False, rngs=r),
        lambda m: m(T(TOKENS), T(TOKENS), T(TOKENS))[0], lambda f: f(TOKENS),
    ),
}  # fmt: skip


def filled(module):
    """Random weights: the first ones of norms and biases would hide errors."""
    ft.manual_seed(0)
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(ft.rand(tensor.shape) + 0.1)
    return module


def near(ours, theirs):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a.numpy(force=True), b, rtol=3e-5, atol=3e-5),
        tuple(ours) if isinstance(ours, tuple) else ours,
        theirs,
        is_leaf=lambda x: isinstance(x, ft.Tensor),
    )


@pytest.mark.parametrize("name", LAYERS)
def test_weights_to_linen_and_back(name):
    make, make_linen, _, call, call_theirs = LAYERS[name]
    ours, theirs = filled(make()), make_linen()
    variables = ft.flax.to_variables(ours)
    near(call(ours), call_theirs(lambda *args: theirs.apply(variables, *args)))
    fresh = make()
    ft.flax.load_variables(fresh, variables)
    near(call(fresh), call_theirs(lambda *args: theirs.apply(variables, *args)))


@pytest.mark.parametrize("name", LAYERS)
def test_weights_to_nnx_and_back(name):
    make, _, make_nnx, call, call_theirs = LAYERS[name]
    ours, theirs = filled(make()), make_nnx(nnx.Rngs(0))
    if name == "gru cell":
        with pytest.raises(ValueError, match="flax's NNX cell has no bias for 'h' parts"):
            ft.flax.load_variables(theirs, ours)
        with ft.no_grad():
            ours.bias_hh[8:] = 0
    ft.flax.load_variables(theirs, ours)
    near(call(ours), call_theirs(theirs))
    fresh = filled(make())
    ft.flax.load_variables(fresh, make_nnx(nnx.Rngs(1)))
    near(call(fresh), call_theirs(make_nnx(nnx.Rngs(1))))


def test_weights_of_a_whole_model():
    ours = filled(our_net()).eval()
    names = {"0": "Dense_0", "1": "BatchNorm_0", "4": "Dense_1"}
    variables = ft.flax.to_variables(ours, names)

    class Same(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.relu(linen.BatchNorm(True, epsilon=1e-5)(linen.Dense(4)(x)))
            return linen.Dense(1)(x)

    near(ours(T(X)), Same().apply(variables, X))
    theirs = Net(nnx.Rngs(0))
    theirs.norm.epsilon = 1e-5
    paths = {"0": "layers.0", "1": "norm", "4": "layers.1"}
    ft.flax.load_variables(theirs, ours, paths)
    theirs.eval()
    near(ours(T(X)), theirs(X))
    fresh = our_net().eval()
    ft.flax.load_variables(fresh, theirs, paths)
    near(fresh(T(X)), theirs(X))


def test_errors():
    flax = ft.flax
    with pytest.raises(TypeError, match=r"from_nnx needs a flax.nnx.Module, but got Linear"):
        flax.from_nnx(nn.Linear(1, 1))
    with pytest.raises(TypeError, match=r"from_linen needs a flax.linen.Module, but got int"):
        flax.from_linen(3, 4)
    with pytest.raises(TypeError, match="needs an example of the module's arguments"):
        flax.from_linen(linen.Dense(1))
    with pytest.raises(TypeError, match=r"as_nnx needs an nn.Module, but got Dense"):
        flax.as_nnx(linen.Dense(1))
    with pytest.raises(TypeError, match="must be hashable"):
        flax.from_nnx(Net(nnx.Rngs(0)))({1, 2})
    with pytest.raises(
        NotImplementedError, match="'0' is a Bilinear, whose weights have no known counterpart"
    ):
        flax.to_variables(nn.Sequential(nn.Bilinear(1, 1, 1)))
    with pytest.raises(NotImplementedError, match="has no groups"):
        flax.to_variables(nn.ConvTranspose1d(2, 2, 1, groups=2))
    linear = nn.Linear(2, 3)
    weight = linear.weight.clone()
    with pytest.raises(KeyError, match="there is no 'Dense_0' for the layer"):
        flax.load_variables(nn.Sequential(linear), {"params": {}}, {"0": "Dense_0"})
    with pytest.raises(KeyError, match="which are not layers"):
        flax.to_variables(linear, {"1": "Dense_0"})
    wrong = flax.to_variables(nn.Linear(2, 4))
    with pytest.raises(ValueError, match=r"'weight' of Linear.* has shape \(3, 2\), got \(4, 2\)"):
        flax.load_variables(linear, wrong)
    assert ft.equal(linear.weight, weight)
    with pytest.raises(ValueError, match=r"of the NNX module has shape \(2, 4\), got \(2, 3\)"):
        flax.load_variables(nnx.Linear(2, 4, rngs=nnx.Rngs(0)), linear)
    with pytest.raises(TypeError, match="needs an nn.Module or an nnx.Module as target, but got dict"):
        flax.load_variables({}, linear)


@pytest.mark.parametrize("name", ["from_nnx", "as_nnx", "to_variables"])
def test_examples_in_the_docstrings(name):
    module = sys.modules[getattr(ft.flax, name).__module__]
    assert doctest.testmod(module).attempted > 5 and doctest.testmod(module).failed == 0


def test_without_flax(monkeypatch):
    monkeypatch.setitem(sys.modules, "flax.nnx", None)
    monkeypatch.setitem(sys.modules, "flax", None)
    with pytest.raises(ModuleNotFoundError, match="needs flax, which is not installed: pip install"):
        ft.flax.from_nnx(object())
