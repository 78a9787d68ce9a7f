"""Max, average and adaptive pooling over one to three spatial dimensions.

Windows are pooled one dimension after the other. In each dimension a window is split into its taps: tap i of all
windows is one strided slice of the input, and pooling combines the taps elementwise. XLA fuses that into one pass,
forward and backward; its own windowed reductions are slower on a CPU. A TPU has hardware for them, so it uses them.
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

from functorch_port._base import lowering, memory
from functorch_port._base.division import divide
from functorch_port._base.layout import format_order, line_order
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import INT64, choose, not_implemented, wide

Ints = int | tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """The windows of a pooling, with one number per spatial dimension each."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    sizes: tuple[int, ...]  # of the input
    out: tuple[int, ...]  # of the output

    @property
    def padded(self) -> tuple[tuple[int, int], ...]:
        """The (low, high) padding that gives every window all taps; high is negative for an unused rest."""
        reach = [
            (o - 1) * s + (k - 1) * d + 1
            for o, s, k, d in zip(self.out, self.stride, self.kernel, self.dilation, strict=True)
        ]
        return tuple((p, r - p - n) for p, r, n in zip(self.padding, reach, self.sizes, strict=True))

    def axis(self, x: jax.Array, dim: int) -> int:
        """The axis of ``x`` for the spatial dimension ``dim``."""
        return x.ndim - len(self.kernel) + dim

    def taps(self, x: jax.Array, dim: int, fill: Any) -> Iterator[jax.Array]:
        """The first, second, ... element of all windows along one dimension; ``fill`` outside of ``x``."""
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
    if len(values) in (1, n):
        return values * n if len(values) == 1 else values
    if name == "max_pool1d":
        allowed = {"stride": "None, an int, list of ints, or", "padding": "an int, list of ints, or"}
        raise RuntimeError(
            f"{name}() {what} must be {allowed.get(what, 'an int, list of ints or')} tuple of ints of size 1 but got "
            f"size {len(values)}"
        )
    name = name.removesuffix("_with_indices")
    if n == 1:
        raise RuntimeError(f"{name}() argument '{what}' should contain one int (got {len(values)})")
    must = "must be either" if what == "dilation" else "must be" if name == "avg_pool3d" else "must either be"
    omitted = "omitted, " if what == "stride" else ""
    raise RuntimeError(
        f"{name}: {what} {must} {omitted}a single int, or a tuple of {('two', 'three')[n - 2]} ints"
    )


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
    """Check the arguments of a pooling and compute its windows."""
    _check_rank(name, x, n)
    kernels = _spread(name, "kernel_size", kernel, n)
    strides = kernels if stride is None or stride == () else _spread(name, "stride", stride, n)
    paddings, dilations = _spread(name, "padding", padding, n), _spread(name, "dilation", dilation, n)
    sizes = tuple(x.shape[-n:])
    if name == "max_pool1d":
        _check_line(x, kernels[0], strides[0], paddings[0], dilations[0])
    else:
        _check_windows(name, x, kernels, strides, paddings, dilations)
    out = tuple(
        _out_size(*each, ceil_mode) for each in zip(sizes, kernels, strides, paddings, dilations, strict=True)
    )
    if any(o < 1 for o in out):
        if name == "max_pool1d":
            raise RuntimeError(f"max_pool1d() Invalid computed output size: {out[0]}")
        lead = (x.shape[-n - 1], *(1,) * (n == 1))
        given, found = ("x".join(map(str, (*lead, *dims))) for dims in (sizes, out))
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({found}). Output size is too small"
        )
    return Windows(kernels, strides, paddings, dilations, sizes, out)


def _check_rank(name: str, x: Any, n: int) -> None:
    if x.ndim in (n + 1, n + 2):
        return
    if name == "max_pool1d":
        raise RuntimeError(_LINE_SHAPE + str(list(x.shape)))
    if n == 1:
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {name.removesuffix('_with_indices')})"
        )
    raise RuntimeError(f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input")


_LINE_SHAPE = (
    "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:"
)


def _check_line(x: Any, kernel: int, stride: int, padding: int, dilation: int) -> None:
    """The checks of `max_pool1d`, whose texts differ from those of the other poolings."""
    if 0 in x.shape[-2:]:
        raise RuntimeError(_LINE_SHAPE + str(list(x.shape)))
    for what, value in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {what} must be greater than zero, but got {value}")
    if padding < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {padding}")
    if padding > kernel // 2:
        raise RuntimeError(
            "max_pool1d() padding should be at most half of kernel size, "
            f"but got padding={padding} and kernel_size={kernel}"
        )


def _check_windows(
    name: str,
    x: Any,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> None:
    for k, s, p, d in zip(kernel, stride, padding, dilation, strict=True):
        if s == 0:
            raise RuntimeError("stride should not be zero")
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > max((k - 1) * d + 1, 0) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, "
                f"but got pad={p}, kernel_size={k} and dilation={d}"
            )
    n, shape = len(kernel), list(x.shape)
    if n == 1:  # PyTorch pools a line as an image of height 1
        shape.insert(-1, 1)
        kernel, stride, dilation, padding = (1, *kernel), (1, *stride), (1, *dilation), (0, *padding)
    letters = "TWH" if n == 3 else "WH"
    for what, mark, values in (
        ("kernel size", "k", kernel),
        ("stride", "d", stride),
        ("dilation", "dilation", dilation),
    ):
        if any(v <= 0 for v in values):
            listed = " ".join(f"{mark}{a}: {v}" for a, v in zip("THW"[-len(values) :], values, strict=True))
            raise RuntimeError(f"{what} should be greater than zero, but got {listed}")
    if 0 in shape[-len(kernel) - 1 :]:
        if n == 3:
            kind = "max_pool3d_with_indices_out_cpu_template" if name.startswith("max") else name
            raise RuntimeError(
                f"{kind}(): Expected input's non-batch dimensions to have positive length, but input has a shape of "
                f"{shape} and non-batch dimension 0 has length zero!"
            )
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:"
            + str(shape)
        )
    if name == "avg_pool3d" and any(size < k for size, k in zip(shape[-3:], kernel, strict=True)):
        (t, h, w), (kt, kh, kw) = shape[-3:], kernel
        raise RuntimeError(
            f"input image (T: {t} H: {h} W: {w}) smaller than kernel size (kT: {kt} kH: {kh} kW: {kw})"
        )
    if any(p > k // 2 for k, p in zip(kernel, padding, strict=True)):
        sizes = {**{f"pad{a}": p for a, p in zip("THW"[-len(kernel) :], padding, strict=True)}}
        sizes |= {f"k{a}": k for a, k in zip("THW"[-len(kernel) :], kernel, strict=True)}
        order = [f"{mark}{a}" for mark in (("k", "pad") if n == 3 else ("pad", "k")) for a in letters]
        listed = (" " if n == 3 else ", ").join(
            f"{key}{':' if n == 3 else ' ='} {sizes[key]}" for key in order
        )
        raise RuntimeError(f"pad should be smaller than or equal to half of kernel size, but got {listed}")


# maximum


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind in "fV" else np.iinfo(dtype).min


def _beats(tap: jax.Array, best: jax.Array) -> jax.Array:
    """Whether ``tap`` replaces ``best``: the first of equal values wins; nan wins over all."""
    return (tap > best) | (tap != tap)


def _max_of_taps(x: jax.Array, windows: Windows) -> jax.Array:
    """Max-pooling by taps, last dimension first, so that the first of equal elements in row-major order wins."""
    for dim in reversed(range(len(windows.kernel))):
        best: Any = None
        for tap in windows.taps(x, dim, _lowest(x.dtype)):
            best = tap if best is None else choose(_beats(tap, best), tap, best)
        x = best
    return x


def _max_by_window(x: jax.Array, windows: Windows) -> jax.Array:
    """Max-pooling by XLA's windowed reduction, for which a TPU has hardware."""
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
    return lowering.by_platform(
        x, tpu=lambda x: _max_by_window(x, windows), default=lambda x: _max_of_taps(x, windows)
    )


def _max_pool_with_indices(x: Any, windows: Windows) -> tuple[jax.Array, jax.Array]:
    """The maxima, and their indices in the flattened spatial dimensions of the input."""
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
        not_implemented(name if n > 1 else "max_pool1d_impl", input, kinds="bc")
        return _max_pool(input, windows)

    def with_indices(
        input: Array,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ):
        windows = _windows(
            f"{name}_with_indices", input, n, kernel_size, stride, padding, dilation, ceil_mode
        )
        not_implemented(name if n > 1 else "max_pool2d", input, kinds="bc")
        return _max_pool_with_indices(input, windows)

    values.__doc__ = (
        f"Max-pooling over {n} spatial dimension{'s' * (n > 1)}; gradients go to the first maximum."
    )
    with_indices.__doc__ = f"`{name}`, and the flat spatial indices of the maxima."
    values.__name__, with_indices.__name__ = name, f"{name}_with_indices"
    return (
        op(name, where="torch", node=node, order=format_order)(values),
        op(f"{name}_with_indices", where="F", node=node, order=format_order)(with_indices),
    )


max_pool1d, max_pool1d_with_indices = _max_pool_op(1)
max_pool2d, max_pool2d_with_indices = _max_pool_op(2)
max_pool3d, max_pool3d_with_indices = _max_pool_op(3)


# average


def _divisors(windows: Windows, count_include_pad: bool) -> np.ndarray:
    """The number of elements that every window averages over, without those past the padded end."""
    counts = np.ones((), np.int64)
    for dim, (pad, (_, high)) in enumerate(zip(windows.padding, windows.padded, strict=True)):
        if high <= pad and (count_include_pad or pad == 0):  # no window has less, however long the input is
            counts = counts * windows.kernel[dim]
            continue
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
    return divide(total, counts).astype(x.dtype)


#: by the number of spatial dimensions: PyTorch averages lines as images, and volumes always in order
_ORDER = {1: line_order, 2: format_order, 3: None}


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
        not_implemented("avg_pool3d_out_frame" if n == 3 else "avg_pool2d", input, kinds="bc")
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
    chosen.__doc__ = f"Average pooling over {n} spatial dimension{'s' * (n > 1)}."
    chosen.__name__ = name
    return op(
        name,
        where="torch F" if n == 1 else "F",
        node="SqueezeBackward1" if n == 1 else f"AvgPool{n}DBackward0",
        order=_ORDER[n],
    )(chosen)


avg_pool1d, avg_pool2d, avg_pool3d = _avg_pool_op(1), _avg_pool_op(2), _avg_pool_op(3)


# adaptive: the output size is given, and window i covers [floor(i * in / out), ceil((i + 1) * in / out))


def _bins(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The first element and the length of every window along one dimension."""
    i = np.arange(out, dtype=np.int32)
    start = i * size // out
    return start, -(-(i + 1) * size // out) - start


def _adaptive_sizes(name: str, x: Any, n: int, output_size: int | tuple[int, ...]) -> tuple[int, ...]:
    average = "avg" in name
    if x.ndim not in (n + 1, n + 2):
        if n == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {name})"
            )
        colon = "" if average else ":"
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got{colon} {list(x.shape)}")
    sizes = output_size if isinstance(output_size, tuple) else (output_size,) * n
    if len(sizes) != n:
        if n == 1:
            raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(sizes)})")
        raise RuntimeError(
            f"{name}: output_size must be {n}"
            if average
            else f"{name}(): internal error: output_size.size() must be {n}"
        )
    shape, wanted = list(x.shape), list(sizes)
    if n == 1 and average:  # PyTorch pools a line as an image of height 1
        name = "adaptive_avg_pool2d"
        shape.insert(-1, 1)
        wanted.insert(0, 1)
    first = len(shape) - len(wanted) if average and n < 3 else 1
    empty = [dim for dim in range(first, len(shape)) if shape[dim] == 0]
    negative = [size for size in sizes if size < 0]
    if average and negative:
        first_two, rest = ", ".join(map(str, wanted[:2])), "".join(f",{size}" for size in wanted[2:])
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {{{first_two}{rest}}}"
        )
    if empty and not (average and wanted == [1] * len(wanted)):
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{shape} with dimension {empty[0]} being empty"
        )
    made = [*x.shape[:-n], *(1,) * (n == 1), *sizes]
    if negative:
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative[0]}: {made}")
    memory.room(made, x.dtype)
    return sizes


def _averaging_matrix(size: int, out: int, dtype: Any) -> np.ndarray:
    """A matrix (out, size) whose row i averages over window i."""
    start, length = _bins(size, out)
    column = np.arange(size)
    inside = (column >= start[:, None]) & (column < (start + length)[:, None])
    return (inside / length[:, None]).astype(dtype)


def _adaptive_avg(x: Any, sizes: tuple[int, ...]) -> jax.Array:
    """Adaptive average pooling: a plain one for windows of equal length, else a small matrix per dimension."""
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

    def pool(input: Array, output_size: Ints):
        sizes = _adaptive_sizes(name, input, n, output_size)
        not_implemented("adaptive_avg_pool3d_cpu" if n == 3 else "adaptive_avg_pool2d", input, kinds="biuc")
        return _adaptive_avg(input, sizes)

    pool.__doc__ = f"Average pooling over {n} spatial dimension{'s' * (n > 1)}, to the given output size."
    pool.__name__ = name
    node = "SqueezeBackward1" if n == 1 else f"AdaptiveAvgPool{n}DBackward0"
    return op(name, where="torch F" if n == 1 else "F", node=node, order=_ORDER[n])(pool)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _adaptive_avg_op(1),
    _adaptive_avg_op(2),
    _adaptive_avg_op(3),
)


def _adaptive_max(x: Any, sizes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Adaptive max-pooling by the taps of the longest window; shorter ones repeat their last element."""
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

    def pool(input: Array, output_size: Ints):
        sizes = _adaptive_sizes(name, input, n, output_size)
        not_implemented("adaptive_max_pool3d_cpu" if n == 3 else "adaptive_max_pool2d", input, kinds="biuc")
        return _adaptive_max(input, sizes)

    pool.__doc__ = (
        f"Max-pooling over {n} spatial dimension{'s' * (n > 1)}, to the given output size; and the indices."
    )
    pool.__name__ = f"{name}_with_indices"
    node = "SqueezeBackward1" if n == 1 else f"AdaptiveMaxPool{n}DBackward0"
    return op(f"{name}_with_indices", where="F", node=node, order=_ORDER[n])(pool)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_max_op(1),
    _adaptive_max_op(2),
    _adaptive_max_op(3),
)
