"""Tensors filled with one number, those that are not filled, and the identity matrix."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._array import executor, placing, tracing
from ..._array.fits import fits
from ..._array.placed import like, sharding_of
from ..._array.sizes import plain_dim
from ..._array.symbolic import SymNumber
from ..._array.value import HOST, OTHERS, Shared
from ..._base import dtypes, memory
from ..._base.device import as_device, from_jax
from ..._base.dtypes import dtype as DType
from ..._base.layout import contiguous_format, memory_order, preserve_format, sparse_coo
from ..._base.strides import contiguous
from ..._base.tuning import tuning
from ..tensor import Tensor, wrap
from ..view import laid
from .arguments import (
    _ABSENT,
    _dtype,
    _dtype_of,
    _into,
    _is_meta,
    _need,
    _requiring,
    _shape,
    _sparse_zeros,
    _tensor_argument,
    finish,
    place,
)

__all__ = [
    "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full", "full_like", "ones", "ones_like", "zeros",
    "zeros_like",
]  # fmt: skip


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


def _fill(shape: tuple[int, ...], value: Any, np_dtype: np.dtype, device: Any) -> Any:
    if _is_meta(device):
        return jax.ShapeDtypeStruct(shape, np_dtype)
    memory.room(shape, np_dtype)
    with tracing.x64():
        if tracing.overlay or type(value) not in _PLAIN:
            return jnp.full(shape, placing.as_array(value), np_dtype)
        if math.prod(shape) <= _SMALL:
            known = _known_fill(shape, value, repr(value), np_dtype)
            if executor.current.leaves(known):
                return known
            return _small_fill(shape, value, repr(value), np_dtype, jax.config.jax_default_device)
        if placing.often(("filled", shape, np_dtype)):
            return jnp.full(shape, value, np_dtype)
        return executor.current.place(_host_fill(shape, value, repr(value), np_dtype))


_PLAIN = frozenset({bool, int, float})
#: to these numpy converts floats, and integers, as JAX does
_OF_FLOATS = frozenset({np.bool_, np.float32, np.float64})
_OF_INTEGERS = _OF_FLOATS | {np.int64}
#: arrays up to this size are cached and shared: nobody can write to them
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
    if np_dtype.type in (
        _OF_FLOATS if type(value) is float else _OF_INTEGERS if abs(value) < 1 << 63 else ()
    ):
        with np.errstate(over="ignore"):
            return np.asarray(value, np_dtype)
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
    if layout is sparse_coo:
        raise RuntimeError("full(...) is not implemented for sparse layout")
    kind = _dtype_of(name, dtype, out, dtypes.get_default_dtype())
    array = _fill(shape, value, kind.np, device)
    made = _shared(finish(array, device, requires_grad), array)
    return made if out is None else _into(out, made)


def _shared(made: Tensor, array: Any) -> Tensor:
    """Have a tensor share what is made of a numpy array that many are filled with."""
    if array.__class__ is np.ndarray and array.size <= _SMALL and made._storage.held is array:
        made._storage.held = Shared(array)
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

    Args:
        size: the shape, as integers or one sequence.
        out: a tensor to write to.
        dtype: default: the default dtype.
        layout: ``torch.strided``, or ``torch.sparse_coo`` for a sparse tensor.
        device: default: the default device.
        requires_grad: whether autograd records operations on the tensor.
        pin_memory: has no effect.

    Example:
        >>> import functorch_port as torch
        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.zeros.html
    """
    if layout is sparse_coo:
        return _sparse_zeros(size, dtype, device, requires_grad)
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
    """Create a tensor of ones; the arguments are those of `zeros`.

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
    """Create a tensor with unspecified values, which are zeros here.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.empty.html
    """
    if memory_format is preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    if layout is sparse_coo:
        return _sparse_zeros(size, dtype, device, requires_grad)
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
    """Like `empty`, with these strides.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.empty_strided.html
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if min(size, default=0) < 0 or stride == contiguous(size):
        return empty(size, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    count = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if math.prod(size) else 0
    made = empty(count, dtype=dtype, layout=layout, device=device).as_strided(size, stride)  # type: ignore[attr-defined]
    made._base = None
    return made.requires_grad_() if requires_grad else made


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
    """Like `empty`; ``physical_layout`` is the order of the dimensions in memory, the outermost first.

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
    """Create a tensor filled with a number, whose type gives the default dtype.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.full.html
    """
    _need("full", "fill_value", fill_value)
    if not isinstance(size, list | tuple):
        raise TypeError(
            f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
        )
    value = _fill_value(fill_value, "full")
    kind = _dtype(dtype, "full") or (out.dtype if out is not None else _number_dtype(fill_value))
    fits(placing.as_array(value), kind.np)
    return _filled(_shape((size,), "full"), value, kind, layout, device, requires_grad, out)


def _fill_value(value: Any, name: str) -> Any:
    if isinstance(value, bool | int | float | complex | Tensor | SymNumber | np.generic | jax.Array):
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
    return dtypes.get_default_complex_dtype() if isinstance(plain, complex) else dtypes.get_default_dtype()


def _stays_on_mesh(tensor: Tensor, device: Any) -> bool:
    """Whether what is made like a tensor lies on the same devices: it is placed, and no other device is asked for."""
    sharding = sharding_of(tensor._storage) if tensor._view is None else None
    if sharding is None or device is None:
        return sharding is not None
    wanted = as_device(device)
    named = wanted.index is not None and sharding.is_fully_addressable  # else it is the process's
    return not named and wanted.type == from_jax(sharding.mesh.devices.flat[0]).type


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
    if _stays_on_mesh(input, device):
        number = isinstance(value, int | float | complex | np.generic)
        made = np.broadcast_to(np.asarray(value, np_dtype), own.shape) if number else None  # never whole
        tensor = wrap(like(input._storage, _fill(own.shape, value, np_dtype, None) if made is None else made))
        return _requiring(tensor) if requires_grad else tensor
    made = _fill(own.shape, value, np_dtype, None)
    if device is None and not isinstance(own, jax.core.Tracer) and not isinstance(made, jax.core.Tracer):
        here = own.__class__ in OTHERS
        here = here or (not own.committed if made.__class__ in HOST else made.sharding == own.sharding)
        tensor = _shared(wrap(made), made) if here else wrap(placing.put(made, own.sharding))
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
    if (getattr(input, "layout", None) if layout is None else layout) is sparse_coo:
        return _sparse_zeros(input.shape, dtype or input.dtype, device or input.device, requires_grad)
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
    fits(placing.as_array(value), _tensor_argument(input, "full_like").dtype if kind is None else kind.np)
    return _like(input, value, kind, device, requires_grad, "full_like", memory_format)


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
    """A matrix, ``n`` by ``m`` (default: ``n`` by ``n``), with ones on the diagonal and zeros elsewhere.

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
    n, m = plain_dim(n), plain_dim(m)
    kind = _dtype_of("eye", dtype, out, dtypes.get_default_dtype())
    if _is_meta(device):
        return wrap(jax.ShapeDtypeStruct((n, n if m is None else m), kind.np))
    memory.room((n, n if m is None else m), kind.np)
    with tracing.x64():
        made = finish(jnp.eye(n, m, dtype=kind.np), device, requires_grad)
    return made if out is None else _into(out, made)
