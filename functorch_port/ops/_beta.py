"""The derivative of a beta quantile by a parameter (implicit reparameterization)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["beta_slope"]

_MOST = 100_000  # steps of the continued fraction: enough for parameters of about 1e10


def beta_slope(a: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """The derivative by ``a`` of ``x``, a quantile of the beta distribution with parameters ``a`` and ``b``.

    It is ``-(dCDF/da) / density``. With ``F = CDF / (x * (1 - x) * density)``, which is a continued fraction, that is
    ``x * (1 - x) * (mean - log(x)) * F - x * (1 - x) * dF/da``, where ``mean`` is the mean of ``log(x)``. Beyond the
    middle it is computed for ``1 - x``.
    """
    y = 1 - x
    above = lax.stop_gradient(_digamma_growth(a, b) + jnp.log(x))  # of log(x) over its mean
    left = x * (b + 1) <= y * (a + 1)
    p, q, near, far = (jnp.where(left, *pair) for pair in ((a, b), (b, a), (x, y), (y, x)))
    one, zero = jnp.ones_like(x), jnp.zeros_like(x)
    directions = (jnp.where(left, -one, zero), jnp.where(left, zero, one))
    fraction, slope = _fraction(p, q, near, far, directions, jnp.abs(above))
    return x * y * (jnp.where(left, -above, above) * fraction + slope)


def _fraction(p: Any, q: Any, x: Any, y: Any, directions: Any, weight: Any) -> tuple[Any, Any]:
    """The incomplete beta function divided by ``x**p * y**q``, and its derivative in a direction of (p, q).

    It is the even part of the classical continued fraction, by Lentz's method: it has no small denominators and takes
    about the square root of the smaller parameter in steps.
    """
    tolerance = 400 * jnp.finfo(x.dtype).eps

    def first(p: Any, q: Any) -> Any:
        value = (p + 1) / (p * (p * y - q * x + 1))
        return jnp.full_like(value, 1 / jnp.finfo(value.dtype).tiny), value, value, jnp.ones_like(value)

    def step(n: Any, p: Any, q: Any, c: Any, d: Any, value: Any) -> Any:
        odd = p + 2 * n - 1
        above = (p + n - 1) / odd * ((p + q + n - 1) / odd) * n * (q - n) * x * x
        below = n + n * (q - n) * x / odd + (p + n) / (odd + 2) * (p * y - q * x + 1 + n * (1 + y))
        d = 1 / (below + above * d)
        c = below + above / c
        return c, d, value * (c * d), c * d

    def more(state: Any) -> Any:
        n, (_, _, value, ratio), (_, _, slope, change) = state
        moving = (jnp.abs(ratio - 1) > tolerance) | (
            jnp.abs(change) > tolerance * (jnp.abs(slope / value) + weight)
        )
        return (n < 3) | ((n < _MOST) & moving.any())

    def advance(state: Any) -> Any:
        n, now, slopes = state
        now, slopes = jax.jvp(
            lambda p, q, *old: step(n, p, q, *old), (p, q, *now[:3]), (*directions, *slopes[:3])
        )
        return n + 1, now, slopes

    start = (jnp.ones((), x.dtype), *jax.jvp(first, (p, q), directions))
    _, (_, _, value, _), (_, _, slope, _) = lax.while_loop(more, advance, start)
    return value, slope


#: digamma(z) is about log(z) - 1 / (2 z) - the sum of these times z**-2, z**-4, ...
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)


def _digamma_growth(a: Any, b: Any) -> Any:
    """``digamma(a + b) - digamma(a)`` without cancellation, where ``b`` is small, too."""
    c = a + b
    total = sum((b / ((a + k) * (c + k)) for k in range(10)), jnp.zeros_like(a))
    small, large = 1 / (c + 10), 1 / (a + 10)
    apart = b * small * large  # large - small
    total = total + jnp.log1p(b * large) + apart / 2
    square, power = apart * (large + small), jnp.ones_like(a)
    for n, coefficient in enumerate(_SERIES):
        total = total + coefficient * square * power
        power = power * large**2 + small ** (2 * (n + 1))
    return total
