"""Power-average pooling, fractional max-pooling, and max-unpooling."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._base import determinism
from functorch_port._base.layout import format_order
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import INT64, check_index_range, not_implemented, type_name, wide
from functorch_port.ops.pooling import _avg_pool, _beats, _windows

# power average: the p-norm over windows


def _power(x: jax.Array, p: float) -> jax.Array:
    return lax.integer_pow(x, int(p)) if float(p).is_integer() and p > 0 else x**p


def _root(x: jax.Array, p: float) -> jax.Array:
    """``x ** (1 / p)``, with gradient 0 at 0."""
    zero = x == 0
    return jnp.where(zero, jnp.zeros((), x.dtype), jnp.where(zero, jnp.ones((), x.dtype), x) ** (1.0 / p))


def _lp_pool_op(n: int) -> Any:
    name = f"lp_pool{n}d"

    def pool(input: Array, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False):
        windows = _windows(f"avg_pool{n}d", input, n, kernel_size, stride, 0, 1, ceil_mode)
        not_implemented(f"avg_pool{n}d", input, kinds="bc")
        if norm_type == 0:
            raise ZeroDivisionError("float division by zero")
        x = input.astype(wide(input.dtype)) if input.dtype.kind not in "iu" else input
        mean = _avg_pool(_power(x, norm_type), windows, True, None)
        dtype = input.dtype if input.dtype.kind not in "iu" else np.dtype(np.float32)
        return _root(mean.astype(wide(dtype)) * math.prod(windows.kernel), norm_type).astype(dtype)

    pool.__doc__ = f"The p-norm over windows of {n} spatial dimension{'s' * (n > 1)}."
    pool.__name__ = name
    return op(f"_{name}", where="", node="PowBackward0")(pool)


for _n in (1, 2, 3):
    _lp_pool_op(_n)


# fractional max-pooling: windows of one size, at random distances


def _starts(sample: jax.Array, size: int, out: int, kernel: int) -> jax.Array:
    """The starts (N, C, out) of the windows of every plane along one dimension."""
    last = jnp.full((*sample.shape, 1), size - kernel, np.int32)
    if out < 2:
        return last[..., :out]
    step = sample.dtype.type(size - kernel) / sample.dtype.type(out - 1)
    i = np.arange(out - 1).astype(sample.dtype)
    begin = ((sample[..., None] + i) * step).astype(np.int32) - (sample * step).astype(np.int32)[..., None]
    return jnp.concatenate([begin, last], -1)


def _fractional(
    x: Any, samples: list[Any], kernel: tuple[int, ...], out: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """The maxima of (N, C, ...) and their indices in the flattened spatial dimensions."""
    n, scale = len(kernel), 1
    index = jnp.zeros(x.shape, np.int32)  # position in the dimensions already pooled
    for dim in reversed(range(n)):
        axis, size = dim + 2, x.shape[dim + 2]
        starts = _starts(samples[dim], size, out[dim], kernel[dim])
        starts = starts.reshape(*starts.shape[:2], *(out[dim] if d == dim else 1 for d in range(n)))
        shape = (*x.shape[:axis], out[dim], *x.shape[axis + 1 :])
        best: Any = None
        for offset in range(kernel[dim]):
            line = jnp.broadcast_to(starts + offset, shape)
            tap = jnp.take_along_axis(x, line, axis, mode="clip")
            where = jnp.take_along_axis(index, line, axis, mode="clip") + line * scale
            if best is None:
                best, chosen = tap, where
            else:
                wins = _beats(tap, best)
                best, chosen = jnp.where(wins, tap, best), jnp.where(wins, where, chosen)
        x, index, scale = best, chosen, scale * size
    return x, index.astype(INT64)


def _sizes(name: str, what: str, value: Any, n: int) -> tuple[int, ...]:
    values = (value,) * n if isinstance(value, int) else tuple(value)
    if len(values) != n:
        three = "three " if n == 3 else ""
        raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of {three}Ints")
    return values


_SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _fractional_op(n: int) -> Any:
    name = f"fractional_max_pool{n}d"

    def pool(input: Array, kernel_size: Any, output_size: Any, _random_samples: Array):
        kernel, out = _sizes(name, "kernel_size", kernel_size, n), _sizes(name, "output_size", output_size, n)
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(
                f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}"
            )
        for dim in range(input.ndim - n - 1, input.ndim):
            if input.shape[dim] == 0:
                raise RuntimeError(
                    f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                    f"got{list(input.shape)} with dimension {dim} being empty."
                )
        not_implemented(f"{name}_out_frame", input, kinds="biuc")
        for side, k, o, size in zip(_SIDES[n], kernel, out, input.shape[-n:], strict=True):
            if o + k - (n == 2) > size:  # PyTorch asks for one more element of volumes
                raise RuntimeError(
                    f"{name}{'_out' * (n == 3)}(): pool {side} {k} too large relative to input {side} {size}"
                )
        if min(out) < 0:
            made = [*input.shape[:-n], *out]
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(out)}: {made}")
        x = input if input.ndim == n + 2 else input[None]
        if _random_samples.shape[0] < x.shape[0]:
            raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
        samples = [lax.stop_gradient(_random_samples[: x.shape[0], :, d]) for d in range(n)]
        values, index = _fractional(x, samples if n == 3 else samples[::-1], kernel, out)
        return (values, index) if input.ndim == n + 2 else (values[0], index[0])

    pool.__doc__ = f"Max-pooling over {n}-dimensional windows at random distances; and the flat indices."
    pool.__name__ = name
    return op(f"_{name}", where="", node=f"FractionalMaxPool{n}DBackward0", edges=("input",))(pool)


for _n in (2, 3):
    _fractional_op(_n)


# the reverse of max-pooling


def _check_positions(input: Any, indices: Any, output_size: tuple[int, ...]) -> None:
    determinism.alert(f"max_unpooling{max(len(output_size), 2)}d_forward_out")
    volume = "x".join(map(str, output_size))

    def message(bad: int) -> Exception:
        return RuntimeError(f"Found an invalid max index: {bad} (output volumes are of size {volume})")

    if indices.dtype == INT64:
        check_index_range(indices, math.prod(output_size), message, lowest=0)


def _unpool_op(n: int) -> Any:
    name = f"max_unpool{n}d"

    def unpool(input: Array, indices: Array, output_size: tuple[int, ...]):
        if indices.dtype != INT64:
            raise RuntimeError(f"elements in indices should be type int64 but got: {type_name(indices)}")
        if input.ndim not in (n + 1, n + 2):
            low = max(n, 2) + 1
            raise RuntimeError(
                f"Input to max_unpooling{max(n, 2)}d should be a {low}d or {low + 1}d Tensor, but got a tensor with "
                f"{input.ndim} dimensions."
            )
        if input.shape != indices.shape:
            given, found = ([*x.shape, *(1,) * (n == 1)] for x in (input, indices))
            raise RuntimeError(
                f"Expected shape of indices to be same as that of the input tensor ({given}) but got indices tensor "
                f"with shape: {found}"
            )
        not_implemented(f"max_unpool{max(n, 2)}d", input, kinds="biuc")
        lead = input.shape[:-n]
        planes, count = math.prod(lead), math.prod(input.shape[-n:])
        rows = np.arange(planes, dtype=np.int32)[:, None]
        at = indices.reshape(planes, count).astype(np.int32)
        out = jnp.zeros((planes, math.prod(output_size)), input.dtype)
        # a position named twice is written twice, and each of its elements gets the gradient, as in PyTorch
        out = out.at[rows, at].set(input.reshape(planes, count), mode="drop", unique_indices=True)
        return out.reshape(*lead, *output_size)

    unpool.__doc__ = f"Writes elements to the places that `max_pool{n}d` took them from; the others are 0."
    unpool.__name__ = name
    node = "SqueezeBackward1" if n == 1 else f"MaxUnpool{n}DBackward0"
    return op(
        f"_{name}", where="", node=node, check=_check_positions, order=format_order if n == 2 else None
    )(unpool)


for _n in (1, 2, 3):
    _unpool_op(_n)
