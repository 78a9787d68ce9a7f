"""Norm, scaling and clamping of many tensors in one program, such as all gradients of a model."""

from __future__ import annotations

import math

import jax.numpy as jnp

from functorch_port._base.promotion import promote
from functorch_port._run.registry import Array, Arrays, Scalar, op
from functorch_port.ops.vector_norms import vector_norm


@op("_total_norm", where="", differentiable=False)
def total_norm(tensors: Arrays, norm_type: float):
    """The norm of all elements of the tensors."""
    if norm_type == math.inf and any(t.size == 0 for t in tensors):
        raise RuntimeError(
            "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not "
            "have an identity"
        )
    return vector_norm(jnp.stack(promote(*[vector_norm(t, norm_type) for t in tensors])), norm_type)


@op("_scaled_to_norm", where="", differentiable=False)
def scaled_to_norm(tensors: Arrays, total_norm: Array, max_norm: Scalar):
    """The tensors, scaled down to a total norm of ``max_norm`` if it is above."""
    factor = jnp.minimum(max_norm / (total_norm + 1e-6), 1.0)
    return tuple(t * factor.astype(t.dtype) for t in tensors)


@op("_limited", where="", differentiable=False)
def limited(tensors: Arrays, limit: Scalar):
    """The tensors, clamped to ``[-limit, limit]``."""
    if any(jnp.iscomplexobj(t) for t in tensors):
        raise NotImplementedError("clamp is not supported for complex types")
    return tuple(
        jnp.clip(t, jnp.asarray(-limit).astype(t.dtype), jnp.asarray(limit).astype(t.dtype)) for t in tensors
    )
