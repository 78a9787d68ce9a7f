"""The models of the suite as a JAX user writes them: pure functions, optax, one `jax.jit` with the state donated.

Images are NHWC, convolution kernels HWIO, dense kernels (in, out). A model is a function ``apply(params, stats, x,
train) -> (out, stats)``; ``stats`` are the running means and variances of its batch norms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import handwritten
import jax
import jax.numpy as jnp
import networks
import numpy as np
import optax
from jax import lax
from suite_networks import JOBS, Setup

__all__ = ["TRANSFORMATIONS", "image_last", "set_up"]

Apply = Callable[[Any, Any, jax.Array, bool], tuple[jax.Array, Any]]


class Model(NamedTuple):
    """A model and what it starts from."""

    apply: Apply
    params: Any
    stats: Any


class Draw:
    """First values of parameters."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def uniform(self, shape: Sequence[int], inputs: int) -> jax.Array:
        bound = inputs**-0.5
        return jnp.asarray(self.rng.uniform(-bound, bound, shape), jnp.float32)

    def dense(self, n: int, m: int, bias: bool = True) -> dict[str, jax.Array]:
        return {"w": self.uniform((n, m), n), **({"b": self.uniform((m,), n)} if bias else {})}

    def conv(self, n: int, m: int, k: int, bias: bool = False) -> dict[str, jax.Array]:
        inputs = n * k * k
        return {
            "w": self.uniform((k, k, n, m), inputs),
            **({"b": self.uniform((m,), inputs)} if bias else {}),
        }

    def normal(self, *shape: int) -> jax.Array:
        return jnp.asarray(self.rng.standard_normal(shape), jnp.float32)


def scale(n: int) -> dict[str, jax.Array]:
    return {"scale": jnp.ones(n), "shift": jnp.zeros(n)}


def running(n: int) -> dict[str, jax.Array]:
    return {"mean": jnp.zeros(n), "var": jnp.ones(n)}


# -------------------------------------------------------------------- layers


def dense(p: Any, x: jax.Array) -> jax.Array:
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def conv(p: Any, x: jax.Array, stride: int = 1, pad: int = 0) -> jax.Array:
    layout = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, p["w"], (stride, stride), [(pad, pad)] * 2, dimension_numbers=layout)
    return y + p["b"] if "b" in p else y


def grow(p: Any, x: jax.Array, stride: int, pad: int = 0) -> jax.Array:
    """A transposed convolution as PyTorch counts its padding."""
    around = p["w"].shape[0] - 1 - pad
    layout = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_transpose(x, p["w"], (stride, stride), [(around, around)] * 2, dimension_numbers=layout)
    return y + p["b"] if "b" in p else y


def batch_norm(p: Any, s: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
    mean, var = s["mean"], s["var"]
    if train:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        n = x.size // x.shape[-1]
        s = {"mean": 0.9 * s["mean"] + 0.1 * mean, "var": 0.9 * s["var"] + 0.1 * var * n / (n - 1)}
    return (x - mean) * (lax.rsqrt(var + 1e-5) * p["scale"]) + p["shift"], s


def layer_norm(p: Any, x: jax.Array) -> jax.Array:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * p["scale"] + p["shift"]


def max_pool(x: jax.Array, size: int, stride: int, pad: int = 0) -> jax.Array:
    around = [(0, 0), (pad, pad), (pad, pad), (0, 0)]
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, around)


def block(p: Any, x: jax.Array, heads: int, causal: bool) -> jax.Array:
    """A pre-norm transformer block."""
    n, t, c = x.shape
    q, k, v = jnp.moveaxis(
        dense(p["qkv"], layer_norm(p["norm1"], x)).reshape(n, t, 3, heads, c // heads), 2, 0
    )
    a = jax.nn.dot_product_attention(q, k, v, is_causal=causal)
    x = x + dense(p["out"], a.reshape(n, t, c))
    hidden = jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x)), approximate=False)
    return x + dense(p["down"], hidden)


def block_params(draw: Draw, width: int) -> Any:
    return {
        "norm1": scale(width),
        "norm2": scale(width),
        "qkv": draw.dense(width, 3 * width),
        "out": draw.dense(width, width),
        "up": draw.dense(width, 4 * width),
        "down": draw.dense(4 * width, width),
    }


# -------------------------------------------------------------------- models


def resnet18(small: bool) -> Model:
    draw = Draw()
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    sizes += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    params: dict[str, Any] = {
        "stem": draw.conv(3, 64, 3 if small else 7),
        "bn": scale(64),
        "head": draw.dense(512, 1000),
    }
    stats: dict[str, Any] = {"bn": running(64), "blocks": []}
    params["blocks"] = []
    for n, m, stride in sizes:
        p = {"conv1": draw.conv(n, m, 3), "bn1": scale(m), "conv2": draw.conv(m, m, 3), "bn2": scale(m)}
        s = {"bn1": running(m), "bn2": running(m)}
        if stride != 1:
            p |= {"side": draw.conv(n, m, 1), "bn3": scale(m)}
            s["bn3"] = running(m)
        params["blocks"].append(p)
        stats["blocks"].append(s)

    def apply(params: Any, stats: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
        new: dict[str, Any] = {"blocks": []}
        x = conv(params["stem"], x, 1, 1) if small else conv(params["stem"], x, 2, 3)
        x, new["bn"] = batch_norm(params["bn"], stats["bn"], x, train)
        x = jax.nn.relu(x)
        if not small:
            x = max_pool(x, 3, 2, 1)
        for p, s in zip(params["blocks"], stats["blocks"], strict=True):
            stride, side, t = 2 if "side" in p else 1, x, {}
            y, t["bn1"] = batch_norm(p["bn1"], s["bn1"], conv(p["conv1"], x, stride, 1), train)
            y, t["bn2"] = batch_norm(p["bn2"], s["bn2"], conv(p["conv2"], jax.nn.relu(y), 1, 1), train)
            if "side" in p:
                side, t["bn3"] = batch_norm(p["bn3"], s["bn3"], conv(p["side"], x, stride), train)
            x = jax.nn.relu(y + side)
            new["blocks"].append(t)
        return dense(params["head"], x.mean((1, 2))), new

    return Model(apply, params, stats)


def gpt(layers: int, width: int, heads: int, context: int, tokens: int) -> Model:
    draw = Draw()
    params = {
        "tokens": draw.normal(tokens, width),
        "places": draw.normal(context, width),
        "blocks": [block_params(draw, width) for _ in range(layers)],
        "norm": scale(width),
        "head": draw.dense(width, tokens, bias=False),
    }

    def apply(p: Any, stats: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
        x = p["tokens"][x] + p["places"][: x.shape[1]]
        for one in p["blocks"]:
            x = block(one, x, heads, causal=True)
        return dense(p["head"], layer_norm(p["norm"], x)), stats

    return Model(apply, params, ())


def vit_tiny() -> Model:
    draw = Draw()
    params = {
        "patches": draw.conv(3, 192, 16, bias=True),
        "first": jnp.zeros((1, 1, 192)),
        "places": jnp.zeros((1, 197, 192)),
        "blocks": [block_params(draw, 192) for _ in range(12)],
        "norm": scale(192),
        "head": draw.dense(192, 1000),
    }

    def apply(p: Any, stats: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
        x = conv(p["patches"], x, 16).reshape(x.shape[0], 196, 192)
        x = jnp.concatenate([jnp.broadcast_to(p["first"], (x.shape[0], 1, 192)), x], 1) + p["places"]
        for one in p["blocks"]:
            x = block(one, x, 3, causal=False)
        return dense(p["head"], layer_norm(p["norm"], x)[:, 0]), stats

    return Model(apply, params, ())


def lstm(tokens: int = 1000, hidden: int = 256) -> Model:
    draw = Draw()

    def layer() -> Any:
        shapes = {
            "x": (hidden, 4 * hidden),
            "h": (hidden, 4 * hidden),
            "bx": (4 * hidden,),
            "bh": (4 * hidden,),
        }
        return {k: draw.uniform(s, hidden) for k, s in shapes.items()}

    params = {
        "tokens": draw.normal(tokens, hidden),
        "layers": [layer(), layer()],
        "head": draw.dense(hidden, tokens),
    }

    def run(p: Any, x: jax.Array) -> jax.Array:
        def cell(carry: Any, gates: jax.Array) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(gates + h @ p["h"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], hidden))
        return lax.scan(cell, (zero, zero), x @ p["x"] + p["bx"] + p["bh"])[1]

    def apply(p: Any, stats: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
        x = p["tokens"][x]
        for one in p["layers"]:
            x = run(one, x)
        return dense(p["head"], x), stats

    return Model(apply, params, ())


def unet(width: int = 16, classes: int = 11) -> Model:
    draw, norms = Draw(), []

    def two(n: int, m: int) -> Any:
        norms.append([running(m), running(m)])
        return [
            {"conv": draw.conv(n, m, 3, True), "bn": scale(m)},
            {"conv": draw.conv(m, m, 3, True), "bn": scale(m)},
        ]

    w = width
    params = {
        "twos": [two(1, w), two(w, 2 * w), two(2 * w, 4 * w), two(4 * w, 2 * w), two(2 * w, w)],
        "grow2": draw.conv(4 * w, 2 * w, 2, True),
        "grow1": draw.conv(2 * w, w, 2, True),
        "head": draw.conv(w, classes, 1, True),
    }

    def apply(p: Any, stats: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
        new: list[Any] = [None] * 5

        def run(i: int, x: jax.Array) -> jax.Array:
            new[i] = []
            for one, s in zip(p["twos"][i], stats[i], strict=True):
                x, s = batch_norm(one["bn"], s, conv(one["conv"], x, 1, 1), train)
                new[i].append(s)
                x = jax.nn.relu(x)
            return x

        first = run(0, x)
        second = run(1, max_pool(first, 2, 2))
        x = grow(p["grow2"], run(2, max_pool(second, 2, 2)), 2)
        x = grow(p["grow1"], run(3, jnp.concatenate([x, second], -1)), 2)
        return conv(p["head"], run(4, jnp.concatenate([x, first], -1))), new

    return Model(apply, params, norms)


def generator(noise: int, width: int = 32) -> Model:
    draw = Draw()
    sizes = [noise, 4 * width, 2 * width, width]
    pairs = list(pairwise(sizes))
    params = {"up": [draw.conv(n, m, 4) for n, m in [*pairs, (width, 3)]], "bn": [scale(m) for _, m in pairs]}

    def apply(p: Any, stats: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
        new = []
        for i, (one, bn, s) in enumerate(zip(p["up"], p["bn"], stats, strict=False)):
            x, s = batch_norm(bn, s, grow(one, x, 2, 1) if i else grow(one, x, 1), train)
            x = jax.nn.relu(x)
            new.append(s)
        return jnp.tanh(grow(p["up"][-1], x, 2, 1)), new

    return Model(apply, params, [running(m) for _, m in pairs])


def critic(width: int = 32) -> Model:
    draw = Draw()
    sizes = [(3, width), (width, 2 * width), (2 * width, 4 * width)]
    params = {
        "down": [draw.conv(n, m, 4) for n, m in sizes],
        "bn": [scale(m) for _, m in sizes[1:]],
        "head": draw.conv(4 * width, 1, 4),
    }
    leaky = partial(jax.nn.leaky_relu, negative_slope=0.2)

    def apply(p: Any, stats: Any, x: jax.Array, train: bool) -> tuple[jax.Array, Any]:
        new = []
        x = leaky(conv(p["down"][0], x, 2, 1))
        for one, bn, s in zip(p["down"][1:], p["bn"], stats, strict=True):
            x, s = batch_norm(bn, s, conv(one, x, 2, 1), train)
            x = leaky(x)
            new.append(s)
        return conv(p["head"], x), new

    return Model(apply, params, [running(m) for _, m in sizes[1:]])


# --------------------------------------------------------------------- steps


def _loss(out: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(out, y).mean()


def _learner(model: Model, tx: Any, x: jax.Array, y: jax.Array) -> Setup:
    @partial(jax.jit, donate_argnums=0)
    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        params, stats, opt = state

        def objective(params: Any) -> Any:
            out, new = model.apply(params, stats, x, True)
            return _loss(out, y), new

        (loss, stats), grads = jax.value_and_grad(objective, has_aux=True)(params)
        updates, opt = tx.update(grads, opt, params)
        return (optax.apply_updates(params, updates), stats, opt), loss

    infer = jax.jit(lambda params, stats, x: model.apply(params, stats, x, False)[0])
    kept = model.params, model.stats
    state = (*jax.tree.map(jnp.copy, kept), tx.init(model.params))

    def train() -> Any:
        nonlocal state
        state, loss = step(state, x, y)
        return state, loss

    return Setup([], train, lambda: infer(*kept, x), (step.__wrapped__, state, x, y))


def _gan(real: jax.Array, noise: jax.Array, tx: Any) -> Setup:
    make, judge = generator(noise.shape[-1]), critic()

    def score(p: Any, s: Any, images: jax.Array, wanted: float) -> Any:
        out, s = judge.apply(p, s, images, True)
        return optax.sigmoid_binary_cross_entropy(out, jnp.full_like(out, wanted)).mean(), s

    @partial(jax.jit, donate_argnums=0)
    def step(state: Any, real: jax.Array, noise: jax.Array) -> Any:
        (gp, gs, go), (cp, cs, co) = state
        fake, back, gs = jax.vjp(lambda p: make.apply(p, gs, noise, True), gp, has_aux=True)

        def of_critic(p: Any) -> Any:
            first, s = score(p, cs, real, 1.0)
            second, s = score(p, s, fake, 0.0)
            return first + second, s

        (critic_loss, cs), grads = jax.value_and_grad(of_critic, has_aux=True)(cp)
        updates, co = tx.update(grads, co, cp)
        cp = optax.apply_updates(cp, updates)
        (loss, cs), slope = jax.value_and_grad(lambda f: score(cp, cs, f, 1.0), has_aux=True)(fake)
        updates, go = tx.update(back(slope)[0], go, gp)
        return ((optax.apply_updates(gp, updates), gs, go), (cp, cs, co)), critic_loss + loss

    infer = jax.jit(lambda params, stats, x: make.apply(params, stats, x, False)[0])
    kept = make.params, make.stats
    state = jax.tree.map(jnp.copy, tuple((m.params, m.stats, tx.init(m.params)) for m in (make, judge)))

    def train() -> Any:
        nonlocal state
        state, loss = step(state, real, noise)
        return state, loss

    return Setup([], train, lambda: infer(*kept, noise), (step.__wrapped__, state, real, noise))


def _plain(program: handwritten.Program, x: jax.Array, y: jax.Array) -> Setup:
    """The programs that `handwritten` has, with inference of their own."""
    step, state = program.jit(), jax.tree.map(jnp.copy, program.state)

    def train() -> Any:
        nonlocal state
        state, loss = step(state, x, y)
        return state, loss

    infer = jax.jit(program.infer)
    return Setup([], train, lambda: infer(program.state, x), (program.step, program.state, x, y))


MODELS: dict[str, Callable[[], Any]] = {
    "MLP 64, b16": lambda: handwritten.mlp((64, 64, 64, 10)),
    "MLP 784, b64": lambda: handwritten.mlp((784, 512, 512, 10)),
    "CNN, b64": handwritten.cnn,
    "ResNet-18 32x32, b16": lambda: resnet18(True),
    "ResNet-18 224x224, b4": lambda: resnet18(False),
    "ViT-Ti/16, b8": vit_tiny,
    "GPT 0.8M, b12x64": lambda: gpt(4, 128, 4, 64, 65),
    "GPT 10M, b4x256": lambda: gpt(6, 384, 6, 256, 65),
    "LSTM 256, b20x35": lstm,
    "U-Net 64x64, b4": unet,
}
TRANSFORMATIONS = {
    "SGD": lambda: optax.sgd(networks.LR),
    "momentum": lambda: optax.sgd(networks.LR, 0.9),
    "Adam": lambda: optax.adam(2e-4, 0.5, 0.999),
    "AdamW": lambda: optax.adamw(3e-4, weight_decay=1e-2),
}


def image_last(x: np.ndarray) -> jax.Array:
    """Images as NHWC; whole numbers as int32."""
    return jnp.asarray(
        x.transpose(0, 2, 3, 1) if x.ndim == 4 else x, None if x.dtype == np.float32 else jnp.int32
    )


def set_up(name: str) -> Setup:
    """A model of the suite by name."""
    job: Any = JOBS[name]
    rng = np.random.default_rng(0)
    if name not in MODELS:
        real = np.tanh(rng.standard_normal(job.images)).astype(np.float32)
        noise = rng.standard_normal((job.images[0], job.noise, 1, 1)).astype(np.float32)
        return _gan(image_last(real), image_last(noise), optax.adam(2e-4, 0.5, 0.999))
    x, y = map(image_last, job.batch(rng))
    model = MODELS[name]()
    if isinstance(model, Model):
        return _learner(model, TRANSFORMATIONS[job.optimizer](), x, y)
    return _plain(model, x, y)
