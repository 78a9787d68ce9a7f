"""Copies and casts: ``to``, ``clone``, ``copy_``, ``fill_`` and the methods named after dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import placing, storage, tracing
from .._array.fits import OWN
from .._array.placed import like, sharding_of
from .._array.symbolic import SymNumber
from .._base import device as devices
from .._base import dtypes, inside, memory, meshes, strides
from .._base import layout as layouts
from .._base.layout import contiguous_format, memory_order, preserve_format, suggested_format
from .._run import bind
from .._run.call import Op
from .._run.opnode import edge_of
from .._run.registry import Array, composite, op, ops
from .._tensor import anomaly, creation, grad_mode
from .._tensor.creation import _shape
from .._tensor.errors import C_NAMES
from .._tensor.node import Edge, Node
from .._tensor.tensor import Tensor, wrap
from .._tensor.typed import elements
from .._tensor.untyped import Bytes
from .._tensor.view import laid
from ._common import broadcast_shapes, wide

__all__: list[str] = []


def cast_array(x: Any, np_dtype: Any) -> Any:
    """Cast an array as C++ does: complex drops the imaginary part, floats truncate and integers wrap.

    Floats outside of the range of an integer dtype give the result of an x86 processor.
    """
    if x.dtype == np_dtype:  # a weak type must not stay weak
        return lax.convert_element_type(x, np_dtype) if getattr(x, "weak_type", False) else x
    kind = np_dtype.kind
    if x.dtype.kind == "c" and kind not in "cb":
        x = x.real
    if kind in "iu" and jnp.issubdtype(x.dtype, jnp.floating):
        return _cut_off(x, np_dtype)
    return x.astype(np_dtype)


def _cut_off(x: Any, np_dtype: Any) -> Any:
    """Truncate floats to integers; those out of range give the lowest number of 32 or 64 bits.

    A narrow dtype takes the last bits of that. XLA would saturate.
    """
    bits = 64 if np_dtype.itemsize == 8 or np_dtype.name == "uint8" else 32
    signed, limit = f"int{bits}", 2.0 ** (bits - 1)
    x = x.astype(wide(x.dtype))

    def held(x: Any) -> Any:
        return jnp.where((x >= -limit) & (x < limit), x, -limit).astype(signed)

    if np_dtype.kind == "u" and np_dtype.itemsize >= 4:  # the upper half of the unsigned ones
        high = held(x - limit) ^ jnp.iinfo(signed).min
        return jnp.where(x >= limit, high, held(x)).astype(np_dtype)
    return held(x).astype(np_dtype)


@op("to_dtype", where="", node="ToCopyBackward0")
def to_dtype(input: Array, dtype: dtypes.dtype) -> Any:
    """``input`` in another dtype."""
    return cast_array(input, dtype.np)


@op("to_device", where="", node="ToCopyBackward0")
def to_device(input: Array, device: devices.device) -> Any:
    """``input`` on another device, if the program has several (see `_moved`)."""
    return jax.device_put(input, devices.to_jax(device))


def _lay_clone(result: Tensor, source: Tensor, memory_format: Any = None) -> Tensor:
    return laid(result, memory_order(source, memory_format))


@op("clone", where="torch method", node="CloneBackward0", after=_lay_clone)
def clone(input: Array, memory_format: Any = None) -> Any:
    """A copy with its own Storage; the memory is copied only when one of the two is written."""
    return jnp.asarray(input)


@op("alias", where="", view=True, node="AliasBackward0")
def alias(input: Array) -> Any:
    """A view of the whole tensor."""
    return input


@op("copy", where="", node="CopyBackwards")
def copy(input: Array, src: Array) -> Any:
    """``src`` in the shape and dtype of ``input``."""
    src = jnp.asarray(src)
    if broadcast_shapes(input.shape, src.shape) != input.shape:
        shape = broadcast_shapes(input.shape, src.shape)
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(shape)}"
        )
    return jnp.broadcast_to(cast_array(src, input.dtype), input.shape)


@op("fill", where="torch", node="FillBackward0", fits={"value": OWN})
def fill(input: Array, value: Array) -> Any:
    """``value`` in the shape and dtype of ``input``."""
    value = jnp.asarray(value)
    if value.ndim != 0:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
        )
    return jnp.broadcast_to(cast_array(value, input.dtype), input.shape)


@op("zero", where="", node="ZeroBackward0")
def zero(input: Array) -> Any:
    """Zeros in the shape and dtype of ``input``."""
    return jnp.zeros_like(input)


_to_dtype, _to_device, _clone, _copy, _fill, _zero = (
    Op(ops[n]) for n in ("to_dtype", "to_device", "clone", "copy", "fill", "zero")
)


def _same_place(tensor: Tensor, device: devices.device) -> bool:
    have = tensor.device
    if have == device or have.type != device.type:
        return have == device
    # what lies in several processes has no part elsewhere: the device that a script names is its process's
    return device.index is None or meshes.is_global(tensor._look())


class ToCopyBackward0(Node):
    """The node of a move to another device, which moves the gradient back.

    Attributes:
        source: the sharding of the input.
    """

    __slots__ = ("source",)

    def __init__(self, edge: Edge, source: Any) -> None:
        super().__init__((edge,))
        self.source = source

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None if g is None else placing.put(g, self.source) for g in grads]

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        return [None if g is None else _moved(g, self.source) for g in grads]


def _moved(tensor: Tensor, where: Any) -> Tensor:
    """Move a tensor to another device or sharding.

    This is not an operation of a program, whose arrays are where it runs.
    """
    value = tensor._value
    out = wrap(placing.put(value, where))
    if tensor._requires_grad and grad_mode.state.enabled:
        node = ToCopyBackward0(edge_of(tensor), value.sharding)
        if anomaly.enabled:
            anomaly.record(node)
        out._requires_grad, out._grad_fn = True, node
    return out


def _to(self: Tensor, dtype: Any, device: Any, copy: bool = False, memory_format: Any = None) -> Tensor:
    out = self
    if dtype is not None and out.dtype is not dtype:
        out = _to_dtype(out, dtype)
    if device is not None:
        where = devices.as_device(device)
        if where.type == "meta":
            value = out._aval()
            out = Tensor._wrap(jax.ShapeDtypeStruct(value.shape, value.dtype))
        elif not _same_place(out, where):
            if out.is_meta:
                raise NotImplementedError("Cannot copy out of meta tensor; no data!")
            if tracing.overlay and not tracing.overlay.transforms:
                raise NotImplementedError(
                    f"to({str(where)!r}) is not supported in a compiled function: it runs on one device, {out.device}. "
                    "Move its inputs before the call, and its results after it"
                )
            traced = bool(tracing.overlay) or isinstance(out._look(), jax.core.Tracer)
            out = _to_device(out, where) if traced else _moved(out, devices.to_jax(where))
    if out is not self and device is None and self._view is None and sharding_of(self._storage) is not None:
        out._storage.held = like(self._storage, out._storage.array())
    asked = memory_format is not None and memory_format is not preserve_format
    if asked and out is self and suggested_format(out) is not memory_format:
        out = _to_dtype(out, out.dtype)
    if out is self:
        return _clone(out) if copy else out
    if memory_format is None and self._view is None:
        return out
    return laid(out, memory_order(self, memory_format))


@composite("to", where="method")
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Convert to another dtype or device; returns this tensor itself if nothing changes.

    Forms: ``to(dtype)``, ``to(device, dtype=None)`` and ``to(other)``. ``copy=True`` always copies.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html
    """
    unknown = set(kwargs) - {"dtype", "device", "non_blocking", "copy", "memory_format", "other"}
    if unknown:
        raise TypeError(
            f"to() received an invalid combination of arguments - got an unexpected keyword argument '{min(unknown)}'"
        )
    dtype: Any = kwargs.get("dtype")
    device, copy = kwargs.get("device"), kwargs.get("copy", False)
    dtype = dtypes.PYTHON.get(dtype, dtype)
    rest = [*args, *([kwargs["other"]] if "other" in kwargs else [])]
    flags = [arg for arg in rest if isinstance(arg, bool)]  # non_blocking and copy
    for arg in rest:
        if isinstance(arg, type):
            arg = dtypes.PYTHON.get(arg, arg)
        if isinstance(arg, dtypes.dtype):
            dtype = arg
        elif isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif arg is not None and not isinstance(arg, bool):
            device = arg
    return _to(self, dtype, device, copy or flags[1:] == [True], kwargs.get("memory_format"))


@composite("type", where="method")
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the legacy type name, or convert to another dtype."""
    if dtype is None:
        return f"torch.{'cuda.' if self.is_cuda else ''}{self.dtype.scalar_name}Tensor"
    if isinstance(dtype, str):
        names = {f"torch.{d.scalar_name}Tensor": d for d in dtypes.ALL}
        if dtype not in names:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = names[dtype]
    return _to(self, getattr(dtype, "_dtype", dtype), None)


@composite("type_as", where="method")
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Convert to the dtype and device of ``other``."""
    return _to(self, other.dtype, other.device)


@composite("cpu", where="method")
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """Move to the CPU."""
    return _to(self, None, "cpu", memory_format=memory_format)


@composite("cuda", where="method")
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Move to a GPU."""
    where = devices.device("cuda", device) if isinstance(device, int) else device or "cuda"
    return _to(self, None, where, memory_format=memory_format)


@composite("contiguous", where="method")
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """Return this tensor if it is contiguous, else a contiguous copy."""
    if memory_format is None:
        return self if self._view is None or self.is_contiguous() else _in_order(self)
    return self if self.is_contiguous(memory_format) else _clone(self, memory_format=memory_format)


def _in_order(source: Tensor) -> Tensor:
    return _clone(source, memory_format=contiguous_format)


@composite("copy_", where="method")
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Copy ``src`` into this tensor, broadcast and cast to its shape and dtype."""
    if not isinstance(src, Tensor | int | float | complex | jax.Array):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    if self._view is not None and self._overlaps() and self._is_look_of(src):
        self._check_history(src)
        self._touch()
        return self
    self._check_inplace(src)
    return self._take(_copy(self, src))


@composite("fill_", where="torch method")
def fill_(self: Tensor, value: Any) -> Tensor:
    """Fill with a number, in place."""
    if not isinstance(value, Tensor | int | float | complex | SymNumber | jax.Array):
        raise TypeError(
            f"fill_(): argument 'value' (position 1) must be Tensor or Number, not {type(value).__name__}"
        )
    self._check_inplace(name="" if isinstance(value, Tensor) else "fill_")
    return self._take(_filled(self, value, lambda: _fill(self, value)))


@composite("zero_", where="torch method")
def zero_(self: Tensor) -> Tensor:
    """Fill with zeros, in place."""
    self._check_inplace(name="zero_")
    return self._take(_filled(self, 0, lambda: _zero(self)))


def _filled(tensor: Tensor, value: Any, operation: Callable[[], Tensor]) -> Tensor:
    """A tensor like this one, filled with a number.

    Unless autograd must record it, this compiles nothing, unlike ``operation``: a model has many shapes to fill.
    """
    array = tensor._look()
    if (
        type(value) not in (int, float)
        or tracing.overlay
        or tensor._view is not None
        or (tensor._requires_grad and grad_mode.state.enabled)
        or not tensor.is_floating_point()
        or not isinstance(array, jax.Array)
        or isinstance(array, jax.core.Tracer)
        or array.committed
    ):
        return operation()
    return creation.full_like(tensor, value)


@composite("resize_", where="method")
def resize_(self: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Resize in place; elements keep their order in memory, and new ones are 0.

    Args:
        size: the new shape.
        memory_format: how the elements lie, by default one row after the other.
    """
    shape = _shape(size, "resize_")
    kind = layouts.contiguous_format if memory_format is None else memory_format
    rank = {layouts.channels_last: 4, layouts.channels_last_3d: 5, layouts.contiguous_format: len(shape)}.get(
        kind
    )
    if rank is None:
        raise RuntimeError("Unsupported memory formatPreserve")
    if rank != len(shape):
        raise RuntimeError(f"required rank {rank} tensor to use {kind._name} format")
    if shape == self.shape and (memory_format is None or self.is_contiguous(memory_format=kind)):  # type: ignore[attr-defined]
        return self
    count = math.prod(shape)
    if count >= 1 << 63:
        raise RuntimeError("numel: integer multiplication overflow")
    if any(stride >= 1 << 63 for stride in strides.contiguous(shape)):
        raise RuntimeError("Stride calculation overflowed")
    memory.room(shape, self.dtype.np)
    writes = self._storage.version + 1
    flat = self._value.reshape(-1)
    with tracing.x64():
        flat = jnp.pad(flat, (0, max(0, count - flat.size)))[:count]
    if tracing.in_jax():
        inside.may_rebind(self, self, "has its size changed")
    if kind is layouts.contiguous_format:
        self._look_at(storage.Storage(flat.reshape(shape)), None)
    else:
        rows = wrap(flat.reshape(shape[0], *shape[2:], shape[1]))
        seen = bind.function("permute")(rows, (0, len(shape) - 1, *range(1, len(shape) - 1)))
        self._look_at(seen._storage, seen._view)
    self._storage.version = writes
    return self


@composite("resize_as_")
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Resize in place to the size of another tensor; with `preserve_format`, to its format too."""
    if memory_format is layouts.preserve_format:
        memory_format = layouts.suggested_format(the_template)
    return resize_(self, tuple(the_template.shape), memory_format=memory_format)


@composite("chalf", where="method")
def chalf(self: Tensor, memory_format: Any = None) -> Tensor:
    """Not supported: JAX has no complex numbers of half precision."""
    raise NotImplementedError("Tensor.chalf: JAX has no complex32; use Tensor.cfloat (complex64)")


@composite("set_", where="method")
def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Make this tensor a view of another tensor's Storage or of a Storage, in place.

    Args:
        source: a Tensor, a TypedStorage or an UntypedStorage; None for a new, empty one.
        storage_offset: the first element, relative to that of a source tensor.
        size, stride: as in `as_strided`; the default ``stride`` is contiguous, the default ``size`` that of the source.
    """
    if self._requires_grad and self._grad_fn is None and grad_mode.is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if source is None:
        source = creation.empty(0, dtype=self.dtype, device=self.device)
    whole: Any = _elements(source, self) if size is not None or not isinstance(source, Tensor) else source
    if whole.dtype is not self.dtype:
        raise RuntimeError(_other_type(self, source))
    if size is not None:
        size = (size,) if isinstance(size, int) else tuple(size)
        storage_offset += source.storage_offset() if isinstance(source, Tensor) else 0
        whole = whole.as_strided(size, strides.contiguous(size) if stride is None else stride, storage_offset)
    self.data = whole
    return self


def _elements(source: Any, like: Tensor) -> Any:
    """A vector of all elements of a Storage, which it shares."""
    if isinstance(source, Tensor):
        return elements(source.untyped_storage(), source.dtype)
    if not isinstance(source, Bytes):
        raise TypeError(
            f"set_() received an invalid combination of arguments - got ({type(source).__name__}), but expected a "
            "Tensor or a Storage, and then storage_offset, size and stride"
        )
    return elements(source.untyped(), getattr(source, "dtype", like.dtype))


def _other_type(self: Tensor, source: Any) -> str:
    mine, theirs = (C_NAMES.get(d.name, d.name) for d in (self.dtype, source.dtype))
    if isinstance(source, Tensor):
        return f"Could not set tensor of type {theirs} to a tensor of type {mine}"
    return (
        f"Expected a Storage of type {mine} or an UntypedStorage, but got type {theirs.capitalize()} for argument 1 "
        "'storage'"
    )


@composite("apply_", where="method")
def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace every element by ``callable(element)``; slow, for small CPU tensors."""
    flat = [callable(v) for v in self._host("Tensor.apply_()").reshape(-1).tolist()]
    with tracing.x64():
        self._set_value(jnp.asarray(np.array(flat).reshape(self.shape), self._value.dtype))
    return self


def _caster(name: str, dtype: dtypes.dtype) -> None:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return _to(self, dtype, None, memory_format=memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"This tensor as ``{dtype!r}``."
    composite(name, where="method")(method)


for _name, _dtype in {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}.items():  # fmt: skip
    _caster(_name, _dtype)
