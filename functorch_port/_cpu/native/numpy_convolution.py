"""Convolutions of any number of dimensions by numpy: copies of the images' windows, and products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from ...ops._convolution import Convolution
from .frames import empty

__all__ = ["convolve"]

#: numbers of the windows that are copied at a time: 8 MB of float32
_AT_ONCE = 1 << 21


def convolve(kind: str, how: Convolution, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As `convolution_p`; the sums are in the type of the arrays."""
    shapes = {"forward": how.output, "input": how.input, "weight": how.weight}
    if kind == "forward":
        out = empty(shapes[kind], a.dtype)
        _forward(how, a, b, out)
        return out
    out = np.zeros(shapes[kind], a.dtype)
    (_to_input if kind == "input" else _to_weight)(how, a, b, out)
    return out


def _parts(how: Convolution) -> Iterator[slice]:
    """Images whose windows are there together."""
    each = prod(how.input[1:2]) * prod(how.weight[2:]) * prod(how.output[2:])
    step = max(_AT_ONCE // max(each, 1), 1)
    return (slice(start, start + step) for start in range(0, how.input[0], step))


def _forward(how: Convolution, x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    weights = w.reshape(how.groups, how.weight[0] // how.groups, -1)
    for part in _parts(how):
        windows = _windows(how, x[part])  # (n, groups, inner, places)
        np.matmul(weights, windows, out=out[part].reshape(len(windows), *weights.shape[:2], -1))


def _to_weight(how: Convolution, x: np.ndarray, slope: np.ndarray, out: np.ndarray) -> None:
    total = out.reshape(how.groups, how.weight[0] // how.groups, -1)
    for part in _parts(how):
        windows = _windows(how, x[part])
        n, groups, inner, places = windows.shape
        # one product over all places of all images: (groups, outer, n * places) by (groups, n * places, inner)
        slopes = (
            slope[part].reshape(n, groups, -1, places).transpose(1, 2, 0, 3).reshape(groups, -1, n * places)
        )
        total += slopes @ windows.transpose(1, 0, 3, 2).reshape(groups, n * places, inner)


def _to_input(how: Convolution, slope: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    channels, *sizes = how.input[1:]
    kernel, places = how.weight[2:], how.output[2:]
    weights = np.ascontiguousarray(w.reshape(how.groups, how.weight[0] // how.groups, -1).swapaxes(1, 2))
    spread = [size + max(low, 0) + max(high, 0) for size, (low, high) in zip(sizes, how.pads, strict=True)]
    inside = tuple(
        [slice(max(low, 0), max(low, 0) + size) for size, (low, _) in zip(sizes, how.pads, strict=True)]
    )
    for part in _parts(how):
        slopes = slope[part].reshape(len(slope[part]), how.groups, weights.shape[2], -1)
        made = np.matmul(weights, slopes).reshape(len(slopes), channels, *kernel, *places)
        padded = np.zeros((len(slopes), channels, *spread), out.dtype)
        for at in product(*map(range, kernel)):
            padded[:, :, *_taken(how, at)] += made[:, :, *at]
        out[part] = padded[:, :, *inside]


def _taken(how: Convolution, at: tuple[int, ...]) -> Iterator[slice]:
    """What one element of the kernel meets of the padded images. Negative padding is left out there."""
    for k, d, s, (low, _), count in zip(
        at, how.dilations, how.strides, how.pads, how.output[2:], strict=True
    ):
        first = k * d + max(-low, 0)
        yield slice(first, first + s * (count - 1) + 1, s)


def _windows(how: Convolution, x: np.ndarray) -> np.ndarray:
    """What each place of the result is a sum of: (n, groups, inner, places)."""
    n, channels = x.shape[:2]
    kernel, places = how.weight[2:], how.output[2:]
    groups = n, how.groups, channels // how.groups * prod(kernel), prod(places)
    if any(max(pad) > 0 for pad in how.pads):
        x = np.pad(x, ((0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in how.pads)))
    x = x[:, :, *(slice(max(-low, 0), None) for low, _ in how.pads)]
    plain = all(k == s == 1 for k, s in zip(kernel, how.strides, strict=True)) and x.shape[2:] == places
    if plain:
        return x.reshape(groups)
    steps = x.strides[2:]
    of_kernel = [step * d for step, d in zip(steps, how.dilations, strict=True)]
    of_places = [step * s for step, s in zip(steps, how.strides, strict=True)]
    shape, strides = (n, channels, *kernel, *places), (*x.strides[:2], *of_kernel, *of_places)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False).reshape(groups)
