"""Functions of one variable as Chebyshev sums, fitted on the host on first use."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["evaluate", "fit"]


def fit(fn: Callable[[np.ndarray], np.ndarray], low: float, high: float, nodes: int = 64) -> np.ndarray:
    """Fit the coefficients of ``fn`` on an interval, as many as matter in double precision.

    Args:
        fn: the function, of an array of points in the interval.
        low, high: the ends of the interval.
        nodes: the number of sample points; more than the coefficients that matter.
    """
    odd = 2 * np.arange(nodes) + 1
    # the angles as whole numbers, so that their cosines are exact
    cosines = np.cos(np.pi / (2 * nodes) * (np.outer(np.arange(nodes), odd) % (4 * nodes)))
    values = fn((high + low) / 2 + (high - low) / 2 * cosines[1])
    found = 2 / nodes * cosines @ values
    found[0] /= 2
    return _until(found, 5e-16)


def _until(coefficients: np.ndarray, size: float) -> np.ndarray:
    """The coefficients without the small ones at the end."""
    large = np.nonzero(np.abs(coefficients) > size * np.abs(coefficients).max())[0]
    return coefficients[: large[-1] + 1]


def evaluate(coefficients: np.ndarray, x: jax.Array, low: float, high: float) -> jax.Array:
    """Evaluate the sum by Clenshaw's recurrence, with the terms that matter in the precision of ``x``."""
    kept = _until(coefficients, float(jnp.finfo(x.dtype).eps) / 8)
    y = (2 * x - (low + high)) / (high - low)
    newer = older = jnp.zeros_like(y)
    for c in kept[:0:-1]:
        newer, older = 2 * y * newer - older + float(c), newer
    return y * newer - older + float(kept[0])
