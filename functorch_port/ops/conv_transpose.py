"""Transposed convolutions (NCHW data, IOHW weights): the gradient of a convolution with respect to its input.

There are two methods. The plain one puts zeros between the input's elements and convolves with the flipped kernel. In
the other one, the kernel is split into phases, since output elements one stride apart use the same part of it. One
matrix product computes all phases, whose results are then interleaved. A CPU uses this method for strides above 1: XLA
takes much longer there for the weight's gradient of the plain method.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from functorch_port._base import lowering
from functorch_port._base.config import matmul_precision
from functorch_port._base.layout import convolution_order
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import FLOAT32, LAYOUTS, not_implemented, plus_bias, wide
from functorch_port.ops.conv import _check_types, _per_dim

#: Kernels with more taps per phase than this are left to XLA: the programs would grow too long.
_MANY_TAPS = 27


def _check(name: str, input: Any, weight: Any, bias: Any, groups: int, n: int) -> None:
    shape = list(weight.shape)
    if shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{shape} instead"
        )
    if shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size [{shape}] instead"
        )
    batched = list(input.shape) if input.ndim == n + 2 else [1, *input.shape]
    if batched[1] != shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {shape}, expected input{batched} to have {shape[0]} channels, "
            f"but got {batched[1]} channels instead"
        )
    channels = shape[1] * groups
    if bias is not None and bias.shape != (channels,):
        raise RuntimeError(
            f"Given transposed=1, weight of size {shape}, expected bias to be 1-dimensional with {channels} elements, "
            f"but got bias of size {list(bias.shape)} instead"
        )
    if 0 in batched[2:]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {batched}"
        )


def _check_numbers(
    padding: tuple[int, ...], output_padding: tuple[int, ...], stride: tuple[int, ...], groups: int
) -> None:
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


_SIDES = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def _check_output_padding(
    output_padding: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    if all(p < s or p < d for p, s, d in zip(output_padding, stride, dilation, strict=True)):
        return
    found = " ".join(
        f"{what}_{side}: {value}"
        for what, values in (("output_padding", output_padding), ("stride", stride), ("dilation", dilation))
        for side, value in zip(_SIDES[len(values)], values, strict=True)
    )
    raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {found}")


def _dilated(
    x: jax.Array,
    w: jax.Array,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    dtype: Any,
) -> jax.Array:
    """Convolve the input with zeros between its elements."""
    n, kernel = len(stride), w.shape[2:]
    w = lax.rev(w.reshape(groups, -1, *w.shape[1:]), tuple(range(3, n + 3)))
    w = w.swapaxes(1, 2).reshape(-1, w.shape[1], *kernel)  # (out, in / groups, ...)
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    low = [r - p for r, p in zip(reach, padding, strict=True)]
    high = [
        o - 1 + r - a - (size - 1) * s
        for o, r, a, size, s in zip(out, reach, low, x.shape[2:], stride, strict=True)
    ]
    return lax.conv_general_dilated(
        x,
        w,
        (1,) * n,
        list(zip(low, high, strict=True)),
        lhs_dilation=stride,
        rhs_dilation=dilation,
        feature_group_count=groups,
        dimension_numbers=LAYOUTS[n],
        precision=matmul_precision(),
        preferred_element_type=None if dtype == x.dtype else dtype,
    )


def _by_phases(
    x: jax.Array,
    w: jax.Array,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    groups: int,
) -> jax.Array:
    """Compute all phases as one matrix product and interleave them."""
    n, batch, each = len(stride), x.shape[0], w.shape[1]
    taps = [-(-k // s) for k, s in zip(w.shape[2:], stride, strict=True)]
    w = jnp.pad(
        w, [(0, 0), (0, 0), *((0, t * s - k) for t, s, k in zip(taps, stride, w.shape[2:], strict=True))]
    )
    pairs = [size for pair in zip(taps, stride, strict=True) for size in pair]
    w = w.reshape(groups, -1, each, *pairs)  # (g, in / g, out / g, K1, s1, K2, s2, ...)
    w = lax.rev(w, tuple(range(3, 3 + 2 * n, 2)))
    w = w.transpose(0, 2, *range(4, 4 + 2 * n, 2), 1, *range(3, 3 + 2 * n, 2))
    w = w.reshape(groups, each * math.prod(stride), -1)
    first = [p // s for p, s in zip(padding, stride, strict=True)]
    count = [-(-(p + o) // s) - f for p, o, s, f in zip(padding, out, stride, first, strict=True)]
    config = [(0, 0, 0), (0, 0, 0)]
    config += [
        (t - 1 - f, f + c - size, 0) for t, f, c, size in zip(taps, first, count, x.shape[2:], strict=True)
    ]
    x = lax.pad(x, jnp.zeros((), x.dtype), config)
    parts = [
        lax.slice(x, (0, 0, *at), (*x.shape[:2], *(a + c for a, c in zip(at, count, strict=True))))
        for at in itertools.product(*map(range, taps))
    ]
    columns = jnp.stack(parts, 2).reshape(batch, groups, -1, math.prod(count))
    y = lax.dot_general(
        w,
        columns,
        (((2,), (2,)), ((0,), (1,))),
        precision=matmul_precision(),
        preferred_element_type=wide(x.dtype),
    ).astype(x.dtype)  # (g, out / g * phases, batch, count)
    y = y.reshape(groups, each, *stride, batch, *count)
    order = [axis for i in range(n) for axis in (3 + n + i, 2 + i)]
    y = y.transpose(2 + n, 0, 1, *order)
    y = y.reshape(batch, groups * each, *(c * s for c, s in zip(count, stride, strict=True)))
    start = [p - f * s for p, f, s in zip(padding, first, stride, strict=True)]
    return lax.slice(y, (0, 0, *start), (*y.shape[:2], *(a + o for a, o in zip(start, out, strict=True))))


def _transposed(
    name: str,
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> jax.Array:
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input "
            f"of size: {list(input.shape)}"
        )
    dims = weight.ndim - 2
    strides, dilations = _per_dim(stride, dims, "stride"), _per_dim(dilation, dims, "dilation")
    if dims != n:
        raise RuntimeError(
            f"expected stride to be a single integer value or a list of {dims} values to match the convolution "
            f"dimensions, but got stride={[1] * n}"
        )
    paddings = _per_dim(padding, n, "padding")
    extra = _per_dim(output_padding, n, "output_padding")
    _check_numbers(paddings, extra, strides, groups)
    if any(d <= 0 for d in dilations):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilations)}")
    _check(name, input, weight, bias, groups, n)
    _check_types(input, weight, bias)
    _check_output_padding(extra, strides, dilations)
    if input.dtype.kind == "b" or (input.dtype.kind in "iu" and input.dtype.itemsize < 8):
        not_implemented(f"slow_conv_transpose{max(n, 2)}d_out_cpu", input, kinds="biu")
    batched = input if input.ndim == n + 2 else input[None]
    sizes, kernel = batched.shape[2:], weight.shape[2:]
    out = tuple(
        (i - 1) * s - 2 * p + d * (k - 1) + e + 1
        for i, s, p, d, k, e in zip(sizes, strides, paddings, dilations, kernel, extra, strict=True)
    )
    if any(o < 1 for o in out):
        raise RuntimeError(
            f"Given input size per channel: ({' x '.join(map(str, sizes))}). Calculated output size per channel: "
            f"({' x '.join(map(str, out))}). Output size is too small"
        )

    def dilated(x: jax.Array, w: jax.Array, dtype: Any = None) -> jax.Array:
        return _dilated(x, w, out, strides, paddings, dilations, groups, dtype)

    def by_phases(x: jax.Array, w: jax.Array) -> jax.Array:
        return _by_phases(x, w, out, strides, paddings, groups)

    def either(x: jax.Array, w: jax.Array) -> jax.Array:
        if set(dilations) != {1} or set(strides) == {1}:
            return dilated(x, w)
        return lowering.by_platform(x, w, cpu=by_phases, default=dilated)

    taps = math.prod(-(-k // s) for k, s in zip(kernel, strides, strict=True))
    if 0 in (*batched.shape, *weight.shape):
        y = jnp.zeros((batched.shape[0], weight.shape[1] * groups, *out), input.dtype)
    elif input.dtype.kind in "iuc":
        y = by_phases(batched, weight) if set(dilations) == {1} else dilated(batched, weight)
    else:
        from ._convolution import Convolution, convolve_back

        pads = tuple([(p, p) for p in paddings])
        shape = (batched.shape[0], weight.shape[1] * groups, *out)
        how = Convolution(shape, weight.shape, strides, pads, dilations, groups, matmul_precision())
        way = either if taps <= _MANY_TAPS else dilated
        if wide(input.dtype) == input.dtype:
            y = convolve_back(batched, weight, how, way)
        else:

            def product(x: jax.Array, w: jax.Array, out: Any) -> jax.Array:
                """The product in half precision, which a CPU computes in float32 anyway."""
                return lowering.by_platform(
                    x,
                    w,
                    cpu=lambda x, w: way(x.astype(FLOAT32), w.astype(FLOAT32)).astype(out),
                    default=lambda x, w: dilated(x, w, out),
                )

            if bias is not None:
                y = plus_bias(product, (-1, *(1,) * n), batched, weight, bias)
                return y if input.ndim == n + 2 else y[0]
            y = product(batched, weight, input.dtype)
    if bias is not None:
        y = y + bias.reshape(-1, *(1,) * n)
    return y if input.ndim == n + 2 else y[0]


def _conv_transpose_op(n: int) -> Any:
    name = f"conv_transpose{n}d"

    def conv_transpose(
        input: Array,
        weight: Array,
        bias: Array | None = None,
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        dilation: int | tuple[int, ...] = 1,
    ):
        return _transposed(name, n, input, weight, bias, stride, padding, output_padding, groups, dilation)

    conv_transpose.__name__ = name
    conv_transpose.__doc__ = (
        f"Transposed convolution over {n} spatial dimension{'s' * (n > 1)}: ``input`` (N, C, ...) and ``weight`` "
        "(C, O / groups, ...) give (N, O, ...)."
    )
    return op(
        name, where="torch F", node="ConvolutionBackward0", order=convolution_order if n == 2 else None
    )(conv_transpose)


conv_transpose1d, conv_transpose2d, conv_transpose3d = (_conv_transpose_op(n) for n in (1, 2, 3))
