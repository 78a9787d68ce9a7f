"""Modules of Equinox through `func`: in a loop of PyTorch, and under vmap, grad and jit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from common import Tree, batches, jax_losses, mean_square, our_losses

import functorch_port as torch

IMAGES = np.random.default_rng(2).standard_normal((3, 1, 8, 8)).astype(np.float32)


class Cnn(eqx.Module):
    layers: list

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.layers = [
            eqx.nn.Conv2d(1, 3, 3, key=first), jax.nn.relu, eqx.nn.MaxPool2d(2, 2), jnp.ravel,
            eqx.nn.Linear(27, 2, key=second),
        ]  # fmt: skip

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def apply(model, x):
    return jax.vmap(model)(x)


def theirs():
    model = eqx.nn.MLP(3, 1, 8, 2, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    losses = jax_losses(lambda p, x, y: mean_square(apply(eqx.combine(p, static), x), y), params, batches())
    cnn = Cnn(jax.random.key(1))
    grads = eqx.filter_grad(lambda m: jnp.sum(jnp.sin(apply(m, IMAGES))))(cnn)
    return {"losses": losses, "cnn": jnp.sum(apply(cnn, IMAGES)), "slope": grads.layers[0].weight}


def ours():
    model = Tree(apply, eqx.nn.MLP(3, 1, 8, 2, key=jax.random.key(0)))
    losses = our_losses(lambda x, y: ((model(x) - y) ** 2).mean(), model.parameters(), batches())
    cnn = Tree(apply, Cnn(jax.random.key(1)))
    weights = dict(cnn.named_parameters())

    def total(weights):
        return torch.func.functional_call(cnn, weights, torch.tensor(IMAGES)).sin().sum()

    slope = torch.func.grad(total)(weights)["weights.0"]
    each = torch.func.vmap(lambda image: cnn(image[None])[0])(torch.tensor(IMAGES))
    return {"losses": losses, "cnn": each.sum(), "slope": slope}
