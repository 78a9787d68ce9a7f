"""`jax.tree`, `jax.flatten_util` and `optax.tree` on Tensors, state dicts and parameters of modules."""

from collections import OrderedDict

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax

import functorch_port as torch

W, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(2, np.float32)


def on(tree):
    """What a tree of parameters gives, whatever its leaves are."""
    mean = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, tree, jax.tree.map(lambda x: x + 1, tree))
    flat, back = jax.flatten_util.ravel_pytree(tree)
    leaves, structure = jax.tree.flatten(tree)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(tree)]
    again = jax.tree.unflatten(structure, [leaf * 2 for leaf in leaves])
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), tree, again)
    return {
        "mean": mean["weight"],
        "flat": flat,
        "back": back(flat * 3)["bias"],
        "count": len(leaves),
        "named": int(all(name.startswith(("['bias']", "['weight']")) for name in names)),
        "again": again["weight"],
        "stacked": stacked["bias"],
        "norm": optax.tree.norm(tree),
        "largest": jax.tree.reduce(jnp.maximum, jax.tree.map(jnp.max, tree)),
        "all": int(jax.tree.all(jax.tree.map(lambda x: bool((x >= 0).all()), tree))),
        "shapes": jax.tree.leaves(jax.tree.map(lambda x: x.shape, jax.eval_shape(lambda t: t, tree))),
    }


def theirs():
    tree = OrderedDict(weight=jnp.asarray(W), bias=jnp.asarray(B))  # as a state_dict is
    return on(tree) | {"parameters": W}


def ours():
    net = torch.nn.Linear(3, 2)
    torch.func.load_pytree(net, {"weight": W, "bias": B})
    parameters = jax.tree.map(lambda x: x * 1, dict(net.named_parameters()))
    return on(net.state_dict()) | {"parameters": parameters["weight"]}
