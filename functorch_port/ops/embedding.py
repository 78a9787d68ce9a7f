"""Embedding lookup."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._array.refusal import outside, refuse
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import INT64, int32_if_small

_TYPE_NAMES = {
    "float32": "torch.FloatTensor",
    "float64": "torch.DoubleTensor",
    "float16": "torch.HalfTensor",
    "bfloat16": "torch.BFloat16Tensor",
    "int16": "torch.ShortTensor",
    "int8": "torch.CharTensor",
    "uint8": "torch.ByteTensor",
    "bool": "CPUBoolType",
}


def _check_rows(input: Any, weight: Any, *_: Any, **__: Any) -> None:
    """Check that every index is in range; as in PyTorch, negative ones are not."""
    if weight.ndim == 2 and input.dtype.kind in "iu":
        refuse(
            partial(outside, low=0, high=weight.shape[0]),
            lambda index: IndexError("index out of range in self"),
            input,
        )


def _rows(table: jax.Array, index: jax.Array) -> jax.Array:
    at = int32_if_small(index, table.shape[0])
    return table.at[at].get(mode="clip", wrap_negative_indices=False)


@jax.custom_jvp
def _with_scaled_gradient(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x


@_with_scaled_gradient.defjvp
def _with_scaled_gradient_jvp(primals: Any, tangents: Any) -> Any:
    return _with_scaled_gradient(*primals), primals[1] * tangents[0]


def by_frequency(rows: jax.Array, index: jax.Array, count: int) -> jax.Array:
    """The rows, with gradients divided by the number of occurrences of their index."""
    index = int32_if_small(index, count)
    often = jnp.zeros(count, np.float32).at[index].add(1).at[index].get(mode="clip")
    return _with_scaled_gradient(rows, (1 / often).astype(rows.dtype)[..., None])


@op("embedding", where="", node="EmbeddingBackward0", check=_check_rows)
def embedding(input: Array, weight: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False):
    """Row ``input[i]`` of ``weight`` for every ``i``; the row ``padding_idx`` gets no gradient."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if input.dtype.name not in ("int64", "int32"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{_TYPE_NAMES.get(input.dtype.name, input.dtype.name)} instead (while checking arguments for embedding)"
        )
    rows = _rows(weight, input)
    if scale_grad_by_freq:
        rows = by_frequency(rows, input, weight.shape[0])
    if padding_idx < 0:
        return rows
    padding = (input == padding_idx)[..., None]
    return jnp.where(padding, lax.stop_gradient(rows), rows)


def _check_renorm(weight: Any, input: Any, max_norm: float, norm_type: float) -> None:
    _check_rows(input, weight)


@op("embedding_renorm", where="", differentiable=False, check=_check_renorm)
def embedding_renorm(weight: Array, input: Array, max_norm: float, norm_type: float):
    """``weight`` with the rows ``input`` scaled down to ``max_norm`` if their norm is above it."""
    norm = jnp.linalg.norm(weight, ord=norm_type, axis=1, keepdims=True)
    used = jnp.zeros(weight.shape[0], bool).at[int32_if_small(input.reshape(-1), weight.shape[0])].set(True)
    scaled = weight * (max_norm / (norm + 1e-7))
    return jnp.where(used[:, None] & (norm > max_norm), scaled, weight).astype(weight.dtype)


def _check_classes(input: Any, num_classes: int) -> None:
    def error(values: Any) -> Exception:
        which = "non-negative" if values.min() < 0 else "smaller than num_classes"
        return RuntimeError(f"Class values must be {which}.")

    refuse(partial(outside, low=0, high=num_classes), error, input)


@op("one_hot", where="", differentiable=False, check=_check_classes)
def one_hot(input: Array, num_classes: int):
    """1 at position ``input[i]`` of a new last dimension, else 0."""
    if input.dtype != INT64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    return (input[..., None] == jnp.arange(num_classes, dtype=input.dtype)).astype(INT64)
