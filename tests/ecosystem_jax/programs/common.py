"""Data and loops that the programs share."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import functorch_port as torch

RNG = np.random.default_rng(0)
#: six batches of a regression
X = RNG.standard_normal((6, 16, 3)).astype(np.float32)
Y = np.tanh(X.sum(-1, keepdims=True)).astype(np.float32)


def jax_losses(loss, params, batches, rate=0.1):
    """Losses of a loop of JAX and optax; ``loss(params, *batch)``."""
    tx = optax.sgd(rate, momentum=0.9)

    @jax.jit
    def step(params, state, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    state, losses = tx.init(params), []
    for batch in batches:
        params, state, value = step(params, state, *batch)
        losses.append(float(value))
    return losses


def our_losses(loss, params, batches, rate=0.1):
    """Losses of a loop of PyTorch, eager for two steps and compiled for the others; ``loss(*batch)``."""
    optimizer = torch.optim.SGD(params, lr=rate, momentum=0.9)

    def step(*batch):
        optimizer.zero_grad()
        value = loss(*batch)
        value.backward()
        optimizer.step()
        return value

    compiled = torch.compile(step)
    return [
        (step if i < 2 else compiled)(*map(torch.as_tensor, batch)).item() for i, batch in enumerate(batches)
    ]


def batches():
    return list(zip(X, Y, strict=True))


def mean_square(a, b):
    return jnp.mean((a - b) ** 2)


class Tree(torch.nn.Module):
    """The arrays of a pytree as parameters: a model of any library of JAX.

    Args:
        apply: a function of the pytree and of arrays.
        tree: the pytree; its leaves that are not floating point arrays stay as they are.
    """

    def __init__(self, apply, tree):
        super().__init__()
        self.apply_tree = torch.func.from_jax(apply)
        self.rest, self.structure = jax.tree.flatten(tree)
        self.weights = torch.nn.ParameterDict(
            {str(i): torch.from_jax(x) for i, x in enumerate(self.rest) if _is_weight(x)}
        )

    def forward(self, *args):
        leaves = [self.weights[str(i)] if str(i) in self.weights else x for i, x in enumerate(self.rest)]
        return self.apply_tree(jax.tree.unflatten(self.structure, leaves), *args)


def _is_weight(x):
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)
