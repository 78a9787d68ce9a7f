"""Factories of formulas of a position: window functions, and the indices of triangles."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._array import executor, tracing
from .._base import dtypes, memory
from .._base.layout import strided
from .._run.registry import composite
from .._tensor import creation
from .._tensor.tensor import Tensor

# shapes: at positions from 0 to `last`, computed on the host in double precision


def cosines(n: np.ndarray, last: int, weights: tuple[float, ...]) -> np.ndarray:
    """A sum of cosines with increasing frequency and alternating sign."""
    terms = [(-1) ** k * w * np.cos(2 * math.pi * k * n / last) for k, w in enumerate(weights)]
    return np.sum(terms, axis=0)


def triangle(n: np.ndarray, last: int) -> np.ndarray:
    """The Bartlett window."""
    return 1 - np.abs(2 * n / last - 1)


def kaiser_shape(n: np.ndarray, last: int, beta: float) -> np.ndarray:
    """The Kaiser window."""
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * n / last - 1) ** 2, 0))) / np.i0(beta)


def _window(
    name: str,
    formula: Callable[[np.ndarray, int], np.ndarray],
    window_length: int,
    periodic: bool,
    dtype: dtypes.dtype | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """``formula(positions, last position)``; a window of one point is 1."""
    if not isinstance(window_length, int):
        kind = type(window_length).__name__
        raise TypeError(f"{name}(): argument 'window_length' (position 1) must be int, not {kind}")
    if layout not in (None, strided):
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    chosen = dtype or dtypes.get_default_dtype()
    if chosen.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{chosen.scalar_name}'")
    if not chosen.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {chosen!r}")
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
    memory.room((window_length,), chosen.np)
    positions, last = np.arange(window_length, dtype=np.float64), window_length - (not periodic)
    values = formula(positions, last) if window_length > 1 else np.ones(window_length)
    with tracing.x64():
        return creation.finish(executor.current.place(values.astype(chosen.np)), device, requires_grad)


@composite("hann_window", where="torch")
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The Hann window; a periodic one omits the last of ``window_length + 1`` points.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.hann_window.html
    """
    formula = functools.partial(cosines, weights=(0.5, 0.5))
    return _window("hann_window", formula, window_length, periodic, dtype, layout, device, requires_grad)


@composite("hamming_window", where="torch")
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The Hamming window ``alpha - beta * cos(...)``, periodic as in `hann_window`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.hamming_window.html
    """
    formula = functools.partial(cosines, weights=(alpha, beta))
    return _window("hamming_window", formula, window_length, periodic, dtype, layout, device, requires_grad)


@composite("blackman_window", where="torch")
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The Blackman window, periodic as in `hann_window`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.blackman_window.html
    """
    formula = functools.partial(cosines, weights=(0.42, 0.5, 0.08))
    return _window("blackman_window", formula, window_length, periodic, dtype, layout, device, requires_grad)


@composite("bartlett_window", where="torch")
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The Bartlett (triangular) window, periodic as in `hann_window`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.bartlett_window.html
    """
    return _window("bartlett_window", triangle, window_length, periodic, dtype, layout, device, requires_grad)


@composite("kaiser_window", where="torch")
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The Kaiser window with shape ``beta``, periodic as in `hann_window`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.kaiser_window.html
    """

    formula = functools.partial(kaiser_shape, beta=beta)
    return _window("kaiser_window", formula, window_length, periodic, dtype, layout, device, requires_grad)


def _triangle(
    made: Any, row: int, col: int, offset: int, dtype: dtypes.dtype | None, device: Any, requires_grad: bool
) -> Tensor:
    for name, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{name} must be non-negative, got{size}")
    kind = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype, "tril_indices")
    if kind not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(f"\"{made.__name__}\" not implemented for '{kind.scalar_name}'")
    memory.room((row, col), np.dtype(bool))
    with tracing.x64():
        rows = np.stack(made(row, offset, col)).astype(kind.np)
        return creation.finish(executor.current.place(rows), device, requires_grad)


@composite("tril_indices", where="torch")
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtypes.dtype | None = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The indices of the lower triangle of a matrix: a row of row indices, and a row of column indices.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.tril_indices.html
    """
    return _triangle(np.tril_indices, row, col, offset, dtype, device, requires_grad)


@composite("triu_indices", where="torch")
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtypes.dtype | None = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The indices of the upper triangle of a matrix: a row of row indices, and a row of column indices.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.triu_indices.html
    """
    return _triangle(np.triu_indices, row, col, offset, dtype, device, requires_grad)
