"""The norm of many tensors at once, and scaling or limiting them all: one program for a whole model's gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from functorch_port.core.promotion import promote
from functorch_port.core.registry import Array, Arrays, Scalar, op
from functorch_port.ops._common import wide
from functorch_port.ops.distance import safe_norm


def _norm(x: Any, norm_type: float) -> jax.Array:
    flat = jnp.abs(x) if x.dtype.kind == "c" else x
    return safe_norm(flat.reshape(-1).astype(wide(flat.dtype)), norm_type, 0).astype(flat.dtype)


@op("_total_norm", where="", differentiable=False)
def total_norm(tensors: Arrays, norm_type: float):
    """The norm of the tensors' norms, which is the norm of all their elements together."""
    return _norm(jnp.stack(promote(*[_norm(t, norm_type) for t in tensors])), norm_type)


@op("_scaled_to_norm", where="", differentiable=False)
def scaled_to_norm(tensors: Arrays, total_norm: Array, max_norm: Scalar):
    """The tensors scaled down so that a total norm above ``max_norm`` becomes it."""
    factor = jnp.minimum(max_norm / (total_norm + 1e-6), 1.0)
    return tuple(t * factor.astype(t.dtype) for t in tensors)


@op("_limited", where="", differentiable=False)
def limited(tensors: Arrays, limit: Scalar):
    """The tensors with every element in ``[-limit, limit]``."""
    return tuple(
        jnp.clip(t, jnp.asarray(-limit).astype(t.dtype), jnp.asarray(limit).astype(t.dtype)) for t in tensors
    )
