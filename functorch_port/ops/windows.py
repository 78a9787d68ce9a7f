"""Window functions for signals, and index matrices of triangles: factories whose values are formulas of a position."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special as jsp

from ..core import creation, dtypes, storage
from ..core.registry import composite
from ..core.tensor import Tensor


def _window(
    name: str,
    formula: Callable[[jax.Array, int], jax.Array],
    window_length: int,
    periodic: bool,
    dtype: dtypes.dtype | None,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """``formula(position, last position)`` at the points of a window; a periodic one is cut from one point more."""
    chosen = dtype or dtypes.get_default_dtype()
    if not chosen.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {chosen!r}")
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
    with storage.x64():
        position = jnp.arange(window_length, dtype=np.float64)
        last = window_length if periodic else window_length - 1
        values = jnp.ones(window_length) if window_length == 1 else formula(position, last)
        return creation.finish(values.astype(chosen.np), device, requires_grad)


def _cosines(*weights: float) -> Callable[[jax.Array, int], jax.Array]:
    """A sum of cosines with falling frequency and alternating sign."""
    return lambda n, last: sum(
        (-1) ** k * w * jnp.cos(2 * math.pi * k * n / last) for k, w in enumerate(weights)
    )


@composite("hann_window", where="torch")
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hann window.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.hann_window.html
    """
    return _window("hann_window", _cosines(0.5, 0.5), window_length, periodic, dtype, device, requires_grad)


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
) -> Tensor:
    """The Hamming window.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.hamming_window.html
    """
    return _window(
        "hamming_window", _cosines(alpha, beta), window_length, periodic, dtype, device, requires_grad
    )


@composite("blackman_window", where="torch")
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Blackman window.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.blackman_window.html
    """
    formula = _cosines(0.42, 0.5, 0.08)
    return _window("blackman_window", formula, window_length, periodic, dtype, device, requires_grad)


@composite("bartlett_window", where="torch")
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The triangular window of Bartlett.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.bartlett_window.html
    """
    return _window(
        "bartlett_window",
        lambda n, last: 1 - jnp.abs(2 * n / last - 1),
        window_length,
        periodic,
        dtype,
        device,
        requires_grad,
    )


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
) -> Tensor:
    """The Kaiser window of shape ``beta``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.kaiser_window.html
    """

    def formula(n: jax.Array, last: int) -> jax.Array:
        return jsp.i0(beta * jnp.sqrt(jnp.maximum(1 - (2 * n / last - 1) ** 2, 0))) / jsp.i0(
            jnp.float64(beta)
        )

    return _window("kaiser_window", formula, window_length, periodic, dtype, device, requires_grad)


def _triangle(made: Any, row: int, col: int, offset: int, dtype: dtypes.dtype | None, device: Any) -> Tensor:
    for name, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{name} must be non-negative, got{size}")
    with storage.x64():
        rows = np.stack(made(row, offset, col)).astype((dtype or dtypes.int64).np)
        return creation.finish(jnp.asarray(rows), device, False)


@composite("tril_indices", where="torch")
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtypes.dtype | None = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """The positions of a matrix's lower triangle: a row of row numbers, a row of column numbers.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.tril_indices.html
    """
    return _triangle(np.tril_indices, row, col, offset, dtype, device)


@composite("triu_indices", where="torch")
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtypes.dtype | None = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """The positions of a matrix's upper triangle: a row of row numbers, a row of column numbers.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.triu_indices.html
    """
    return _triangle(np.triu_indices, row, col, offset, dtype, device)
