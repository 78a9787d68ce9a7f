"""A model of Penzai in a loop of PyTorch."""

import jax
from common import Tree, batches, jax_losses, mean_square, our_losses
from penzai import pz
from penzai.models import simple_mlp


def parts():
    """A function of the arrays of the variables, and these."""
    made = simple_mlp.MLP.from_config(jax.random.key(0), [3, 8, 1], activation_fn=jax.numpy.tanh)
    structure, variables = pz.unbind_params(made, freeze=True)
    arrays, form = jax.tree.flatten(variables)

    def apply(arrays, x):
        net = pz.bind_variables(structure, jax.tree.unflatten(form, arrays))
        return net(pz.nx.wrap(x, "batch", "features")).unwrap("batch", "features")

    return apply, arrays


def theirs():
    apply, params = parts()
    return {"losses": jax_losses(lambda p, x, y: mean_square(apply(p, x), y), params, batches())}


def ours():
    net = Tree(*parts())
    return {"losses": our_losses(lambda x, y: ((net(x) - y) ** 2).mean(), net.parameters(), batches())}
