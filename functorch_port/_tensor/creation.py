"""Creation of tensors: from data, filled, and ranges."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, storage
from .._array.fits import fits
from .._array.symbolic import SymNumber
from .._base import device as devices
from .._base import dtypes, memory
from .._base.dtypes import dtype as DType
from .._base.layout import contiguous_format, memory_order, preserve_format, sparse_coo
from .._base.tuning import tuning
from .data import checked_numpy, value_of
from .registered import function
from .tensor import Tensor, wrap
from .view import laid

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "from_dlpack",
    "from_jax", "from_numpy", "full", "full_like",
    "linspace", "logspace", "ones", "ones_like", "range", "scalar_tensor", "tensor",
    "zeros", "zeros_like",
]  # fmt: skip

_COMPLEX = complex
_SEQUENCES = (list, tuple, range, np.ndarray, jax.Array, str)  # here `range` is still the built-in one
_ABSENT: Any = object()


# ---------------------------------------------------------------- arguments


def _need(name: str, argument: str, value: Any) -> None:
    if value is _ABSENT:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')


def _dtype(value: Any, name: str) -> DType | None:
    """The ``dtype=`` argument; Python's number types mean the widest dtype of their kind."""
    return None if value is None else dtypes.as_dtype(dtypes.PYTHON.get(value, value), name)


def _tensor_argument(value: Any, name: str) -> Any:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}")
    return value._peek()


def _shape(size: Sequence[Any], name: str = "") -> tuple[int, ...]:
    """The shape from sizes given as separate arguments or as one sequence."""
    sequence = len(size) == 1 and isinstance(size[0], list | tuple)
    if sequence:
        size = size[0]
    elif len(size) > 1 and isinstance(size[0], list | tuple):
        raise TypeError(f"{name}() takes 1 positional argument but {len(size)} were given")
    shape = []
    for i, n in enumerate(size):
        if isinstance(n, Tensor | SymNumber | np.integer):
            n = int(n)  # type: ignore[arg-type]
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(_not_a_size(name, n, i, sequence))
        if n < 0:
            raise RuntimeError(_negative_size(name, n, size))
        if n >= 1 << 63:
            raise TypeError(
                f"{name}(): argument 'size' failed to unpack the object at pos {i + 1} with error \"Overflow when "
                'unpacking long long"'
            )
        shape.append(n)
    return tuple(shape)


def _not_a_size(name: str, found: Any, position: int, sequence: bool) -> str:
    kind = type(found).__name__
    if position:
        return (
            f"{name}(): argument 'size' failed to unpack the object at pos {position + 1} with error \"type "
            f"must be tuple "
            f'of ints,but got {kind}"'
        )
    what = f"but found element of type {kind} at pos 0" if sequence else f"not {kind}"
    return f"{name}(): argument 'size' (position 1) must be tuple of ints, {what}"


def _negative_size(name: str, n: int, size: Sequence[Any]) -> str:
    if name == "zeros":
        return "zeros: Dimension size must be non-negative."
    return f"Trying to create tensor with negative dimension {n}: {list(size)}"


def place(value: Any, device: Any) -> Any:
    """Put a value on ``device`` (None: the default device, which costs nothing when it is JAX's own)."""
    where = devices.current_device() if device is None else devices.as_device(device)
    if where is None or isinstance(value, jax.core.Tracer):
        return value
    if where.type == "meta":
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    device = devices.to_jax(where)
    if devices.is_only(device) and (value.__class__ in storage.HOST or value.devices() == {device}):
        return value
    return storage.put(value, device)


def finish(value: Any, device: Any, requires_grad: bool) -> Tensor:
    """Wrap the value of a factory: place it on ``device``, set ``requires_grad``."""
    tensor = wrap(place(value, device))
    return _requiring(tensor) if requires_grad else tensor


def _requiring(tensor: Tensor) -> Tensor:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    tensor._requires_grad = True
    return tensor


def _into(out: Tensor, made: Tensor) -> Tensor:
    out._assign_out(made)
    return out


def _is_meta(device: Any) -> bool:
    where = devices.current_device() if device is None else devices.as_device(device)
    return where is not None and where.type == "meta"


def _strided(layout: Any) -> None:
    if layout is sparse_coo:
        raise NotImplementedError(
            f"layout={layout} is not supported here; only torch.strided is: create a dense tensor"
        )


# ---------------------------------------------------------------- from data


def tensor(
    data: Any = _ABSENT,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Create a tensor from a copy of ``data``.

    Args:
        data: a number, nested sequence, numpy or JAX array, or Tensor.
        dtype: default: inferred; Python floats get the default dtype.
        device: default: the default device.
        requires_grad: whether autograd records operations on the tensor.

    Raises:
        TypeError, ValueError: if the data is neither a number nor an evenly nested sequence of numbers.

    Example:
        >>> import functorch_port as torch
        >>> torch.tensor([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.tensor.html
    """
    _need("tensor", "data", data)
    if isinstance(data, Tensor):
        _warn_copy("torch.tensor")
    return _from_data(data, _dtype(dtype, "tensor"), device, requires_grad)


def _warn_copy(spelling: str) -> None:
    warnings.warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        f"sourceTensor.detach().clone().requires_grad_(True), rather than {spelling}(sourceTensor).",
        UserWarning,
        stacklevel=3,
    )


def _from_data(data: Any, dtype: DType | None, device: Any = None, requires_grad: bool = False) -> Tensor:
    with storage.x64():
        return finish(value_of(data, dtype), device, requires_grad)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Convert ``data`` to a tensor; a Tensor of the right dtype and device is returned itself.

    A numpy array of the right dtype shares its memory with the tensor, under the conditions of `from_numpy`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.as_tensor.html
    """
    dtype = _dtype(dtype, "as_tensor")
    if isinstance(data, Tensor):
        return data.to(dtype=dtype or data.dtype, device=device)  # type: ignore[attr-defined]
    made = _from_data(data, dtype, device)
    _follows(made, data)
    return made


def _follows(made: Tensor, data: Any) -> bool:
    """Have a tensor share the memory of the numpy array that it was made of, if it may; returns whether it does."""
    return (
        isinstance(data, np.ndarray) and not storage.overlay and executor.current.follow(made._storage, data)
    )


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Convert ``obj`` to a tensor, like `as_tensor`, with control over copies.

    Args:
        copy: True always copies, False raises if a copy is needed, None copies only if needed.

    Raises:
        ValueError, RuntimeError: for ``copy=False`` and an object without shareable memory, or another dtype.
        NotImplementedError: for ``copy=False`` and a numpy array that cannot share its memory (see `from_numpy`).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.asarray.html
    """
    if copy is False:
        _check_alias(obj, _dtype(dtype, "asarray"))
    if isinstance(obj, Tensor):
        out = obj.to(dtype=_dtype(dtype, "asarray") or obj.dtype, device=device)  # type: ignore[attr-defined]
        out = out.clone() if copy and out is obj else out  # type: ignore[attr-defined]
        return out.requires_grad_() if requires_grad else out
    made = _from_data(obj, _dtype(dtype, "asarray"), device, requires_grad)
    if copy or not isinstance(obj, np.ndarray) or not obj.ndim:  # one of no dimensions counts as a number
        return made
    if not _follows(made, obj) and copy is False:
        raise NotImplementedError(
            "asarray(copy=False): a numpy array that is read-only, has more than 4096 elements or a dtype that is kept "
            "by JAX cannot share its memory with a jax.Array. Omit copy=False to copy it"
        )
    return made


def _check_alias(obj: Any, dtype: DType | None) -> None:
    if isinstance(obj, np.generic):
        raise RuntimeError(
            "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
        )
    if isinstance(obj, np.ndarray | jax.Array):
        kind = dtypes.from_np(obj.dtype)
    elif isinstance(obj, Tensor):
        kind = obj.dtype
    else:
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    if dtype not in (None, kind):
        raise ValueError(
            f"can't alias tensor with dtype '{kind.scalar_name}' into dtype '{dtype.scalar_name}'."  # type: ignore[union-attr]
        )


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """Create a tensor from a numpy array.

    On a CPU, a writable array of up to 4,096 elements shares its memory with the tensor, as in PyTorch: a write to one
    changes the other. A larger tensor is a `jax.Array`, which cannot share writable memory: it copies the current
    values and does not follow the array.

    Raises:
        TypeError: if ``ndarray`` is not a numpy array, or PyTorch does not support its dtype.
        ValueError: if a stride is negative.

    Example:
        >>> import functorch_port as torch, numpy as np
        >>> a = np.zeros(3)
        >>> t = torch.from_numpy(a)
        >>> a[0] = 5
        >>> t
        tensor([5., 0., 0.], dtype=torch.float64)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    made = _from_data(checked_numpy(ndarray), None)
    _follows(made, ndarray)
    return made


def from_jax(array: jax.Array) -> Tensor:
    """Wrap a `jax.Array` as a tensor, without a copy.

    Example:
        >>> import functorch_port as torch, jax.numpy as jnp
        >>> torch.from_jax(jnp.arange(3.))
        tensor([0., 1., 2.])
    """
    return wrap(array)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """Create a tensor from any object with ``__dlpack__``; it shares memory under the conditions of `from_numpy`.

    Reference: https://docs.pytorch.org/docs/stable/dlpack.html
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    array = _seen_by_numpy(ext_tensor)
    if array is not None and executor.current.keeps_on_host(array):
        return from_numpy(array)
    with storage.x64():
        return wrap(jnp.from_dlpack(ext_tensor, copy=True))


def _seen_by_numpy(ext_tensor: Any) -> np.ndarray | None:
    """An object with ``__dlpack__`` as a numpy array on its memory; None if numpy does not support it."""
    try:
        return None if isinstance(ext_tensor, jax.Array) else np.from_dlpack(ext_tensor)
    except (BufferError, RuntimeError, TypeError, AttributeError):
        return None


def legacy(args: tuple[Any, ...], device: Any = None, dtype: DType | None = None) -> Tensor:
    """The tensor of ``torch.Tensor(*args)``, or with a ``dtype`` of ``torch.FloatTensor(*args)`` and the like."""
    kind = dtype or dtypes.get_default_dtype()
    if not args:
        return zeros(0, dtype=kind, device=device)
    first = args[0]
    if len(args) == 1:
        if isinstance(first, Tensor):
            return _legacy_alias(first, dtype)
        if type(first).__name__ == "Size":
            return zeros(first, dtype=kind, device=device)
        if isinstance(first, _SEQUENCES):
            return _from_data(first, kind, device)
        if isinstance(first, bytes):
            raise TypeError("new(): invalid data type 'bytes'")
        if not isinstance(first, int | np.integer | SymNumber):
            if not hasattr(first, "__getitem__") or isinstance(first, Mapping):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            return _from_data(list(first), kind, device)
    for i, n in enumerate(args):
        if not isinstance(n, int | np.integer | SymNumber):
            raise TypeError(
                f"new(): argument 'size' failed to unpack the object at pos {i + 1} with error \"type must "
                f"be tuple of ints,"
                f'but got {type(n).__name__}"'
            )
    return empty(*args, dtype=kind, device=device)


def _legacy_alias(source: Tensor, dtype: DType | None) -> Tensor:
    if dtype is not None and source.dtype is not dtype:
        raise TypeError(f"expected a tensor of dtype {dtype} (got {source.dtype})")
    return function("alias")(source)


# ------------------------------------------------------------------- filled


def _sizes_first(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a factory ``fn(shape, ...)`` accept sizes as separate arguments, as a sequence, or as ``size=``."""
    name = fn.__name__

    @functools.wraps(fn)
    def factory(*args: Any, size: Any = _ABSENT, **kwargs: Any) -> Tensor:
        if size is not _ABSENT:
            if args:
                raise TypeError(f"{name}() got multiple values for argument 'size'")
            if not isinstance(size, list | tuple):
                raise TypeError(f"{name}(): argument 'size' must be tuple of ints, not {type(size).__name__}")
            args = (size,)
        _need(name, "size", args or _ABSENT)
        return fn(_shape(args, name), **kwargs)

    return factory


def _as_jax(values: Any) -> Any:
    """A value computed on the host, or a traced value, as an array."""
    return values if isinstance(values, jax.core.Tracer) else storage.on_device(values)


def _fill(shape: tuple[int, ...], value: Any, np_dtype: np.dtype, device: Any) -> Any:
    if _is_meta(device):
        return jax.ShapeDtypeStruct(shape, np_dtype)
    memory.room(shape, np_dtype)
    with storage.x64():
        if storage.overlay or type(value) not in _PLAIN:
            return jnp.full(shape, storage.as_array(value), np_dtype)
        if math.prod(shape) <= _SMALL:
            return _small_fill(shape, value, repr(value), np_dtype, jax.config.jax_default_device)
        if storage.often(("filled", shape, np_dtype)):
            return jnp.full(shape, value, np_dtype)
        return jax.device_put(_host_fill(shape, value, repr(value), np_dtype))


_PLAIN = frozenset({bool, int, float})
#: arrays up to this size are kept and given out again: nobody can write to them
_SMALL = 1 << 14


@functools.lru_cache(tuning.cached_arrays)
def _small_fill(
    shape: tuple[int, ...], value: Any, spelled: str, np_dtype: np.dtype, device: Any
) -> jax.Array:
    """``spelled`` distinguishes equal values: -0.0 and 0.0."""
    with jax.ensure_compile_time_eval():  # kept: it must not belong to a trace
        return jax.device_put(_host_fill(shape, value, spelled, np_dtype))


def _host_fill(shape: tuple[int, ...], value: Any, spelled: str, np_dtype: np.dtype) -> np.ndarray:
    return np.full(shape, _element(value, spelled, np_dtype), np_dtype)


@functools.lru_cache(tuning.cached_arrays)
def _element(value: Any, spelled: str, np_dtype: np.dtype) -> Any:
    with jax.ensure_compile_time_eval():
        return np.asarray(jnp.full((), value, np_dtype))


_known_fill = functools.lru_cache(tuning.cached_arrays)(_host_fill)


def _filled(
    shape: tuple[int, ...],
    value: Any,
    dtype: DType | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
    out: Any = None,
    name: str = "full",
) -> Tensor:
    _strided(layout)
    kind = _dtype(dtype, name) or (dtypes.get_default_dtype() if out is None else out.dtype)
    array = _fill(shape, value, kind.np, device)
    made = _known(finish(array, device, requires_grad), array, value)
    return made if out is None else _into(out, made)


def _known(made: Tensor, array: Any, value: Any) -> Tensor:
    """Note that an array filled with a number is on the host too."""
    if type(value) in _PLAIN and executor.current.keeps_on_host(array) and made._storage.array() is array:
        made._storage.held = storage.Twin(_known_fill(array.shape, value, repr(value), array.dtype), array)
    return made


@_sizes_first
def zeros(
    size: Any,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Create a tensor of zeros.

    Example:
        >>> import functorch_port as torch
        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.zeros.html
    """
    if layout is sparse_coo:
        return function("sparse_coo_tensor")(
            size=size, dtype=dtype, device=device, requires_grad=requires_grad
        )
    return _filled(size, 0, dtype, layout, device, requires_grad, out, "zeros")


@_sizes_first
def ones(
    size: Any,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Create a tensor of ones.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.ones.html
    """
    return _filled(size, 1, dtype, layout, device, requires_grad, out, "ones")


@_sizes_first
def empty(
    size: Any,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Create a tensor with unspecified values (zeros here).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.empty.html
    """
    if memory_format is preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    made = _filled(size, 0, dtype, layout, device, requires_grad, out, "empty")
    return made if memory_format is None else laid(made, memory_order(made, memory_format))


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
    """Like `empty`; the strides are checked and ignored, as XLA chooses the memory layout.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.empty_strided.html
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    return empty(size, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Like `empty`, with the dimensions in memory in the order ``physical_layout``, the fastest-varying one last.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.empty_permuted.html
    """
    size, order = tuple(size), tuple(physical_layout)
    if len(size) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    for d in order:
        if not 0 <= d < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at index "
                f"{order.index(d)}).  NB: negative dims not currently supported; file an issue if you want it."
            )
    if len({*order}) < len(order):
        raise RuntimeError("Duplicate dim not allowed")
    made = empty([size[d] for d in order], dtype=dtype, layout=layout, device=device)
    moved = made.permute([order.index(d) for d in sorted(order)])  # type: ignore[attr-defined]
    moved._base = None
    return moved.requires_grad_() if requires_grad else moved


def full(
    size: Any,
    fill_value: Any = _ABSENT,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Create a tensor filled with a number, which also determines the default dtype.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.full.html
    """
    _need("full", "fill_value", fill_value)
    if not isinstance(size, list | tuple):
        raise TypeError(
            f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
        )
    value = _fill_value(fill_value, "full")
    kind = _dtype(dtype, "full") or (out.dtype if out is not None else _number_dtype(fill_value))
    fits(storage.as_array(value), kind.np)
    return _filled(_shape((size,), "full"), value, kind, layout, device, requires_grad, out)


def _fill_value(value: Any, name: str) -> Any:
    if isinstance(value, bool | int | float | _COMPLEX | Tensor | SymNumber | np.generic | jax.Array):
        return value
    raise TypeError(
        f"{name}(): argument 'fill_value' (position 2) must be Number, not {type(value).__name__}"
    )


def _number_dtype(value: Any) -> DType:
    """The dtype that PyTorch chooses for a tensor filled with this number."""
    plain = value.value if isinstance(value, SymNumber) else value
    if isinstance(plain, Tensor):
        return plain.dtype
    if isinstance(plain, bool | np.bool_):
        return dtypes.bool_
    if isinstance(plain, int | np.integer):
        return dtypes.int64
    return dtypes.get_default_complex_dtype() if isinstance(plain, _COMPLEX) else dtypes.get_default_dtype()


def _like(
    input: Any, value: Any, dtype: Any, device: Any, requires_grad: bool, name: str, memory_format: Any
) -> Tensor:
    own = _tensor_argument(input, name)
    kind = _dtype(dtype, name)
    np_dtype = own.dtype if kind is None else kind.np
    if isinstance(input, Tensor) and (input._view is not None or memory_format is not None):
        order = memory_order(input, memory_format)
        if order is not None:
            plain = _like(input.detach(), value, dtype, device, False, name, contiguous_format)
            return laid(plain, order).requires_grad_(requires_grad)
    if _is_meta(device) or (device is None and isinstance(own, jax.ShapeDtypeStruct)):
        return wrap(jax.ShapeDtypeStruct(own.shape, np_dtype))
    made = _fill(own.shape, value, np_dtype, None)
    if device is None and not isinstance(own, jax.core.Tracer) and not isinstance(made, jax.core.Tracer):
        same = own.__class__ in storage.OTHERS or made.sharding == own.sharding
        tensor = _known(wrap(made), made, value) if same else wrap(storage.put(made, own.sharding))
    else:
        tensor = wrap(place(made, device))
    return _requiring(tensor) if requires_grad else tensor


def zeros_like(
    input: Tensor = _ABSENT,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Create a tensor of zeros with the shape, dtype and device of ``input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.zeros_like.html
    """
    _need("zeros_like", "input", input)
    return _like(input, 0, dtype, device, requires_grad, "zeros_like", memory_format)


def ones_like(
    input: Tensor = _ABSENT,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Create a tensor of ones with the shape, dtype and device of ``input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.ones_like.html
    """
    _need("ones_like", "input", input)
    return _like(input, 1, dtype, device, requires_grad, "ones_like", memory_format)


def empty_like(
    input: Tensor = _ABSENT,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Like `empty`, with the shape, dtype and device of ``input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.empty_like.html
    """
    _need("empty_like", "input", input)
    return _like(input, 0, dtype, device, requires_grad, "empty_like", memory_format)


def full_like(
    input: Tensor,
    fill_value: Any = _ABSENT,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Like `full`, with the shape, dtype and device of ``input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.full_like.html
    """
    _need("full_like", "fill_value", fill_value)
    value, kind = _fill_value(fill_value, "full_like"), _dtype(dtype, "full_like")
    fits(storage.as_array(value), _tensor_argument(input, "full_like").dtype if kind is None else kind.np)
    return _like(input, value, kind, device, requires_grad, "full_like", memory_format)


# ------------------------------------------------------------------- ranges


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
    """Numbers from ``start`` (default 0) to ``end`` (exclusive) in steps of ``step`` (default 1).

    Raises:
        RuntimeError: if the step is 0 or leads away from ``end``.

    Example:
        >>> import functorch_port as torch
        >>> torch.arange(1, 7, 2)
        tensor([1, 3, 5])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.arange.html
    """
    first, last, by = _arange_bounds([_number(a) for a in args], _number(start), _number(end), _number(step))
    floating = any(isinstance(v, float) for v in (first, last, by))
    kind = _dtype(dtype, "arange") or (
        out.dtype if out is not None else dtypes.get_default_dtype() if floating else dtypes.int64
    )
    if kind is dtypes.bool_ or kind.is_complex:
        name = "Bool" if kind is dtypes.bool_ else kind.scalar_name
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{name}'")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if by == 0 or by != by:
        raise RuntimeError("step must be nonzero")
    if (last - first) / by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
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
    with storage.x64():
        made = finish(_as_jax(values.astype(kind.np)), device, requires_grad)
    return made if out is None else _into(out, made)


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
        if not isinstance(bounds[0], int | float | _COMPLEX):
            raise TypeError(
                f"arange(): argument 'end' (position 1) must be Number, not {type(bounds[0]).__name__}"
            )
        bounds = [0, bounds[0]]
    if not 2 <= len(bounds) <= 3 or (step is not None and len(bounds) < 3):
        raise _wrong_call("arange", given, {"start": start, "end": end, "step": step})
    for bound in bounds:
        if isinstance(bound, _COMPLEX):
            raise RuntimeError("value cannot be converted to type double without overflow")
        if not isinstance(bound, int | float):
            raise _wrong_call("arange", given, {"start": start, "end": end, "step": step})
    return bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else 1


def _wrong_call(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> TypeError:
    given = [type(a).__name__ for a in args] + [
        f"{k}={type(v).__name__}" for k, v in kwargs.items() if v is not None
    ]
    return TypeError(f"{name}() received an invalid combination of arguments - got ({', '.join(given)})")


def range(start: Any, end: Any = _ABSENT, step: Any = 1, **kwargs: Any) -> Tensor:
    """Deprecated: like `arange`, with ``end`` inclusive and floats by default."""
    _need("range", "end", end)
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values in "
        "[start, end).",
        UserWarning,
        stacklevel=2,
    )
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step + 1)
    kind = kwargs.pop("dtype", None) or dtypes.get_default_dtype()
    memory.room((count,), kind.np)
    return _from_data(np.float64(start) + np.arange(count) * step, kind, **kwargs)


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
    steps = _number(steps)
    first, last = _ends("linspace", start, end, steps, _dtype(dtype, "linspace"))
    is_complex = np.iscomplexobj(first) or np.iscomplexobj(last)
    kind = _dtype(dtype, "linspace") or (
        dtypes.get_default_complex_dtype() if is_complex else dtypes.get_default_dtype()
    )
    if kind.np.kind in "fc" and kind.np.itemsize >= 4:
        work = kind.np
    else:
        work = np.dtype(np.float64 if kind.np.kind in "iu" else np.float32)
    with storage.x64():
        values = _linspace(_of_type(work, first), _of_type(work, last), steps)
        made = finish(_as_jax(values.astype(kind.np)), device, requires_grad)
    return made if out is None else _into(out, made)


def _ends(name: str, start: Any, end: Any, steps: Any, kind: DType | None) -> tuple[Any, Any]:
    """The first and the last of evenly spaced numbers, converted to the dtype."""
    ndims = [x.ndim if isinstance(x, Tensor) else 0 for x in (start, end)]
    if any(ndims):
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got start with {ndims[0]} dimension(s) and "
            f"end with {ndims[1]} dimension(s)."
        )
    first, last = _end(start), _end(end)
    allowed = (int, float, _COMPLEX, jax.core.Tracer)
    if not isinstance(steps, int) or not all(isinstance(v, allowed) for v in (first, last)):
        raise _wrong_call(name, [v for v in (start, end, steps) if v is not _ABSENT], {})
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    np_dtype = (kind or dtypes.get_default_dtype()).np
    for value in (first, last):
        if kind is not None or not isinstance(value, _COMPLEX):
            fits(value, np_dtype)
    return (_whole(first, np_dtype), _whole(last, np_dtype)) if np_dtype.kind in "iu" else (first, last)


def _whole(value: Any, np_dtype: np.dtype) -> Any:
    """A number as an integer type; negative numbers wrap around in unsigned types."""
    return value if isinstance(value, jax.core.Tracer) else np.asarray(int(value)).astype(np_dtype).item()


def _end(value: Any) -> Any:
    """A number, or a traced array if its value is unknown."""
    traced = isinstance(value, Tensor) and isinstance(value._value, jax.core.Tracer)
    return value._value if traced else _number(value)


def _of_type(kind: np.dtype, value: Any) -> Any:
    return value.astype(kind) if isinstance(value, jax.core.Tracer) else kind.type(value)


def _linspace(first: Any, last: Any, steps: int) -> Any:
    """Count from both ends towards the middle, like PyTorch."""
    if steps == 1:
        return first.reshape(1)
    memory.room((steps,), first.dtype)
    count = np.arange(steps)
    i = count.astype(first.dtype)
    step = (last - first) / first.dtype.type(max(steps - 1, 1))
    where = np.where if isinstance(step, np.generic) else jnp.where
    return where(count < steps // 2, first + step * i, last - step * i[::-1])


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
    """``base`` to the power of each element of ``linspace(start, end, steps)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.logspace.html
    """
    kind = _dtype(dtype, "logspace") or dtypes.get_default_dtype()
    first, last = _ends("logspace", start, end, steps, kind)
    double = np.dtype(np.float64)
    with storage.x64():
        values = np.float64(base) ** _linspace(_of_type(double, first), _of_type(double, last), steps)
        made = finish(_as_jax(values.astype(kind.np)), device, requires_grad)
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
    pin_memory: bool = False,
) -> Tensor:
    """The identity matrix, ``n`` by ``m`` (default: ``n`` by ``n``).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.eye.html
    """
    for name, value in (("n", n), ("m", m)):
        if value is None and name == "m":
            continue
        if not isinstance(value, int | np.integer):
            position = 1 if name == "n" else 2
            raise TypeError(
                f"eye(): argument '{name}' (position {position}) must be int, not {type(value).__name__}"
            )
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    kind = _dtype(dtype, "eye") or dtypes.get_default_dtype()
    if _is_meta(device):
        return wrap(jax.ShapeDtypeStruct((n, n if m is None else m), kind.np))
    memory.room((n, n if m is None else m), kind.np)
    with storage.x64():
        made = finish(jnp.eye(n, m, dtype=kind.np), device, requires_grad)
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
    kind = _dtype(dtype, "scalar_tensor") or dtypes.get_default_dtype()
    if not (kind.is_floating_point and kind.itemsize < 4):  # rounded, as data is
        fits(storage.as_array(s), kind.np)
    return _from_data(s, kind, device, requires_grad)


# ------------------------------------------------------------ Tensor.new_...


def _new_method(name: str, factory: Any) -> Any:
    """A method such as ``Tensor.new_zeros``: a factory with the tensor's dtype and device as defaults."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = self.dtype
        if kwargs.get("device") is None:
            default = devices.get_default_device()
            kwargs["device"] = self.device if self.device != default else None
        return factory(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = (
        f"Like `{factory.__name__.lstrip('_')}`, with this tensor's dtype and device as defaults."
    )
    return method


def _new_from(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    if isinstance(data, Tensor):
        _warn_copy("tensor.new_tensor")
    return _from_data(data, _dtype(dtype, "new_tensor"), device, requires_grad)


def _new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Legacy constructor: an empty tensor of the given sizes, or one with the given data, of this tensor's dtype."""
    return legacy(args, device, self.dtype)


for _name, _factory in {
    "new_zeros": zeros,
    "new_ones": ones,
    "new_empty": empty,
    "new_empty_strided": empty_strided,
    "new_full": full,
    "new_tensor": _new_from,
}.items():
    setattr(Tensor, _name, _new_method(_name, _factory))
Tensor.new = _new  # type: ignore[attr-defined]
