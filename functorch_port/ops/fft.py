"""Discrete Fourier transforms: `torch.fft`."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, tracing
from .._base import dtypes
from .._run.registry import TensorOnly, composite, op
from .._tensor import creation
from .._tensor.tensor import Tensor
from ._common import type_name
from .permuting import roll

Sizes = int | tuple[int, ...] | None

# arguments


def _wrap(dim: int, ndim: int) -> int:
    if ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    return dim % ndim


def _tuple(value: Sizes) -> tuple[int, ...] | None:
    return (value,) if isinstance(value, int) else value


def _check_size(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _axes(x: jax.Array, s: Sizes, dim: Sizes) -> tuple[list[int | None], tuple[int, ...]]:
    """The dimensions to transform, and the requested size of each (None for its own)."""
    sizes, dims = _tuple(s), _tuple(dim)
    if dims is not None:
        dims = tuple(_wrap(d, x.ndim) for d in dims)
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
    if sizes is None:
        dims = tuple(range(x.ndim)) if dims is None else dims
        return [None] * len(dims), dims
    if dims is not None and len(dims) != len(sizes):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    if len(sizes) > x.ndim:
        raise RuntimeError(
            f"Got shape with {len(sizes)} values but input tensor only has {x.ndim} dimensions."
        )
    dims = tuple(range(x.ndim - len(sizes), x.ndim)) if dims is None else dims
    return [None if n == -1 else n for n in sizes], dims


def _sizes(x: jax.Array, asked: list[int | None], dims: tuple[int, ...], half: bool) -> tuple[int, ...]:
    """The sizes of the signal; for half a spectrum the default of the last size is even."""
    full = [x.shape[d] for d in dims]
    if half:
        full[-1] = 2 * (full[-1] - 1)
    return tuple(_check_size(f if n is None else n) for f, n in zip(full, asked, strict=True))


def _scale(norm: str | None, sizes: tuple[int, ...], inverse: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(math.prod(sizes))
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return 1 / math.prod(sizes) if (norm == "forward") != inverse else 1.0


def floating(x: jax.Array) -> jax.Array:
    """Convert integers to the default float dtype; refuse half precision, as PyTorch's CPU kernels do."""
    if x.dtype.kind in "biu":
        return x.astype(dtypes.get_default_dtype().np)
    if x.dtype.kind == "V" or x.dtype.itemsize < 4:
        raise RuntimeError(f"Unsupported dtype {type_name(x)}")
    return x


# the three kinds of transform


def _to_complex(x: jax.Array, sizes: tuple[int, ...], dims: tuple[int, ...], norm: Any, inverse: bool) -> Any:
    scale = _scale(norm, sizes, inverse)
    x = x if x.dtype.kind == "c" else x.astype(dtypes.from_np(x.dtype).to_complex().np)
    if not dims:
        return x
    return _scaled((jnp.fft.ifftn if inverse else jnp.fft.fftn)(x, sizes, dims, _raw(inverse)), scale)


def _to_half(x: jax.Array, sizes: tuple[int, ...], dims: tuple[int, ...], norm: Any, inverse: bool) -> Any:
    """Half of the spectrum of a real signal; the other half is its conjugate."""
    out = _scaled(jnp.fft.rfftn(x, sizes, dims), _scale(norm, sizes, inverse))
    return jnp.conj(out) if inverse else out


def _from_half(x: jax.Array, sizes: tuple[int, ...], dims: tuple[int, ...], norm: Any, inverse: bool) -> Any:
    """The real signal (or spectrum) from half of its spectrum (or signal)."""
    scale = _scale(norm, sizes, inverse)
    return _scaled(jnp.fft.irfftn(x if inverse else jnp.conj(x), sizes, dims, "forward"), scale)


def _raw(inverse: bool) -> str:
    """The normalization of jax.numpy with the factor 1."""
    return "forward" if inverse else "backward"


def _scaled(x: jax.Array, scale: float) -> jax.Array:
    return x if scale == 1 else x * scale


_KINDS = {"complex": _to_complex, "to_half": _to_half, "from_half": _from_half}


def _one(name: str, kind: str, inverse: bool, x: jax.Array, n: int | None, dim: int, norm: str | None) -> Any:
    if kind == "to_half" and x.dtype.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {type_name(x)}")
    x = floating(x)
    dims = (_wrap(dim, x.ndim),)
    sizes = _sizes(x, [n], dims, kind == "from_half")
    return _KINDS[kind](x, sizes, dims, norm, inverse)


def _many(name: str, kind: str, inverse: bool, x: jax.Array, s: Sizes, dim: Sizes, norm: str | None) -> Any:
    if name == "rfftn" and x.dtype.kind == "c":
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {type_name(x)}")
    asked, dims = _axes(x, s, dim)
    if kind != "complex" and not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    sizes = _sizes(x, asked, dims, kind == "from_half")
    if kind == "to_half" and x.dtype.kind == "c":
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {type_name(x)}")
    return _KINDS[kind](floating(x), sizes, dims, norm, inverse)


#: name -> kind, whether it is an inverse transform, autograd node of one dimension, what it is
_FAMILIES = {
    "fft": ("complex", False, "FftC2CBackward0", "The discrete Fourier transform"),
    "ifft": ("complex", True, "FftC2CBackward0", "The inverse of `fft`"),
    "rfft": (
        "to_half",
        False,
        "FftR2CBackward0",
        "The `fft` of a real signal, without the half that is a conjugate",
    ),
    "irfft": ("from_half", True, "FftC2RBackward0", "The inverse of `rfft`"),
    "hfft": (
        "from_half",
        False,
        "FftC2RBackward0",
        "The `fft` of a Hermitian signal, from one half of it; it is real",
    ),
    "ihfft": ("to_half", True, "ConjBackward0", "The inverse of `hfft`"),
}


def _register(name: str, kind: str, inverse: bool, node: str, what: str) -> None:
    def one(input: TensorOnly, n: int | None = None, dim: int = -1, norm: str | None = None):
        return _one(name, kind, inverse, input, n, dim, norm)

    def two(
        input: TensorOnly,
        s: tuple[int, ...] | None = None,
        dim: tuple[int, ...] = (-2, -1),
        norm: str | None = None,
    ):
        return _many(f"{name}n", kind, inverse, input, s, dim, norm)

    def many(
        input: TensorOnly,
        s: tuple[int, ...] | None = None,
        dim: tuple[int, ...] | None = None,
        norm: str | None = None,
    ):
        return _many(f"{name}n", kind, inverse, input, s, dim, norm)

    for fn, suffix, over in (
        (one, "", ""),
        (two, "2", ", in two dimensions"),
        (many, "n", ", in many dimensions"),
    ):
        fn.__doc__ = f"{what}{over}."
        fn.__name__ = fn.__qualname__ = f"{name}{suffix}"
        op(
            f"{name}{suffix}",
            where="fft",
            node="FftC2CBackward0" if suffix and kind == "to_half" and inverse else node,
        )(fn)


for _name, _family in _FAMILIES.items():
    _register(_name, *_family)


# order and frequencies


def _shifted(x: jax.Array, dim: Sizes, sign: int) -> jax.Array:
    dims = tuple(range(x.ndim)) if dim is None else _tuple(dim)
    assert dims is not None
    amounts = [x.shape[_wrap(d, x.ndim)] for d in dims]
    return roll(x, tuple(n // 2 if sign > 0 else (n + 1) // 2 for n in amounts), dims)


@op(where="fft", node="RollBackward0")
def fftshift(input: TensorOnly, dim: tuple[int, ...] | None = None):
    """Move the frequency 0 of an `fft` to the middle."""
    return _shifted(input, dim, 1)


@op(where="fft", node="RollBackward0")
def ifftshift(input: TensorOnly, dim: tuple[int, ...] | None = None):
    """The inverse of `fftshift`."""
    return _shifted(input, dim, -1)


def _frequencies(name: str, n: int, numbers: Any, d: float, dtype: dtypes.dtype | None, made: Any) -> Tensor:
    if not isinstance(n, int):
        raise TypeError(f"fft_{name}(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0 and name == "fftfreq":
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    chosen = dtype or dtypes.get_default_dtype()
    if not (chosen.is_floating_point or chosen.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if chosen.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{chosen.scalar_name}'")
    device, requires_grad, out = made
    spacing = n * d
    with tracing.x64():
        unit = np.float64(1 / spacing) if spacing else np.copysign(np.inf, spacing)
        with np.errstate(invalid="ignore"):
            values = numbers.astype(np.float64) * unit
        result = creation.finish(executor.current.place(values.astype(chosen.np)), device, requires_grad)
    return result if out is None else creation._into(out, result)


@composite("fftfreq", where="fft")
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The frequencies of the elements of the `fft` of ``n`` samples that are ``d`` apart.

    Example:
        >>> import functorch_port as torch
        >>> torch.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.fft.fftfreq.html
    """
    numbers = np.arange(n) if isinstance(n, int) else None
    if numbers is not None:
        numbers[(n + 1) // 2 :] -= max(n, 0)
    return _frequencies("fftfreq", n, numbers, d, dtype, (device, requires_grad, out))


@composite("rfftfreq", where="fft")
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The frequencies of the elements of the `rfft` of ``n`` samples that are ``d`` apart.

    Example:
        >>> import functorch_port as torch
        >>> torch.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.fft.rfftfreq.html
    """
    numbers = np.arange(n // 2 + 1) if isinstance(n, int) else None
    return _frequencies("rfftfreq", n, numbers, d, dtype, (device, requires_grad, out))
