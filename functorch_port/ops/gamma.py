"""The log-gamma function and its derivatives, incomplete gamma functions, and zeta functions."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from .._run import bind
from .._run.registry import Array, TensorOnly, composite, op, pointwise_op
from .._tensor.tensor import Tensor
from ._common import (
    by_double,
    check_broadcast,
    elementwise,
    elementwise_float,
    not_implemented,
    only_single_and_double,
)

_lgamma, _digamma = by_double(lax.lgamma), by_double(lax.digamma)
_igamma, _igammac = by_double(lax.igamma), by_double(lax.igammac)


@jax.custom_jvp
def log_gamma(x: jax.Array) -> jax.Array:
    """The logarithm of the absolute value of the gamma function."""
    return jnp.where((x == 1) | (x == 2), 0, _lgamma(x)).astype(x.dtype)  # exact there, where 0 is near


@jax.custom_jvp
def digamma_values(x: jax.Array) -> jax.Array:
    """The derivative of `log_gamma`."""
    pole = -jnp.copysign(jnp.asarray(jnp.inf, x.dtype), x)
    return jnp.where(x == 0, pole, _digamma(jnp.where(x == 0, 1, x)))


log_gamma.defjvp(lambda p, t: (log_gamma(*p), digamma_values(*p) * t[0]))
digamma_values.defjvp(lambda p, t: (digamma_values(*p), polygamma_values(1, *p) * t[0]))


def polygamma_values(n: int, x: jax.Array) -> jax.Array:
    """The ``n``-th derivative of digamma."""
    if n == 0:
        return digamma_values(x)
    factor = (-1) ** (n + 1) * math.exp(math.lgamma(n + 1)) if n < 171 else math.inf
    return factor * hurwitz(jnp.full_like(x, n + 1), x)


@jax.custom_jvp
def hurwitz(s: jax.Array, q: jax.Array) -> jax.Array:
    """The Hurwitz zeta function: the sum over k of ``(q + k)**-s``."""
    return _hurwitz(s, q)


@by_double
def _hurwitz(s: jax.Array, q: jax.Array) -> jax.Array:
    pole, below = (q <= 0) & (q == jnp.floor(q)), q < 0
    part = jnp.where(pole | jnp.isinf(q), 0.5, q - jnp.floor(q))
    # below zero, the terms from minus to plus infinity, which repeat with a period of 1, less those on the left
    at = jnp.stack([jnp.where(below, part, q), jnp.where(below, 1 - part, 1), jnp.where(below, 1 - q, 1)])
    value, right, left = lax.zeta(
        *jnp.broadcast_arrays(jnp.where(s > 1, s, 2), jnp.where(pole | jnp.isinf(q), 1, at))
    )
    odd = jnp.remainder(s, 2) == 1
    value = jnp.where(below, value + jnp.where(odd, -1, 1) * (right - left), value)
    value = jnp.where(pole, jnp.inf, jnp.where(below & (s != jnp.floor(s)), jnp.nan, value))
    value = jnp.where(q == jnp.inf, 0, value)
    return jnp.where(s > 1, value, jnp.where(s == 1, jnp.inf, jnp.nan)).astype(q.dtype)


def _hurwitz_jvp(primals: Any, tangents: Any) -> Any:
    (s, q), (ds, dq) = primals, tangents
    if not isinstance(ds, SymbolicZero):
        raise NotImplementedError("the derivative for 'zeta' is not implemented.")
    return hurwitz(s, q), -s * hurwitz(s + 1, q) * dq


hurwitz.defjvp(_hurwitz_jvp, symbolic_zeros=True)


@pointwise_op(inplace=True)
def lgamma(input: TensorOnly):
    """The logarithm of the absolute value of the gamma function."""
    not_implemented("lgamma_vml_cpu", input, kinds="c")
    return elementwise_float(log_gamma, input)


@pointwise_op(inplace=True, where="torch method special")
def digamma(input: TensorOnly):
    """The derivative of `lgamma`."""
    not_implemented("digamma", input, kinds="c")
    return elementwise_float(digamma_values, input)


pointwise_op("gammaln", where="special", node="LgammaBackward0")(lgamma)
pointwise_op("psi", where="special", node="DigammaBackward0")(digamma)


@pointwise_op(where="torch special")
def polygamma(n: int, input: TensorOnly):
    """The ``n``-th derivative of `digamma`."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return elementwise_float(lambda x: polygamma_values(n, x), input)


@composite("polygamma", where="method")
def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The ``n``-th derivative of `digamma`."""
    return bind.function("polygamma")(n, self)


@composite("polygamma_", where="method")
def polygamma_(self: Tensor, n: int) -> Tensor:
    """In-place version of `polygamma`."""
    self._check_inplace()
    return self._take(polygamma_method(self, n))


@op(inplace=True)
def mvlgamma(input: TensorOnly, p: int):
    """The logarithm of the multivariate gamma function of dimension ``p``."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    shift = p * (p - 1) / 4 * math.log(math.pi)

    def formula(x: jax.Array) -> jax.Array:
        return jnp.sum(log_gamma(x[..., None] - jnp.arange(p, dtype=x.dtype) / 2), -1) + shift

    return elementwise_float(formula, input)


op("multigammaln", where="special", node="MvlgammaBackward0")(mvlgamma)


@pointwise_op(where="special", node="SpecialZetaBackward0")
def zeta(input: Array, other: Array):
    """The Hurwitz zeta function: the sum over k of ``(other + k)**-input``; not differentiable in ``input``."""
    only_single_and_double("zeta_cpu", input, other)
    return elementwise_float(lambda s, q: hurwitz(*jnp.broadcast_arrays(s, q)), input, other)


def _fraction(fn: Any, kernel: str, input: jax.Array, other: jax.Array) -> jax.Array:
    not_implemented(kernel, input, other, kinds="biu")
    check_broadcast(input, other)
    return elementwise(lambda a, x: fn(*jnp.broadcast_arrays(a, x)), input, other)


@pointwise_op("igamma", inplace=True)
def igamma(input: TensorOnly, other: TensorOnly):
    """The regularized lower incomplete gamma function P(``input``, ``other``)."""
    return _fraction(_igamma, "igamma_cpu", input, other)


@pointwise_op("igammac", inplace=True)
def igammac(input: TensorOnly, other: TensorOnly):
    """The regularized upper incomplete gamma function Q(``input``, ``other``)."""
    return _fraction(_igammac, "igammac_cpu", input, other)


pointwise_op("gammainc", where="special", node="IgammaBackward0")(igamma)
pointwise_op("gammaincc", where="special", node="IgammacBackward0")(igammac)
