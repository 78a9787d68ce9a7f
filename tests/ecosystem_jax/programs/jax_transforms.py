"""`jax.export`, `jax.checkpoint`, `jax.vmap` and `jax.lax.scan` over functionalized and pure functions of ours."""

import jax
import jax.export
import jax.numpy as jnp
import optax
from common import X, Y, mean_square

import functorch_port as torch

PARAMS = {"weight": jnp.ones((1, 3)) * 0.1, "bias": jnp.zeros(1)}


def predict(p, x):
    return jnp.tanh(x @ p["weight"].T + p["bias"])


def theirs():
    tx = optax.adam(optax.exponential_decay(0.1, 1, 0.5))

    def body(carry, batch):
        params, state = carry
        loss, grads = jax.value_and_grad(lambda p: mean_square(predict(p, batch[0]), batch[1]))(params)
        updates, state = tx.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), loss

    def losses(params, x=X):
        return jax.lax.scan(body, (params, tx.init(params)), (x, Y))

    (params, _), found = losses(PARAMS)
    two = jax.vmap(lambda k: losses(jax.tree.map(lambda p: p + k, PARAMS))[1])(jnp.array([0.0, 1.0]))
    slope = jax.grad(lambda p: jnp.sum(jnp.sin(predict(p, X[0]))))(PARAMS)["weight"]
    outer = jax.grad(lambda k: losses(PARAMS, X * k)[1][-1])(1.0)
    return {
        "scan": found, "weight": params["weight"], "vmap": two, "export": predict(PARAMS, X[0]), "checkpoint": slope,
        "through the loop": outer,
    }  # fmt: skip


def ours():
    net = torch.nn.Linear(3, 1)
    torch.func.load_pytree(net, PARAMS)
    model = torch.nn.Sequential(net, torch.nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    apply, params, buffers = torch.func.pure(model)

    @jax.checkpoint
    def total(params, x):
        return jnp.sum(jnp.sin(apply(params, buffers, x)[0]))

    slope = jax.grad(total)(params, X[0])["0.weight"]
    view = torch.functionalize(lambda x: model(x))
    state = view.state(X[0])
    exported = jax.export.export(jax.jit(lambda state, x: view(state, x)[0]))(state, X[0])
    again = jax.export.deserialize(exported.serialize()).call(state, X[0])

    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    pure = torch.functionalize(step)
    state = pure.state(X[0], Y[0])
    weights = [name for name in state if name.endswith(("weight", "bias")) and "optimizer" not in name]

    rate = "optimizer.param_groups[0].lr"

    def body(state, batch):
        loss, state = pure(state, *batch)
        return state | {rate: state[rate] * 0.5}, loss

    def losses(state, x=X):
        return jax.lax.scan(body, state, (x, Y))

    two = jax.vmap(lambda k: losses({n: v + k if n in weights else v for n, v in state.items()})[1])
    outer = jax.grad(lambda k: losses(state, X * k)[1][-1])(1.0)
    both = two(jnp.array([0.0, 1.0]))
    state, found = losses(state)
    pure.load(state)
    return {
        "scan": found, "weight": net.weight, "vmap": both, "export": again, "checkpoint": slope,
        "through the loop": outer,
    }  # fmt: skip
