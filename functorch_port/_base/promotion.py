"""Type promotion: PyTorch's common type of arrays and Python numbers, decided here and nowhere else.

An argument is in one of three ranks: an array with dimensions, a 0-dim array, or a number (a Python or numpy
scalar, or a weakly typed 0-dim tracer, which is what a Python number becomes under `jax.jit`). Within a rank,
types are promoted pairwise; a lower rank changes the result only when its category (bool < integer < float <
complex) is higher.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
from jax import lax

from . import dtypes
from .dtypes import dtype

__all__ = ["can_cast", "promote", "promote_float", "promote_types", "result_type", "scalar_type"]

_DIMENSIONED, _ZERO_DIM, _NUMBER = 0, 1, 2
_BAREBONES_UNSIGNED = frozenset({dtypes.uint16, dtypes.uint32, dtypes.uint64})
_INTEGER_ORDER = (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)


def _category(d: dtype) -> int:
    return 3 if d.is_complex else 2 if d.is_floating_point else 0 if d is dtypes.bool_ else 1


@cache
def _promote_pair(a: dtype, b: dtype) -> dtype:
    """The smallest type that holds both, in PyTorch's lattice."""
    if a is b:
        return a
    attempted = f"attempted to promote {a.scalar_name} and {b.scalar_name}"
    if any(d.is_floating_point and d.itemsize == 1 for d in (a, b)):
        raise RuntimeError(f"Promotion for Float8 Types is not supported, {attempted}")
    low, high = sorted((a, b), key=_category)
    if {a, b} & _BAREBONES_UNSIGNED and not high.is_floating_point:
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, {attempted}")
    if _category(high) < 2:
        return _promote_integers(a, b)
    if _category(low) < 2:
        return high
    if high.is_complex:
        return dtypes.complex128 if dtypes.float64 in (a.to_real(), b.to_real()) else dtypes.complex64
    if {a, b} == {dtypes.float16, dtypes.bfloat16}:
        return dtypes.float32
    return max(a, b, key=lambda d: d.itemsize)


def _promote_integers(a: dtype, b: dtype) -> dtype:
    if {a, b} == {dtypes.uint8, dtypes.int8}:
        return dtypes.int16
    return max(a, b, key=_INTEGER_ORDER.index)


def _combine_ranks(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """The result of a higher rank's type, raised by a lower rank only when that has the higher category."""
    if higher is None or lower is None:
        return higher or lower
    low, high = _category(lower), _category(higher)
    if low == 3 and high < 3:  # a complex number with a real float tensor keeps the tensor's precision
        return _complex_of(higher) if high == 2 else lower
    return _promote_pair(higher, lower) if high == 0 or (low == 2 and high == 1) else higher


def _complex_of(d: dtype) -> dtype:
    # torch gives complex32 for float16, a type JAX has not
    return dtypes.complex64 if d is dtypes.float16 else d.to_complex()


@cache
def _result(signature: tuple[tuple[int, dtype], ...]) -> dtype:
    ranks: list[dtype | None] = [None, None, None]
    for rank, d in signature:
        seen = ranks[rank]
        ranks[rank] = d if seen is None else _promote_pair(seen, d)
    result = _combine_ranks(ranks[_DIMENSIONED], _combine_ranks(ranks[_ZERO_DIM], ranks[_NUMBER]))
    assert result is not None
    return result


_NUMBER_DTYPES = {
    0: lambda: dtypes.bool_, 1: lambda: dtypes.int64,
    2: dtypes.get_default_dtype, 3: dtypes.get_default_complex_dtype,
}  # fmt: skip


def scalar_type(value: Any) -> dtype:
    """The type that PyTorch gives a number: bool, int64, the default float or the default complex type."""
    if isinstance(value, (bool, np.bool_)):
        return dtypes.bool_
    if isinstance(value, (int, np.integer)):
        return dtypes.int64
    if isinstance(value, (float, np.floating)):
        return dtypes.get_default_dtype()
    if isinstance(value, (complex, np.complexfloating)):
        return dtypes.get_default_complex_dtype()
    kind = dtypes.from_np(value.dtype)  # a weakly typed array or tracer, or a scalar of an ml_dtypes type
    return _NUMBER_DTYPES[_category(kind)]()


def _rank_and_type(value: Any) -> tuple[int, dtype]:
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, np.generic) or _is_weak(value):
        return _NUMBER, scalar_type(value)
    return (_DIMENSIONED if shape else _ZERO_DIM), dtypes.from_np(value.dtype)


def _is_weak(value: Any) -> bool:
    return bool(getattr(value, "weak_type", False)) and not value.shape


def result_dtype(*args: Any) -> dtype:
    """`result_type` as our dtype object."""
    if not args:
        raise ValueError("at least one argument is needed to promote types")
    return _result(tuple(_rank_and_type(a) for a in args))


def result_type(*args: Any) -> np.dtype[Any]:
    """The numpy dtype of an operation on ``args`` (arrays, weakly typed 0-dim tracers or Python numbers)."""
    return result_dtype(*args).np


def cast(value: Any, np_dtype: np.dtype[Any]) -> jax.Array:
    """``value`` as a strongly typed array; Python integers out of range wrap around, as in PyTorch."""
    if isinstance(value, (bool, int)) and np_dtype.kind in "iu":
        value = np.asarray(value).astype(np_dtype)
    return lax.convert_element_type(value, jax.dtypes.canonicalize_dtype(np_dtype))


def promote(*args: Any) -> list[jax.Array]:
    """Bring arrays and numbers to their common type."""
    common = result_type(*args)
    return [cast(a, common) for a in args]


def promote_float(*args: Any) -> list[jax.Array]:
    """`promote`, but a common type that is integer or bool becomes the default float type."""
    common = result_dtype(*args)
    if _category(common) < 2:
        common = dtypes.get_default_dtype()
    return [cast(a, common.np) for a in args]


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that is not smaller or of a lower kind than either type.

    Args:
        type1: a dtype.
        type2: a dtype.

    Raises:
        TypeError: if an argument is not a dtype.
        RuntimeError: for pairs without a common type (float8 with anything else, uint32 with int8).

    Example:
        >>> import functorch_port as torch
        >>> torch.promote_types(torch.int32, torch.float16)
        torch.float16

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.promote_types.html
    """
    first = dtypes.as_dtype(type1, "promote_types", "'type1' (position 1)")
    return _promote_pair(first, dtypes.as_dtype(type2, "promote_types", "'type2' (position 2)"))


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether PyTorch's casting rules let a result of type ``from_`` be stored as ``to``.

    Args:
        from_: the type of the result.
        to: the type of the place it goes to.

    Example:
        >>> import functorch_port as torch
        >>> torch.can_cast(torch.float32, torch.float16), torch.can_cast(torch.float32, torch.int64)
        (True, False)

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.can_cast.html
    """
    source = dtypes.as_dtype(from_, "can_cast", "'from_' (position 1)")
    return _category(source) <= _category(dtypes.as_dtype(to, "can_cast", "'to' (position 2)")) or (
        _category(source) < 2 and to is not dtypes.bool_
    )
