"""Tensors from data: from numbers, sequences, arrays and other tensors; the legacy constructors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._array import executor, placed, placing, tracing
from ..._array.fits import fits
from ..._array.symbolic import SymNumber
from ..._base import device as devices
from ..._base import dtypes
from ..._base.dtypes import dtype as DType
from ..data import checked_numpy, value_of
from ..registered import function
from ..tensor import Tensor, wrap
from .arguments import _ABSENT, _dtype, _need, finish
from .filled import empty, empty_strided, full, ones, zeros

__all__ = [
    "as_tensor", "asarray", "from_dlpack", "from_jax", "from_numpy", "legacy", "scalar_tensor", "tensor",
]  # fmt: skip

_SEQUENCES = (list, tuple, range, np.ndarray, jax.Array, str)


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


def _base(data: Any) -> Any:
    """An array of a subclass, such as one with a mask, as a plain one; other data as they are."""
    return np.asarray(data) if isinstance(data, np.ndarray) else data


def _from_data(data: Any, dtype: DType | None, device: Any = None, requires_grad: bool = False) -> Tensor:
    data = _base(data)
    with tracing.x64():
        return finish(value_of(data, dtype), device, requires_grad)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Convert ``data`` to a tensor; a Tensor of the right dtype and device is returned itself.

    A numpy array of the right dtype shares its memory with the tensor, under the conditions of `from_numpy`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.as_tensor.html
    """
    dtype = _dtype(dtype, "as_tensor")
    if isinstance(data, Tensor):
        return data.to(dtype=dtype or data.dtype, device=device)  # type: ignore[attr-defined]
    data = _base(data)
    made = _from_data(data, dtype, device)
    _follows(made, data)
    return made


def _follows(made: Tensor, data: Any) -> bool:
    """Let a tensor share the memory of the numpy array that it was made from, if possible; returns whether it does."""
    return (
        isinstance(data, np.ndarray) and not tracing.overlay and executor.current.follow(made._storage, data)
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
    obj = _base(obj)
    made = _from_data(obj, _dtype(dtype, "asarray"), device, requires_grad)
    if copy or not isinstance(obj, np.ndarray) or not obj.ndim:  # one of no dimensions counts as a number
        return made
    if not _follows(made, obj) and copy is False:
        raise NotImplementedError(
            f"asarray(copy=False): a numpy array of {obj.size} elements and dtype {obj.dtype} cannot share its memory "
            "here, but a writable one of up to 4096 elements may (see from_numpy). Omit copy=False to copy it"
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
    ndarray = _base(ndarray)
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
    if not isinstance(array, jax.Array) or jnp.issubdtype(array.dtype, jax.dtypes.extended):
        what = array.dtype if isinstance(array, jax.Array) else type(array)
        raise TypeError(
            f"from_jax takes a jax.Array of numbers, got {what}; torch.as_tensor takes other data"
        )
    return wrap(placed.taken(array))


def from_dlpack(ext_tensor: Any) -> Tensor:
    """Create a tensor from any object with ``__dlpack__``; it shares memory under the conditions of `from_numpy`.

    Reference: https://docs.pytorch.org/docs/stable/dlpack.html
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    array = _seen_by_numpy(ext_tensor)
    if array is not None and executor.current.keeps_on_host(array):
        return from_numpy(array)
    with tracing.x64():
        return wrap(jnp.from_dlpack(ext_tensor, copy=True))


def _seen_by_numpy(ext_tensor: Any) -> np.ndarray | None:
    """An object with ``__dlpack__`` as a numpy array on its memory; None if numpy does not support it."""
    try:
        return None if isinstance(ext_tensor, jax.Array) else np.from_dlpack(ext_tensor)
    except (BufferError, RuntimeError, TypeError, AttributeError):
        return None


def scalar_tensor(
    s: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A 0-dim tensor with the value ``s``, by default of the default dtype."""
    kind = _dtype(dtype, "scalar_tensor") or dtypes.get_default_dtype()
    if not (kind.is_floating_point and kind.itemsize < 4):  # rounded, as data is
        fits(placing.as_array(s), kind.np)
    return _from_data(s, kind, device, requires_grad)


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
Tensor._legacy = staticmethod(legacy)
