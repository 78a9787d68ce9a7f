"""Pixel and channel shuffles, and sliding blocks (`unfold`, `fold`)."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from functorch_port._base.layout import format_order
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import not_implemented

# shuffles


def _check_image(name: str, x: Any, factor_name: str, factor: int) -> None:
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {factor_name}, but got {factor}")


@op(where="torch F", order=format_order)
def pixel_shuffle(input: Array, upscale_factor: int):
    """Rearrange (..., C * r * r, H, W) to (..., C, H * r, W * r)."""
    r = upscale_factor
    _check_image("pixel_shuffle", input, "upscale_factor", r)
    *lead, channels, height, width = input.shape
    if r * r >= 2**63:
        raise ValueError(f"upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={r}")
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    x = input.reshape(*lead, channels // (r * r), r, r, height, width)
    x = x.transpose(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*lead, channels // (r * r), height * r, width * r)


@op(where="torch F", order=format_order)
def pixel_unshuffle(input: Array, downscale_factor: int):
    """Rearrange (..., C, H * r, W * r) to (..., C * r * r, H, W)."""
    r = downscale_factor
    _check_image("pixel_unshuffle", input, "downscale_factor", r)
    *lead, channels, height, width = input.shape
    for side, size, dim in (("height", height, -2), ("width", width, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but input.size({dim})={size} "
                f"is not divisible by {r}"
            )
    n = len(lead)
    x = input.reshape(*lead, channels, height // r, r, width // r, r)
    x = x.transpose(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*lead, channels * r * r, height // r, width // r)


@op("channel_shuffle", "native_channel_shuffle", where="torch F", order=format_order)
def channel_shuffle(input: Array, groups: int):
    """Move channel ``g * n + i`` to ``i * groups + g``, where n is the number of channels per group."""
    if input.ndim <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    batch, channels, *rest = input.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    x = input.reshape(batch, groups, channels // groups, *rest)
    return x.swapaxes(1, 2).reshape(input.shape)


# sliding blocks


def _pair(what: str, value: Any) -> tuple[int, int]:
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) not in (1, 2):
        raise RuntimeError(f"It is expected {what} equals to 2, but got size {len(values)}")
    return values * 2 if len(values) == 1 else values  # type: ignore[return-value]


def _check_positive(what: str, word: str, pair: tuple[int, int]) -> None:
    lowest = 0 if word == "pad" else 1
    if min(pair) < lowest:
        bound = "should be non-negative" if word == "pad" else "should be greater than zero"
        raise RuntimeError(f"{what} {bound}, but got {word}_height: {pair[0]} {word}_width: {pair[1]}")


class _Blocks:
    """The checked kernel size, dilation, padding and stride of sliding blocks."""

    def __init__(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
        self.kernel, self.dilation = _pair("kernel_size", kernel_size), _pair("dilation", dilation)
        self.padding, self.stride = _pair("padding", padding), _pair("stride", stride)
        _check_positive("kernel size", "kernel", self.kernel)
        _check_positive("dilation", "dilation", self.dilation)
        _check_positive("padding", "pad", self.padding)
        _check_positive("stride", "stride", self.stride)

    def counts(self, sizes: Any) -> tuple[int, ...]:
        """The number of blocks along both dimensions of an image."""
        each = zip(sizes, self.kernel, self.dilation, self.padding, self.stride, strict=True)
        return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, d, p, s in each)

    def unfold(self, x: jax.Array) -> jax.Array:
        """(N, C, H, W) to (N, C * kernel, blocks), by one strided slice per row and per column of the kernel."""
        counts = self.counts(x.shape[2:])
        x = jnp.pad(x, [(0, 0), (0, 0), *((p, p) for p in self.padding)])
        for dim in (1, 0):  # what is still to be cut is in dimension 3
            step, span = self.stride[dim], (counts[dim] - 1) * self.stride[dim] + 1
            starts = [k * self.dilation[dim] for k in range(self.kernel[dim])]
            x = jnp.stack([lax.slice_in_dim(x, at, at + span, step, 3) for at in starts], 2)
        return x.reshape(x.shape[0], math.prod(x.shape[1:4]), math.prod(counts))


@op("_im2col", where="", node="Im2ColBackward0")
def unfold(input: Array, kernel_size: Any, dilation: Any, padding: Any, stride: Any):
    """Extract the sliding blocks of images as flattened columns."""
    blocks = _Blocks(kernel_size, dilation, padding, stride)
    shape = list(input.shape)
    if input.ndim not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {shape}"
        )
    counts = blocks.counts(shape[-2:])
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {_listed(shape[-2:])}, kernel_size={_listed(blocks.kernel)}, "
            f"dilation={_listed(blocks.dilation)}, padding={_listed(blocks.padding)}, calculated shape of the array "
            f"of sliding blocks as {_listed(counts)}, but its components must be at least one."
        )
    not_implemented("im2col_out_cpu", input, kinds="iu")
    x = blocks.unfold(input if input.ndim == 4 else input[None])
    return x if input.ndim == 4 else x[0]


def _listed(values: Any) -> str:
    return f"({', '.join(map(str, values))})"


@op("_col2im", where="", node="Col2ImBackward0")
def fold(input: Array, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any):
    """Sum sliding blocks into images: the transpose of `unfold`."""
    out = _pair("output_size", output_size)
    blocks = _Blocks(kernel_size, dilation, padding, stride)
    shape = list(input.shape)
    if input.ndim not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {shape}"
        )
    rows, columns = shape[-2:]
    if rows % math.prod(blocks.kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={rows} and kernel_size={_listed(blocks.kernel)}."
        )
    counts = blocks.counts(out)
    if math.prod(counts) != columns:
        raise RuntimeError(
            f"Given output_size={_listed(out)}, kernel_size={_listed(blocks.kernel)}, "
            f"dilation={_listed(blocks.dilation)}, padding={_listed(blocks.padding)}, "
            f"stride={_listed(blocks.stride)}, expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {counts[0]} * {counts[1]} = {math.prod(counts)}, but got input.size(2)={columns}."
        )
    if min(counts) < 1:
        raise RuntimeError(
            f"Given output_size={_listed(out)}, kernel_size={_listed(blocks.kernel)}, "
            f"dilation={_listed(blocks.dilation)}, padding={_listed(blocks.padding)}, stride={_listed(blocks.stride)}, "
            f"calculated shape of the array of sliding blocks as {_listed(counts)}, which is too small (non-positive)"
        )
    not_implemented("col2im_out_cpu", input, kinds="iu")
    x = input if input.ndim == 3 else input[None]
    image = jax.ShapeDtypeStruct((x.shape[0], rows // math.prod(blocks.kernel), *out), x.dtype)
    summed = jax.linear_transpose(blocks.unfold, image)(x)[0]
    return summed if input.ndim == 3 else summed[0]
