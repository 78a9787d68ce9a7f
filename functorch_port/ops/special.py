"""Special functions of `torch.special` beyond those that are elementwise functions of `torch` itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special as jsp

from ..core import bind
from ..core.registry import TensorOnly, composite, op
from ..core.tensor import Tensor
from . import pointwise
from ._common import check_broadcast, elementwise, elementwise_float, not_implemented
from .reduction import logsumexp as logsumexp

for _alias, _fn in (
    ("expit", pointwise.sigmoid),
    ("gammaln", pointwise.lgamma),
    ("psi", pointwise.digamma),
    ("multigammaln", pointwise.mvlgamma),
):
    op(_alias, where="special", node=f"{_fn.__name__.capitalize()}Backward0")(_fn)


@op(where="special")
def entr(input: TensorOnly):
    """``-x log(x)``, 0 at 0 and minus infinity below."""
    return elementwise_float(jsp.entr, input)


@op(where="special")
def ndtr(input: TensorOnly):
    """The normal distribution function."""
    return elementwise_float(jsp.ndtr, input)


@op(where="special")
def log_ndtr(input: TensorOnly):
    """The logarithm of the normal distribution function."""
    return elementwise_float(jsp.log_ndtr, input)


@op(where="special")
def ndtri(input: TensorOnly):
    """The inverse of the normal distribution function."""
    return elementwise_float(jsp.ndtri, input)


@op(where="special")
def erfcx(input: TensorOnly):
    """``exp(x**2) erfc(x)``."""
    return elementwise_float(_erfcx, input)


def _erfcx(x: jax.Array) -> jax.Array:
    # log_ndtr is exact far out, where erfc underflows
    return jnp.exp(x * x + jsp.log_ndtr(-x * 2**0.5) + jnp.log(jnp.asarray(2, x.dtype)))


@op(where="special")
def i0e(input: TensorOnly):
    """``exp(-|x|) i0(x)``."""
    return elementwise_float(jsp.i0e, input)


@op(where="special")
def i1(input: TensorOnly):
    """The modified Bessel function of the first kind of order 1."""
    return elementwise_float(jsp.i1, input)


@op(where="special")
def i1e(input: TensorOnly):
    """``exp(-|x|) i1(x)``."""
    return elementwise_float(jsp.i1e, input)


@op(where="special")
def zeta(input: TensorOnly, other: TensorOnly):
    """The Hurwitz zeta function."""
    return elementwise_float(lambda x, q: jsp.zeta(*jnp.broadcast_arrays(x, q)), input, other)


@op(where="special", node="SpecialXlog1PyBackward0")
def xlog1py(input: TensorOnly, other: TensorOnly):
    """``input * log1p(other)``, 0 where ``input`` is 0."""
    return elementwise_float(lambda x, y: jsp.xlog1py(*jnp.broadcast_arrays(x, y)), input, other)


def _gamma_fraction(fn: Any, kernel: str, input: jax.Array, other: jax.Array) -> jax.Array:
    not_implemented(kernel, input, other, kinds="biu")
    check_broadcast(input, other)
    return elementwise(lambda a, x: fn(*jnp.broadcast_arrays(a, x)), input, other)


@op("igamma", inplace=True)
def igamma(input: TensorOnly, other: TensorOnly):
    """The regularised lower incomplete gamma function."""
    return _gamma_fraction(lax.igamma, "igamma_cpu", input, other)


@op("igammac", inplace=True)
def igammac(input: TensorOnly, other: TensorOnly):
    """The regularised upper incomplete gamma function."""
    return _gamma_fraction(lax.igammac, "igammac_cpu", input, other)


op("gammainc", where="special", node="IgammaBackward0")(igamma)
op("gammaincc", where="special", node="IgammacBackward0")(igammac)


@composite("polygamma", where="method")
def polygamma(self: Tensor, n: int) -> Tensor:
    """The ``n``-th derivative of `digamma`."""
    return bind.function("polygamma")(n, self)


@composite("polygamma_", where="method")
def polygamma_(self: Tensor, n: int) -> Tensor:
    """In-place version of `polygamma`."""
    self._check_inplace()
    return self._take(polygamma(self, n))
