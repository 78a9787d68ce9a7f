"""Complex numbers: parts, conjugate, angle, and views as pairs of real numbers (`view_as_real`, `view_as_complex`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._run import bind
from .._run.registry import TensorOnly, composite, op, pointwise_op
from .._tensor.tensor import Tensor
from ._common import check_broadcast, elementwise_float, type_name


@composite(where="torch")
def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor is returned itself."""
    if not isinstance(input, Tensor):
        raise TypeError(f"real(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return bind.function("_real")(input) if input.is_complex() else input


@op("_real", where="", view=True, node="RealBackward0")
def _real(input: TensorOnly):
    """The real part of complex numbers."""
    return jnp.real(input)


@op("imag", where="torch", view=True)
def imag(input: TensorOnly):
    """The imaginary part, as a view."""
    if input.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return jnp.imag(input)


def _complex_part(get: Callable[[Tensor], Any]) -> Any:
    def put(self: Tensor, value: Any) -> None:
        if isinstance(value, Tensor):
            get(self).copy_(value)
        else:
            get(self)[...] = value

    return property(get, put)


Tensor.real = _complex_part(real)  # type: ignore[attr-defined]
Tensor.imag = _complex_part(lambda self: bind.function("imag")(self))  # type: ignore[attr-defined]


@composite(where="torch")
def view_as_real(input: Tensor) -> Tensor:
    """A view of complex numbers as pairs, in a new last dimension of size 2."""
    if input._turned()[0]:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the "
            "original."
        )
    return bind.function("_view_as_real")(input)


@op("_view_as_real", where="", view=True, node="ViewAsRealBackward0")
def _view_as_real(input: TensorOnly):
    """Complex numbers as pairs in a last dimension."""
    if input.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return jnp.stack([jnp.real(input), jnp.imag(input)], axis=-1)


@composite(where="torch")
def view_as_complex(input: Tensor) -> Tensor:
    """A view of the pairs in the last dimension as complex numbers."""
    if input._view is not None and input.ndim and input.shape[-1] == 2:
        *strides, last = input._strides()
        if last != 1:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any(stride % 2 for stride, size in zip(strides, input.shape, strict=False) if size > 1):
            raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
        if input.storage_offset() % 2:
            raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return bind.function("_view_as_complex")(input)


@op("_view_as_complex", where="", view=True, node="ViewAsComplexBackward0")
def _view_as_complex(input: TensorOnly):
    """Pairs in the last dimension as complex numbers."""
    if input.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return lax.complex(input[..., 0], input[..., 1])


@pointwise_op()
def angle(input: TensorOnly):
    """The angle of complex numbers, in radians; pi for negative real numbers."""
    if input.dtype.kind == "c":
        nothing = input == 0  # has no slope, as in PyTorch
        return jnp.where(
            nothing, lax.stop_gradient(jnp.angle(input)), jnp.angle(jnp.where(nothing, 1, input))
        )
    return elementwise_float(_real_angle, input)


def _real_angle(x: jax.Array) -> jax.Array:
    side = jnp.where(x < 0, jnp.asarray(math.pi, x.dtype), jnp.zeros((), x.dtype))
    return lax.stop_gradient(jnp.where(x != x, x, side))


@pointwise_op(inplace=True)
def conj_physical(input: TensorOnly):
    """The complex conjugate."""
    return jnp.conj(input) if input.dtype.kind == "c" else input


op("_conj", view=True, node="ConjBackward0")(conj_physical)


@op("_neg_view", view=True)
def _neg_view(input: TensorOnly):
    """The negative, as a view."""
    return -input


@composite()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, as a view; a real tensor is returned itself."""
    if not isinstance(input, Tensor):
        raise TypeError(f"conj(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return bind.function("_conj")(input) if input.is_complex() else input


def _check_parts(real: jax.Array, imag: jax.Array) -> None:
    if any(x.dtype.kind != "f" for x in (real, imag)):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {type_name(real)} and {type_name(imag)}"
        )
    if real.dtype != imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {type_name(real)} but got scalar type {type_name(imag)} for "
            "second argument"
        )


@pointwise_op(where="torch")
def polar(abs: TensorOnly, angle: TensorOnly):
    """Complex numbers with the absolute values ``abs`` and the angles ``angle``."""
    _check_parts(abs, angle)
    check_broadcast(abs, angle)
    return lax.complex(*jnp.broadcast_arrays(abs * jnp.cos(angle), abs * jnp.sin(angle)))


@pointwise_op("complex", where="torch")
def complex_(real: TensorOnly, imag: TensorOnly):
    """Complex numbers with the parts ``real`` and ``imag``."""
    _check_parts(real, imag)
    check_broadcast(real, imag)
    return lax.complex(*jnp.broadcast_arrays(real, imag))
