"""TensorFlow Probability on JAX: densities with our parameters, and its HMC on the density of our module."""

import jax
import jax.numpy as jnp
import numpy as np
from common import X, Y, jax_losses, our_losses
from tensorflow_probability.substrates import jax as tfp

import functorch_port as torch

POINTS = X.reshape(-1, 3)


def mixture(logits, means, scales, x):
    density = tfp.distributions.MixtureSameFamily(
        tfp.distributions.Categorical(logits=logits),
        tfp.distributions.MultivariateNormalDiag(means, jax.nn.softplus(scales)),
    )
    return -jnp.mean(density.log_prob(x))


START = {"logits": np.zeros(2, "float32"), "means": POINTS[:2], "scales": np.ones((2, 3), "float32")}


def chain(density):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(density, step_size=0.05, num_leapfrog_steps=3)
    start = jnp.zeros((1, 3))
    return tfp.mcmc.sample_chain(20, start, kernel=kernel, trace_fn=None, seed=jax.random.key(0))


def theirs():
    losses = jax_losses(lambda p, x: mixture(**p, x=x), jax.tree.map(jnp.asarray, START), [(x,) for x in X])

    def density(w):
        return -jnp.sum((X[0] @ w[0] - Y[0][:, 0]) ** 2) - jnp.sum(w**2)

    return {"losses": losses, "samples": chain(density)}


def ours():
    params = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in START.items()}
    loss = torch.func.from_jax(mixture)
    losses = our_losses(lambda x: loss(**params, x=x), params.values(), [(x,) for x in X])
    net = torch.nn.Linear(3, 1, bias=False)
    apply, _, _ = torch.func.pure(net)

    def density(w):
        out, _ = apply({"weight": w}, {}, X[0])
        return -jnp.sum((out - Y[0]) ** 2) - jnp.sum(w**2)

    return {"losses": losses, "samples": chain(density)}
