"""Shapes of images (..., C, H, W): kernels for numpy and JAX, and samples at the places of a grid."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.creation.ranges import evenly_spaced
from functorch_port._tensor.tensor import Tensor
from functorch_port.ops.grid import BILINEAR, NEAREST, ZEROS, grid_sampler_2d
from functorch_port.ops.resize import integer_weights, taps
from functorch_port.ops.resize import resize as resize_by_jax

from ._kernel import Array, kernel, namespace, on_host
from ._tensor_color import is_float

__all__ = [
    "affine", "crop", "elastic", "erase", "hflip", "pad", "paste_rolled", "permute_channels", "perspective",
    "resize", "resized_crop", "rotate", "vflip",
]  # fmt: skip


@kernel
def hflip(x: Array):
    """Mirror left and right."""
    return x[..., ::-1]


@kernel
def vflip(x: Array):
    """Mirror above and below."""
    return x[..., ::-1, :]


@kernel
def permute_channels(x: Array, permutation: tuple[int, ...]):
    """The channels in another order."""
    return x[..., np.array(permutation, np.intp), :, :]


@kernel
def crop(x: Array, top: int, left: int, height: int, width: int):
    """Cut a rectangle out; what lies outside the image is black."""
    rows, columns = x.shape[-2:]
    bottom, right = top + height, left + width
    inner = x[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if left >= 0 and top >= 0 and right <= columns and bottom <= rows:
        return inner
    above, below = _outside(top, bottom, rows)
    before, after = _outside(left, right, columns)
    return _padded(inner, (before, above, after, below), 0)


def _outside(start: int, stop: int, size: int) -> tuple[int, int]:
    """How many of ``start`` to ``stop`` lie before and behind what is there."""
    return max(min(stop, 0) - start, 0), max(stop - max(start, size), 0)


def _padded(x: Any, padding: Sequence[int], fill: Any) -> Any:
    """A frame of one color, or of one number for each channel."""
    left, top, right, bottom = padding
    widths = [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)]
    if not isinstance(fill, list | tuple):
        return namespace(x).pad(x, widths, constant_values=_as(x.dtype, fill))
    parts = [namespace(x).pad(x[..., i : i + 1, :, :], widths, constant_values=f) for i, f in enumerate(fill)]
    return namespace(x).concatenate(parts, -3)


def _as(dtype: Any, fill: Any) -> Any:
    return fill if is_float(dtype) else int(fill)


@kernel
def pad(x: Array, padding: tuple[int, int, int, int], fill: Any, mode: str):
    """Put a frame around an image; where it is negative, cut that off."""
    left, top, right, bottom = padding
    if min(padding) < 0:
        rows, columns = x.shape[-2:]
        x = x[..., max(-top, 0) : rows + min(bottom, 0), max(-left, 0) : columns + min(right, 0)]
    frame = [max(side, 0) for side in padding]
    if mode == "constant":
        return _padded(x, frame, fill)
    widths = [(0, 0)] * (x.ndim - 2) + [(frame[1], frame[3]), (frame[0], frame[2])]
    return namespace(x).pad(x, widths, mode=mode)


@kernel
def resize(x: Array, size: tuple[int, int], mode: str, antialias: bool, by_bytes: bool):
    """Resize an image.

    Bytes are averaged in integers, as `interpolate` does it (``by_bytes``), or in floats that are rounded in the end.
    """
    dtype, shape = x.dtype, x.shape
    if not mode.startswith("nearest") and not is_float(dtype) and not (by_bytes and dtype == np.uint8):
        x = x.astype(np.float32)
    if isinstance(x, np.ndarray):
        x = _resized_on_host(x, size, mode, antialias)
    else:
        batch = x.reshape(math.prod(shape[:-3]), *shape[-3:])
        if mode.startswith("nearest") and not is_float(dtype):
            x = _by_index(batch, size, mode)
        else:
            x = resize_by_jax(mode, antialias, batch, tuple(size), False, None)
        x = x.reshape(*shape[:-2], *size)
    if x.dtype == dtype:
        return x
    xp = namespace(x)
    if dtype == np.uint8:  # the bicubic weights may lead out of the range
        x = xp.clip(x, 0, 255)
    # torchvision rounds neither for bool nor for unsigned integers that are not bytes
    return (x if dtype.kind in "bu" and dtype != np.uint8 else xp.rint(x)).astype(dtype)


def _by_index(x: Any, size: Sequence[int], mode: str) -> Any:
    rows, columns = (
        taps(mode, False, old, new, np.float32).index[:, 0] for old, new in zip(x.shape[-2:], size)
    )
    return x[..., rows, :][..., columns]


def _resized_on_host(x: np.ndarray, size: Sequence[int], mode: str, antialias: bool) -> np.ndarray:
    """The columns first, as PyTorch does it: the dimension that is resized lies first in memory."""
    if mode.startswith("nearest"):
        return _by_index(x, size, mode)
    *batch, height, width = x.shape
    planes = x.reshape(math.prod(x.shape[:-2]), height, width)
    if width != size[1]:
        lines = _averaged(np.ascontiguousarray(planes.transpose(2, 0, 1)), size[1], mode, antialias)
        planes = lines.transpose(1, 2, 0)
    if height != size[0]:
        lines = _averaged(np.ascontiguousarray(planes.transpose(1, 0, 2)), size[0], mode, antialias)
        planes = lines.transpose(1, 0, 2)
    return planes.reshape(*batch, *size)


@functools.lru_cache(64)
def _weights(
    mode: str, antialias: bool, old: int, new: int, dtype: Any
) -> tuple[np.ndarray, np.ndarray, int]:
    """For each tap the inputs and the weights of all outputs; of bytes in whole numbers times ``2**-bits``."""
    real = np.float64 if dtype in (np.uint8, np.float64) else np.float32
    found = taps(mode, antialias, old, new, real)
    weight = np.ones(found.index.shape, real) if found.weight is None else found.weight
    bits = 0
    if dtype == np.uint8:
        whole, bits = integer_weights(weight)
        weight = whole.astype(np.int32)
    return found.index.T, weight.T.astype(np.int32 if bits else dtype), bits


def _averaged(x: np.ndarray, new: int, mode: str, antialias: bool) -> np.ndarray:
    """Averages of lines (old, ...), ``new`` of them."""
    index, weight, bits = _weights(mode, antialias, len(x), new, x.dtype)
    wide = x.astype(weight.dtype)
    column = (-1,) + (1,) * (x.ndim - 1)
    total = wide[index[0]] * weight[0].reshape(column)
    part = np.empty_like(total)
    for at, w in zip(index[1:], weight[1:]):
        np.take(wide, at, 0, out=part, mode="clip")
        part *= w.reshape(column)
        total += part
    if not bits:
        return total
    total += 1 << (bits - 1)
    total >>= bits
    return np.clip(total, 0, 255, out=total).astype(np.uint8)


@kernel
def resized_crop(
    x: Array,
    box: tuple[int, int, int, int],
    size: tuple[int, int],
    mode: str,
    antialias: bool,
    by_bytes: bool,
):
    """Cut a rectangle out and resize it."""
    part = crop.array(x, *box)
    return part if part.shape[-2:] == tuple(size) else resize.array(part, size, mode, antialias, by_bytes)


@kernel
def erase(x: Array, value: Array, top: int, left: int, height: int, width: int):
    """Overwrite a rectangle."""
    return _written(x, (..., slice(top, top + height), slice(left, left + width)), value)


@kernel
def paste_rolled(x: Array, top: int, left: int, height: int, width: int):
    """Overwrite a rectangle of each image of a batch with that of the image before it."""
    at = (..., slice(top, top + height), slice(left, left + width))
    return _written(x, at, namespace(x).roll(x[at], 1, 0))


def _written(x: Any, at: Any, value: Any) -> Any:
    """A copy with a value at a place."""
    if not isinstance(x, np.ndarray):
        return x.at[at].set(value)
    out = x.copy()
    out[at] = value
    return out


@kernel
def sample(x: Array, grid: Array, mode: str, fill: tuple[float, ...] | None):
    """The image at the places of a grid (1, H, W, 2), as `grid_sample` has them; what lies outside gets ``fill``."""
    dtype, shape, xp = x.dtype, x.shape, namespace(x)
    batch = x.reshape(math.prod(shape[:-3]), *shape[-3:])
    if not is_float(dtype):
        batch = batch.astype(np.float32)
    if fill is not None:
        batch = xp.concatenate([batch, xp.ones_like(batch[:, :1])], 1)
    places = grid.astype(batch.dtype)
    if isinstance(batch, np.ndarray):
        out = _sampled(batch, places[0], mode)
    else:
        places = xp.broadcast_to(places, (len(batch), *places.shape[1:]))
        out = grid_sampler_2d(batch, places, NEAREST if mode == "nearest" else BILINEAR, ZEROS, False)
    if fill is not None:
        out, mask = out[:, :-1], out[:, -1:]
        color = np.asarray(fill, batch.dtype).reshape(1, -1, 1, 1)
        out = xp.where(mask < 0.5, color, out) if mode == "nearest" else out * mask + (1 - mask) * color
    if not is_float(dtype):
        out = xp.rint(out).astype(dtype)
    return out.reshape(*shape[:-2], *out.shape[-2:])


def _sampled(x: np.ndarray, grid: np.ndarray, mode: str) -> np.ndarray:
    """`grid_sample` of images (N, C, H, W) at the same places (H, W, 2), in numpy.

    The images get a frame of zeros, on which all places outside lie.
    """
    height, width = x.shape[-2:]
    framed = np.zeros((height + 4, width + 4, x.shape[0] * x.shape[1]), x.dtype)
    framed[2:-2, 2:-2] = x.reshape(framed.shape[2], height, width).transpose(1, 2, 0)
    pixels = framed.reshape(framed.shape[0] * framed.shape[1], framed.shape[2])
    column, row = (
        np.clip(np.nan_to_num(((grid[..., k].ravel() + 1) * size - 1) / 2), -2, size)
        for k, size in ((0, width), (1, height))
    )
    if mode == "nearest":
        column, row = np.rint(column), np.rint(row)
    left, top = np.floor(column), np.floor(row)
    at = (top.astype(np.intp) + 2) * (width + 4) + left.astype(np.intp) + 2
    out = np.take(pixels, at, 0)
    if mode != "nearest":
        right, below = column - left, row - top
        out *= ((1 - below) * (1 - right))[:, None]
        for step, weight in (
            (1, (1 - below) * right),
            (width + 4, below * (1 - right)),
            (width + 5, below * right),
        ):
            values = np.take(pixels, at + step, 0)
            values *= weight[:, None]
            out += values
    return out.T.reshape(*x.shape[:2], *grid.shape[:2])


def _sample(img: Tensor, grid: np.ndarray | Tensor, mode: str, fill: Any) -> Tensor:
    """`sample` with the color of new pixels as it was given."""
    return sample(img, grid, mode, _fills(img, fill))


def _fills(img: Tensor, fill: Any) -> tuple[float, ...] | None:
    """The color of new pixels, a number for each channel (or one for all).

    Raises:
        ValueError: there are not as many as channels.
    """
    if fill is None:
        return None
    values = tuple(map(float, fill)) if isinstance(fill, list | tuple) else (float(fill),)
    channels = img.shape[-3]
    if len(values) not in (1, channels):
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of channels of the image "
            f"({len(values)} != {channels})"
        )
    return values


def _affine_grid(matrix: Sequence[float], size: tuple[int, int], out: tuple[int, int]) -> np.ndarray:
    """The places in an image of (height, width) that a matrix of the inverse map gives for the pixels of another."""
    (height, width), (rows, columns) = size, out
    x = np.linspace(-columns * 0.5 + 0.5, columns * 0.5 - 0.5, columns, dtype=np.float32)
    y = np.linspace(-rows * 0.5 + 0.5, rows * 0.5 - 0.5, rows, dtype=np.float32)
    theta = np.asarray(matrix, np.float32).reshape(2, 3).T / np.array([0.5 * width, 0.5 * height], np.float32)
    return (x[None, :, None] * theta[0] + y[:, None, None] * theta[1] + theta[2])[None]


def affine(img: Tensor, matrix: Sequence[float], mode: str, fill: Any) -> Tensor:
    """Apply an affine map, given by the matrix of its inverse around the centre of the image."""
    size = (img.shape[-2], img.shape[-1])
    return _sample(img, _affine_grid(matrix, size, size), mode, fill)


def rotate(img: Tensor, matrix: Sequence[float], mode: str, expand: bool, fill: Any) -> Tensor:
    """As `affine`; with ``expand`` the result is so large that nothing is cut off."""
    size = (img.shape[-2], img.shape[-1])
    out = expanded(matrix, *size) if expand else size
    return _sample(img, _affine_grid(matrix, size, out), mode, fill)


def expanded(matrix: Sequence[float], height: int, width: int) -> tuple[int, int]:
    """The size of what an affine map makes of an image."""
    x, y = 0.5 * width, 0.5 * height
    corners = np.array([[-x, -x, x, x], [-y, y, y, -y]], np.float32)
    a, b, c, d, e, f = np.asarray(matrix, np.float32)
    ends = np.stack([corners[0] * a + corners[1] * b + c, corners[0] * d + corners[1] * e + f], -1)
    low, high = (end + np.array([x, y], np.float32) for end in (ends.min(0), ends.max(0)))
    tolerance = np.float32(1e-4)  # what differs by less is rounding
    high = np.ceil(np.trunc(high * np.float32(1e4)) * tolerance)
    low = np.floor(np.trunc(low * np.float32(1e4)) * tolerance)
    columns, rows = (int(n) for n in high - low)
    return rows, columns


def perspective(img: Tensor, coefficients: Sequence[float], mode: str, fill: Any) -> Tensor:
    """Apply a projective map, given by the eight coefficients of its inverse."""
    rows, columns = img.shape[-2], img.shape[-1]
    a, b, c, d, e, f, g, h = np.asarray(coefficients, np.float32)
    x = np.linspace(0.5, columns - 0.5, columns, dtype=np.float32)[None, :]
    y = np.linspace(0.5, rows - 0.5, rows, dtype=np.float32)[:, None]
    below = g * x + h * y + 1
    half_x, half_y = np.float32(0.5 * columns), np.float32(0.5 * rows)
    across = (a / half_x * x + b / half_x * y + c / half_x) / below - 1
    down = (d / half_y * x + e / half_y * y + f / half_y) / below - 1
    return _sample(img, np.stack([across, down], -1)[None], mode, fill)


def elastic(img: Tensor, displacement: Tensor, mode: str, fill: Any) -> Tensor:
    """Move each pixel by a displacement (1, H, W, 2) in the coordinates of `grid_sample`."""
    y, x = (evenly_spaced(np.float32((1 - n) / n), np.float32((n - 1) / n), n) for n in img.shape[-2:])
    identity = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)[None]
    known = on_host(displacement)
    grid = torch.from_numpy(identity) + displacement if known is None else identity + known
    return _sample(img, grid, mode, fill)


def check_displacement(displacement: Any, rows: int, columns: int) -> None:
    """Refuse what `elastic` cannot take for an image of this size."""
    wanted = (1, rows, columns, 2)
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    if tuple(displacement.shape) != wanted:
        raise ValueError(f"Argument displacement shape should be {wanted}, but given {displacement.shape}")


def _turned_and_sheared(angle: float, shear: Sequence[float]) -> tuple[float, float, float, float]:
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -math.cos(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -math.sin(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(turn)
    return a, b, c, d


def affine_matrix(
    center: Sequence[float],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
) -> list[float]:
    """The six numbers of an affine map. It shears, then rotates and scales around ``center``, then moves.

    Args:
        center: x and y of what stays in its place.
        angle: of the rotation, in degrees.
        translate: along x and y.
        scale: the factor.
        shear: along x and y, in degrees.
    """
    a, b, c, d = (number * scale for number in _turned_and_sheared(angle, shear))
    (cx, cy), (tx, ty) = center, translate
    return [a, b, a * -cx + b * -cy + (cx + tx), c, d, c * -cx + d * -cy + (cy + ty)]


def inverse_matrix(
    center: Sequence[float],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
) -> list[float]:
    """The six numbers of the inverse of `affine_matrix`."""
    a, b, c, d = _turned_and_sheared(angle, shear)
    (cx, cy), (tx, ty) = center, translate
    m = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    m[2] += m[0] * (-cx - tx) + m[1] * (-cy - ty) + cx
    m[5] += m[3] * (-cx - tx) + m[4] * (-cy - ty) + cy
    return m


def perspective_coefficients(
    startpoints: Sequence[Sequence[float]], endpoints: Sequence[Sequence[float]]
) -> list[float]:
    """The eight numbers of the projective map that takes four points back from ``endpoints`` to ``startpoints``.

    Raises:
        ValueError: there are not four points of each.
    """
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and {len(endpoints)} endpoints."
        )
    rows = []
    for (x, y), (u, v) in zip(endpoints, startpoints):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    right = np.asarray(startpoints, np.float64).reshape(8)
    found = np.linalg.lstsq(np.asarray(rows, np.float64), right)[0]
    return [float(number) for number in found.astype(np.float32)]
