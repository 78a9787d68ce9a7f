"""BlackJAX's NUTS on the density of our module."""

import blackjax
import jax
import jax.numpy as jnp
from common import X, Y

import functorch_port as torch


def samples(density):
    sampler = blackjax.nuts(density, step_size=0.05, inverse_mass_matrix=jnp.ones(4))
    start = sampler.init({"weight": jnp.zeros((1, 3)), "bias": jnp.zeros(1)})
    _, states = jax.lax.scan(
        lambda state, key: (sampler.step(key, state)[0],) * 2, start, jax.random.split(jax.random.key(0), 15)
    )
    return {"weight": states.position["weight"], "density": states.logdensity}


def theirs():
    def density(w):
        out = X[0] @ w["weight"].T + w["bias"]
        return -jnp.sum((out - Y[0]) ** 2) - jnp.sum(w["weight"] ** 2)

    return samples(density)


def ours():
    apply, _, _ = torch.func.pure(torch.nn.Linear(3, 1))

    def density(w):
        out, _ = apply(w, {}, X[0])
        return -jnp.sum((out - Y[0]) ** 2) - jnp.sum(w["weight"] ** 2)

    return samples(density)
