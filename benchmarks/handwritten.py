"""The benchmark programs as a JAX user writes them: pure functions, one `jax.jit`, parameters donated.

Every program is a function ``step(state, x, y) -> (state, loss)``; ``init(rng)`` makes its first state.
Parameters are in JAX's customary layout: dense kernels are (in, out), images and convolution kernels NHWC
and HWIO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LR = 0.01
Params = Any
Step = Callable[[Any, jax.Array, jax.Array], tuple[Any, jax.Array]]


class Program(NamedTuple):
    """A training step, what it starts from, and what the model says without learning: ``infer(state, x)``."""

    step: Step
    state: Any
    infer: Callable[[Any, jax.Array], jax.Array]

    def jit(self) -> Step:
        """The step as one program that reuses the memory of the state."""
        return jax.jit(self.step, donate_argnums=0)


def _dense_params(rng: np.random.Generator, sizes: Sequence[int]) -> list[tuple[jax.Array, jax.Array]]:
    def layer(n: int, m: int) -> tuple[jax.Array, jax.Array]:
        bound = n**-0.5
        draw = partial(rng.uniform, -bound, bound)
        return jnp.asarray(draw((n, m)), jnp.float32), jnp.asarray(draw(m), jnp.float32)

    return [layer(n, m) for n, m in pairwise(sizes)]


def _mean_nll(logits: jax.Array, labels: jax.Array) -> jax.Array:
    log_p = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_p, labels[:, None], axis=1).mean()


def _sgd(params: Params, grads: Params) -> Params:
    return jax.tree.map(lambda p, g: p - LR * g, params, grads)


def _mlp_apply(params: Params, x: jax.Array) -> jax.Array:
    *hidden, (w, b) = params
    for v, c in hidden:
        x = jax.nn.relu(x @ v + c)
    return x @ w + b


def _mlp_loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    return _mean_nll(_mlp_apply(params, x), y)


def _mlp_step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
    loss, grads = jax.value_and_grad(_mlp_loss)(params, x, y)
    return _sgd(params, grads), loss


def mlp(sizes: Sequence[int], seed: int = 0) -> Program:
    """Dense layers with ReLU between them, cross entropy, SGD."""
    return Program(_mlp_step, _dense_params(np.random.default_rng(seed), sizes), _mlp_apply)


def _conv(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b


def _max_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _drop(key: jax.Array, x: jax.Array, rate: float, shape: Sequence[int]) -> jax.Array:
    keep = jax.random.bernoulli(key, 1 - rate, shape)
    return jnp.where(keep, x / (1 - rate), 0)


def _cnn_apply(params: Params, x: jax.Array, keys: Sequence[jax.Array] = ()) -> jax.Array:
    conv1, conv2, fc1, fc2 = params
    x = jax.nn.relu(_conv(x, *conv1))  # (N, 26, 26, 32)
    x = jax.nn.relu(_conv(x, *conv2))  # (N, 24, 24, 64)
    x = _max_pool(x)  # (N, 12, 12, 64)
    if len(keys):
        x = _drop(keys[0], x, 0.25, (x.shape[0], 1, 1, x.shape[3]))
    x = x.reshape(x.shape[0], -1)  # (N, 9216)
    x = jax.nn.relu(x @ fc1[0] + fc1[1])
    if len(keys):
        x = _drop(keys[1], x, 0.5, x.shape)
    return x @ fc2[0] + fc2[1]


def _cnn_loss(params: Params, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return _mean_nll(_cnn_apply(params, x, jax.random.split(key)), y)


def _cnn_step(state: Any, x: jax.Array, y: jax.Array) -> tuple[Any, jax.Array]:
    params, key = state
    following, own = jax.random.split(key)
    loss, grads = jax.value_and_grad(_cnn_loss)(params, own, x, y)
    return (_sgd(params, grads), following), loss


def cnn(seed: int = 0) -> Program:
    """The demo's network, with dropout: 1,199,882 parameters and a key are its state."""
    rng = np.random.default_rng(seed)

    def conv(n: int, m: int) -> tuple[jax.Array, jax.Array]:
        bound = (9 * n) ** -0.5
        draw = partial(rng.uniform, -bound, bound)
        return jnp.asarray(draw((3, 3, n, m)), jnp.float32), jnp.asarray(draw(m), jnp.float32)

    params = [conv(1, 32), conv(32, 64), *_dense_params(rng, (9216, 128, 10))]
    return Program(_cnn_step, (params, jax.random.key(seed)), lambda state, x: _cnn_apply(state[0], x))
