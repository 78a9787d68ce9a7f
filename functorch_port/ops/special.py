"""Special functions: the normal distribution, the error function, entropy."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._run.registry import Array, TensorOnly, pointwise_op
from ._chebyshev import evaluate, fit
from ._common import by_double, elementwise_float, not_implemented, only_single_and_double, times_infinite
from .activation import sigmoid

pointwise_op("expit", where="special", node="SigmoidBackward0")(sigmoid)


@pointwise_op(where="special")
def entr(input: TensorOnly):
    """``-x log(x)``; 0 at 0 and -inf below."""
    not_implemented("entr_cpu", input, kinds="c")
    return elementwise_float(_entropy, input)


@jax.custom_jvp
def _entropy(x: jax.Array) -> jax.Array:
    return jax.scipy.special.entr(x)


_entropy.defjvp(lambda p, t: (_entropy(*p), (-jnp.log(*p) - 1) * t[0]))


@pointwise_op(where="special", node="MulBackward1")
def ndtr(input: TensorOnly):
    """The normal CDF, by `erf` as in PyTorch; use `log_ndtr` for the lower tail."""
    not_implemented("erf_vml_cpu", input, kinds="c")
    return elementwise_float(lambda x: (1 + lax.erf(x * math.sqrt(0.5))) * 0.5, input)


@pointwise_op(where="special")
def log_ndtr(input: TensorOnly):
    """The logarithm of the normal CDF."""
    only_single_and_double("log_ndtr_cpu", input)
    return elementwise_float(_log_ndtr, input)


@pointwise_op(where="special")
def ndtri(input: TensorOnly):
    """The inverse of the normal CDF."""
    only_single_and_double("ndtri_cpu", input)
    return elementwise_float(_ndtri, input)


@pointwise_op(where="special")
def erfcx(input: TensorOnly):
    """``exp(x**2) erfc(x)``."""
    only_single_and_double("erfcx_cpu", input)
    return elementwise_float(scaled_erfc, input)


@functools.cache
def _erfcx_fit() -> np.ndarray:
    """A fit of ``(1 + x) erfcx(x)`` for x >= 0, in ``(x - 2) / (x + 2)``."""

    def at(y: np.ndarray) -> np.ndarray:
        x = 2 * (1 + y) / (1 - y)
        # the integral of exp(-t**2 - 2 x t) over log t, by equal steps, which converge exponentially
        t = np.exp(np.arange(-42, 2, 0.0625))
        weights = 0.0625 * 2 / math.sqrt(math.pi) * t * np.exp(-t * t)
        return (1 + x) * (np.exp(-2 * x[:, None] * t) @ weights)

    return fit(at, -1, 1)


@jax.custom_jvp
def scaled_erfc(x: jax.Array) -> jax.Array:
    """``exp(x**2) erfc(x)``."""
    size = jnp.abs(x)
    finite = jnp.where(jnp.isinf(size), 1, size)
    value = evaluate(_erfcx_fit(), (finite - 2) / (finite + 2), -1, 1) / (1 + size)
    return jnp.where(x < 0, 2 * jnp.exp(x * x) - value, value)


scaled_erfc.defjvp(
    lambda p, t: (scaled_erfc(*p), (2 * p[0] * scaled_erfc(*p) - 2 / math.sqrt(math.pi)) * t[0])
)


@jax.custom_jvp
def _log_ndtr(x: jax.Array) -> jax.Array:
    low = jnp.where(x < -1, x, -1)
    below = jnp.log(scaled_erfc(-low * math.sqrt(0.5)) / 2) - low * low / 2
    above = jnp.log1p(-by_double(lax.erfc)(jnp.where(x < -1, 0, x) * math.sqrt(0.5)) / 2)
    return jnp.where(x < -1, below, above)


@jax.custom_jvp
def _hazard(x: jax.Array) -> jax.Array:
    """The derivative of `_log_ndtr`."""
    return math.sqrt(2 / math.pi) / scaled_erfc(-x * math.sqrt(0.5))


@jax.custom_jvp
def _ndtri(p: jax.Array) -> jax.Array:
    return jax.scipy.special.ndtri(p)


_log_ndtr.defjvp(lambda p, t: (_log_ndtr(*p), _hazard(*p) * t[0]))
_hazard.defjvp(lambda p, t: (_hazard(*p), -_hazard(*p) * (p[0] + _hazard(*p)) * t[0]))
_ndtri.defjvp(lambda p, t: (_ndtri(*p), math.sqrt(2 * math.pi) * jnp.exp(_ndtri(*p) ** 2 / 2) * t[0]))


@pointwise_op(where="special", node="SpecialXlog1PyBackward0")
def xlog1py(input: Array, other: Array):
    """``input * log1p(other)``; 0 where ``input`` is 0, unless ``other`` is NaN."""
    not_implemented("xlog1py_cpu", input, other, kinds="c")
    return elementwise_float(lambda x, y: _xlog1py(*jnp.broadcast_arrays(x, y)), input, other)


@jax.custom_jvp
def _xlog1py(x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.scipy.special.xlog1py(x, y)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    flat = (x == 0) & (y <= -1)
    by_x = jnp.where(flat, 0, jnp.log1p(jnp.where(flat, 0, y)))
    return _xlog1py(x, y), times_infinite(by_x, dx) + x / (y + 1) * dy


@pointwise_op(inplace=True, where="torch method special")
def erf(input: TensorOnly):
    """The error function."""
    not_implemented("erf_vml_cpu", input, kinds="c")
    return elementwise_float(lax.erf, input)


@pointwise_op(inplace=True, where="torch method special")
def erfc(input: TensorOnly):
    """``1 - erf(input)``."""
    not_implemented("erfc_vml_cpu", input, kinds="c")
    return elementwise_float(by_double(lax.erfc), input)


@pointwise_op(inplace=True, where="torch method special")
def erfinv(input: TensorOnly):
    """The inverse of `erf`."""
    not_implemented("erfinv_vml_cpu", input, kinds="c")
    return elementwise_float(by_double(lax.erf_inv), input)


@pointwise_op(inplace=True, where="torch method special")
def logit(input: TensorOnly, eps: float | None = None):
    """``log(x / (1 - x))``; with ``eps``, x is limited to ``[eps, 1 - eps]`` first."""
    not_implemented("logit_cpu", input, kinds="c")

    def formula(x: jax.Array) -> jax.Array:
        if eps is not None:
            inside = (x >= eps) & (x <= 1 - eps)
            x = jnp.where(inside, x, lax.stop_gradient(jnp.where(x < eps, eps, jnp.minimum(x, 1 - eps))))
        return _logit(x)

    return elementwise_float(formula, input)


@jax.custom_jvp
def _logit(x: jax.Array) -> jax.Array:
    return jnp.log(x / (1 - x))


@_logit.defjvp
def _logit_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return _logit(x), jnp.where((x < 0) | (x > 1), jnp.nan, 1 / (x * (1 - x))).astype(x.dtype) * dx
