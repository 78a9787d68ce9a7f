"""The convolutional network of flax's MNIST tutorial, with BatchNorm and Dropout, in a loop of PyTorch."""

import numpy as np
import optax
from flax import nnx

import functorch_port as torch

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((5, 8, 12, 12, 1)).astype(np.float32)
LABELS = RNG.integers(0, 4, (5, 8))


class Cnn(nnx.Module):
    def __init__(self, rngs, rate):
        # a bias before a norm has a gradient of rounding errors, of which Adam makes whole steps
        self.conv1 = nnx.Conv(1, 4, (3, 3), use_bias=False, rngs=rngs)
        self.norm1 = nnx.BatchNorm(4, rngs=rngs)
        self.conv2 = nnx.Conv(4, 8, (3, 3), rngs=rngs)
        self.linear1 = nnx.Linear(72, 16, rngs=rngs)
        self.dropout = nnx.Dropout(rate, rngs=rngs)
        self.linear2 = nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.norm1(self.conv1(x))), (2, 2), (2, 2))
        x = nnx.avg_pool(nnx.relu(self.conv2(x)), (2, 2), (2, 2))
        x = nnx.relu(self.linear1(x.reshape(x.shape[0], -1)))
        return self.linear2(self.dropout(x))


class Transformer(nnx.Module):
    """One layer that attends to the past."""

    def __init__(self, rngs):
        self.embed = nnx.Embed(11, 8, rngs=rngs)
        self.norm1, self.norm2 = nnx.LayerNorm(8, rngs=rngs), nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, ids):
        x = self.embed(ids)
        x = x + self.attention(self.norm1(x), mask=nnx.make_causal_mask(ids))
        x = x + self.down(nnx.gelu(self.up(self.norm2(x))))
        return self.embed.attend(x)


IDS = RNG.integers(0, 11, (5, 4, 7))


def theirs():
    def train(model, inputs, labels):
        optimizer = nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param)

        @nnx.jit
        def step(model, optimizer, x, y):
            def loss_of(model):
                return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

            loss, grads = nnx.value_and_grad(loss_of)(model)
            optimizer.update(model, grads)
            return loss

        return [step(model, optimizer, x, y).item() for x, y in zip(inputs, labels, strict=True)]

    model = Cnn(nnx.Rngs(0), 0.0)
    losses = train(model, IMAGES, LABELS)
    model.eval()
    return {
        "losses": losses,
        "logits": model(IMAGES[0]),
        "running mean": model.norm1.mean[...],
        "dropout": 1,
        "transformer": train(Transformer(nnx.Rngs(1)), IDS[..., :-1], IDS[..., 1:]),
    }


def ours():
    def train(model, inputs, labels):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        @torch.compile
        def step(x, y):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            optimizer.step()
            return loss

        return [step(torch.tensor(x), torch.tensor(y)).item() for x, y in zip(inputs, labels, strict=True)]

    model = torch.flax.from_nnx(Cnn(nnx.Rngs(0), 0.0))
    losses = train(model, IMAGES, LABELS)
    model.eval()
    noisy = torch.flax.from_nnx(Cnn(nnx.Rngs(0), 0.5))
    x = torch.tensor(IMAGES[0])
    draws = not torch.equal(noisy(x), noisy(x)) and torch.equal(noisy.eval()(x), noisy(x))
    return {
        "losses": losses,
        "logits": model(x).detach(),
        "running mean": model.norm1.mean,
        "dropout": int(draws),
        "transformer": train(torch.flax.from_nnx(Transformer(nnx.Rngs(1))), IDS[..., :-1], IDS[..., 1:]),
    }
