"""Losses from distributions of Distrax: of a policy, of a variational autoencoder, and their gradients."""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
from common import X, jax_losses, our_losses

import functorch_port as torch

ACTIONS = np.random.default_rng(3).integers(0, 4, (6, 16))
W = np.random.default_rng(4).standard_normal((3, 4)).astype(np.float32)
KEY = jax.random.key(0)


def policy(logits, actions, rewards):
    """Policy gradient with an entropy bonus."""
    pi = distrax.Categorical(logits=logits)
    return -jnp.mean(pi.log_prob(actions) * rewards) - 0.01 * jnp.mean(pi.entropy())


def elbo(mean, log_std, x):
    q = distrax.MultivariateNormalDiag(mean, jnp.exp(log_std))
    prior = distrax.MultivariateNormalDiag(jnp.zeros_like(mean), jnp.ones_like(mean))
    z = q.sample(seed=KEY)
    return jnp.mean(jnp.sum((z - x) ** 2, -1) + q.kl_divergence(prior))


def data():
    return [(x, a, x.sum(-1)) for x, a in zip(X, ACTIONS, strict=True)]


def theirs():
    losses = jax_losses(lambda w, x, a, r: policy(x @ w, a, r), jnp.asarray(W), data(), 0.05)
    value, slopes = jax.value_and_grad(elbo, (0, 1))(X[0], X[1] * 0.1, X[2])
    return {"policy": losses, "elbo": value, "mean": slopes[0], "log_std": slopes[1]}


def ours():
    w, loss = torch.nn.Parameter(torch.tensor(W)), torch.func.from_jax(policy)
    losses = our_losses(lambda x, a, r: loss(x @ w, a, r), [w], data(), 0.05)
    mean, log_std = (torch.tensor(x).requires_grad_() for x in (X[0], X[1] * np.float32(0.1)))
    value = torch.func.from_jax(elbo)(mean, log_std, X[2])
    value.backward()
    return {"policy": losses, "elbo": value, "mean": mean.grad, "log_std": log_std.grad}
