"""A model of Penzai in a loop of PyTorch."""

import jax
from common import Tree, batches, jax_losses, mean_square, our_losses
from penzai import pz
from penzai.models import simple_mlp


def model():
    made = simple_mlp.MLP.from_config(
        "mlp", jax.random.key(0), [3, 8, 1], activation_fn=jax.numpy.tanh
    )
    model, variables = pz.unbind_params(made, freeze=True)
    return model, {var.label: var.value.untag("features") if False else var for var in variables}


def parts():
    structure, variables = model()
    arrays = {str(name): var.value for name, var in variables.items()}
    named = {str(name): var for name, var in variables.items()}

    def apply(values, x):
        import dataclasses

        bound = pz.bind_variables(
            structure, [dataclasses.replace(var, value=values[name]) for name, var in named.items()]
        )
        return bound(pz.nx.wrap(x).tag("batch", "features")).unwrap("batch", "features")

    return apply, arrays


def theirs():
    apply, params = parts()
    return {"losses": jax_losses(lambda p, x, y: mean_square(apply(p, x), y), params, batches())}


def ours():
    net = Tree(*parts())
    return {"losses": our_losses(lambda x, y: ((net(x) - y) ** 2).mean(), net.parameters(), batches())}
