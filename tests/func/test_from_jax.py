"""`func.from_jax`: functions of JAX as operations on Tensors."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import functorch_port as ft

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def curve(tree, n, *, shift=0.0):
    return {"y": jnp.sin(tree["x"]) * n + shift, "whole": jnp.sum(tree["i"]), "none": tree["none"]}


def test_values_and_gradients_are_those_of_jax():
    call = ft.func.from_jax(curve)
    x = ft.tensor(X, requires_grad=True)
    out = call({"x": x, "i": ft.tensor([1, 2]), "none": None}, 3, shift=0.5)
    np.testing.assert_allclose(out["y"].detach().numpy(), np.sin(X) * 3 + 0.5, rtol=1e-6)
    assert out["whole"].item() == 3 and not out["whole"].requires_grad and out["none"] is None
    (slope,) = ft.autograd.grad(out["y"].sum(), x, create_graph=True)
    np.testing.assert_allclose(slope.detach().numpy(), np.cos(X) * 3, rtol=1e-5)
    slope.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), -np.sin(X) * 3, rtol=1e-5, atol=1e-7)


def test_a_derivative_of_its_own_is_used():
    @jax.custom_vjp
    def same(x):
        return x * 1.0

    same.defvjp(lambda x: (x, None), lambda _, g: (g * 7,))
    x = ft.ones(2, requires_grad=True)
    ft.func.from_jax(same)(x).sum().backward()
    assert x.grad.tolist() == [7, 7]


@pytest.mark.parametrize("way", ["eager", "compile", "functionalize", "vmap", "grad of func"])
def test_every_way(way):
    traces = itertools.count()

    def square(x, power):
        next(traces)
        return x**power

    call = ft.func.from_jax(square)
    for _ in range(3):
        x = ft.tensor(X, requires_grad=True)
        if way == "eager":
            call(x, 3).sum().backward()
            found = x.grad
        elif way == "compile":
            step = ft.compile(lambda x: call(x, 3).sum())
            step(x).backward()
            found = x.grad
        elif way == "functionalize":
            pure = ft.functionalize(lambda x: call(x, 3).sum())
            found = ft.from_jax(jax.jit(jax.grad(lambda x: pure({}, x)[0]))(jnp.asarray(X)))
        elif way == "vmap":
            found = ft.func.vmap(ft.func.grad(lambda row: call(row, 3).sum()))(x.detach())
        else:
            found = ft.func.grad(lambda x: call(x, 3).sum())(x.detach())
        np.testing.assert_allclose(found.numpy(), 3 * X**2, rtol=1e-5, atol=1e-7)
    if way == "eager":
        assert next(traces) <= 3  # of values, and of the gradient


def test_what_a_function_jits_is_for_xla():
    """JAX keeps what is traced under `jit`, which must not be what an operation by numpy takes."""
    net = ft.nn.Linear(3, 3)
    apply, params, _ = ft.func.pure(net)
    inner = jax.jit(lambda params, x: apply(params, {}, x)[0])
    call = ft.func.from_jax(lambda params, x: jax.lax.fori_loop(0, 3, lambda _, y: inner(params, y), x))
    x = ft.ones(2, 3)
    out = call(dict(net.named_parameters()), x)
    out.sum().backward()
    want = net(net(net(x)))
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inner(params, jnp.ones((2, 3))), net(x).detach().numpy(), rtol=1e-5)


def test_types_are_those_of_the_setting_of_jax():
    made = ft.func.from_jax(lambda x: (x, jnp.zeros(2), jnp.arange(2)))
    kinds = lambda outs: [t.dtype for t in outs]
    assert kinds(made(ft.ones(2))) == [ft.float32, ft.float32, ft.int32]
    assert kinds(made(ft.ones(2, dtype=ft.int64))) == [ft.int32, ft.float32, ft.int32]
    assert kinds(made(ft.ones(2, dtype=ft.float64))) == [ft.float64, ft.float64, ft.int64]
    with jax.enable_x64(True):
        wide = ft.func.from_jax(lambda x: (x, jnp.zeros(2)))
    assert kinds(wide(ft.ones(2))) == [ft.float32, ft.float64]
    pure = ft.functionalize(lambda x: made(x))
    assert [x.dtype for x in jax.jit(pure)({}, jnp.ones(2))[0]] == [jnp.float32, jnp.float32, jnp.int32]


def test_keys_are_arguments():
    draw = ft.func.from_jax(lambda key, x: jax.random.normal(key, x.shape))
    for seed in (0, 1):
        key = jax.random.key(seed)
        np.testing.assert_array_equal(draw(key, ft.ones(3)).numpy(), jax.random.normal(key, (3,)))
    pure = ft.functionalize(lambda x: draw(key, x))
    np.testing.assert_allclose(jax.jit(pure)({}, jnp.ones(3))[0], jax.random.normal(key, (3,)), rtol=1e-6)


def test_static_arguments_are_told_apart():
    call = ft.func.from_jax(lambda x, n: x * n if n is True else x + n)
    assert call(ft.ones(1), 1).item() == 2 and call(ft.ones(1), True).item() == 1
    assert call(ft.ones(1), 1.0).dtype is ft.float32
    with pytest.raises(TypeError, match="must be hashable, but got"):
        call(ft.ones(1), {1, 2})


def test_the_result_is_a_new_tensor():
    x = ft.ones(3)
    y = ft.func.from_jax(lambda x: x)(x)
    y.add_(1)
    assert x.tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]
