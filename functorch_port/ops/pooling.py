"""Max, average and adaptive pooling over one to three spatial dimensions.

A window is pooled one dimension after the other, and in a dimension it is taken apart into its taps: tap i of all
windows at once is one strided slice of the input, and pooling combines the taps elementwise. XLA makes one pass of
that, forward and backward; its own windowed reductions take up to 16 times as long on a CPU (the gradient of a 3x3
maximum over (16, 64, 24, 24): 2 ms against 32 ms). A TPU has hardware paths for them, so there they stay.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port.core.registry import Array, op
from functorch_port.ops._common import INT64, not_implemented, wide

Ints = int | tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """Where the windows of a pooling lie. One number per spatial dimension each."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    sizes: tuple[int, ...]  # of the input
    out: tuple[int, ...]  # of the output

    @property
    def padded(self) -> tuple[tuple[int, int], ...]:
        """(low, high) padding that gives every window all of its taps; high is negative where the rest is unused."""
        reach = [
            (o - 1) * s + (k - 1) * d + 1
            for o, s, k, d in zip(self.out, self.stride, self.kernel, self.dilation, strict=True)
        ]
        return tuple((p, r - p - n) for p, r, n in zip(self.padding, reach, self.sizes, strict=True))

    def axis(self, x: jax.Array, dim: int) -> int:
        """The axis of ``x`` that spatial dimension ``dim`` is."""
        return x.ndim - len(self.kernel) + dim

    def taps(self, x: jax.Array, dim: int, fill: Any) -> Iterator[jax.Array]:
        """Every window's first, second, ... element along one dimension; ``fill`` stands for what lies outside."""
        axis, (low, high) = self.axis(x, dim), self.padded[dim]
        config = [(0, 0, 0)] * x.ndim
        config[axis] = (low, high, 0)
        x = lax.pad(x, jnp.asarray(fill, x.dtype), config)
        for offset in range(self.kernel[dim]):
            start = offset * self.dilation[dim]
            stop = start + (self.out[dim] - 1) * self.stride[dim] + 1
            yield lax.slice_in_dim(x, start, stop, self.stride[dim], axis)


def _out_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= size + padding:  # no window may start in the right padding
        out -= 1
    return out


def _spread(name: str, what: str, value: Ints, n: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) not in (1, n):
        word = {1: "one int", 2: "two ints", 3: "three ints"}[n]
        many = "a tuple of " + word
        raise RuntimeError(f"{name}: {what} must either be a single int, or {many}")
    return values * n if len(values) == 1 else values


def _windows(
    name: str,
    x: Any,
    n: int,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
) -> Windows:
    """Checks the arguments of a pooling and works out its windows."""
    _check_rank(name, x, n)
    kernels = _spread(name, "kernel_size", kernel, n)
    strides = kernels if stride is None or stride == () else _spread(name, "stride", stride, n)
    paddings, dilations = _spread(name, "padding", padding, n), _spread(name, "dilation", dilation, n)
    _check_window(name, kernels, strides, paddings, dilations)
    sizes = x.shape[-n:]
    out = tuple(
        _out_size(*each, ceil_mode) for each in zip(sizes, kernels, strides, paddings, dilations, strict=True)
    )
    if any(o < 1 for o in out):
        if name == "max_pool1d":
            raise RuntimeError(f"max_pool1d() Invalid computed output size: {out[0]}")
        channels, sizes = (x.shape[-n - 1], sizes) if n > 1 else (x.shape[-2], (1, *sizes))
        found = (1, *out) if n == 1 else out
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, (channels, *sizes)))}). "
            f"Calculated output size: ({'x'.join(map(str, (channels, *found)))}). Output size is too small"
        )
    return Windows(kernels, strides, paddings, dilations, tuple(sizes), out)


def _check_rank(name: str, x: Any, n: int) -> None:
    shape = list(x.shape)
    empty = any(s == 0 for s in shape[-n - 1 :]) if x.ndim in (n + 1, n + 2) else False
    if x.ndim in (n + 1, n + 2) and not empty:
        return
    if name == "max_pool1d":
        found = "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:"
    elif name == "avg_pool1d":
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 'self' "
            "(while checking arguments for avg_pool1d)"
        )
    elif empty:
        found = f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for input, but got:"
    else:
        raise RuntimeError(f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input")
    raise RuntimeError(found + "[" + ", ".join(map(str, shape)) + "]")


def _check_window(
    name: str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> None:
    if name == "max_pool1d":
        for what, values in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
            if values[0] <= 0:
                raise RuntimeError(f"max_pool1d() {what} must be greater than zero, but got {values[0]}")
        if padding[0] < 0:
            raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {padding[0]}")
        if padding[0] > kernel[0] // 2:
            raise RuntimeError(
                "max_pool1d() padding should be at most half of kernel size, "
                f"but got padding={padding[0]} and kernel_size={kernel[0]}"
            )
        return
    if any(s == 0 for s in stride):
        raise RuntimeError("stride should not be zero")
    if any(k <= 0 for k in kernel) or any(s < 0 for s in stride):
        letters = "TWH"[-len(kernel) :] if len(kernel) == 3 else "HW"[-len(kernel) :]
        listed = " ".join(f"k{a}: {k}" for a, k in zip(letters, kernel, strict=False))
        raise RuntimeError(f"kernel size should be greater than zero, but got {listed}")
    if any(d <= 0 for d in dilation):
        letters = {1: "W", 2: "HW", 3: "TWH"}[len(dilation)]
        listed = " ".join(f"dilation{a}: {d}" for a, d in zip(letters, dilation, strict=True))
        raise RuntimeError(f"dilation should be greater than zero, but got {listed}")
    for p, k, d in zip(padding, kernel, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, "
                f"but got pad={p}, kernel_size={k} and dilation={d}"
            )


# maximum


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind in "fV" else np.iinfo(dtype).min


def _beats(tap: jax.Array, best: jax.Array) -> jax.Array:
    """The first of equal values wins; nan wins over everything."""
    return (tap > best) | (tap != tap)


def _max_of_taps(x: jax.Array, windows: Windows) -> jax.Array:
    """Last dimension first: so the first of equal elements, in row-major order, is the one that wins."""
    for dim in reversed(range(len(windows.kernel))):
        best: Any = None
        for tap in windows.taps(x, dim, _lowest(x.dtype)):
            best = tap if best is None else jnp.where(_beats(tap, best), tap, best)
        x = best
    return x


def _max_by_window(x: jax.Array, windows: Windows) -> jax.Array:
    """The same through XLA's windowed reduction, which a TPU has hardware paths for."""
    n = len(windows.kernel)
    lead = (1,) * (x.ndim - n)
    return lax.reduce_window(
        x,
        _lowest(x.dtype),
        lax.max,
        (*lead, *windows.kernel),
        (*lead, *windows.stride),
        [(0, 0)] * len(lead) + [(low, high) for low, high in windows.padded],
        window_dilation=(*lead, *windows.dilation),
    )


#: Windows with more taps than this (over all dimensions) are left to XLA: the programs would grow too long.
_MANY_TAPS = 20


def _max_pool(x: Any, windows: Windows) -> jax.Array:
    if (
        x.dtype.kind not in "fV"
        or any(d != 1 for d in windows.dilation)
        or any(high < 0 for _, high in windows.padded)
    ):
        return _max_of_taps(x, windows)  # what XLA's windowed maximum cannot do or differentiate
    if sum(windows.kernel) > _MANY_TAPS:
        return _max_by_window(x, windows)
    return lax.platform_dependent(
        x, tpu=lambda x: _max_by_window(x, windows), default=lambda x: _max_of_taps(x, windows)
    )


def _max_pool_with_indices(x: Any, windows: Windows) -> tuple[jax.Array, jax.Array]:
    """The maxima, and their positions in the flattened spatial dimensions of the input."""
    n, scale = len(windows.kernel), 1
    index = jnp.zeros(x.shape[-n:], np.int32)  # position in the dimensions already pooled; -1 in the padding
    for dim in reversed(range(n)):
        taps = zip(windows.taps(x, dim, _lowest(x.dtype)), windows.taps(index, dim, -1), strict=True)
        best: Any = None
        for offset, (tap, inner) in enumerate(taps):
            line = np.arange(windows.out[dim]) * windows.stride[dim] - windows.padding[dim]
            line = ((line + offset * windows.dilation[dim]) * scale).astype(np.int32)
            line = line.reshape(-1, *(1,) * (n - 1 - dim))
            where = jnp.where(inner < 0, inner, inner + line)
            where = jnp.broadcast_to(where, tap.shape)
            if best is None:
                best, index = tap, where
            else:
                wins = _beats(tap, best) | ((index < 0) & (where >= 0))
                best, index = jnp.where(wins, tap, best), jnp.where(wins, where, index)
        x = best
        scale *= windows.sizes[dim]
    return x, index.astype(INT64)


def _max_pool_op(n: int) -> Any:
    name = f"max_pool{n}d"
    node = "SqueezeBackward1" if n == 1 else f"MaxPool{n}DWithIndicesBackward0"

    def values(
        input: Array,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ):
        windows = _windows(name, input, n, kernel_size, stride, padding, dilation, ceil_mode)
        not_implemented(name, input, kinds="bc")
        return _max_pool(input, windows)

    def with_indices(
        input: Array,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ):
        windows = _windows(name, input, n, kernel_size, stride, padding, dilation, ceil_mode)
        not_implemented(name, input, kinds="bc")
        return _max_pool_with_indices(input, windows)

    values.__doc__ = (
        f"Maximum over windows of {n} spatial dimension{'s' * (n > 1)}; gradients go to the first maximum."
    )
    with_indices.__doc__ = f"`{name}` and the positions of the maxima."
    values.__name__, with_indices.__name__ = name, f"{name}_with_indices"
    return (
        op(name, where="torch", node=node)(values),
        op(f"{name}_with_indices", where="F", node=node)(with_indices),
    )


max_pool1d, max_pool1d_with_indices = _max_pool_op(1)
max_pool2d, max_pool2d_with_indices = _max_pool_op(2)
max_pool3d, max_pool3d_with_indices = _max_pool_op(3)


# average


def _divisors(windows: Windows, count_include_pad: bool) -> np.ndarray:
    """How many elements every window averages over; a window hanging over the padded end counts only what is there."""
    counts = np.ones((), np.int64)
    for dim in range(len(windows.kernel)):
        start = np.arange(windows.out[dim]) * windows.stride[dim] - windows.padding[dim]
        stop = start + windows.kernel[dim]
        low, high = 0, windows.sizes[dim]
        if count_include_pad:
            low, high = -windows.padding[dim], high + windows.padding[dim]
        count = np.minimum(stop, high) - np.maximum(start, low)
        shape = [1] * len(windows.kernel)
        shape[dim] = -1
        counts = counts * count.reshape(shape)
    return counts


def _avg_pool(x: Any, windows: Windows, count_include_pad: bool, divisor: int | None) -> jax.Array:
    total = x.astype(wide(x.dtype))
    for dim in reversed(range(len(windows.kernel))):
        total = functools.reduce(jnp.add, windows.taps(total, dim, 0))
    counts = np.asarray(divisor) if divisor is not None else _divisors(windows, count_include_pad)
    if counts.size and (counts == counts.flat[0]).all():
        counts = counts.flat[0]
    if x.dtype.kind in "iu":
        return lax.div(total, jnp.broadcast_to(jnp.asarray(counts, total.dtype), total.shape))
    return (total / jnp.asarray(counts, total.dtype)).astype(x.dtype)


def _avg_pool_op(n: int) -> Any:
    name = f"avg_pool{n}d"

    def pool(
        input: Array,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        windows = _windows(name, input, n, kernel_size, stride, padding, 1, ceil_mode)
        return _avg_pool(input, windows, count_include_pad, divisor_override)

    def pool1d(
        input: Array,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        return pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    chosen = pool1d if n == 1 else pool
    chosen.__doc__ = f"Average over windows of {n} spatial dimension{'s' * (n > 1)}."
    chosen.__name__ = name
    return op(
        name,
        where="torch F" if n == 1 else "F",
        node="SqueezeBackward1" if n == 1 else f"AvgPool{n}DBackward0",
    )(chosen)


avg_pool1d, avg_pool2d, avg_pool3d = _avg_pool_op(1), _avg_pool_op(2), _avg_pool_op(3)


# adaptive: the output's size is given, window i covers [floor(i * in / out), ceil((i + 1) * in / out))


def _bins(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """First element and length of every window along one dimension."""
    i = np.arange(out, dtype=np.int32)
    start = i * size // out
    return start, -(-(i + 1) * size // out) - start


def _adaptive_sizes(name: str, x: Any, n: int, output_size: Any, colon: str = "") -> tuple[int, ...]:
    if x.ndim not in (n + 1, n + 2):
        if n == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {name})"
            )
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got{colon} {list(x.shape)}")
    sizes = (output_size,) * n if not isinstance(output_size, tuple) else output_size
    if len(sizes) != n:
        raise RuntimeError(f"{name}: output_size must be {n}")
    sizes = tuple(have if want is None else want for have, want in zip(x.shape[-n:], sizes, strict=True))
    if any(s < 0 for s in sizes):
        listed = ", ".join(map(str, sizes))
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {{{listed}}}"
        )
    return sizes


def _averaging_matrix(size: int, out: int, dtype: Any) -> np.ndarray:
    """(out, size): row i averages over window i."""
    start, length = _bins(size, out)
    column = np.arange(size)
    inside = (column >= start[:, None]) & (column < (start + length)[:, None])
    return (inside / length[:, None]).astype(dtype)


def _adaptive_avg(x: Any, sizes: tuple[int, ...]) -> jax.Array:
    """Windows of one length are a plain average; others a small matrix per dimension."""
    n, dtype = len(sizes), x.dtype
    x = x.astype(wide(dtype))
    for dim, out in zip(range(x.ndim - n, x.ndim), sizes, strict=True):
        size = x.shape[dim]
        if out == size:
            continue
        if out and size % out == 0:
            x = x.reshape(*x.shape[:dim], out, size // out, *x.shape[dim + 1 :]).mean(dim + 1)
        else:
            moved = jnp.tensordot(
                x, _averaging_matrix(size, out, x.dtype).T, (dim, 0), precision=lax.Precision.HIGHEST
            )
            x = jnp.moveaxis(moved, -1, dim)
    return x.astype(dtype)


def _adaptive_avg_op(n: int) -> Any:
    name = f"adaptive_avg_pool{n}d"

    def pool(input: Array, output_size: Any):
        sizes = _adaptive_sizes(name, input, n, output_size)
        not_implemented(name if n > 1 else "adaptive_avg_pool2d", input, kinds="biuc")
        return _adaptive_avg(input, sizes)

    pool.__doc__ = f"Averages over as many windows of {n} spatial dimension{'s' * (n > 1)} as asked for."
    pool.__name__ = name
    node = "SqueezeBackward1" if n == 1 else f"AdaptiveAvgPool{n}DBackward0"
    return op(name, where="torch F" if n == 1 else "F", node=node)(pool)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _adaptive_avg_op(1),
    _adaptive_avg_op(2),
    _adaptive_avg_op(3),
)


def _adaptive_max(x: Any, sizes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Every window's taps, as many as the longest window has; shorter ones repeat their last element."""
    n, scale = len(sizes), 1
    index = jnp.zeros(x.shape, np.int32)  # position in the dimensions already pooled
    for dim in range(x.ndim - 1, x.ndim - 1 - n, -1):
        size = x.shape[dim]
        start, length = _bins(size, sizes[dim - x.ndim])
        best: Any = None
        for offset in range(int(length.max(initial=1))):
            line = (start + np.minimum(offset, length - 1)).astype(np.int32)
            tap, where = (jnp.take(v, line, dim, mode="clip") for v in (x, index))
            where = where + (line * scale).reshape(-1, *(1,) * (x.ndim - 1 - dim))
            if best is None:
                best, chosen = tap, where
            else:
                wins = _beats(tap, best)
                best, chosen = jnp.where(wins, tap, best), jnp.where(wins, where, chosen)
        x, index, scale = best, chosen, scale * size
    return x, index.astype(INT64)


def _adaptive_max_op(n: int) -> Any:
    name = f"adaptive_max_pool{n}d"

    def pool(input: Array, output_size: Any):
        sizes = _adaptive_sizes(name, input, n, output_size, ":")
        not_implemented(name if n > 1 else "adaptive_max_pool2d", input, kinds="biuc")
        return _adaptive_max(input, sizes)

    pool.__doc__ = f"Maxima, and their positions, over as many {n}-dimensional windows as asked for."
    pool.__name__ = f"{name}_with_indices"
    node = "SqueezeBackward1" if n == 1 else f"AdaptiveMaxPool{n}DBackward0"
    return op(f"{name}_with_indices", where="F", node=node)(pool)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_max_op(1),
    _adaptive_max_op(2),
    _adaptive_max_op(3),
)
