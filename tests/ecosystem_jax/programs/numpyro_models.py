"""NumPyro: our module in a model (NUTS), and the potential of a model minimised by our optimizer."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from common import X, Y, jax_losses, our_losses
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density

import functorch_port as torch


def model(predict, x, y):
    w = numpyro.sample("w", dist.Normal(jnp.zeros((1, 3)), 1.0).to_event(2))
    numpyro.sample("y", dist.Normal(predict(w, x), 0.5).to_event(2), obs=y)


def samples(predict):
    mcmc = MCMC(NUTS(model), num_warmup=20, num_samples=10, progress_bar=False)
    mcmc.run(jax.random.key(0), predict, X[0], Y[0])
    return mcmc.get_samples()["w"]


def potential(w, x, y):
    return -log_density(model, (lambda w, x: x @ w.T, x, y), {}, {"w": w})[0]


def theirs():
    pairs = list(zip(X, Y, strict=True))
    losses = jax_losses(potential, jnp.ones((1, 3)), pairs, 1e-3)
    return {"samples": samples(lambda w, x: x @ w.T), "potential": losses}


def ours():
    apply, _, _ = torch.func.pure(torch.nn.Linear(3, 1, bias=False))
    w, loss = torch.nn.Parameter(torch.ones(1, 3)), torch.func.from_jax(potential)
    losses = our_losses(lambda x, y: loss(w, x, y), [w], list(zip(X, Y, strict=True)), 1e-3)
    return {"samples": samples(lambda w, x: apply({"weight": w}, {}, x)[0]), "potential": losses}
