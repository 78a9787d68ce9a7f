"""Grid sampling of images and volumes, and affine grids."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._base.config import matmul_precision
from functorch_port._run.bind import function
from functorch_port._run.registry import Array, composite, op
from functorch_port.ops._common import not_implemented, type_name, wide

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


# from [-1, 1] to positions in the image


def _position(x: jax.Array, size: int, align_corners: bool) -> jax.Array:
    """Convert [-1, 1] to positions; -1 and 1 are the outermost elements' centres, or their outer edges."""
    return (x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) / 2


def _clipped(x: jax.Array, size: int) -> jax.Array:
    """Clamp to the nearest position inside; the gradient is 0 at the edge and beyond."""
    inside = (x > 0) & (x < size - 1)
    return jnp.where(inside, x, jnp.where(x >= size - 1, jnp.full_like(x, size - 1), jnp.zeros_like(x)))


def _reflected(x: jax.Array, size: int, align_corners: bool) -> jax.Array:
    """Reflect at the outermost centres or edges until inside."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return jnp.zeros_like(x)
    shifted = x - low
    distance = jnp.where(shifted < 0, -shifted, shifted)
    flips = lax.stop_gradient(jnp.floor(distance / span))
    extra = distance - flips * span
    return jnp.where(flips % 2 == 0, extra + low, span - extra + low)


def _placed(x: jax.Array, size: int, padding: int, align_corners: bool) -> jax.Array:
    if padding == BORDER:
        return _clipped(x, size)
    if padding == REFLECTION:
        return _clipped(_reflected(x, size, align_corners), size)
    return x


# lookups


def _lookup(rows: jax.Array, at: list[jax.Array], sizes: tuple[int, ...], dtype: Any) -> jax.Array:
    """The elements of images (N, pixels, C) at integer positions (N, points); 0 outside."""
    inside = jnp.ones(at[0].shape, bool)
    flat = jnp.zeros(at[0].shape, np.int32)
    for position, size in zip(at, sizes, strict=True):
        inside &= (position >= 0) & (position <= size - 1)
        flat = flat * size + jnp.clip(jnp.nan_to_num(position), 0, size - 1).astype(np.int32)
    values = jax.vmap(lambda table, index: table.at[index].get(mode="promise_in_bounds"))(rows, flat)
    return jnp.where(inside[..., None], values, jnp.zeros((), dtype))


def _bilinear(rows: jax.Array, at: list[jax.Array], sizes: tuple[int, ...]) -> jax.Array:
    """Interpolate between the corners of the cell of each position."""
    low = [lax.stop_gradient(jnp.floor(p)) for p in at]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        weight: Any = None
        for p, floor, c in zip(at, low, corner, strict=True):
            share = p - floor if c else 1 - (p - floor)
            weight = share if weight is None else weight * share
        values = _lookup(rows, [f + c for f, c in zip(low, corner, strict=True)], sizes, rows.dtype)
        part = values * weight[..., None]
        total = part if total is None else total + part
    return total


def _cubic_weights(t: jax.Array) -> list[jax.Array]:
    """The weights of the four neighbours at distances 1 + t, t, 1 - t and 2 - t."""
    a = -0.75

    def near(x: jax.Array) -> jax.Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: jax.Array) -> jax.Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _bicubic(
    rows: jax.Array, at: list[jax.Array], sizes: tuple[int, ...], padding: int, align_corners: bool
) -> jax.Array:
    low = [lax.stop_gradient(jnp.floor(p)) for p in at]
    weights = [_cubic_weights(p - f) for p, f in zip(at, low, strict=True)]
    total: Any = None
    for i in range(4):
        line: Any = None
        for j in range(4):
            places = [low[0] + (i - 1), low[1] + (j - 1)]
            places = [_placed(p, s, padding, align_corners) for p, s in zip(places, sizes, strict=True)]
            if padding == REFLECTION:
                places = [jnp.trunc(p) for p in places]
            part = _lookup(rows, places, sizes, rows.dtype) * weights[1][j][..., None]
            line = part if line is None else line + part
        line = line * weights[0][i][..., None]
        total = line if total is None else total + line
    return total


def _check_grid(input: Any, grid: Any, mode: int) -> None:
    shapes = f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, {shapes}")
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    for dim, size in enumerate(input.shape[2:]):
        if size == 0:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {dim + 2} being empty"
            )
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, {shapes}"
        )
    if input.ndim == 5 and mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    not_implemented(f"grid_sampler_{input.ndim - 2}d_cpu_kernel_impl", input, kinds="biuc")
    if input.dtype != grid.dtype:
        raise RuntimeError(f"expected scalar type {type_name(input)} but found {type_name(grid)}")


def _grid_sample(input: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> jax.Array:
    _check_grid(input, grid, mode)
    dtype, (batch, channels, *sizes) = input.dtype, input.shape
    shape = (batch, channels, *grid.shape[1:-1])
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    x, points = input.astype(wide(dtype)), grid.astype(wide(dtype)).reshape(batch, -1, len(sizes))
    rows = x.reshape(batch, channels, -1).swapaxes(1, 2)  # (N, pixels, C): a position is one row
    at = [
        _position(points[..., -1 - d], size, align_corners) for d, size in enumerate(sizes)
    ]  # the grid lists the last dimension first
    dims = tuple(sizes)
    if mode != BICUBIC:
        at = [_placed(p, size, padding, align_corners) for p, size in zip(at, dims, strict=True)]
    if mode == BILINEAR:
        out = _bilinear(rows, at, dims)
    elif mode == NEAREST:
        out = _lookup(rows, [lax.stop_gradient(jnp.round(p)) for p in at], dims, rows.dtype)
    else:
        out = _bicubic(rows, at, dims, padding, align_corners)
    return out.swapaxes(1, 2).reshape(shape).astype(dtype)


@op("grid_sampler_2d", where="torch", node="GridSampler2DBackward0")
def grid_sampler_2d(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
):
    """Sample images (N, C, H, W) at ``grid`` (N, H', W', 2), in coordinates from -1 to 1; see `grid_sampler`."""
    return _grid_sample(input, grid, interpolation_mode, padding_mode, align_corners)


@op("grid_sampler_3d", where="torch", node="GridSampler3DBackward0")
def grid_sampler_3d(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
):
    """Sample volumes (N, C, D, H, W) at ``grid`` (N, D', H', W', 3), from -1 to 1; see `grid_sampler`."""
    return _grid_sample(input, grid, interpolation_mode, padding_mode, align_corners)


@composite("grid_sampler", where="torch")
def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler_2d` or `grid_sampler_3d`, by the number of dimensions of ``input``.

    Args:
        interpolation_mode: 0 for bilinear (or trilinear), 1 for nearest, 2 for bicubic.
        padding_mode: what is outside: 0 for zeros, 1 for the border, 2 for the reflected image.
    """
    chosen = function(f"grid_sampler_{3 if input.dim() == 5 else 2}d")
    return chosen(input, grid, interpolation_mode, padding_mode, align_corners)


def _ends(size: int, align_corners: bool, dtype: Any) -> np.ndarray:
    """The coordinates of ``size`` elements in [-1, 1]."""
    if size <= 1:
        return np.zeros(size, dtype)
    places = np.linspace(-1, 1, size)
    return (places if align_corners else places * (size - 1) / size).astype(dtype)


@op("affine_grid_generator", where="torch", node="AffineGridGeneratorBackward0")
def affine_grid_generator(theta: Array, size: tuple[int, ...], align_corners: bool):
    """The grid to which ``theta`` (N, n, n + 1) maps the elements of a tensor of size ``size`` (N, C, ...)."""
    sizes = size[2:]
    n = len(sizes)
    if n not in (2, 3):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    if theta.shape[0] != size[0]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, {n + 1}] but got: "
            f"[{theta.shape[0]}, {n + 1}]."
        )
    work = wide(theta.dtype)
    axes = np.meshgrid(*(_ends(s, align_corners, work) for s in sizes), indexing="ij")
    base = np.stack([*axes[::-1], np.ones(sizes, work)], -1).reshape(math.prod(sizes), n + 1)
    places = jnp.einsum("pk,nik->npi", base, theta.astype(work), precision=matmul_precision())
    return places.reshape(size[0], *sizes, n).astype(theta.dtype)
