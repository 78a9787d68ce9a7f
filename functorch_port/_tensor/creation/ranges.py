"""Evenly spaced numbers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._array import executor, tracing
from ..._array.fits import fits
from ..._array.placing import as_array
from ..._array.sizes import SymSize, plain_dim
from ..._array.symbolic import SymNumber
from ..._base import dtypes, memory
from ..._base.dtypes import dtype as DType
from ..tensor import Tensor, wrap
from .arguments import _ABSENT, _dtype, _dtype_of, _into, _is_meta, _need, _wrong_call, finish
from .from_data import _from_data

__all__ = ["arange", "linspace", "logspace", "range"]


#: dtypes that hold a product of two numbers of another dtype exactly
_WIDER: dict[np.dtype, np.dtype] = {
    dtypes.float16.np: np.dtype(np.float32),
    dtypes.bfloat16.np: np.dtype(np.float32),
    dtypes.float32.np: np.dtype(np.float64),
    dtypes.float64.np: np.dtype(np.longdouble),
}


def arange(
    *args: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Numbers from ``start`` (default 0) to ``end`` (exclusive) in steps of ``step`` (default 1).

    Raises:
        RuntimeError: the step is 0 or leads away from ``end``.

    Example:
        >>> import functorch_port as torch
        >>> torch.arange(1, 7, 2)
        tensor([1, 3, 5])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.arange.html
    """
    first, last, by = _arange_bounds([_number(a) for a in args], _number(start), _number(end), _number(step))
    if SymSize in map(type, (first, last, by)):
        return _symbolic_range(first, last, by, _dtype(dtype, "arange") or dtypes.int64, requires_grad)
    floating = any(isinstance(v, float) for v in (first, last, by))
    kind = _dtype(dtype, "arange") or (
        out.dtype if out is not None else dtypes.get_default_dtype() if floating else dtypes.int64
    )
    if kind is dtypes.bool_ or kind.is_complex:
        name = "Bool" if kind is dtypes.bool_ else kind.scalar_name
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{name}'")
    _check_bounds(first, last, by)
    computed = dtypes.float32 if kind.itemsize < 4 else dtypes.float64
    for bound in (first, last, by):
        fits(bound, (computed if kind.is_floating_point else dtypes.int64).np)
    whole = floating and not kind.is_floating_point
    if whole and kind is dtypes.int64:
        first, last, by = int(first), int(last), int(by)
        if by == 0:
            raise ValueError("step must be nonzero")
    count = math.ceil((last - first) / by)
    if whole:
        first, by = int(first), int(by)
    if _is_meta(device):
        return wrap(jax.ShapeDtypeStruct((count,), kind.np))
    memory.room((count,), kind.np)
    values = first + np.arange(count, dtype=np.float64 if kind.is_floating_point else np.int64) * by
    with tracing.x64():
        made = finish(_as_jax(values.astype(kind.np)), device, requires_grad)
    return made if out is None else _in_row(out, made)


def _symbolic_range(first: Any, last: Any, by: Any, kind: DType, requires_grad: bool) -> Tensor:
    """A range of integers, of a size that the program does not know."""
    if not all(isinstance(v, int) for v in (first, last, by)) or by == 0 or (last - first) * by < 0:
        _check_bounds(first, last, by)
    with tracing.x64():
        steps = jnp.arange(plain_dim(-((first - last) // by)), dtype=kind.np)
        return finish(steps * as_array(by) + as_array(first), None, requires_grad)


def _check_bounds(first: Any, last: Any, by: Any) -> None:
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if by == 0 or by != by:
        raise RuntimeError("step must be nonzero")
    if (last - first) / by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _arange_bounds(given: list[Any], start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    bounds = list(given)
    if start is not None and len(given) < 2:
        bounds.insert(0, start)
    if end is not None:
        bounds.append(end)
    if step is not None:
        bounds = [0, *bounds] if len(bounds) == 1 and not given else bounds
        bounds.append(step)
    if len(bounds) == 1:
        if not isinstance(bounds[0], int | float | complex):
            raise TypeError(
                f"arange(): argument 'end' (position 1) must be Number, not {type(bounds[0]).__name__}"
            )
        bounds = [0, bounds[0]]
    if not 2 <= len(bounds) <= 3 or (step is not None and len(bounds) < 3):
        raise _wrong_call("arange", given, {"start": start, "end": end, "step": step})
    for bound in bounds:
        if isinstance(bound, complex):
            raise RuntimeError("value cannot be converted to type double without overflow")
        if not isinstance(bound, int | float):
            raise _wrong_call("arange", given, {"start": start, "end": end, "step": step})
    return bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else 1


def range(
    start: Any,
    end: Any = _ABSENT,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Deprecated: like `arange`, but ``end`` is included, and the default dtype is a float dtype."""
    _need("range", "end", end)
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    start, end, step = _number(start), _number(end), _number(step)
    _check_bounds(start, end, step)
    kind = _dtype_of("range", dtype, out, dtypes.get_default_dtype())
    if kind is dtypes.bool_:
        raise NotImplementedError("\"range_cpu\" not implemented for 'Bool'")
    count = int((end - start) / step + 1)
    memory.room((count,), kind.np)
    made = _from_data(np.float64(start) + np.arange(count) * step, kind, device, requires_grad)
    return made if out is None else _in_row(out, made)


def linspace(
    start: Any,
    end: Any,
    steps: Any = _ABSENT,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both inclusive.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.linspace.html
    """
    kind, first, last, steps = _spaced("linspace", start, end, steps, _asked(dtype, out))
    if kind.np in _WIDER or kind.is_complex:
        work = kind.np
    else:
        work = np.dtype(np.float64 if kind.np.kind in "iu" else np.float32)
    with tracing.x64():
        values = evenly_spaced(_of_type(work, first), _of_type(work, last), steps)
        made = finish(_as_jax(values.astype(kind.np)), device, requires_grad)
    return made if out is None else _in_row(out, made)


def _number(x: Any) -> Any:
    if type(x) is SymSize:
        return x
    return x.item() if isinstance(x, Tensor | np.generic | SymNumber) else x


def _as_jax(values: Any) -> Any:
    """A value computed in numpy, or a traced value, as an array."""
    return values if isinstance(values, jax.core.Tracer) else executor.current.place(values)


def _in_row(out: Tensor, made: Tensor) -> Tensor:
    """Write to ``out``, which keeps its shape where it has as many elements."""
    return _into(out, made.reshape(out.shape) if out.numel() == made.numel() else made)  # type: ignore[attr-defined]


def _asked(dtype: DType | None, out: Tensor | None) -> DType | None:
    return out.dtype if dtype is None and out is not None else dtype


def _spaced(name: str, start: Any, end: Any, steps: Any, dtype: DType | None) -> tuple[DType, Any, Any, int]:
    """The dtype of evenly spaced numbers, the first and the last one, converted to it, and how many they are."""
    kind, steps = _dtype(dtype, name), _number(steps)
    tensors = {what: x for what, x in (("start", start), ("end", end)) if isinstance(x, Tensor)}
    if any(x.ndim for x in tensors.values()):
        found = " and ".join(f"{what} with {x.ndim} dimension(s)" for what, x in tensors.items())
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {found}.")
    first, last = _end(start), _end(end)
    allowed = (int, float, complex, jax.core.Tracer)
    if not isinstance(steps, int) or not all(isinstance(v, allowed) for v in (first, last)):
        raise _wrong_call(name, [v for v in (start, end, steps) if v is not _ABSENT], {})
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    np_dtype = (kind or dtypes.get_default_dtype()).np
    for value in (first, last):
        if kind is not None or not isinstance(value, complex):
            fits(value, np_dtype)
    if np_dtype.kind in "iu":
        first, last = _whole(first, np_dtype), _whole(last, np_dtype)
    usual = dtypes.get_default_complex_dtype if _is_complex(first, last) else dtypes.get_default_dtype
    return kind or usual(), first, last, steps


def _is_complex(*values: Any) -> bool:
    return any(map(np.iscomplexobj, values))


def _whole(value: Any, np_dtype: np.dtype) -> Any:
    """A number as an integer; a negative one wraps around in an unsigned dtype."""
    return value if isinstance(value, jax.core.Tracer) else np.asarray(int(value)).astype(np_dtype).item()


def _end(value: Any) -> Any:
    """A number, or a traced array if its value is unknown."""
    traced = isinstance(value, Tensor) and isinstance(value._look(), jax.core.Tracer)
    return value._value if traced else _number(value)


def _of_type(kind: np.dtype, value: Any) -> Any:
    return value.astype(kind) if isinstance(value, jax.core.Tracer) else kind.type(value)


def evenly_spaced(first: Any, last: Any, steps: int) -> Any:
    """Count from both ends towards the middle, as PyTorch does.

    Its kernels round a product and a sum once, or in half precision each by itself.
    """
    if steps == 1:
        return first.reshape(1)
    memory.room((steps,), first.dtype)
    count = np.arange(steps)
    step = (last - first) / first.dtype.type(max(steps - 1, 1))
    if not isinstance(step, np.generic):
        i = count.astype(first.dtype)
        return jnp.where(count < steps // 2, first + step * i, last - step * i[::-1])
    dtype, half = first.dtype, steps // 2
    wide = _WIDER.get(dtype, dtype)

    def times(i: np.ndarray) -> np.ndarray:
        product = wide.type(step) * i.astype(wide)
        return product.astype(dtype) if dtype.itemsize == 2 else product

    parts = first + times(count[:half]), last - times(count[: steps - half][::-1])
    return np.concatenate([part.astype(dtype) for part in parts])


def logspace(
    start: Any,
    end: Any,
    steps: Any = _ABSENT,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``base`` to the power of each element of ``linspace(start, end, steps)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.logspace.html
    """
    kind, first, last, steps = _spaced("logspace", start, end, steps, _asked(dtype, out))
    double = np.dtype(np.complex128 if _is_complex(first, last) else np.float64)
    with tracing.x64():
        values = np.float64(base) ** evenly_spaced(_of_type(double, first), _of_type(double, last), steps)
        made = finish(_as_jax(values.astype(kind.np)), device, requires_grad)
    return made if out is None else _in_row(out, made)
