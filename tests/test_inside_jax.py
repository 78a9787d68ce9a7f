"""State that a function changes while one of JAX's own transforms runs it: refused by name, and nothing is lost."""

import gc
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.sharding import Mesh, PartitionSpec

import functorch_port as ft
from functorch_port._base import inside

X = jnp.arange(12.0).reshape(4, 3)


def tensor(x):
    return ft.as_tensor(x)


@pytest.fixture(autouse=True, scope="module")
def met():
    """Not the first trace of the process, in which what is derived on the host before all else is not known."""
    jax.jit(lambda x: tensor(x).jax())(X)


class Net(ft.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = ft.nn.Linear(3, 5)
        self.bn = ft.nn.BatchNorm1d(5)
        self.register_buffer("mean", ft.zeros(5))
        self.register_buffer("steps", ft.zeros((), dtype=ft.int64))

    def forward(self, x):
        return self.bn(self.fc(x))


class World:
    """What is outside of the transform, and what it holds."""

    def __init__(self):
        ft.manual_seed(0)
        self.net = Net()
        self.w = ft.nn.Parameter(ft.ones(3))
        self.w.grad = ft.full((3,), 2.0)
        self.optimizer = ft.optim.Adam([self.w], lr=0.1)
        self.optimizer.step()
        self.wide = ft.zeros(100, 100)
        self.count = ft.zeros(())
        self.generator = ft.Generator().manual_seed(3)

    def content(self):
        """Everything as numpy, with counts of writes and flags. Fails if a tracer is left anywhere."""
        tensors = {
            **self.net.state_dict(),
            "w": self.w,
            "wide": self.wide,
            "count": self.count,
            "w.grad": self.w.grad,
        }
        tensors |= {f"state.{k}": v for k, v in self.optimizer.state[self.w].items()}
        found = {k: (v.detach().numpy().copy(), v._version, v.requires_grad) for k, v in tensors.items()}
        found["generator"] = self.generator.get_state().numpy().copy(), 0, False
        found["default"] = ft.get_rng_state().numpy().copy(), 0, False
        return found


def same(a, b, counts=True):
    """With ``counts`` the counts of writes, too."""
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key][0], b[key][0], err_msg=key)
        assert a[key][2] == b[key][2], key
        assert a[key][1] == b[key][1] or not counts, key


# what changes something outside: (name, whether it only shows where JAX stages the function, change, what is named)

CHANGES = [
    ("batch norm", False, lambda o, x: o.net(tensor(x) * ft.ones(4, 3)), "the buffer 'bn.running_mean' of Net"),
    ("sub_", False, lambda o, x: o.w.data.sub_(tensor(x).sum()), "shape (3,)"),
    ("through a view", False, lambda o, x: o.wide[1:3, 0].copy_(tensor(x).sum()), "shape (100, 100)"),
    ("setitem", False, lambda o, x: o.wide.__setitem__(0, tensor(x).sum()), "shape (100, 100)"),
    ("out=", False, lambda o, x: ft.add(tensor(x).sum(), 1, out=o.count), "shape ()"),
    ("out= of another shape", False, lambda o, x: ft.add(tensor(x), 1, out=ft_empty(o)), "shape (0,)"),
    ("data", False, lambda o, x: setattr(o.w, "data", tensor(x).sum() * ft.ones(3)), "shape (3,)"),
    ("backward", False, lambda o, x: (o.w * tensor(x).sum()).sum().backward(), "gradient from backward()"),
    ("grad", False, lambda o, x: setattr(o.w, "grad", tensor(x).sum() * ft.ones(3)), "another gradient"),
    ("buffer", False, lambda o, x: setattr(o.net, "mean", o.net.mean + tensor(x).sum()), "the buffer 'mean' of Net"),
    (
        "load_state_dict",
        False,
        lambda o, x: o.net.load_state_dict({**o.net.state_dict(), "mean": tensor(x).sum() * ft.ones(5)}),
        "the buffer 'mean' of Net",
    ),
    ("count", True, lambda o, x: o.count.add_(1), "shape ()"),
    ("counting buffer", True, lambda o, x: o.net.steps.add_(1), "the buffer 'steps' of Net"),
    ("zero_", True, lambda o, x: o.wide.zero_(), "shape (100, 100)"),
    ("step", True, lambda o, x: o.optimizer.step(), "Adam.step()"),
    ("zero_grad", True, lambda o, x: o.optimizer.zero_grad(), "another gradient"),
    ("requires_grad_", True, lambda o, x: o.w.requires_grad_(False), "requires_grad changed"),
    ("constant backward", True, lambda o, x: o.w.sum().backward(), "gradient from backward()"),
    ("dropout", True, lambda o, x: ft.nn.functional.dropout(tensor(x)), "random numbers"),
    ("rand", True, lambda o, x: ft.rand(3), "random numbers"),
    ("generator", True, lambda o, x: ft.randn(3, generator=o.generator), "random numbers"),
    ("poisson", True, lambda o, x: ft.poisson(ft.ones(3)), "random numbers"),
    ("manual_seed", True, lambda o, x: ft.manual_seed(1), "random numbers"),
    ("func.grad", True, lambda o, x: ft.func.grad(lambda y: ft.dropout(y, 0.5, True).sum())(tensor(x)), "random"),
]  # fmt: skip


def ft_empty(o):
    if not hasattr(o, "empty"):
        with jax.core.eval_context():
            o.empty = ft.empty(0)
    return o.empty


def _sharded(f):
    mesh = Mesh(np.array(jax.devices("cpu")[:1]), ("i",))
    return jax.shard_map(f, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False)


STAGED = {
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "eval_shape": lambda f: partial(jax.eval_shape, f),
    "make_jaxpr": jax.make_jaxpr,
    "export": lambda f: jax.export.export(jax.jit(f)),
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, y: (c, f(x + y)), 0.0, jnp.ones(3)),
    "map": lambda f: lambda x: jax.lax.map(lambda y: f(x + y), jnp.ones(3)),
    "cond": lambda f: lambda x: jax.lax.cond(x.sum() > 0, f, f, x),
    "while_loop": lambda f: (
        lambda x: jax.lax.while_loop(lambda c: c[1] < 3, lambda c: (f(c[0]), c[1] + 1), (x, 0))
    ),
    "shard_map": lambda f: jax.jit(_sharded(f)),
    "grad in jit": lambda f: jax.jit(jax.grad(lambda x: f(x).sum())),
    "vmap in jit": lambda f: jax.jit(lambda x: jax.vmap(lambda y: f(x + y))(jnp.ones(3))),
}
EAGER = {
    "grad": lambda f: jax.grad(lambda x: f(x).sum()),
    "value_and_grad": lambda f: jax.value_and_grad(lambda x: f(x).sum()),
    "vmap": lambda f: lambda x: jax.vmap(lambda y: f(x + y))(jnp.ones(3)),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[0],
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,))[0],
    "linearize": lambda f: lambda x: jax.linearize(f, x)[0],
}


#: the others are computed at once: see `test_what_is_computed_at_once_is_kept`
REFUSED = [
    (change, transform)
    for change in CHANGES
    for transform in (*STAGED, *EAGER)
    if transform in STAGED or not (change[1] or change[0] == "batch norm")
]


@pytest.mark.parametrize(
    ("change", "transform"), REFUSED, ids=lambda part: part if isinstance(part, str) else part[0]
)
def test_a_change_of_what_is_outside_is_refused_by_name(change, transform):
    """Where JAX computes at once, numbers that do not depend on its arguments change as they do without it."""
    _, _, run, named = change
    world = World()
    before = world.content()
    seen = []

    def fn(x):
        try:
            run(world, x)
        except RuntimeError as error:
            seen.append(str(error))
        return x * 1.0

    {**STAGED, **EAGER}[transform](fn)(X)
    assert seen and all(named in text for text in seen), seen
    if "random" not in named:
        assert all("functional_call" in text and "functionalize" in text for text in seen)
    # `load_state_dict` writes what it can and takes it back
    same(before, world.content(), counts=change[0] != "load_state_dict")
    world.net(tensor(X)), world.optimizer.step()  # and everything goes on


def test_the_error_comes_out_of_the_transform():
    world = World()
    with pytest.raises(
        RuntimeError, match=r"the buffer 'bn.running_mean' of Net of shape \(5,\) and dtype torch.float32"
    ):
        jax.jit(lambda x: world.net(tensor(x)).jax())(X)


@pytest.mark.parametrize("transform", ["grad", "vjp", "jvp", "linearize"])
def test_what_is_computed_at_once_is_kept(transform):
    """`jax.grad` alone runs the function once for every call: what does not depend on its arguments changes as ever."""

    def fn(o, x):
        o.count.add_(1)
        out = o.net(tensor(x)).sum() * ft.nn.functional.dropout(ft.ones(()), 0.5)
        return out.detach().jax() if transform != "grad" else out.jax()

    world, twin = World(), World()
    EAGER[transform](partial(fn, world))(X)
    fn(twin, X)
    assert world.count.item() == 1
    for a, b in zip(world.net.buffers(), twin.net.buffers(), strict=True):
        ft.testing.assert_close(a, b)


def test_dropout_is_drawn_anew_in_every_call_of_grad():
    ft.manual_seed(0)
    torch.manual_seed(0)
    slope = jax.grad(lambda x: ft.nn.functional.dropout(tensor(x)).sum().jax())
    for _ in range(2):
        x = torch.ones(4, 3, requires_grad=True)
        torch.nn.functional.dropout(x).sum().backward()
        np.testing.assert_array_equal(slope(X), x.grad.numpy())


# ------------------------------------------------------------------ what is the function's own


def _clone(x):
    total = OUTSIDE.clone()  # made before any tracer is seen
    total += tensor(x)
    total[0] = 5
    return total


def _derived(x):
    total = OUTSIDE * 2 + 1
    return total.mul_(tensor(x))


def _zeros(x):
    rows = ft.zeros(4, 3)
    for i in range(4):
        rows[i] = tensor(x)[3 - i]
    rows.t()[0].add_(1)
    return rows


def _backward(x):
    leaf = PARAMETER.detach().requires_grad_()
    (leaf * tensor(x)).sum().backward()
    leaf.grad.mul_(2)
    return leaf.grad


def _parameter(x):
    leaf = ft.nn.Parameter(PARAMETER)
    (leaf * tensor(x)).sum().backward()
    return leaf.grad


def _gradient(x):
    return ft.autograd.grad((PARAMETER * tensor(x)).sum(), PARAMETER)[0]


def _generator(x):
    return ft.rand(4, 3, generator=ft.Generator().manual_seed(0)) * tensor(x)


def _module(x):
    norm = ft.nn.BatchNorm1d(3)
    return norm(tensor(x)) + norm.running_mean + norm.num_batches_tracked


def _train(name):
    def run(x):
        ft_w = ft.nn.Parameter(tensor(x) * 1)
        optimizer = getattr(ft.optim, name)([ft_w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (ft_w**2).sum().backward()
            optimizer.step()
        return ft_w

    return run


OUTSIDE = ft.ones(4, 3)
PARAMETER = ft.nn.Parameter(ft.ones(3))
OWN = {
    f.__name__: f for f in (_clone, _derived, _zeros, _backward, _parameter, _gradient, _generator, _module)
}
OWN |= {name: _train(name) for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adafactor")}


@pytest.mark.parametrize("name", OWN)
def test_what_is_made_inside_may_be_changed(name):
    def fn(x):
        return OWN[name](x).detach().jax()

    expected = np.asarray(fn(X))
    np.testing.assert_allclose(jax.jit(fn)(X), expected, rtol=2e-6)
    np.testing.assert_allclose(jax.lax.map(fn, X[None])[0], expected, rtol=2e-6)
    if name not in ("_module",):  # whose statistics are of one example, under `vmap`
        np.testing.assert_allclose(jax.vmap(fn)(X[None])[0], expected, rtol=2e-6)
    np.testing.assert_allclose(fn(X), expected, rtol=2e-6)  # numpy's at first, and then a program's
    assert PARAMETER.grad is None
    with jax.checking_leaks():
        jax.jit(lambda x: fn(x) + 0)(X)


def test_arguments_are_the_functions_own():
    def step(params, buffers, x):
        out = ft.func.functional_call(net, (params, buffers), (x,))
        for p, g in zip(
            params.values(), ft.autograd.grad(out.pow(3).sum(), list(params.values())), strict=True
        ):
            p.data.sub_(g, alpha=0.01)
        return params, buffers, out

    net = Net()
    twin = Net()
    twin.load_state_dict(net.state_dict())
    for p in net.parameters():
        p.requires_grad_(True)
    params, buffers = dict(net.named_parameters()), dict(net.named_buffers())
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    jitted = jax.jit(step)
    for _ in range(2):
        params, buffers, out = jitted(params, buffers, tensor(X))
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
    optimizer = ft.optim.SGD(twin.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        expected = twin(tensor(X))
        expected.pow(3).sum().backward()
        optimizer.step()
    ft.testing.assert_close(out.detach(), expected.detach())
    for key, value in twin.state_dict().items():
        ft.testing.assert_close({**params, **buffers}[key].detach(), value)


def test_a_transform_in_a_transform_may_not_change_what_the_outer_one_made():
    def outer(x):
        total = ft.zeros(3)

        def body(carry, row):
            total.add_(tensor(row))
            return carry, row

        jax.lax.scan(body, 0, x)
        return total.jax()

    with pytest.raises(RuntimeError, match="was made outside of the JAX transform"):
        jax.jit(outer)(X)


def test_reading_outside_state_is_a_constant():
    net = Net().eval()
    large = ft.arange(10000.0).reshape(100, 100)
    row = large[3]
    put_off = ft.nn.Linear(64, 64)(ft.ones(8, 64))  # an operation that has not run

    def fn(x):
        return (
            net(tensor(x)).sum() + row.sum() + large.t()[1].sum() + put_off.detach().sum() + tensor(x).sum()
        ).jax()

    expected = fn(X)
    for run in (jax.jit(fn), fn):
        np.testing.assert_allclose(run(X), expected, rtol=1e-6)
    jax.grad(lambda x: fn(x))(X)
    assert not any(isinstance(v, jax.core.Tracer) for v in (row.jax(), large.jax(), put_off.jax()))
    assert row.sum().item() == 34950.0


def test_nothing_of_ours_is_left_of_a_transform_that_is_over():
    gc.collect()
    before = len(inside._traces)
    jax.jit(lambda x: (_zeros(x) + _train("SGD")(x)).jax())(X)
    gc.collect()
    assert len(inside._traces) == before


def test_what_the_library_keeps_belongs_to_no_transform():
    """Arrays that are given out again: fills, hyperparameters of optimizers."""

    def fn(x):
        return _train("SGD")(x).detach().jax() + ft.full((4, 3), 0.123).jax()

    first = jax.jit(fn)(X)
    np.testing.assert_allclose(fn(X), first, rtol=1e-6)
    assert ft.full((4, 3), 0.123).tolist()[0][0] == pytest.approx(0.123)


# ------------------------------------------------------------------ compile and functionalize


@pytest.mark.parametrize("first", [True, False], ids=["first call inside", "called before"])
@pytest.mark.parametrize("transform", ["jit", "vmap", "grad", "scan", "map"])
def test_a_compiled_function_inside_is_part_of_the_transform(transform, first):
    weight = ft.nn.Parameter(ft.tensor([1.0, 2.0, 3.0]))
    compiled = ft.compile(lambda x: (x * weight).sum() ** 2)
    if not first:
        compiled(tensor(X[0]))

    def fn(x):
        return compiled(tensor(x)).jax()

    def plain(x):
        return (x * jnp.array([1.0, 2.0, 3.0])).sum() ** 2

    runs = {
        "jit": lambda f: jax.jit(f)(X[1]),
        "vmap": lambda f: jax.vmap(f)(X),
        "grad": lambda f: jax.jit(jax.grad(f))(X[1]),
        "scan": lambda f: jax.lax.scan(lambda c, x: (c + f(x), x), 0.0, X)[0],
        "map": lambda f: jax.lax.map(f, X),
    }
    np.testing.assert_allclose(runs[transform](fn), runs[transform](plain), rtol=1e-6)
    for _ in range(3):
        assert compiled(tensor(X[1])).item() == plain(X[1])
    assert compiled.traces == 1


def test_a_compiled_step_inside_is_refused():
    world = World()

    @ft.compile
    def step(x):
        world.optimizer.zero_grad()
        loss = (world.w * x).sum()
        loss.backward()
        world.optimizer.step()
        return loss

    before = world.content()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="was made outside of the JAX transform"):
            jax.jit(lambda x: step(tensor(x)).jax())(X)
        same(before, world.content())
        step(tensor(X))
        before = world.content()


def test_a_compiled_module_inside():
    net = Net()
    compiled = ft.compile(net)
    with pytest.raises(RuntimeError, match="bn.running_mean"):
        jax.jit(lambda x: compiled(tensor(x)).jax())(X)
    compiled(tensor(X))
    net.eval()
    np.testing.assert_allclose(
        jax.jit(lambda x: compiled(tensor(x)).jax())(X), compiled(tensor(X)).numpy(force=True), rtol=1e-5
    )


@pytest.mark.parametrize("transform", ["jit", "scan"])
def test_functionalize_inside(transform):
    """Traced inside the transform for the first time, with lazy state of the optimizer still to be made."""

    def make():
        ft.manual_seed(0)
        net = ft.nn.Sequential(ft.nn.Linear(3, 5), ft.nn.BatchNorm1d(5), ft.nn.Dropout(0.5))
        optimizer = ft.optim.Adam(net.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    expected = ft.functionalize(make())
    state = expected.state(tensor(X))
    losses = []
    for _ in range(3):
        loss, state = expected(state, tensor(X))
        losses.append(float(loss))
    step = make()
    pure = ft.functionalize(step)
    if transform == "jit":

        def run(x):
            state, found = pure.state(x), []
            for _ in range(3):
                loss, state = pure(state, x)
                found.append(loss)
            return jnp.stack(found)

        found = jax.jit(run)(X)
    else:
        found = jax.lax.scan(lambda s, x: pure(s, x)[::-1], pure.state(tensor(X)), jnp.stack([X] * 3))[1]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    step(tensor(X)), ft.compile(step)(tensor(X))
    with pytest.raises(RuntimeError, match="was made outside of the JAX transform"):
        jax.jit(lambda s: pure.load({k: v for k, v in s.items()}))(pure.state(tensor(X)))


def test_a_transform_of_jax_in_a_compiled_function():
    count = ft.zeros(3)

    def changes(x):
        jax.jit(lambda y: (count.add_(tensor(y)), y)[1])(x.jax())
        return x

    def own(x):
        def fn(y):
            total = ft.zeros(3) + count
            return total.add_(tensor(y)).pow(2).sum().jax()

        return tensor(jax.grad(fn)(x.jax()))

    with pytest.raises(RuntimeError, match="was made outside of the JAX transform"):
        ft.compile(changes)(ft.ones(3))
    assert count.tolist() == [0, 0, 0]
    assert ft.compile(own)(ft.ones(3)).tolist() == [2, 2, 2]


def test_a_cached_property_of_a_distribution_keeps_no_tracer():
    d = ft.distributions.MultivariateNormal(ft.zeros(80), precision_matrix=ft.eye(80))
    jax.jit(lambda x: (d.covariance_matrix.sum() + tensor(x).sum()).jax())(X)
    assert d.covariance_matrix.sum().item() == pytest.approx(80)


def test_a_cached_parametrization_keeps_no_tracer():
    layer = ft.nn.utils.parametrizations.weight_norm(ft.nn.Linear(80, 80))
    with ft.nn.utils.parametrize.cached():
        jax.jit(lambda x: (layer(ft.ones(80)).sum() + tensor(x).sum()).jax())(X)
        assert np.isfinite(layer(ft.ones(80)).sum().item())


def test_a_storage_is_not_kept_alive():
    refs = []

    def fn(x):
        t = ft.zeros(3)
        refs.append(weakref.ref(t._storage))
        return x

    jax.jit(fn)(X)
    assert refs[0]() is None
