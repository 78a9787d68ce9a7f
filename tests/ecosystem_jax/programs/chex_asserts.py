"""chex's assertions on our trees, and its dataclasses with Tensors under jit."""

import chex
import jax
import jax.numpy as jnp
import numpy as np

import functorch_port as torch

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def holds(check, *args, **kwargs):
    try:
        check(*args, **kwargs)
    except AssertionError:
        return 0
    return 1


def checks(good, bad, large):
    """Which assertions hold, on trees and on single arrays."""
    leaf = good["weight"]
    return [
        holds(chex.assert_trees_all_close, good, {key: x * 1 for key, x in good.items()}),
        holds(chex.assert_trees_all_close, good, large),
        holds(chex.assert_trees_all_equal, good, good),
        holds(chex.assert_trees_all_equal_shapes_and_dtypes, good, large),
        holds(chex.assert_tree_all_finite, good),
        holds(chex.assert_tree_all_finite, bad),
        holds(chex.assert_shape, leaf, (2, 3)),
        holds(chex.assert_shape, leaf, (3, 3)),
        holds(chex.assert_rank, leaf, 2),
        holds(chex.assert_equal_shape, [leaf, large["weight"]]),
        holds(chex.assert_axis_dimension, leaf, 0, 2),
        holds(chex.assert_size, jax.tree.leaves(leaf), 6),  # of the array: a tensor's size is a method
        holds(chex.assert_tree_shape_prefix, good, (2,)),
        holds(chex.assert_trees_all_equal_structs, good, {"other": leaf}),
    ]


@chex.dataclass
class Batch:
    x: chex.ArrayTree
    scale: float


def theirs():
    w = jnp.asarray(W)
    made = jax.jit(lambda b: b.replace(x=b.x * b.scale))(Batch(x=w, scale=3.0))
    return {"checks": checks({"weight": w}, {"weight": w / 0}, {"weight": w + 1}), "x": made.x}


def ours():
    net = torch.nn.Linear(3, 2, bias=False)
    torch.func.load_pytree(net, {"weight": W})
    state = dict(net.state_dict())  # an OrderedDict is another structure than a dict
    w = state["weight"]
    made = jax.jit(lambda b: b.replace(x=b.x * b.scale))(Batch(x=w, scale=3.0))
    return {"checks": checks(state, {"weight": w / 0}, {"weight": w + 1}), "x": made.x}
