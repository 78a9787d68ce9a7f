"""Padding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._array.fits import OWN
from functorch_port._base.layout import format_order
from functorch_port._base.promotion import cast
from functorch_port._run.registry import Array, Scalar, op


def _by_dimension(name: str, ndim: int, pad: tuple[int, ...]) -> list[tuple[int, int]]:
    """(low, high) of each dimension from PyTorch's list, which starts at the last dimension."""
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
            f"{len(pad)} while the input has {ndim} dimensions."
        )
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


@op("constant_pad_nd", where="torch", fits={"value": OWN}, order=format_order)
def constant_pad_nd(input: Array, pad: tuple[int, ...], value: Scalar = 0):
    """``input`` padded with ``value``; negative padding crops."""
    pairs = _by_dimension("constant_pad_nd", input.ndim, pad)
    for dim, (low, high) in enumerate(pairs):
        size = input.shape[dim] + low + high
        if size < 0:
            raise RuntimeError(
                f"The input size {input.shape[dim]}, plus negative padding {low} and {high} resulted in a negative "
                f"output size, which is invalid. Check dimension {dim} of your input."
            )
    return lax.pad(input, cast(value, input.dtype), [(low, high, 0) for low, high in pairs])


def _cut(x: jax.Array, dim: int, low: int, high: int) -> tuple[jax.Array, int, int]:
    """Crop by negative padding; the remaining padding is not negative."""
    x = lax.slice_in_dim(x, max(-low, 0), x.shape[dim] - max(-high, 0), axis=dim)
    return x, max(low, 0), max(high, 0)


def _reflected(x: jax.Array, dim: int, low: int, high: int) -> jax.Array:
    size = x.shape[dim]
    if low >= size or high >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({low}, {high}) at dimension {dim} of input {list(x.shape)}"
        )
    x, low, high = _cut(x, dim, low, high)
    before = lax.rev(lax.slice_in_dim(x, 1, 1 + low, axis=dim), (dim,))
    after = lax.rev(lax.slice_in_dim(x, x.shape[dim] - 1 - high, x.shape[dim] - 1, axis=dim), (dim,))
    return jnp.concatenate([before, x, after], dim)


def _replicated(x: jax.Array, dim: int, low: int, high: int) -> jax.Array:
    size = x.shape[dim]
    if size + low + high < 0:
        shape = [*x.shape[:dim], size + low + high, *x.shape[dim + 1 :]]
        raise RuntimeError(f"Trying to create tensor with negative dimension {size + low + high}: {shape}")
    if size + min(low, 0) + min(high, 0) < 1:  # nothing of the input is left, but perhaps of its edges
        place = np.clip(np.arange(size + low + high) - low, 0, size - 1).astype(np.int32)
        return jnp.take(x, place, dim, mode="clip")
    x, low, high = _cut(x, dim, low, high)
    first, last = (
        lax.slice_in_dim(x, 0, 1, axis=dim),
        lax.slice_in_dim(x, x.shape[dim] - 1, x.shape[dim], axis=dim),
    )
    return jnp.concatenate([jnp.repeat(first, low, dim), x, jnp.repeat(last, high, dim)], dim)


def _wrapped(x: jax.Array, dim: int, low: int, high: int) -> jax.Array:
    size = x.shape[dim]
    if low > size or high > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if low + high + size < 0:
        raise RuntimeError("Negative padding value is resulting in an empty dimension")
    x, low, high = _cut(x, dim, low, high)
    before = lax.slice_in_dim(x, x.shape[dim] - low, x.shape[dim], axis=dim)
    after = lax.slice_in_dim(x, 0, high, axis=dim)
    return jnp.concatenate([before, x, after], dim)


_MODES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}


def pad_with(mode: str, input: Any, pad: tuple[int, ...]) -> jax.Array:
    for dim, (low, high) in enumerate(_by_dimension(mode, input.ndim, pad)):
        if low or high:
            input = _MODES[mode](input, dim, low, high)
    return input


def _pad_op(mode: str, n: int, node: str) -> Any:
    def pad(input: Array, pad: tuple[int, ...]):
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
                f"dimensions for input, but got: {list(input.shape)}"
            )
        if mode != "circular" and 0 in input.shape[-n - 1 :]:
            raise RuntimeError(
                f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
                f"dimensions for input, but got: {list(input.shape)}"
            )
        return pad_with(mode, input, pad)

    pad.__name__ = name = f"_{mode}_pad{n}d"
    pad.__doc__ = f"Padding of the last {n} dimension{'s' * (n > 1)}, mode {mode!r}."
    return op(name, where="", node=node, order=None if mode == "circular" else format_order)(pad)


for _n in (1, 2, 3):
    _pad_op("reflect", _n, f"ReflectionPad{_n}DBackward0")
    _pad_op("replicate", _n, f"ReplicationPad{_n}DBackward0")
    _pad_op("circular", _n, "CopySlices")
