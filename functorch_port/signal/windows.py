"""Window functions.

The values are computed in float64 and rounded once. Of the common arguments, ``dtype`` must be float32 or
float64; ``layout``, ``device`` and ``requires_grad`` are as for `torch.zeros`. The result has the shape (M,).

Reference: https://docs.pytorch.org/docs/stable/signal.html#module-torch.signal.windows
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._array import executor, tracing
from .._base import dtypes
from .._base.layout import layout as Layout
from .._base.layout import strided
from .._tensor import creation
from .._tensor.tensor import Tensor
from ..ops.windows import cosines, kaiser_shape, triangle

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

#: dtype, layout, device, requires_grad
_Made = tuple[dtypes.dtype | None, Layout, Any, bool]


def _check(name: str, M: int, made: _Made) -> None:
    chosen = made[0] or dtypes.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if made[1] is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {made[1]}")
    if chosen not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {chosen}")


def _finish(values: np.ndarray, made: _Made) -> Tensor:
    chosen, _, device, requires_grad = made
    with tracing.x64():
        value = executor.current.place(values.astype((chosen or dtypes.get_default_dtype()).np))
        return creation.finish(value, device, requires_grad)


def _window(M: int, sym: bool, formula: Callable[[np.ndarray, int], np.ndarray], made: _Made) -> Tensor:
    """``formula(positions, last position)``; a periodic window drops the last of M + 1 points. M = 1 gives 1."""
    values = formula(np.arange(M, dtype=np.float64), M - 1 if sym else M) if M > 1 else np.ones(M)
    return _finish(values, made)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The exponential window: ``exp(-|n - center| / tau)``.

    Args:
        M: the number of points.
        center: the position of the maximum; must be None if ``sym``. Default: the middle.
        tau: the decay constant, in points. Default: 1.0.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Raises:
        ValueError: ``M`` is negative, ``tau`` is not positive, or a symmetric window has a ``center``.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.exponential(3)
        tensor([0.3679, 1.0000, 0.3679])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.exponential.html
    """
    made = (dtype, layout, device, requires_grad)
    _check("exponential", M, made)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return _finish(np.exp(-np.abs(np.arange(M) - middle) / tau), made)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The cosine window, half a period of a sine: ``sin(pi (n + 1/2) / M)``.

    Args:
        M: the number of points.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.cosine(3)
        tensor([0.5000, 1.0000, 0.5000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.cosine.html
    """
    made = (dtype, layout, device, requires_grad)
    _check("cosine", M, made)
    return _window(M, sym, lambda n, last: np.sin(math.pi * (n + 0.5) / (last + 1)), made)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Gaussian window: ``exp(-((n - middle) / std)**2 / 2)``.

    Args:
        M: the number of points.
        std: the standard deviation, in points. Default: 1.0.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Raises:
        ValueError: ``M`` is negative, or ``std`` is not positive.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.gaussian(3)
        tensor([0.6065, 1.0000, 0.6065])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.gaussian.html
    """
    made = (dtype, layout, device, requires_grad)
    _check("gaussian", M, made)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window(M, sym, lambda n, last: np.exp(-(((n - last / 2) / std) ** 2) / 2), made)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Kaiser window, from the modified Bessel function of order 0.

    Args:
        M: the number of points.
        beta: the shape; 0 gives a rectangular window. Default: 12.0.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Raises:
        ValueError: ``M`` or ``beta`` is negative.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.kaiser(3, beta=1.)
        tensor([0.7898, 1.0000, 0.7898])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.kaiser.html
    """
    made = (dtype, layout, device, requires_grad)
    _check("kaiser", M, made)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window(M, sym, functools.partial(kaiser_shape, beta=beta), made)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hamming window: ``0.54 - 0.46 cos(2 pi n / (M - 1))``.

    Args:
        M: the number of points.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.hamming(3)
        tensor([0.0800, 1.0000, 0.0800])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.hamming.html
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hann window: ``sin(pi n / (M - 1))**2``.

    Args:
        M: the number of points.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.hann(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.hann.html
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Blackman window: a constant and two cosines.

    Args:
        M: the number of points.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.blackman(4, sym=False).abs()
        tensor([1.3878e-17, 3.4000e-01, 1.0000e+00, 3.4000e-01])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.blackman.html
    """
    _check("blackman", M, (dtype, layout, device, requires_grad))
    weights = [0.42, 0.5, 0.08]
    return general_cosine(
        M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Bartlett (triangular) window.

    Args:
        M: the number of points.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.bartlett.html
    """
    made = (dtype, layout, device, requires_grad)
    _check("bartlett", M, made)
    return _window(M, sym, triangle, made)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with increasing frequency and alternating sign.

    Args:
        M: the number of points.
        a: the weights, with that of the constant first.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Raises:
        TypeError: ``a`` is not iterable.
        ValueError: ``a`` is empty, or ``M`` is negative.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.25, 0.25])
        tensor([0.5000, 1.0000, 0.5000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.general_cosine.html
    """
    made = (dtype, layout, device, requires_grad)
    _check("general_cosine", M, made)
    if M > 1:
        if not isinstance(a, Iterable):
            raise TypeError("Coefficients must be a list/tuple")
        if not a:
            raise ValueError("Coefficients cannot be empty")
    return _window(M, sym, functools.partial(cosines, weights=tuple(a)), made)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The generalized Hamming window: ``alpha - (1 - alpha) cos(2 pi n / (M - 1))``.

    Args:
        M: the number of points.
        alpha: the weight of the constant. Default: 0.54.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.general_hamming(3, alpha=0.6)
        tensor([0.2000, 1.0000, 0.2000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.general_hamming.html
    """
    weights = [alpha, 1 - alpha]
    return general_cosine(
        M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Layout = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Nuttall's window: a constant and three cosines.

    Args:
        M: the number of points.
        sym: True for a symmetric window, False for a periodic one. Default: True.

    Example:
        >>> import functorch_port as torch
        >>> torch.signal.windows.nuttall(5)
        tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01, 3.6280e-04])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.signal.windows.nuttall.html
    """
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(
        M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )
