"""Scaled dot product attention: two products and a softmax, or a kernel (`_fused_attention`).

`jax.nn.dot_product_attention` is no faster on a CPU.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._base import dtypes
from functorch_port._base.lowering import by_platform
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import BOOL, c_name, check_broadcast, type_name, wide
from functorch_port.ops.products import check_matmul, product

__all__ = ["product_for", "repeated", "scaled_dot_product_attention"]


def _check(query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> None:
    if not query.dtype == key.dtype == value.dtype:
        names = f"query.dtype: {c_name(query)} key.dtype: {c_name(key)} and value.dtype: {c_name(value)}"
        raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got {names} instead.")
    if min(query.ndim, key.ndim, value.ndim) < 2:
        ranks = f"query.dim: {query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim}"
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got {ranks} instead."
        )
    if not dtypes.from_np(query.dtype).is_floating_point:
        raise RuntimeError(f"expected scalar type Float but found {type_name(query)}")
    if mask is None:
        return
    if is_causal:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if mask.dtype not in (BOOL, np.float32, query.dtype):
        found = f"attn_mask.dtype: {c_name(mask)} and  query.dtype: {c_name(query)}"
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            + found
            + " instead."
        )


def repeated(x: jax.Array, heads: int) -> jax.Array:
    """The key or value heads (dimension -3), each repeated for its group of query heads."""
    if heads % x.shape[-3]:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return x if x.shape[-3] == heads else jnp.repeat(x, heads // x.shape[-3], axis=-3)


def masked_scores(scores: jax.Array, mask: Any, is_causal: bool) -> jax.Array:
    """The scores with the mask applied: False in a bool mask gives -inf, a float mask is added."""
    if is_causal:
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    if mask is None:
        return scores
    check_broadcast(scores, mask)
    if mask.dtype == BOOL:
        return jnp.where(mask, scores, -jnp.inf)
    return scores + mask.astype(scores.dtype)


def _weights(scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The softmax over the keys, zeros where all keys are masked; and the log-sum-exp."""
    from ._softmax import softmax

    weights, summed = softmax(scores, scores.ndim - 1, True)
    return weights, summed[..., 0]


def product_for(dtype: Any, a: jax.Array, b: jax.Array, transposed: bool = False) -> jax.Array:
    """The product of arrays of `wide`, in attention of tensors of ``dtype``.

    For bfloat16 a TPU multiplies in one pass, which rounds to bfloat16 what had more digits: the weights, and slopes.
    So do kernels for attention.
    """
    return product(a, b, transposed, lax.Precision.DEFAULT if dtype == jnp.bfloat16 else None)


def _scores(query: jax.Array, key: jax.Array, scale: float) -> jax.Array:
    """``query @ key.T * scale`` in a wide dtype."""
    a, b = (x.astype(wide(x.dtype)) for x in (query, key))
    if query.dtype == jnp.bfloat16:  # exact in `product_for`: the scaled query would be rounded
        return product_for(query.dtype, a, b, transposed=True) * scale
    return product_for(query.dtype, a * scale, b, transposed=True)


def _attend(dtype: Any, scores: jax.Array, value: jax.Array, keep: Any, dropout_p: float) -> jax.Array:
    """The values weighted by the softmax of the scores; weights are dropped where ``keep`` is 0."""
    weights, _ = _weights(scores)
    if keep is not None:
        weights = weights * (keep.astype(weights.dtype) * (0.0 if dropout_p == 1 else 1 / (1 - dropout_p)))
    check_matmul(weights, value)
    return product_for(dtype, weights, value)


def _keeps_weights(query: Array, key: Array, *rest: Any) -> bool:
    """Whether the attention weights, if kept for the backward pass, are not much larger than the queries."""
    return bool(key.shape[-2] <= 4 * query.shape[-1])


@op(
    "_scaled_dot_product_attention",
    where="",
    node="ScaledDotProductFlashAttentionForCpuBackward0",
    keeps=_keeps_weights,
)
def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    keep: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    kernel: Any = None,
):
    """``softmax(query @ key.T * scale) @ value``; a query whose keys are all masked gives zeros.

    ``kernel``: that of the devices which the program is for, if they have one for such arguments (`_fused_attention`).
    """
    _check(query, key, value, attn_mask, is_causal)
    result = query.dtype
    if enable_gqa:
        for x in (query, key):
            if x.ndim < 3:
                span = f"[{-x.ndim}, {x.ndim - 1}]"
                raise IndexError(f"Dimension out of range (expected to be in range of {span}, but got -3)")
    spread = lambda x: repeated(x, query.shape[-3]) if enable_gqa else x
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else math.inf
    check_matmul(query, jax.eval_shape(lambda x: jnp.swapaxes(spread(x), -1, -2), key))

    def plain(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        scores = masked_scores(_scores(query, spread(key), scale), attn_mask, is_causal)
        return _attend(result, scores, spread(value).astype(scores.dtype), keep, dropout_p).astype(result)

    if kernel is None:
        return plain(query, key, value)
    fused = {kernel.platform: kernel.way(is_causal, scale)}
    return by_platform(query, key, value, default=plain, **fused)


@op("_attention_scores", where="", node="MulBackward0")
def attention_scores(query: Array, key: Array, scale: float):
    """``query @ key.T * scale`` in a wide dtype, with the key heads repeated for the query heads."""
    return _scores(query, repeated(key, query.shape[1]), scale)


@op("_attend", where="", node="FlexAttentionBackward")
def attend_with_sums(scores: Array, value: Array):
    """(the values weighted by the softmax of the scores, the log-sum-exp, the maximum score)."""
    weights, lse = _weights(scores)
    values = repeated(value, scores.shape[1]).astype(weights.dtype)
    return (
        product_for(value.dtype, weights, values).astype(value.dtype),
        lse,
        lax.stop_gradient(jnp.max(scores, -1)),
    )
