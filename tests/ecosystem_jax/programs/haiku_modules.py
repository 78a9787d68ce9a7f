"""A transformed function of Haiku in a loop of PyTorch."""

import haiku as hk
import jax
from common import Tree, X, batches, jax_losses, mean_square, our_losses

net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, 8, 1], activation=jax.nn.tanh)(x)))


def theirs():
    params = net.init(jax.random.key(0), X[0])
    return {"losses": jax_losses(lambda p, x, y: mean_square(net.apply(p, x), y), params, batches())}


def ours():
    model = Tree(net.apply, net.init(jax.random.key(0), X[0]))
    return {"losses": our_losses(lambda x, y: ((model(x) - y) ** 2).mean(), model.parameters(), batches())}
