"""Some models of the suite as a user of Flax NNX writes them: modules that hold parameters, an optimizer of optax.

Images are NHWC. The steps are `nnx.jit` of functions that change the module, with `nnx.cached_partial`, as Flax advises
for small ones.

Reference: https://flax.readthedocs.io/en/latest/guides/performance.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from suite_jax import TRANSFORMATIONS, image_last
from suite_networks import JOBS, Setup

__all__ = ["MODELS", "set_up"]


class Mlp(nnx.Module):
    """Dense layers with ReLU between them."""

    def __init__(self, sizes: Sequence[int], rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([nnx.Linear(n, m, rngs=rngs) for n, m in pairwise(sizes)])

    def __call__(self, x: jax.Array) -> jax.Array:
        *hidden, last = self.layers
        for layer in hidden:
            x = nnx.relu(layer(x))
        return last(x)


class Cnn(nnx.Module):
    """The demo's network: two convolutions and two dense layers, 1,199,882 parameters."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, 32, (3, 3), padding="VALID", rngs=rngs)
        self.conv2 = nnx.Conv(32, 64, (3, 3), padding="VALID", rngs=rngs)
        self.dropout1 = nnx.Dropout(0.25, broadcast_dims=(1, 2), rngs=rngs)
        self.dropout2 = nnx.Dropout(0.5, rngs=rngs)
        self.fc1 = nnx.Linear(9216, 128, rngs=rngs)
        self.fc2 = nnx.Linear(128, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.conv1(x))  # (N, 26, 26, 32)
        x = nnx.relu(self.conv2(x))  # (N, 24, 24, 64)
        x = self.dropout1(nnx.max_pool(x, (2, 2), (2, 2)))
        x = x.reshape(x.shape[0], -1)  # (N, 9216)
        return self.fc2(self.dropout2(nnx.relu(self.fc1(x))))


def _conv(n: int, m: int, size: int, stride: int, rngs: nnx.Rngs) -> nnx.Conv:
    padding = [(size // 2, size // 2)] * 2
    return nnx.Conv(n, m, (size, size), strides=stride, padding=padding, use_bias=False, rngs=rngs)


class Block(nnx.Module):
    """Two convolutions and a way around them."""

    def __init__(self, n: int, m: int, stride: int, rngs: nnx.Rngs) -> None:
        self.conv1, self.bn1 = _conv(n, m, 3, stride, rngs), nnx.BatchNorm(m, momentum=0.9, rngs=rngs)
        self.conv2, self.bn2 = _conv(m, m, 3, 1, rngs), nnx.BatchNorm(m, momentum=0.9, rngs=rngs)
        self.side = None if stride == 1 else _conv(n, m, 1, stride, rngs)
        self.bn3 = None if stride == 1 else nnx.BatchNorm(m, momentum=0.9, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.bn2(self.conv2(nnx.relu(self.bn1(self.conv1(x)))))
        return nnx.relu(y + (x if self.side is None else self.bn3(self.side(x))))


class ResNet18(nnx.Module):
    """For images of 32 x 32, ``small``, or of 224 x 224."""

    def __init__(self, small: bool, rngs: nnx.Rngs) -> None:
        self.small = small
        self.stem = _conv(3, 64, 3 if small else 7, 1 if small else 2, rngs)
        self.bn = nnx.BatchNorm(64, momentum=0.9, rngs=rngs)
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        sizes += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.blocks = nnx.List([Block(*size, rngs) for size in sizes])
        self.head = nnx.Linear(512, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.bn(self.stem(x)))
        if not self.small:
            x = nnx.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


MODELS: dict[str, Callable[[nnx.Rngs], nnx.Module]] = {
    "MLP 64, b16": lambda rngs: Mlp((64, 64, 64, 10), rngs),
    "MLP 784, b64": lambda rngs: Mlp((784, 512, 512, 10), rngs),
    "CNN, b64": Cnn,
    "ResNet-18 32x32, b16": lambda rngs: ResNet18(True, rngs),
    "ResNet-18 224x224, b4": lambda rngs: ResNet18(False, rngs),
}


def _loss(model: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


def set_up(name: str) -> Setup:
    """A model by the suite's name for it."""
    job: Any = JOBS[name]
    x, y = map(image_last, job.batch(np.random.default_rng(0)))
    model, twin = (MODELS[name](nnx.Rngs(0)) for _ in range(2))
    model.train()
    twin.eval()
    optimizer = nnx.Optimizer(model, TRANSFORMATIONS[job.optimizer](), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        loss, grads = nnx.value_and_grad(_loss)(model, x, y)
        optimizer.update(model, grads)
        return loss

    @nnx.jit
    def apply(model: Any, x: jax.Array) -> jax.Array:
        return model(x)

    learn, infer = nnx.cached_partial(step, model, optimizer), nnx.cached_partial(apply, twin)
    return Setup([], lambda: learn(x, y), lambda: infer(x))
