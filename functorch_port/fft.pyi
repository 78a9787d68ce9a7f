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
from ._base.layout import layout as _layout
from ._tensor.tensor import Tensor as Tensor

_Device: TypeAlias = _device | _str | _int | None
_Number: TypeAlias = _complex | np.number[Any] | np.bool
_Sizes: TypeAlias = _int | Sequence[_int]

@overload
def fft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The discrete Fourier transform."""

@overload
def fft(
    input: Tensor, n: _int | None = None, *, axis: _int, norm: _str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def fft2(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes = ...,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The discrete Fourier transform, in two dimensions."""

@overload
def fft2(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def fftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The frequencies of the elements of the `fft` of ``n`` samples that are ``d`` apart."""

@overload
def fftn(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The discrete Fourier transform, in many dimensions."""

@overload
def fftn(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes | None,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fftshift(input: Tensor, dim: _Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """Move the frequency 0 of an `fft` to the middle."""

@overload
def fftshift(input: Tensor, *, axis: _Sizes | None, out: Tensor | None = None) -> Tensor: ...
@overload
def hfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The `fft` of a Hermitian signal, from one half of it; it is real."""

@overload
def hfft(
    input: Tensor, n: _int | None = None, *, axis: _int, norm: _str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def hfft2(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes = ...,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The `fft` of a Hermitian signal, from one half of it; it is real, in two dimensions."""

@overload
def hfft2(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hfftn(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The `fft` of a Hermitian signal, from one half of it; it is real, in many dimensions."""

@overload
def hfftn(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes | None,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `fft`."""

@overload
def ifft(
    input: Tensor, n: _int | None = None, *, axis: _int, norm: _str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def ifft2(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes = ...,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `fft`, in two dimensions."""

@overload
def ifft2(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifftn(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `fft`, in many dimensions."""

@overload
def ifftn(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes | None,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifftshift(input: Tensor, dim: _Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `fftshift`."""

@overload
def ifftshift(input: Tensor, *, axis: _Sizes | None, out: Tensor | None = None) -> Tensor: ...
@overload
def ihfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `hfft`."""

@overload
def ihfft(
    input: Tensor, n: _int | None = None, *, axis: _int, norm: _str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def ihfft2(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes = ...,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `hfft`, in two dimensions."""

@overload
def ihfft2(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ihfftn(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `hfft`, in many dimensions."""

@overload
def ihfftn(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes | None,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `rfft`."""

@overload
def irfft(
    input: Tensor, n: _int | None = None, *, axis: _int, norm: _str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def irfft2(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes = ...,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `rfft`, in two dimensions."""

@overload
def irfft2(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfftn(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `rfft`, in many dimensions."""

@overload
def irfftn(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes | None,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The `fft` of a real signal, without the half that is a conjugate."""

@overload
def rfft(
    input: Tensor, n: _int | None = None, *, axis: _int, norm: _str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def rfft2(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes = ...,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The `fft` of a real signal, without the half that is a conjugate, in two dimensions."""

@overload
def rfft2(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def rfftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The frequencies of the elements of the `rfft` of ``n`` samples that are ``d`` apart."""

@overload
def rfftn(
    input: Tensor,
    s: _Sizes | None = None,
    dim: _Sizes | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The `fft` of a real signal, without the half that is a conjugate, in many dimensions."""

@overload
def rfftn(
    input: Tensor,
    s: _Sizes | None = None,
    *,
    axis: _Sizes | None,
    norm: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
