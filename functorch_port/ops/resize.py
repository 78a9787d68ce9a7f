"""Interpolation of images (and sequences and volumes) to another size, one dimension after the other.

The input elements and weights of every output are computed beforehand with numpy, in PyTorch's float dtype, so that
rounding is the same. An integer number of outputs per input (or of inputs per output) is computed by slices; XLA fuses
these forward and backward, whereas the gradient of a lookup is a slow scatter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._array import tracing
from functorch_port._base.layout import format_order
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import not_implemented, wide

#: More phases than this per input element are looked up instead of sliced.
_MANY_PHASES = 8


@dataclass(frozen=True)
class Taps:
    """The input indices (clamped to the edges) and the weights of every output; both (outputs, taps)."""

    index: np.ndarray
    weight: np.ndarray | None


def _scale(size: int, out: int, align_corners: bool, factor: float | None, real: Any) -> Any:
    """The distance in the input between neighbouring outputs."""
    if align_corners:
        return real(size - 1) / real(out - 1) if out > 1 else real(0)
    return real(1.0 / factor) if factor is not None and factor > 0 else real(size) / real(out)


def _nearest(size: int, out: int, _: bool, factor: float | None, real: Any) -> Taps:
    i = np.arange(out, dtype=np.float32)
    index = np.floor(i * _scale(size, out, False, factor, np.float32)) if out != size else i
    if out == 2 * size:
        index = i // 2
    return Taps(np.minimum(index.astype(np.int64), size - 1)[:, None], None)


def _nearest_exact(size: int, out: int, _: bool, factor: float | None, real: Any) -> Taps:
    i = np.arange(out, dtype=np.float32)
    index = np.floor((i + np.float32(0.5)) * _scale(size, out, False, factor, np.float32))
    return Taps(np.minimum(index.astype(np.int64), size - 1)[:, None], None)


def _source(size: int, out: int, align_corners: bool, factor: float | None, real: Any) -> np.ndarray:
    """The fractional position in the input of every output."""
    i, scale = np.arange(out).astype(real), _scale(size, out, align_corners, factor, real)
    return i * scale if align_corners else (i + real(0.5)) * scale - real(0.5)


def _linear(size: int, out: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
    if size == out:
        return Taps(np.arange(out)[:, None], None)
    source = np.maximum(_source(size, out, align_corners, factor, real), real(0))
    low = np.minimum(np.floor(source).astype(np.int64), size - 1)
    share = np.clip(source - low.astype(real), 0, 1).astype(real)
    index = np.stack([low, np.minimum(low + 1, size - 1)], 1)
    return Taps(index, np.stack([1 - share, share], 1))


def _cubic_weight(x: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel at distance ``x``."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _cubic(size: int, out: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
    if size == out:
        return Taps(np.arange(out)[:, None], None)
    source = _source(size, out, align_corners, factor, real)
    low = np.floor(source)
    share = (source - low)[:, None]
    weight = _cubic_weight(share + np.asarray([1, 0, -1, -2], real), -0.75)
    index = low.astype(np.int64)[:, None] + np.arange(-1, 3)
    return Taps(np.clip(index, 0, size - 1), weight.astype(real))


def _hat(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


_FILTERS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "bilinear": (2, _hat),
    "bicubic": (4, lambda x: _cubic_weight(x, -0.5)),
    "lanczos": (6, _lanczos),
}


def _smoothing(mode: str, size: int, out: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
    """The taps of antialiasing: each output averages inputs by a filter as wide as the scale."""
    width, shape = _FILTERS[mode]
    scale = float(_scale(size, out, align_corners, factor, real))
    stretch = max(scale, 1.0)
    support = width * 0.5 * stretch
    centre = scale * (np.arange(out) + 0.5)
    low = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    high = np.minimum((centre + support + 0.5).astype(np.int64), size)
    i = low[:, None] + np.arange(int((high - low).max()))
    weight = np.where(i < high[:, None], shape((i - centre[:, None] + 0.5) / stretch), 0)
    total = weight.sum(1, keepdims=True)
    return Taps(np.minimum(i, size - 1), (weight / np.where(total == 0, 1, total)).astype(real))


def _line(index: np.ndarray) -> int | None:
    """The step between the entries if it is constant and not 0, else None."""
    if len(index) < 2:
        return 1
    steps = np.diff(index)
    return int(steps[0]) if steps[0] > 0 and (steps == steps[0]).all() else None


def _take(x: jax.Array, index: np.ndarray, axis: int) -> jax.Array:
    step = _line(index)
    if step is not None:
        return lax.slice_in_dim(x, int(index[0]), int(index[-1]) + 1, step, axis)
    return jnp.take(x, jnp.asarray(index, np.int32), axis, mode="clip")


def _per_tap(x: jax.Array, weight: np.ndarray, axis: int) -> jax.Array:
    if (weight == weight[0]).all():
        return x * x.dtype.type(weight[0])
    return x * weight.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - axis))


def _weighted(x: jax.Array, taps: Taps, axis: int) -> jax.Array:
    """The weighted sum of the taps, by slices or lookups."""
    if taps.weight is None:
        return _take(x, taps.index[:, 0], axis)
    parts = [
        _per_tap(_take(x, taps.index[:, t], axis), taps.weight[:, t], axis)
        for t in range(taps.index.shape[1])
    ]
    return functools.reduce(jnp.add, parts)


def _repeat_edges(x: jax.Array, axis: int, low: int, high: int) -> jax.Array:
    first, last = (
        lax.slice_in_dim(x, 0, 1, axis=axis),
        lax.slice_in_dim(x, x.shape[axis] - 1, None, axis=axis),
    )
    return jnp.concatenate([first] * low + [x] + [last] * high, axis)


def _interleaved(x: jax.Array, taps: Taps, axis: int, phases: int) -> jax.Array | None:
    """The result for ``phases`` equally spaced outputs per input, by a few slices; None if they are not."""
    size = x.shape[axis]
    index = taps.index.reshape(size, phases, -1)
    offset = index[size // 2] - size // 2  # (phases, taps)
    low, high = max(0, -int(offset.min())), max(0, int(offset.max()))
    if (index != np.clip(np.arange(size)[:, None, None] + offset, 0, size - 1)).any():
        return None
    if taps.weight is None:
        if offset.any():
            return None
        return jnp.repeat(x, phases, axis)
    weight = taps.weight.reshape(size, phases, -1)
    typical = weight[size // 2]
    inside = slice(low, size - high)
    if not np.allclose(weight[inside], typical, rtol=0, atol=4e-7 if weight.dtype == np.float32 else 1e-13):
        return None
    x = _repeat_edges(x, axis, low, high)
    parts = []
    for p in range(phases):
        pieces = [
            lax.slice_in_dim(x, low + int(o), low + int(o) + size, axis=axis) * x.dtype.type(w)
            for o, w in zip(offset[p], typical[p], strict=True)
        ]
        parts.append(functools.reduce(jnp.add, pieces))
    out = jnp.stack(parts, axis + 1)
    return out.reshape(*out.shape[:axis], size * phases, *out.shape[axis + 2 :])


def _resample(x: jax.Array, taps: Taps, axis: int) -> jax.Array:
    phases, rest = divmod(len(taps.index), x.shape[axis])
    if phases > 1 and not rest and phases <= _MANY_PHASES:
        fast = _interleaved(x, taps, axis, phases)
        if fast is not None:
            return fast
    return _weighted(x, taps, axis)


def integer_weights(weight: np.ndarray) -> tuple[np.ndarray, int]:
    """The weights of `_fixed_point`: integers times ``2**-bits``, and these bits."""
    bits, most = 0, weight.max()
    while bits < 22 and int(0.5 + most * 2 ** (bits + 1)) < 2**15:
        bits += 1
    return np.trunc(weight * 2**bits + np.where(weight < 0, -0.5, 0.5)), bits


def taps(mode: str, antialias: bool, size: int, out: int, real: Any) -> Taps:
    """The inputs and weights by which one dimension is resized; an input at the edge has all of its weight once."""
    found = _taps(mode, antialias, size, out, False, None, real)
    if antialias or found.weight is None:
        return found
    index, weight = found.index, found.weight.copy()
    for k in reversed(range(1, index.shape[1])):
        twice = index[:, k] == index[:, k - 1]
        weight[twice, k - 1] += weight[twice, k]
        weight[twice, k] = 0
    return Taps(index, weight)


def _fixed_point(x: jax.Array, matrix: np.ndarray, axis: int) -> jax.Array:
    """Average bytes with the weights of a (size, out) matrix in integers, as PyTorch does on a CPU.

    The weights are integers times a power of two, the smallest one for which all integers are below 2^15. Every
    dimension is rounded to bytes by itself.
    """
    whole, bits = integer_weights(matrix)
    first = (whole != 0).argmax(0)
    count = int((len(whole) - (whole != 0)[::-1].argmax(0) - first).max())
    if count <= _FEW_TAPS:
        index = np.minimum(first[:, None] + np.arange(count), len(whole) - 1)
        weight = np.where(
            first[:, None] + np.arange(count) < len(whole), np.take_along_axis(whole.T, index, 1), 0
        )
        total = _weighted(x.astype(np.int32), Taps(index, weight), axis)
    else:
        exact = np.dtype(np.float64 if tracing.X64 else np.int32)
        total = jnp.tensordot(x.astype(exact), whole.astype(exact), (axis, 0))
        total = jnp.moveaxis(total, -1, axis).astype(np.int32)
    half = np.int32(1 << (bits - 1))
    return jnp.clip((total + half) >> bits, 0, 255).astype(np.uint8)


#: more inputs per output than these are a product with a matrix
_FEW_TAPS = 8


def _matrix(taps: Taps, size: int) -> np.ndarray:
    """The weights as a (size, out) matrix; weights clamped to the same element are added."""
    out = len(taps.index)
    matrix = np.zeros((size, out))
    weight = np.ones(taps.index.shape) if taps.weight is None else taps.weight
    np.add.at(matrix, (taps.index, np.arange(out)[:, None]), weight)
    return matrix


_TAPS = {
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
    "linear": _linear,
    "bilinear": _linear,
    "trilinear": _linear,
    "bicubic": _cubic,
}


def _taps(mode: str, antialias: bool, *how: Any) -> Taps:
    return _smoothing(mode, *how) if antialias else _TAPS[mode](*how)


def _check_sizes(x: Any, out: tuple[int, ...]) -> None:
    n = len(out)
    letters = {1: "W", 2: "HW", 3: "DHW"}[n]
    sizes = x.shape[2:]
    if min((*sizes, *out)) <= 0:
        found, wanted = (
            ", ".join(f"{a}: {s}" for a, s in zip(letters, v, strict=True)) for v in (sizes, out)
        )
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({found}) output ({wanted})"
        )
    if x.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {n + 2}D data tensor expected but got a tensor with sizes {list(x.shape)}"
        )


def resize(
    mode: str,
    antialias: bool,
    input: Any,
    output_size: tuple[int, ...],
    align_corners: bool,
    scales: tuple[float, ...] | None,
) -> jax.Array:
    """Resize the last dimensions of (N, C, ...), as `interpolate` does."""
    _check_sizes(input, output_size)
    dtype = input.dtype
    if dtype != np.uint8:
        kernel = f"upsample_{mode.removesuffix('-exact')}{len(output_size)}d_channels_last"
        if mode == "bicubic":
            kernel = "compute_indices_weights_cubic"
        not_implemented(kernel, input, kinds="biuc")
    work = np.dtype(np.float32) if dtype == np.uint8 else wide(dtype)
    by_bytes = dtype == np.uint8 and mode in _FILTERS
    x = input if by_bytes or (dtype == np.uint8 and mode.startswith("nearest")) else input.astype(work)
    real = np.float64 if by_bytes or work == np.float64 else np.float32
    for dim in reversed(range(len(output_size))):
        axis, out = dim + 2, output_size[dim]
        size, factor = x.shape[axis], scales[dim] if scales is not None else None
        found = _taps(mode, antialias, size, out, align_corners, factor, real)
        if by_bytes:
            if size != out:
                x = _fixed_point(x, _matrix(found, size), axis)
        elif antialias:
            matrix = _matrix(found, size).astype(real)
            x = jnp.moveaxis(jnp.tensordot(x, matrix, (axis, 0), precision=lax.Precision.HIGHEST), -1, axis)
        else:
            x = _resample(x, found, axis)
    if dtype == np.uint8 and x.dtype != dtype:
        x = jnp.clip(jnp.floor(x + 0.5), 0, 255)
    return x.astype(dtype)


def _resize_op(mode: str, n: int, antialias: bool, node: str) -> Any:
    name = f"_upsample_{mode}{n}d{'_aa' * antialias}"

    def resize_(
        input: Array,
        output_size: tuple[int, ...],
        align_corners: bool = False,
        scales: tuple[float, ...] | None = None,
    ):
        return resize(mode, antialias, input, output_size, align_corners, scales)

    resize_.__name__ = name
    resize_.__doc__ = f"Resampling of {n} dimension{'s' * (n > 1)}, mode {mode!r}{', smoothed' * antialias}."
    return op(name, where="", node=f"Upsample{node}{n}D{'Aa' * antialias}Backward0", order=format_order)(
        resize_
    )


for _n in (1, 2, 3):
    _resize_op("nearest", _n, False, "Nearest")
    _resize_op("nearest-exact", _n, False, "NearestExact")
_resize_op("linear", 1, False, "Linear")
_resize_op("bilinear", 2, False, "Bilinear")
_resize_op("trilinear", 3, False, "Trilinear")
_resize_op("bicubic", 2, False, "Bicubic")
for _mode in _FILTERS:
    _resize_op(_mode, 2, True, _mode.capitalize())


def output_sizes(sizes: tuple[int, ...], scales: tuple[float, ...]) -> tuple[int, ...]:
    """The output sizes for scale factors."""
    return tuple(math.trunc(size * float(scale)) for size, scale in zip(sizes, scales, strict=True))
