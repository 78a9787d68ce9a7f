"""Orthogonal polynomials whose degree is a tensor; not differentiable, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._run.registry import Array, pointwise_op
from ._common import elementwise_float, only_single_and_double

#: what follows p(k) and p(k - 1): step(k, x, p(k), p(k - 1))
Step = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]


def _recurrence(x: jax.Array, n: jax.Array, second: jax.Array, step: Step) -> jax.Array:
    """The polynomial of degree ``n`` by recurrence from 1 and ``second``; 0 for a negative degree."""
    highest = jnp.max(n, initial=0)

    def following(k: jax.Array, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        now, before = pair
        after = step(k.astype(x.dtype), x, now, before)
        return jnp.where(k < n, after, now), jnp.where(k < n, now, before)

    one = jnp.ones_like(x)
    value, _ = lax.fori_loop(jnp.ones_like(highest), highest, following, (second, one))
    return jnp.where(n < 0, 0, jnp.where(n == 0, 1, value)).astype(x.dtype)


def _chebyshev_step(k: jax.Array, x: jax.Array, now: jax.Array, before: jax.Array) -> jax.Array:
    return 2 * x * now - before


def _chebyshev(second: Any, wave: Any, ends: Any, closed_from: int) -> Callable[..., jax.Array]:
    """A Chebyshev polynomial; in [-1, 1] a closed form from degree ``closed_from`` on, with ``ends(n)`` at +-1."""

    def polynomial(x: jax.Array, n: jax.Array) -> jax.Array:
        inside = (jnp.abs(x) <= 1) & (n >= closed_from)
        steps = _recurrence(x, jnp.where(inside, 1, n), second(x), _chebyshev_step)
        degree = n.astype(x.dtype)
        sign = jnp.where(n % 2 == 0, 1, -1).astype(x.dtype)
        at_one, at_minus_one = ends(degree, sign)
        within = jnp.where(jnp.abs(x) < 1, x, 0)
        out = jnp.where(inside, wave(within, degree), steps)
        out = jnp.where(x == 1, at_one, jnp.where(x == -1, at_minus_one, out))
        return jnp.where(n < 0, 0, out).astype(x.dtype)

    return polynomial


def _first_kind(x: jax.Array, n: jax.Array) -> jax.Array:
    return jnp.cos(n * jnp.arccos(x))


def _second_kind(x: jax.Array, n: jax.Array) -> jax.Array:
    angle = jnp.arccos(x)
    return jnp.sin((n + 1) * angle) / jnp.sin(angle)


def _third_kind(x: jax.Array, n: jax.Array) -> jax.Array:
    angle = jnp.arccos(x)
    return jnp.cos((n + 0.5) * angle) / jnp.cos(angle / 2)


def _fourth_kind(x: jax.Array, n: jax.Array) -> jax.Array:
    angle = jnp.arccos(x)
    return jnp.sin((n + 0.5) * angle) / jnp.sin(angle / 2)


#: by kind: the second polynomial, the closed form, the values at 1 and -1, from where the closed form is used
_CHEBYSHEV = {
    "t": (lambda x: x, _first_kind, lambda n, sign: (1, sign), 7),
    "u": (lambda x: 2 * x, _second_kind, lambda n, sign: (n + 1, sign * (n + 1)), 9),
    "v": (lambda x: 2 * x - 1, _third_kind, lambda n, sign: (1, sign * (2 * n + 1)), 9),
    "w": (lambda x: 2 * x + 1, _fourth_kind, lambda n, sign: (2 * n + 1, sign), 9),
}


def _hermite(scale: int) -> Callable[..., jax.Array]:
    def polynomial(x: jax.Array, n: jax.Array) -> jax.Array:
        limit = 128 if x.dtype.itemsize == 4 else 512  # PyTorch gives up there: the values overflow
        bounded = jnp.minimum(n, limit)
        out = _recurrence(x, bounded, scale * x, lambda k, x, now, before: scale * (x * now - k * before))
        return jnp.where(n > limit, jnp.nan, out).astype(x.dtype)

    return polynomial


def _laguerre(x: jax.Array, n: jax.Array) -> jax.Array:
    return _recurrence(x, n, 1 - x, lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1))


def _legendre(x: jax.Array, n: jax.Array) -> jax.Array:
    return _recurrence(x, n, x, lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1))


def _register(name: str, what: str, polynomial: Callable[..., jax.Array], shifted: bool = False) -> None:
    def function(x: Array, n: Array):
        only_single_and_double(f"{name}_cpu", x, n)

        def values(x: jax.Array, n: jax.Array) -> jax.Array:
            x, n = jnp.broadcast_arrays(x, n)
            return polynomial(2 * x - 1 if shifted else x, jnp.trunc(n).astype(jnp.int32))

        return elementwise_float(values, x, n)

    function.__doc__ = f"{what} of degree ``n``; not differentiable, as in PyTorch."
    function.__name__ = function.__qualname__ = name
    pointwise_op(name, where="special", differentiable=False)(function)


for (_letter, _family), _kind in zip(_CHEBYSHEV.items(), ("first", "second", "third", "fourth"), strict=True):
    for _shift in (False, True):
        _register(
            f"{'shifted_' * _shift}chebyshev_polynomial_{_letter}",
            f"The {'shifted ' * _shift}Chebyshev polynomial of the {_kind} kind",
            _chebyshev(*_family),
            _shift,
        )
_register("hermite_polynomial_h", "The physicists' Hermite polynomial", _hermite(2))
_register("hermite_polynomial_he", "The probabilists' Hermite polynomial", _hermite(1))
_register("laguerre_polynomial_l", "The Laguerre polynomial", _laguerre)
_register("legendre_polynomial_p", "The Legendre polynomial", _legendre)
