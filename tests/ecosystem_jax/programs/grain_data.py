"""grain feeds the loop: its datasets themselves, and as the dataset of our DataLoader."""

import grain
import jax.numpy as jnp
import numpy as np
from common import X, Y, jax_losses, mean_square, our_losses

import functorch_port as torch

ROWS = [{"x": x, "y": y} for x, y in zip(X.reshape(-1, 3), Y.reshape(-1, 1), strict=True)]
START = np.full((1, 3), 0.1, np.float32)


def shuffled():
    return grain.MapDataset.source(ROWS).shuffle(seed=1).map(lambda row: {"x": row["x"] * 2, "y": row["y"]})


def pairs(rows):
    return [(row["x"], row["y"]) for row in rows]


def theirs():
    def loss(w, x, y):
        return mean_square(x @ w.T, y)

    fed = pairs(shuffled().batch(16).to_iter_dataset())
    last = [(x[:5], y[:5]) for x, y in fed]
    return {
        "iterator": jax_losses(loss, jnp.asarray(START), fed),
        "loader": jax_losses(loss, jnp.asarray(START), fed),
        "stream": jax_losses(loss, jnp.asarray(START), last),
    }


class Stream(torch.utils.data.IterableDataset):
    """A grain dataset that has no length."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


def ours():
    def run(fed):
        w = torch.nn.Parameter(torch.tensor(START))
        return our_losses(lambda x, y: ((x @ w.T - y) ** 2).mean(), [w], pairs(fed))

    stream = Stream(shuffled().batch(16).to_iter_dataset())
    batches = torch.utils.data.DataLoader(stream, batch_size=None)
    return {
        "iterator": run(shuffled().batch(16).to_iter_dataset()),
        "loader": run(torch.utils.data.DataLoader(shuffled(), batch_size=16)),
        "stream": run([{key: value[:5] for key, value in row.items()} for row in batches]),
    }
