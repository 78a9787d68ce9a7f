"""Making tensors: from data, filled, and ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import device as devices
from . import dtypes, storage
from .dtypes import dtype as DType
from .layout import sparse_coo
from .symbolic import SymNumber
from .tensor import Tensor, wrap

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_strided", "eye", "from_dlpack", "from_jax", "from_numpy", "full",
    "full_like", "linspace", "logspace", "ones", "ones_like", "range", "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip


def place(value: Any, device: Any) -> Any:
    """Put a value on ``device`` (None: the default device, which costs nothing when it is JAX's own)."""
    where = devices.current_device() if device is None else devices.as_device(device)
    if where is None or isinstance(value, jax.core.Tracer):
        return value
    if where.type == "meta":
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    return jax.device_put(value, devices.to_jax(where))


def finish(value: Any, device: Any, requires_grad: bool) -> Tensor:
    """The last step of every factory."""
    tensor = wrap(place(value, device))
    return _requiring(tensor) if requires_grad else tensor


def _requiring(tensor: Tensor) -> Tensor:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    tensor._requires_grad = True
    return tensor


def _is_meta(device: Any) -> bool:
    where = devices.current_device() if device is None else devices.as_device(device)
    return where is not None and where.type == "meta"


def _strided(layout: Any) -> None:
    if layout is sparse_coo:
        raise NotImplementedError("sparse tensors cannot be made by this factory; make a dense one")


def _shape(size: Sequence[Any], name: str = "") -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    nested = len(size) == 1 and isinstance(size[0], list | tuple)
    if nested:
        size = size[0]
    shape = []
    for i, n in enumerate(size):
        if isinstance(n, Tensor | SymNumber | np.integer):
            n = int(n)
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(f"{name}(): argument 'size' {_bad_size(i, n, nested)}")
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(size)}")
        shape.append(n)
    return tuple(shape)


def _bad_size(i: int, n: Any, nested: bool) -> str:
    kind = type(n).__name__
    if i > 0:
        return f'failed to unpack the object at pos {i + 1} with error "type must be tuple of ints,but got {kind}"'
    return "(position 1) must be tuple of ints, " + (
        f"but found element of type {kind} at pos 0" if nested else f"not {kind}"
    )


def _infer(data: Any, dtype: DType | None) -> np.ndarray:
    """Nested sequences of numbers as a numpy array; of the dtype PyTorch infers if ``dtype`` is None."""
    flat_type = _element_type(data)
    array = np.array(data)
    if array.dtype == object:
        raise _ragged(data)
    if dtype is not None:
        return array  # cast once, by the caller: not through the default dtype
    if flat_type is float:
        return array.astype(dtypes.get_default_dtype().np)
    if flat_type is _COMPLEX:
        return array.astype(dtypes.get_default_complex_dtype().np)
    if array.size == 0 and array.dtype == np.float64:
        return array.astype(dtypes.get_default_dtype().np)
    return array


_COMPLEX = complex


def _element_type(data: Any) -> Any:
    """The widest Python number type in nested sequences, or None if they hold arrays."""
    order = (bool, int, float, _COMPLEX)
    best = -1
    stack = [data]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(item)
        elif type(item) in order:
            best = max(best, order.index(type(item)))
        else:
            return None
    return order[best] if best >= 0 else None


def _ragged(data: Any, dim: int = 0) -> Exception:
    if isinstance(data, list | tuple):
        lengths = [len(d) if isinstance(d, list | tuple) else None for d in data]
        for _i, n in enumerate(lengths):
            if n != lengths[0] and n is not None and lengths[0] is not None:
                return ValueError(f"expected sequence of length {lengths[0]} at dim {dim + 1} (got {n})")
        for item in data:
            if isinstance(item, list | tuple):
                return _ragged(item, dim + 1)
            if not isinstance(item, int | float | _COMPLEX):
                return TypeError(f"must be real number, not {type(item).__name__}")
    return TypeError(f"could not infer dtype of {type(data).__name__}")


def _has_tensors(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(_has_tensors(d) for d in data[:1])
    return isinstance(data, Tensor | SymNumber)


def _data_value(data: Any, dtype: DType | None) -> Any:
    """Data as an array nobody else can write to."""
    if isinstance(data, Tensor):
        value = data._value
        return value if dtype is None or value.dtype == dtype.np else value.astype(dtype.np)
    if isinstance(data, SymNumber):
        kind = dtype or (dtypes.get_default_dtype() if isinstance(data.value, float) else dtypes.int64)
        return jnp.asarray(data.array, kind.np)
    if isinstance(data, jax.Array):
        return data if dtype is None or data.dtype == dtype.np else data.astype(dtype.np)
    if _has_tensors(data):
        parts = [_data_value(d, dtype) for d in data]
        return jnp.stack([jnp.asarray(p) for p in parts])
    if isinstance(data, (str | bytes | type(None), dict | set)):
        if isinstance(data, str):
            raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    try:
        array = data if isinstance(data, np.ndarray | np.generic) else _infer(data, dtype)
    except ValueError:
        raise _ragged(data) from None
    array = np.asarray(array)
    if array.dtype.kind in "OUSM":
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype}. The only supported types are: float64, float32, float16, "
            "complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )
    target = dtype.np if dtype is not None else array.dtype.newbyteorder("=")
    dtypes.from_np(target)
    if array.dtype.kind == "c" and np.dtype(target).kind != "c":
        array = array.real
    return jnp.array(array.astype(target, copy=False))


def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of ``data``.

    Args:
        data: number, nested sequence, numpy or JAX array, Tensor.
        dtype: default: inferred; Python floats get the default dtype.
        device: default: the default device.
        requires_grad: record operations on it.

    Example:
        >>> import functorch_port as torch
        >>> torch.tensor([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.tensor.html
    """
    if dtype is not None:
        dtypes.as_dtype(dtype, "tensor")
    with storage.x64():
        value = _data_value(data, dtype)
    return finish(value, device, requires_grad)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """``data`` itself if it is a Tensor of that dtype and device, else a new tensor.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.as_tensor.html
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype or data.dtype, device=device)  # type: ignore[attr-defined]
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """As `as_tensor`, with a copy on request."""
    if isinstance(obj, Tensor) and copy is not True:
        out = as_tensor(obj, dtype, device)
        return out.requires_grad_() if requires_grad else out
    return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor with the array's values. The memory is not shared: JAX arrays are immutable.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return tensor(ndarray)


def from_jax(array: jax.Array) -> Tensor:
    """A tensor around a `jax.Array`; nothing is copied."""
    return wrap(array)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor from any object with ``__dlpack__``.

    Reference: https://docs.pytorch.org/docs/stable/dlpack.html
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    with storage.x64():
        return wrap(jnp.from_dlpack(ext_tensor, copy=True))


def legacy(args: tuple[Any, ...], device: Any = None) -> Tensor:
    """What ``torch.Tensor(*args)`` makes."""
    if len(args) == 1 and not isinstance(args[0], int):
        if isinstance(args[0], Tensor):
            return args[0].detach()
        if isinstance(args[0], tuple) and type(args[0]).__name__ == "Size":
            return zeros(args[0], device=device)
        return tensor(args[0], dtype=dtypes.get_default_dtype(), device=device)
    return zeros(*args, device=device) if args else zeros(0, device=device)


def _fill(shape: tuple[int, ...], value: Any, np_dtype: np.dtype, device: Any) -> Any:
    if _is_meta(device):
        return jax.ShapeDtypeStruct(shape, np_dtype)
    with storage.x64():
        return jnp.full(shape, storage.as_array(value), np_dtype)


def _filled(
    shape: tuple[int, ...], value: Any, dtype: DType | None, device: Any, requires_grad: bool, out: Any = None
) -> Tensor:
    made = finish(
        _fill(shape, value, (dtype or dtypes.get_default_dtype()).np, device), device, requires_grad
    )
    if out is None:
        return made
    out._assign_out(made)
    return out


def zeros(
    *size: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    names: Any = None,
) -> Tensor:
    """A tensor of zeros.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.zeros.html
    """
    _strided(layout)
    return _filled(_shape(size, "zeros"), 0, dtype, device, requires_grad, out)


def ones(
    *size: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    names: Any = None,
) -> Tensor:
    """A tensor of ones.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.ones.html
    """
    _strided(layout)
    return _filled(_shape(size, "ones"), 1, dtype, device, requires_grad, out)


def empty(
    *size: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
    names: Any = None,
) -> Tensor:
    """A tensor whose values do not matter (zeros here).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.empty.html
    """
    _strided(layout)
    return _filled(_shape(size, "empty"), 0, dtype, device, requires_grad, out)


def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """As `empty`; the strides are the compiler's choice."""
    return empty(tuple(size), dtype=dtype, device=device, requires_grad=requires_grad)


def full(
    size: Any,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    names: Any = None,
) -> Tensor:
    """A tensor filled with a number; the dtype is inferred from it.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.full.html
    """
    _strided(layout)
    if dtype is None:
        plain = fill_value.value if isinstance(fill_value, SymNumber) else fill_value
        if isinstance(plain, Tensor):
            dtype = plain.dtype
        elif isinstance(plain, bool):
            dtype = dtypes.bool_
        elif isinstance(plain, int):
            dtype = dtypes.int64
        elif isinstance(plain, _COMPLEX):
            dtype = dtypes.get_default_complex_dtype()
    return _filled(
        _shape((size,) if isinstance(size, list | tuple) else (size,), "full"),
        fill_value,
        dtype,
        device,
        requires_grad,
        out,
    )


def _like(input: Tensor, value: Any, dtype: DType | None, device: Any, requires_grad: bool) -> Tensor:
    own = input._value
    np_dtype = own.dtype if dtype is None else dtype.np
    if device is None and isinstance(own, jax.ShapeDtypeStruct):
        return wrap(jax.ShapeDtypeStruct(own.shape, np_dtype))
    if _is_meta(device):
        return wrap(jax.ShapeDtypeStruct(own.shape, np_dtype))
    with storage.x64():
        made = jnp.full_like(own, storage.as_array(value), dtype=np_dtype)
    if (
        device is None
        and isinstance(made, jax.Array)
        and isinstance(own, jax.Array)
        and not isinstance(own, jax.core.Tracer)
    ):
        tensor = wrap(
            made
            if made.sharding == own.sharding or isinstance(made, jax.core.Tracer)
            else jax.device_put(made, own.sharding)
        )
    else:
        tensor = wrap(place(made, device))
    return _requiring(tensor) if requires_grad else tensor


def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros of the shape, dtype and device of ``input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.zeros_like.html
    """
    return _like(input, 0, dtype, device, requires_grad)


def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Ones of the shape, dtype and device of ``input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.ones_like.html
    """
    return _like(input, 1, dtype, device, requires_grad)


def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """As `empty`, of the shape, dtype and device of ``input``."""
    return _like(input, 0, dtype, device, requires_grad)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """``fill_value`` in the shape, dtype and device of ``input``."""
    return _like(input, fill_value, dtype, device, requires_grad)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor | np.generic | SymNumber) else x


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
    """Numbers from ``start`` (0) up to but not including ``end`` in steps of ``step`` (1).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.arange.html
    """
    given = [_number(a) for a in args]
    if len(given) == 1:
        given = (
            [0 if start is None else _number(start), given[0]] if end is None else [given[0], _number(end)]
        )
    elif not given:
        given = [0 if start is None else _number(start), _number(end)]
    elif len(given) > 3:
        raise TypeError(f"arange() takes at most 3 positional arguments but {len(given)} were given")
    by = _number(step) if step is not None else given[2] if len(given) > 2 else 1
    first, last = given[0], given[1]
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) / by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    floating = any(isinstance(v, float) for v in (first, last, by))
    kind = dtype or (dtypes.get_default_dtype() if floating else dtypes.int64)
    count = math.ceil((last - first) / by)
    if _is_meta(device):
        return wrap(jax.ShapeDtypeStruct((count,), kind.np))
    values = first + np.arange(count, dtype=np.float64 if floating else np.int64) * by
    with storage.x64():
        made = finish(jnp.asarray(values.astype(kind.np)), device, requires_grad)
    return made if out is None else _into(out, made)


def _into(out: Tensor, made: Tensor) -> Tensor:
    out._assign_out(made)
    return out


def range(start: Any = 0, end: Any = None, step: Any = 1, **kwargs: Any) -> Tensor:
    """As `arange`, with ``end`` included and floats by default (deprecated in PyTorch)."""
    if end is None:
        start, end = 0, start
    kwargs.setdefault("dtype", dtypes.get_default_dtype())
    count = int((end - start) / step + 1)
    return tensor(np.float64(start) + np.arange(count) * step, **kwargs)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.linspace.html
    """
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    first, last = _number(start), _number(end)
    kind = dtype or (
        dtypes.get_default_complex_dtype()
        if isinstance(first, _COMPLEX) or isinstance(last, _COMPLEX)
        else dtypes.get_default_dtype()
    )
    work = (
        kind.np
        if kind.np.kind in "fc" and kind.np.itemsize >= 4
        else np.dtype(np.float64 if kind.np.kind in "iu" else np.float32)
    )
    with storage.x64():
        made = finish(
            jnp.asarray(_linspace(work.type(first), work.type(last), steps).astype(kind.np)),
            device,
            requires_grad,
        )
    return made if out is None else _into(out, made)


def _linspace(first: Any, last: Any, steps: int) -> np.ndarray:
    """PyTorch counts from both ends towards the middle."""
    if steps == 1:
        return np.array([first])
    i = np.arange(steps).astype(np.asarray(first).dtype)
    step = (last - first) / type(first)(max(steps - 1, 1))
    return np.where(np.arange(steps) < steps // 2, first + step * i, last - step * i[::-1])


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers `linspace` gives."""
    kind = dtype or dtypes.get_default_dtype()
    exponents = _linspace(np.float64(_number(start)), np.float64(_number(end)), steps)
    made = tensor(
        np.power(np.float64(base), exponents), dtype=kind, device=device, requires_grad=requires_grad
    )
    return made if out is None else _into(out, made)


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The identity matrix, ``n`` by ``m`` (default ``n``).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.eye.html
    """
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n must be greater or equal to 0, got {n}")
    with storage.x64():
        made = finish(jnp.eye(n, m, dtype=(dtype or dtypes.get_default_dtype()).np), device, requires_grad)
    return made if out is None else _into(out, made)


def scalar_tensor(
    s: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A 0-dim tensor of the default dtype."""
    return tensor(s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


def new_method(factory: Any) -> Any:
    """``Tensor.new_zeros`` and its like: a factory with this tensor's dtype and device as defaults."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = self.dtype
        if kwargs.get("device") is None and not isinstance(self._storage._value, jax.core.Tracer):
            default = devices.get_default_device()
            kwargs["device"] = self.device if self.device != default else None
        return factory(*args, **kwargs)

    return method


for _name, _factory in {
    "new_zeros": zeros,
    "new_ones": ones,
    "new_empty": empty,
    "new_full": full,
    "new_tensor": tensor,
}.items():
    setattr(Tensor, _name, new_method(_factory))
