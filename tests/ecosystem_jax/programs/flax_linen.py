"""An MLP and an encoder of Linen, with BatchNorm and Dropout, in a loop of PyTorch."""

import jax
import numpy as np
import optax
from common import X, batches, jax_losses, mean_square, our_losses
from flax import linen

import functorch_port as torch

IDS = np.random.default_rng(1).integers(0, 9, (5, 4, 6))
LABELS = IDS.sum(-1) % 3


class Mlp(linen.Module):
    @linen.compact
    def __call__(self, x, train: bool = True):
        for width in (8, 8):
            x = linen.Dense(width)(x)
            x = linen.relu(linen.BatchNorm(use_running_average=not train)(x))
        return linen.Dense(1)(x)


class Encoder(linen.Module):
    rate: float = 0.0

    @linen.compact
    def __call__(self, ids, deterministic: bool = False):
        x = linen.Embed(9, 8)(ids) + self.param("position", linen.initializers.normal(0.1), (6, 8))
        y = linen.LayerNorm()(x)
        x = x + linen.MultiHeadDotProductAttention(2, deterministic=deterministic, dropout_rate=self.rate)(y)
        y = linen.gelu(linen.Dense(16)(linen.LayerNorm()(x)))
        x = x + linen.Dropout(self.rate, deterministic=deterministic)(linen.Dense(8)(y))
        return linen.Dense(3)(x.mean(1))


def theirs():
    mlp, encoder = Mlp(), Encoder()
    variables = mlp.init(jax.random.key(0), X[0])

    def of_mlp(params, x, y):
        out, _ = mlp.apply({**variables, "params": params}, x, mutable=["batch_stats"])
        return mean_square(out, y)

    def of_encoder(params, ids, labels):
        out = encoder.apply(params, ids, deterministic=True)
        return optax.softmax_cross_entropy_with_integer_labels(out, labels).mean()

    first = encoder.init(jax.random.key(1), IDS[0])
    return {
        "mlp": jax_losses(of_mlp, variables["params"], batches()),
        "encoder": jax_losses(of_encoder, first, list(zip(IDS, LABELS, strict=True))),
        "dropout": 1,
    }


def ours():
    mlp = torch.flax.from_linen(Mlp(), variables=Mlp().init(jax.random.key(0), X[0]))
    encoder = torch.flax.from_linen(Encoder(), variables=Encoder().init(jax.random.key(1), IDS[0]))
    noisy = torch.flax.from_linen(Encoder(0.3), variables=Encoder().init(jax.random.key(1), IDS[0]))
    ids = torch.tensor(IDS[0])
    draws = not torch.equal(noisy(ids), noisy(ids)) and torch.equal(noisy.eval()(ids), noisy(ids))
    return {
        "mlp": our_losses(lambda x, y: ((mlp(x) - y) ** 2).mean(), mlp.parameters(), batches()),
        "encoder": our_losses(
            lambda ids, labels: torch.nn.functional.cross_entropy(encoder(ids), labels),
            encoder.parameters(),
            list(zip(IDS, LABELS, strict=True)),
        ),
        "dropout": int(draws),
    }
