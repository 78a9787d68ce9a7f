# Written by tools/stubs.py: `make stubs` writes it anew.

from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from ._base.device import device as _device
from ._base.dtypes import dtype as _dtype
from ._tensor.tensor import Tensor as Tensor

_Device: TypeAlias = _device | _str | _int | None
_Number: TypeAlias = _complex | np.number[Any] | np.bool
_Sizes: TypeAlias = _int | Sequence[_int]

def airy_ai(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Airy function; without a derivative, as in PyTorch."""

def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of order 0; without a derivative, as in PyTorch."""

def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of order 1; without a derivative, as in PyTorch."""

def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of order 0 of the second kind; without a derivative, as in PyTorch."""

def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of order 1 of the second kind; without a derivative, as in PyTorch."""

def chebyshev_polynomial_t(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree ``n``; not differentiable, as in PyTorch."""

def chebyshev_polynomial_u(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree ``n``; not differentiable, as in PyTorch."""

def chebyshev_polynomial_v(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree ``n``; not differentiable, as in PyTorch."""

def chebyshev_polynomial_w(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree ``n``; not differentiable, as in PyTorch."""

def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of `lgamma`."""

def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-x log(x)``; 0 at 0 and -inf below."""

def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function."""

def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 - erf(input)``."""

def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(x**2) erfc(x)``."""

def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `erf`."""

def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of ``input``."""

def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / (1 + exp(-input))``."""

def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) - 1``, accurate near 0."""

def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized lower incomplete gamma function P(``input``, ``other``)."""

def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized upper incomplete gamma function Q(``input``, ``other``)."""

def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function."""

def hermite_polynomial_h(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The physicists' Hermite polynomial of degree ``n``; not differentiable, as in PyTorch."""

def hermite_polynomial_he(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The probabilists' Hermite polynomial of degree ``n``; not differentiable, as in PyTorch."""

def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""

def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(-|x|) i0(x)``."""

def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""

def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(-|x|) i1(x)``."""

def laguerre_polynomial_l(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Laguerre polynomial of degree ``n``; not differentiable, as in PyTorch."""

def legendre_polynomial_p(x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Legendre polynomial of degree ``n``; not differentiable, as in PyTorch."""

def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(1 + input)``, accurate near 0."""

def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the normal CDF."""

@overload
def log_softmax(
    input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The logarithm of `softmax`, computed without under- or overflow."""

@overload
def log_softmax(
    input: Tensor, *, axis: _int, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(x / (1 - x))``; with ``eps``, x is limited to ``[eps, 1 - eps]`` first."""

@overload
def logsumexp(
    input: Tensor, dim: _Sizes | None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim``, without overflow."""

@overload
def logsumexp(
    input: Tensor, *, axis: _Sizes | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of order 0; without a derivative, as in PyTorch."""

def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of order 1; without a derivative, as in PyTorch."""

def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of order 0 of the second kind; without a derivative, as in PyTorch."""

def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of order 1 of the second kind; without a derivative, as in PyTorch."""

def multigammaln(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``."""

def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The normal CDF, by `erf` as in PyTorch; use `log_ndtr` for the lower tail."""

def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the normal CDF."""

def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The ``n``-th derivative of `digamma`."""

def psi(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of `lgamma`."""

def round(input: Tensor, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
    """Round to ``decimals`` places; a half goes to the even neighbour."""

def scaled_modified_bessel_k0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) times the modified Bessel function of order 0 of the second kind; without a derivative, as in PyTorch."""

def scaled_modified_bessel_k1(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) times the modified Bessel function of order 1 of the second kind; without a derivative, as in PyTorch."""

def shifted_chebyshev_polynomial_t(
    x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor:
    """The shifted Chebyshev polynomial of the first kind of degree ``n``; not differentiable, as in PyTorch."""

def shifted_chebyshev_polynomial_u(
    x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor:
    """The shifted Chebyshev polynomial of the second kind of degree ``n``; not differentiable, as in PyTorch."""

def shifted_chebyshev_polynomial_v(
    x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor:
    """The shifted Chebyshev polynomial of the third kind of degree ``n``; not differentiable, as in PyTorch."""

def shifted_chebyshev_polynomial_w(
    x: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor:
    """The shifted Chebyshev polynomial of the fourth kind of degree ``n``; not differentiable, as in PyTorch."""

def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sin(pi x) / (pi x)``, 1 at 0."""

@overload
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along ``dim``."""

@overload
def softmax(
    input: Tensor, *, axis: _int, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
def spherical_bessel_j0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The spherical Bessel function of order 0, sin(x) / x; without a derivative, as in PyTorch."""

def xlog1py(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input * log1p(other)``; 0 where ``input`` is 0, unless ``other`` is NaN."""

def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input * log(other)``; 0 where ``input`` is 0, unless ``other`` is NaN."""

def zeta(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Hurwitz zeta function: the sum over k of ``(other + k)**-input``; not differentiable in ``input``."""
