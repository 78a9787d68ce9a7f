"""What the tests of convolutions and products share that are not XLA's."""

from __future__ import annotations

from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._cpu.native import onednn


@contextmanager
def sent_to(monkeypatch, plan):
    """What is computed inside must ask for a plan, by the function of `onednn` with this name."""
    sent = []
    original = getattr(onednn, plan)
    monkeypatch.setattr(onednn, plan, lambda *args: sent.append(args) or original(*args))
    jax.clear_caches()
    yield
    assert sent


def draw(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(T, fn, *arrays):
    """The value, the gradients, and the gradients of those."""
    given = [T.tensor(a, requires_grad=True) for a in arrays]
    y = fn(T, *given)
    slope = T.tensor(draw(tuple(y.shape), 9))
    first = T.autograd.grad((y * slope).sum(), given, create_graph=True)
    second = T.autograd.grad(sum((g * g).sum() for g in first), given, allow_unused=True)
    return [t.detach().numpy() for t in (y, *first, *second) if t is not None]


def agree(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * np.abs(b).max())


def agree_transformed(ours, plain, a, b):
    """Both products of matrices are the same in all that JAX makes of an operation."""
    uses = [
        lambda f: jax.jit(f)(a, b),
        lambda f: jax.jvp(jax.jit(f), (a, b), (jnp.cos(a), jnp.sin(b)))[1],
        lambda f: jax.jit(jax.grad(lambda a, b: (f(a, b) ** 2).sum(), 0))(a, b),
        lambda f: jax.jit(jax.grad(lambda a, b: (f(a, b) ** 2).sum(), 1))(a, b),
        lambda f: jax.jit(jax.vmap(f, (0, None)))(jnp.stack([a, 2 * a]), b),
        lambda f: jax.jit(jax.vmap(jax.grad(lambda b, a: f(a, b).sum()), (None, 0)))(
            b, jnp.stack([a, 2 * a])
        ),
        lambda f: jax.jit(jax.grad(jax.checkpoint(lambda b: jnp.sin(f(a, b)).sum())))(b),
        lambda f: jax.lax.scan(lambda c, _: (f(c, b) * 0.1, None), a, None, 3)[0],
    ]
    for use in uses:
        x, y = use(ours), use(plain)
        np.testing.assert_allclose(x, y, rtol=0, atol=2e-5 * float(jnp.abs(y).max()))
