"""`make_tensor`: random tensors for tests of operations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from .._base import dtypes
from .._run.bind import function
from .._tensor.creation import empty
from .._tensor.tensor import Tensor

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Create a tensor of numbers drawn uniformly from [low, high).

    Args:
        *shape: the shape.
        dtype: the dtype.
        device: the device.
        low, high: the bounds; by default -9 and 10 for integers, 0 and 2 for bools, -9 and 9 for the rest. They are
            clamped to the dtype's range.
        requires_grad: whether to record gradients; for floating point and complex dtypes.
        noncontiguous: whether to return a view of every other element of a larger tensor.
        exclude_zero: whether to replace zeros by 1 (integers and bools) or by the smallest normal number.
        memory_format: the memory format; excludes ``noncontiguous``.

    Raises:
        ValueError: a bound is NaN, ``low > high`` (or, for integers and bools, ``low == high``), the whole interval is
            outside of the dtype's range, or ``requires_grad`` is set for integers.
        TypeError: the dtype is not supported.

    Example:
        >>> import functorch_port as torch
        >>> torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu", low=0).shape
        torch.Size([2, 3])

    Reference: https://docs.pytorch.org/docs/stable/testing.html#torch.testing.make_tensor
    """
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got {noncontiguous=} and {memory_format=}"
        )
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(_unsupported(dtype))
    discrete = not (dtype.is_floating_point or dtype.is_complex)
    if requires_grad and discrete:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}"
        )
    noncontiguous = noncontiguous and math.prod(shape) > 1
    if noncontiguous:
        shape = (*shape[:-1], 2 * shape[-1])
    low, high = _bounds(low, high, dtype)
    if discrete:
        out = function("randint")(math.ceil(low), math.ceil(high), shape, device=device, dtype=dtype)
    elif dtype.itemsize == 1:
        out = _uniform(empty(shape, device=device, dtype=dtypes.float32), low, high).to(dtype)
    else:
        out = empty(shape, device=device, dtype=dtype)
        _uniform(function("view_as_real")(out) if dtype.is_complex else out, low, high)
    if noncontiguous:
        out = out[..., 1::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out[out == 0] = 1 if discrete else dtypes.finfo(dtype).tiny
    return out.requires_grad_(requires_grad) if requires_grad else out


def _unsupported(dtype: Any) -> str:
    return (
        f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). To request support, file an "
        "issue at: https://github.com/pytorch/pytorch/issues"
    )


def _uniform(out: Tensor, low: float, high: float) -> Tensor:
    if high - low >= dtypes.finfo(out.dtype).max:  # the difference of the bounds would be infinite
        return out.uniform_(low / 2, high / 2).mul_(2)
    return out.uniform_(low, high)


def _bounds(low: float | None, high: float | None, dtype: Any) -> tuple[float, float]:
    """The bounds, clamped to the dtype's range."""
    least: float
    most: float
    first, last = -9, 9
    if dtype is dtypes.bool_:
        least, most, first, last = 0, 2, 0, 2
    elif dtype.is_floating_point or dtype.is_complex:
        least, most = dtypes.finfo(dtype).min, dtypes.finfo(dtype).max
    else:
        info = dtypes.iinfo(dtype)
        least, most, last = info.min, info.max + (dtype is not dtypes.int64), 10
    low = first if low is None else low
    high = last if high is None else high
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and (dtype.is_floating_point or dtype.is_complex) and dtype.itemsize > 1:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types "
            "is deprecated since 2.1 and will be removed in 2.3. "
            "Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {dtype} only supports [{least}, {most})"
        )
    return min(max(low, least), most), min(max(high, least), most)
