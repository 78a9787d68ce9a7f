"""``torch._prims_common``: questions about dtypes, shapes and dimensions, which libraries ask of tensors."""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ._base import dtypes
from ._base.device import as_device
from ._base.device import device as Device
from ._base.dtypes import dtype as Dtype
from ._base.layout import suggested_format as suggest_memory_format
from ._base.promotion import can_cast, result_dtype
from ._base.strides import contiguous
from ._tensor.tensor import Tensor
from .ops._common import wrap_dim

__all__ = [
    "ELEMENTWISE_TYPE_PROMOTION_KIND", "apply_perm", "canonicalize_device", "canonicalize_dim", "canonicalize_dims",
    "check", "corresponding_complex_dtype", "corresponding_real_dtype", "dtype_or_default", "dtype_to_type",
    "elementwise_dtypes", "get_computation_dtype", "get_dtype", "infer_size_shapes", "invert_perm",
    "is_boolean_dtype", "is_complex_dtype", "is_contiguous", "is_contiguous_or_false", "is_cpu_scalar_tensor",
    "is_float_dtype", "is_grad_dtype", "is_integer_dtype", "is_low_precision_dtype", "is_same_shape",
    "is_valid_permutation", "make_contiguous_strides_for", "number_type", "reduction_dims", "same_shape",
    "suggest_memory_format", "type_to_dtype", "validate_no_repeating_dims",
]  # fmt: skip

TensorLike = TensorLikeType = Tensor
ShapeType = StrideType = DimsSequenceType = Sequence[int]
DimsType = int | DimsSequenceType
TensorSequenceType = Sequence[Tensor]
Number, NumberType = (bool, int, float, complex), bool | int | float | complex
IntLike, FloatLike, BoolLike, Dim = int, float, bool, int
DeviceLikeType = str | Device | int

# ---------------------------------------------------------------- dtypes

_COMPLEX = {
    dtypes.float16: dtypes.complex32, dtypes.bfloat16: dtypes.complex64, dtypes.float32: dtypes.complex64,
    dtypes.float64: dtypes.complex128,
}  # fmt: skip
_COMPUTED = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.complex32: dtypes.complex64,
}


def is_boolean_dtype(dtype: Dtype) -> bool:
    """Whether it is ``torch.bool``."""
    return dtype is dtypes.bool_


def is_float_dtype(dtype: Dtype) -> bool:
    """Whether its numbers are real and not whole."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: Dtype) -> bool:
    """Whether its numbers are complex."""
    return dtype.is_complex


def is_integer_dtype(dtype: Dtype) -> bool:
    """Whether its numbers are whole; bool is not."""
    return not (dtype.is_floating_point or dtype.is_complex or is_boolean_dtype(dtype))


def is_low_precision_dtype(dtype: Dtype) -> bool:
    """Whether operations compute in a wider one."""
    return dtype in _COMPUTED


def is_grad_dtype(dtype: Dtype) -> bool:
    """Whether tensors of it may require a gradient."""
    return dtype.is_floating_point or dtype.is_complex


def corresponding_real_dtype(dtype: Dtype) -> Dtype:
    """The dtype of the parts of complex numbers."""
    return dtype.to_real()


def corresponding_complex_dtype(dtype: Dtype) -> Dtype:
    """The dtype of complex numbers with parts of this one."""
    return _COMPLEX[dtype]


def get_computation_dtype(dtype: Dtype) -> Dtype:
    """The dtype that an operation on this one computes in."""
    return _COMPUTED.get(dtype, dtype)


def dtype_to_type(dtype: Dtype) -> type:
    """The type of Python's numbers that is like a dtype."""
    if is_boolean_dtype(dtype):
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int


def type_to_dtype(typ: type) -> Dtype:
    """The dtype of a tensor that is made from one of Python's numbers.

    Raises:
        ValueError: the type is none of them.
    """
    default = dtypes.get_default_dtype()
    known = {bool: dtypes.bool_, int: dtypes.int64, float: default, complex: _COMPLEX[default]}
    if typ not in known:
        raise ValueError(f"Invalid type {typ}!")
    return known[typ]


def get_dtype(x: Any) -> Dtype:
    """The dtype of a tensor, or of a number."""
    return x.dtype if isinstance(x, Tensor) else type_to_dtype(type(x))


def dtype_or_default(dtype: Dtype | None) -> Dtype:
    """The dtype, or the default one for None."""
    return dtypes.get_default_dtype() if dtype is None else dtype


def number_type(x: Any) -> type:
    """``type(x)`` of a number."""
    return type(x)


def can_safe_cast_to(*, cast_to: Dtype, cast_from: Dtype) -> bool:
    """Whether a result of one dtype may be stored as another."""
    return can_cast(cast_from, cast_to)


class ELEMENTWISE_TYPE_PROMOTION_KIND(enum.Enum):
    """How the dtype of an elementwise operation's result is found."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


def elementwise_dtypes(
    *_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND
) -> tuple[Dtype, Dtype]:
    """The dtype that an elementwise operation computes in, and that of its result.

    Args:
        _args: tensors, numbers, or None for what is not given.
        type_promotion_kind: how the result's dtype is found.
    """
    found = result_dtype(*(x._value if isinstance(x, Tensor) else x for x in _args if x is not None))
    kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
    if type_promotion_kind is kinds.INT_TO_FLOAT and not is_grad_dtype(found):
        found = dtypes.get_default_dtype()
    if type_promotion_kind is kinds.BOOL_TO_LONG and is_boolean_dtype(found):
        found = dtypes.int64
    computed = found if type_promotion_kind is kinds.NO_OPMATH else get_computation_dtype(found)
    if type_promotion_kind is kinds.COMPLEX_TO_FLOAT and found.is_complex:
        found = corresponding_real_dtype(found)
    return computed, dtypes.bool_ if type_promotion_kind is kinds.ALWAYS_BOOL else found


# ---------------------------------------------------------------- dimensions and shapes


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dimension, which may be negative, of a tensor with so many: from 0 on.

    Raises:
        IndexError: there is no such dimension.
    """
    if rank < 0:
        raise IndexError(f"Rank cannot be negative but got {rank}")
    if rank == 0 and not wrap_scalar:
        raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
    return wrap_dim(idx, rank)


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """`canonicalize_dim` of one, or of each of several."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, idx, wrap_scalar) for idx in indices)


def validate_no_repeating_dims(dims: Sequence[int]) -> None:
    """Raise RuntimeError if a dimension occurs twice."""
    if len(dims) != len({*dims}):
        raise RuntimeError("duplicate value in the list of dims")


def reduction_dims(shape: Sequence[int], dims: Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that a reduction is over: all for None."""
    if dims is None:
        return tuple(range(len(shape)))
    found: tuple[int, ...] = canonicalize_dims(len(shape), tuple(dims))
    validate_no_repeating_dims(found)
    return found


def is_valid_permutation(rank: int, perm: Sequence[int]) -> bool:
    """Whether it has each dimension once."""
    return sorted(perm) == list(range(rank))


def apply_perm(inp: Sequence[Any], perm: Sequence[int]) -> list[Any]:
    """The elements in another order; -1 stands for 1, a new dimension."""
    return [1 if p == -1 else inp[p] for p in perm]


def invert_perm(perm: Sequence[int]) -> list[int]:
    """The permutation that undoes this one."""
    return sorted(range(len(perm)), key=perm.__getitem__)


def same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are equal."""
    return tuple(a) == tuple(b)


is_same_shape = same_shape


def infer_size_shapes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to.

    Raises:
        RuntimeError: they do not.
    """
    ndim = max(len(a), len(b))
    pairs = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in (a, b)]
    for i, (m, n) in reversed([*enumerate(zip(*pairs, strict=True))]):
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-jagged dimension {i}"
            )
    return tuple(n if m == 1 else m for m, n in zip(*pairs, strict=True))


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a contiguous tensor, or of one whose matrices lie by columns."""
    strides = contiguous(shape)
    return strides if row_major or len(shape) < 2 else (*strides[:-2], 1, max(shape[-2], 1))


def is_contiguous(a: Tensor, false_if_dde: bool = False) -> bool:
    """``a.is_contiguous()``."""
    return a.is_contiguous()


def is_contiguous_or_false(a: Tensor) -> bool:
    """``a.is_contiguous()``."""
    return a.is_contiguous()


# ---------------------------------------------------------------- others


def is_cpu_scalar_tensor(a: Any) -> bool:
    """Whether it is a tensor without dimensions on a CPU."""
    return isinstance(a, Tensor) and a.dim() == 0 and a.device.type == "cpu"


def canonicalize_device(device: Any) -> Device:
    """The device that a text or a device means."""
    return as_device(device)


def check(b: bool, s: Callable[[], str], exc_type: type[Exception] = RuntimeError) -> None:
    """Raise ``exc_type`` with the text ``s()`` unless ``b``; deprecated."""
    warnings.warn(
        "`torch._prims_common.check` is deprecated and will be removed in the future. Please use `torch._check*` "
        "functions instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not b:
        raise exc_type(s())


def prod(xs: Sequence[Any]) -> Any:
    """The product of numbers."""
    return math.prod(xs)
