"""What the tests of oneDNN's convolutions and products share."""

from __future__ import annotations

from contextlib import contextmanager

import jax
import numpy as np

from functorch_port.core import onednn


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
