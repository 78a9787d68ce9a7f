"""Bessel functions, modified Bessel functions and the Airy function.

Near zero a function is a power series, summed on the host in long decimals; far out it is an exponential or a wave
times an amplitude, which is an integral. Both are stored as Chebyshev sums.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._run.registry import TensorOnly, pointwise_op
from ._chebyshev import evaluate, fit
from ._common import elementwise_float, not_implemented, only_single_and_double

_EULER = Decimal("0.57721566490153286060651209008240243104216")

#: the Airy function and its slope at 0
_AIRY_VALUE = Decimal("0.35502805388781723926006318600418317640")
_AIRY_SLOPE = Decimal("-0.25881940379280679840518356018920396347")

# what is fitted, on the host


def _amplitude(order: float, z: np.ndarray) -> np.ndarray:
    """``sqrt(2 z / pi) exp(z)`` times the modified Bessel function of the second kind, also for complex ``z``.

    It is the integral of ``exp(-u) u**(order - 1/2) (1 + u / 2 z)**(order - 1/2)``, computed over log u in equal steps,
    which converges exponentially.
    """
    log_u = np.arange(-90, 4.5, 0.125)
    u = np.exp(log_u)
    weights = 0.125 * np.exp(-u + log_u * (order + 0.5)) / math.gamma(order + 0.5)
    return (1 + u / (2 * z[:, None])) ** (order - 0.5) @ weights


def _series(order: int, sign: int, logarithmic: bool, x: np.ndarray) -> np.ndarray:
    """The sum over k of ``(sign x**2 / 4)**k / (k! (k + order)!)``, to 50 decimals, because the terms cancel.

    If ``logarithmic``, each term is multiplied by ``digamma(k + 1) + digamma(k + order + 1)``.
    """

    def one(point: float) -> float:
        t, term, total = sign * Decimal(point) ** 2 / 4, Decimal(1), Decimal(0)
        sums = [-_EULER, sum((Decimal(1) / j for j in range(1, order + 1)), -_EULER)]
        for k in range(1, 80):
            total += term * sum(sums) if logarithmic else term
            term *= t / (k * (k + order))
            sums = [sums[0] + Decimal(1) / k, sums[1] + Decimal(1) / (k + order)]
        return float(total)

    with localcontext() as context:
        context.prec = 50
        return np.asarray([one(float(v)) for v in x])


def _airy_series(x: np.ndarray) -> np.ndarray:
    """The Airy function by its power series."""

    def one(point: float) -> float:
        t = Decimal(point)
        first, second, total = _AIRY_VALUE, _AIRY_SLOPE * t, Decimal(0)
        for k in range(1, 80):
            total += first + second
            first *= t**3 / (3 * k * (3 * k - 1))
            second *= t**3 / (3 * k * (3 * k + 1))
        return float(total)

    with localcontext() as context:
        context.prec = 50
        return np.asarray([one(float(v)) for v in x])


@functools.cache
def _near(order: int, sign: int, logarithmic: bool) -> np.ndarray:
    return fit(lambda t: _series(order, sign, logarithmic, np.sqrt(t)), 0, _SPLIT[sign] ** 2)


#: up to where the power series are used: ordinary (-1) and modified (1) functions
_SPLIT = {-1: 8.0, 1: 2.0}
_AIRY_LOW, _AIRY_HIGH = -4.0, 2.0


@functools.cache
def _waves(order: float, start: float) -> tuple[np.ndarray, np.ndarray]:
    """The real part and ``x / start`` times the imaginary part of a wave's amplitude, in ``(start / x)**2``."""

    def at(s: np.ndarray) -> np.ndarray:
        return _amplitude(order, -1j * start / np.sqrt(s))

    return fit(lambda s: at(s).real, 0, 1), fit(lambda s: at(s).imag / np.sqrt(s), 0, 1)


@functools.cache
def _decay(order: float, start: float) -> np.ndarray:
    """The amplitude of a decaying function, in ``start / x``."""
    return fit(lambda s: _amplitude(order, start / s), 0, 1)


@functools.cache
def _airy_middle() -> np.ndarray:
    return fit(_airy_series, _AIRY_LOW, _AIRY_HIGH)


# the functions


def _wave(order: float, start: float, x: jax.Array, turns: int) -> tuple[jax.Array, jax.Array]:
    """The real and imaginary part of ``exp(i (x - pi/4 - turns pi/2)) sqrt(2)`` times the amplitude."""
    s = jnp.square(start / x)
    real, imag = _waves(order, start)
    p, q = evaluate(real, s, 0, 1), evaluate(imag, s, 0, 1) * (start / x)
    cos, sin = jnp.cos(x), jnp.sin(x)
    a, b = cos + sin, sin - cos
    if turns:
        a, b = b, -a
    return a * p - b * q, b * p + a * q


def _bessel_parts(order: int, x: jax.Array) -> tuple[jax.Array, Callable[[bool], jax.Array], Any]:
    """For positive ``x``: whether it is small, the power series there, and both functions elsewhere."""
    small = x <= _SPLIT[-1]
    t = jnp.where(small, jnp.square(x), 1)

    def near(logarithmic: bool) -> jax.Array:
        return evaluate(_near(order, -1, logarithmic), t, 0, _SPLIT[-1] ** 2)

    far = jnp.where(small, _SPLIT[-1], x)
    scale = 1 / jnp.sqrt(math.pi * far)
    first, second = _wave(order, _SPLIT[-1], far, order)
    return small, near, (scale * first, scale * second)


def _bessel_j(order: int, x: jax.Array) -> jax.Array:
    size = jnp.abs(x)
    small, near, (far, _) = _bessel_parts(order, size)
    value = near(False)
    if order:
        value, far = x / 2 * value, jnp.sign(x) * far
    return jnp.where(small, value, far)


def _bessel_y(order: int, x: jax.Array) -> jax.Array:
    small, near, (_, far) = _bessel_parts(order, x)
    safe = jnp.where(small & (x > 0), x, 1)
    log = 2 * jnp.log(safe / 2) * near(False)
    value = (log - near(True)) / math.pi
    if order:
        value = safe / 2 * value - 2 / (math.pi * safe)
    value = jnp.where(small, value, far)
    return jnp.where(x > 0, value, jnp.where(x == 0, -jnp.inf, jnp.nan)).astype(x.dtype)


def _bessel_k(order: int, scaled: bool, x: jax.Array) -> jax.Array:
    small = x <= _SPLIT[1]
    low = jnp.where(small & (x > 0), x, 1)
    t, far = jnp.square(low), jnp.where(small, _SPLIT[1], x)
    plain = evaluate(_near(order, 1, False), t, 0, _SPLIT[1] ** 2)
    digammas = evaluate(_near(order, 1, True), t, 0, _SPLIT[1] ** 2)
    value = digammas / 2 - jnp.log(low / 2) * plain
    if order:
        value = 1 / low - low / 2 * value
    out = jnp.sqrt(math.pi / 2 / far) * evaluate(_decay(order, _SPLIT[1]), _SPLIT[1] / far, 0, 1)
    value, out = (value * jnp.exp(low), out) if scaled else (value, out * jnp.exp(-far))
    value = jnp.where(small, value, out)
    return jnp.where(x > 0, value, jnp.where(x == 0, jnp.inf, jnp.nan)).astype(x.dtype)


def _airy(x: jax.Array) -> jax.Array:
    low, high = x < _AIRY_LOW, x > _AIRY_HIGH
    middle = evaluate(_airy_middle(), jnp.where(low | high, 0, x), _AIRY_LOW, _AIRY_HIGH)
    below, above = jnp.where(low, -x, -_AIRY_LOW), jnp.where(high, x, _AIRY_HIGH)
    wave, _ = _wave(1 / 3, 2 / 3 * (-_AIRY_LOW) ** 1.5, 2 / 3 * below * jnp.sqrt(below), 0)
    wave = wave / (math.sqrt(2 * math.pi) * below**0.25)
    start, phase = 2 / 3 * _AIRY_HIGH**1.5, 2 / 3 * above * jnp.sqrt(above)
    fall = evaluate(_decay(1 / 3, start), start / phase, 0, 1) * jnp.exp(-phase)
    fall = fall / (2 * math.sqrt(math.pi) * above**0.25)
    return jnp.where(jnp.isinf(x), jnp.nan, jnp.where(low, wave, jnp.where(high, fall, middle)))


def _spherical_j0(x: jax.Array) -> jax.Array:
    safe = jnp.where((x == 0) | jnp.isinf(x), 1, x)
    return jnp.where(x == 0, 1, jnp.where(jnp.isinf(x), 0, jnp.sin(safe) / safe))


# modified functions of the first kind: jax.scipy's values, PyTorch's derivatives


@jax.custom_jvp
def i0_values(x: jax.Array) -> jax.Array:
    """The modified Bessel function of the first kind of order 0."""
    return jax.scipy.special.i0(x)


@jax.custom_jvp
def i1_values(x: jax.Array) -> jax.Array:
    """The modified Bessel function of the first kind of order 1."""
    return jax.scipy.special.i1(x)


@jax.custom_jvp
def i0e_values(x: jax.Array) -> jax.Array:
    """``exp(-|x|) i0(x)``."""
    return jax.scipy.special.i0e(x)


@jax.custom_jvp
def i1e_values(x: jax.Array) -> jax.Array:
    """``exp(-|x|) i1(x)``."""
    return jax.scipy.special.i1e(x)


def _slope(x: jax.Array, zeroth: Callable[[jax.Array], jax.Array], first: jax.Array, fall: Any) -> jax.Array:
    """The derivative of `i1` (without ``fall``) or `i1e`; one half close to 0, where the formula is 0 / 0."""
    regular = jnp.abs(x) > jnp.finfo(x.dtype).eps
    safe = jnp.where(regular, x, 1)
    return jnp.where(regular, zeroth(safe) - first * (fall(safe) + 1 / safe), 0.5)


i0_values.defjvp(lambda p, t: (i0_values(*p), i1_values(*p) * t[0]))
i0e_values.defjvp(lambda p, t: (i0e_values(*p), (i1e_values(*p) - jnp.sign(*p) * i0e_values(*p)) * t[0]))


@i1_values.defjvp
def _i1_jvp(primals: Any, tangents: Any) -> Any:
    out = i1_values(*primals)
    return out, _slope(primals[0], i0_values, out, jnp.zeros_like) * tangents[0]


@i1e_values.defjvp
def _i1e_jvp(primals: Any, tangents: Any) -> Any:
    out = i1e_values(*primals)
    return out, _slope(primals[0], i0e_values, out, jnp.sign) * tangents[0]


@pointwise_op(inplace=True, where="torch method special")
def i0(input: TensorOnly):
    """The modified Bessel function of the first kind of order 0."""
    not_implemented("i0_vml_cpu", input, kinds="c")
    return elementwise_float(i0_values, input)


@pointwise_op(where="special", node="SpecialI0EBackward0")
def i0e(input: TensorOnly):
    """``exp(-|x|) i0(x)``."""
    not_implemented("i0e_cpu", input, kinds="c")
    return elementwise_float(i0e_values, input)


@pointwise_op(where="special", node="SpecialI1Backward0")
def i1(input: TensorOnly):
    """The modified Bessel function of the first kind of order 1."""
    not_implemented("i1_cpu", input, kinds="c")
    return elementwise_float(i1_values, input)


@pointwise_op(where="special", node="SpecialI1EBackward0")
def i1e(input: TensorOnly):
    """``exp(-|x|) i1(x)``."""
    not_implemented("i1e_cpu", input, kinds="c")
    return elementwise_float(i1e_values, input)


def _register(name: str, what: str, formula: Callable[[jax.Array], jax.Array]) -> None:
    def values(input: jax.Array) -> jax.Array:
        only_single_and_double(f"{name}_cpu", input)
        return elementwise_float(formula, input)

    def function(input: TensorOnly):
        return values(input)

    if name.startswith(("airy", "scaled", "spherical")):  # PyTorch's name of the argument

        def function(x: TensorOnly):
            return values(x)

    function.__doc__ = f"{what}; without a derivative, as in PyTorch."
    function.__name__ = function.__qualname__ = name
    pointwise_op(name, where="special", differentiable=False)(function)


for _order in (0, 1):
    _what = f"function of order {_order}"
    _register(f"bessel_j{_order}", f"The Bessel {_what}", functools.partial(_bessel_j, _order))
    _register(
        f"bessel_y{_order}", f"The Bessel {_what} of the second kind", functools.partial(_bessel_y, _order)
    )
    _register(f"modified_bessel_i{_order}", f"The modified Bessel {_what}", (i0_values, i1_values)[_order])
    for _scaled, _name in ((False, "modified_bessel_k"), (True, "scaled_modified_bessel_k")):
        _register(
            f"{_name}{_order}",
            f"{'exp(x) times the' if _scaled else 'The'} modified Bessel {_what} of the second kind",
            functools.partial(_bessel_k, _order, _scaled),
        )
_register("airy_ai", "The Airy function", _airy)
_register("spherical_bessel_j0", "The spherical Bessel function of order 0, sin(x) / x", _spherical_j0)
