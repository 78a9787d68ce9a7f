"""einops on Tensors, in a loop of PyTorch and inside jit."""

import einops
import jax
import jax.numpy as jnp
import numpy as np

import functorch_port as torch

X = jnp.asarray(np.random.default_rng(6).standard_normal((2, 4, 6, 3)), jnp.float32)


def patches(x, w):
    rows = einops.rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2)
    return einops.reduce(einops.einsum(rows, w, "b n d, d k -> b n k"), "b n k -> b k", "mean")


def theirs():
    w = jnp.ones((12, 2)) * 0.1
    value, slope = jax.value_and_grad(lambda w: patches(X, w).sum())(w)
    return {"value": value, "slope": slope, "jit": jax.jit(patches)(X, w)}


def ours():
    w, apply = torch.full((12, 2), 0.1, requires_grad=True), torch.func.from_jax(patches)
    value = apply(torch.from_jax(X), w).sum()
    value.backward()
    return {"value": value, "slope": w.grad, "jit": torch.compile(apply)(torch.from_jax(X), w)}
