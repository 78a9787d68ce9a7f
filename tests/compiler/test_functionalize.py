"""`functionalize`: the pure function under JAX's own transforms, and the names of the state."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import functorch_port as ft
from functorch_port import nn

X = jnp.asarray(np.random.default_rng(0).standard_normal((8, 4)), jnp.float32)
Y = jnp.asarray(np.random.default_rng(1).standard_normal((8, 2)), jnp.float32)


def _training(momentum=0.9):
    ft.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2))
    opt = ft.optim.SGD(net.parameters(), lr=0.1, momentum=momentum)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return net, opt, step


def _eager(steps):
    net, _, step = _training()
    losses = [step(ft.from_jax(X), ft.from_jax(Y)).item() for _ in range(steps)]
    return losses, {k: v.numpy() for k, v in net.state_dict().items()}


def test_names_are_those_of_the_source():
    net, _, step = _training()
    state = ft.functionalize(step).state(X, Y)
    assert {f"net.{k}" for k in net.state_dict()} <= set(state)
    assert "opt.state[0].momentum_buffer" in state and state["optimizer.param_groups[0].lr"] == 0.1


def test_jit_and_scan_give_the_eager_numbers():
    losses, weights = _eager(6)
    net, opt, step = _training()
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    pure = ft.functionalize(step)
    state = pure.state(X, Y)
    jitted = jax.jit(pure)
    got = []
    for _ in range(3):
        loss, state = jitted(state, X, Y)
        got.append(float(loss))
    state, more = jax.lax.scan(lambda s, _: pure(s, X, Y)[::-1], state, None, length=3)
    np.testing.assert_allclose(got + [float(v) for v in more], losses, rtol=1e-5)
    for k, v in net.state_dict().items():
        np.testing.assert_array_equal(v.numpy(), before[k])  # nothing outside was touched
    pure.load(state)
    for k, v in net.state_dict().items():
        np.testing.assert_allclose(v.numpy(), weights[k], rtol=1e-5, atol=1e-7)
    assert isinstance(opt.param_groups[0]["lr"], float)


def test_vmap_over_states_trains_an_ensemble():
    _, _, step = _training()
    pure = ft.functionalize(step)
    state = pure.state(X, Y)
    arrays = {k: v for k, v in state.items() if isinstance(v, jax.Array)}
    numbers = {k: v for k, v in state.items() if k not in arrays}
    twice = {k: jnp.stack([v, v * 1.1 if v.dtype == jnp.float32 else v]) for k, v in arrays.items()}
    losses, new = jax.vmap(lambda a: pure({**a, **numbers}, X, Y))(twice)
    single, _ = pure(state, X, Y)
    np.testing.assert_allclose(losses[0], single, rtol=1e-6)
    assert losses[1] != losses[0] and new["net.0.weight"].shape == (2, 3, 4)


def test_grad_of_a_pure_function():
    w = ft.tensor([1.0, 2.0])
    pure = ft.functionalize(lambda x: (w * w * x).sum())
    grads = jax.grad(lambda s: pure(s, jnp.array([3.0, 4.0]))[0])(pure.state(jnp.ones(2)))
    np.testing.assert_allclose(grads["w"], [6.0, 16.0])


def test_random_state_is_threaded():
    pure = ft.functionalize(lambda: ft.rand(4))
    state = pure.state()
    a, state = pure(state)
    b, state = pure(state)
    assert list(state) == ["default_generator"] and (a != b).all()


def test_the_step_can_be_lowered_and_exported():
    _, _, step = _training()
    pure = ft.functionalize(step)
    state = pure.state(X, Y)
    with jax.enable_x64(True):
        text = jax.jit(pure).lower(state, X, Y).as_text()
    assert "stablehlo.dot_general" in text
    assert "dot_general" in str(pure.jaxpr(X, Y))


def test_gradients_that_are_read_are_state():
    w = ft.tensor([1.0, 2.0], requires_grad=True)
    w.grad = ft.zeros(2)

    def accumulate(x):
        (w * x).sum().backward()

    pure = ft.functionalize(accumulate)
    state = pure.state(jnp.ones(2))
    for _ in range(3):
        _, state = pure(state, jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(state["w.grad"], [3.0, 6.0])
    assert w.grad.tolist() == [0, 0]


def test_what_cannot_be_pure_is_refused():
    kept = []
    with pytest.raises(NotImplementedError, match="kept in a Python object"):
        ft.functionalize(lambda x: kept.append(x * 2)).state(jnp.ones(2))
    with pytest.raises(KeyError, match="net"):
        _, _, step = _training()
        ft.functionalize(step)({}, X, Y)


def test_a_look_at_state_comes_from_the_state_given():
    w = ft.ones(2, 2)
    pure = ft.functionalize(lambda x: (w[0], w.detach(), w.t() + x))
    state = {name: value * 5 for name, value in pure.state(ft.ones(2)).items()}
    row, whole, total = pure(state, ft.ones(2))[0]
    assert (
        row.tolist() == [5, 5] and whole.tolist() == [[5, 5], [5, 5]] and total.tolist() == [[6, 6], [6, 6]]
    )


def test_a_state_of_other_shapes_or_types_is_told():
    """It would be computed with, or left in a module, where it cannot be."""
    module = nn.Linear(3, 2)
    pure = ft.functionalize(module)
    x = jnp.ones((4, 3))
    state = pure.state(x)
    before = np.asarray(module.weight.jax())
    for name, wrong, text in (
        (
            "weight",
            jnp.ones((1, 3)),
            r"'weight' is float32\[1, 3\] in the state, and should be float32\[2, 3\]",
        ),
        ("bias", np.ones(2), r"'bias' is float64\[2\] in the state, and should be float32\[2\]"),
    ):
        for use in (lambda s: pure(s, x), pure.load):
            with pytest.raises(ValueError, match=text):
                use({"weight": state["weight"] + 1, "bias": state["bias"], name: wrong})
    with pytest.raises(KeyError, match="the state has no 'bias'"):
        pure.load({"weight": state["weight"] + 1})
    np.testing.assert_array_equal(module.weight.jax(), before)  # nothing was written
    pure.load({**state, "another": 1})


def test_from_jax_takes_arrays_of_numbers():
    for wrong in (np.ones(2), [1.0], jax.random.key(0)):
        with pytest.raises(TypeError, match="from_jax takes a jax.Array of numbers, got"):
            ft.from_jax(wrong)
