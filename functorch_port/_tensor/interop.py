"""`Tensor` as Python's and other libraries' values: numbers, lists, numpy arrays, dlpack, text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, tracing
from .._base import memory
from . import grad_mode
from .creation.from_data import from_numpy
from .tensor import Tensor, attach

__all__: list[str] = []

_grad = grad_mode.state


def not_known(what: str) -> str:
    """The text of an error: a compiled function asked for a value."""
    return (
        f"{what} needs a value that is not known while the function is being compiled. Return the "
        "tensor and look at it outside, choose between tensors with torch.where, or branch with "
        "functorch_port.func.cond."
    )


def _host(self: Tensor, what: str) -> np.ndarray:
    """The value as a numpy array, for ``what``."""
    value = self._look()
    if isinstance(value, jax.core.Tracer):
        if tracing.overlay and tracing.overlay.transforms:
            return tracing.overlay.concrete(value, what)
        raise RuntimeError(not_known(what))
    if isinstance(value, jax.ShapeDtypeStruct):
        if what == "Tensor.tolist()":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        raise RuntimeError(f"{what} cannot be called on meta tensors")
    return memory.run(np.asarray, (value,))


def item(self: Tensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    array = self._host("Tensor.item()")
    return array.item() if array.dtype.kind != "V" else float(array.astype(np.float32).reshape(()))


def _as_size(self: Tensor, name: str, instead: str) -> int:
    """The value as a size that the result of ``name`` has. A trace does not know it; the error says what to use."""
    try:
        return int(self.item())
    except RuntimeError:
        if not tracing.overlay:
            raise
        raise RuntimeError(tracing.overlay.data_dependent(name, instead)) from None


def tolist(self: Tensor) -> Any:
    """The value as nested lists of Python numbers (a number for a 0-dim tensor)."""
    array = self._host("Tensor.tolist()")
    return (array if array.dtype.kind != "V" else array.astype(np.float32)).tolist()


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The value as a numpy array.

    Up to 4,096 elements on a CPU it has the tensor's memory, as in PyTorch: what is written to one is in the
    other. A larger tensor is a `jax.Array`, which nobody may write to: of it the result is a copy that is
    read-only, so that no write is lost; ``np.array(t)`` is one to write to.

    Args:
        force: of a tensor that requires a gradient, or is on another device, too.

    Raises:
        RuntimeError: the tensor requires a gradient.
        TypeError: it is on another device, or numpy does not have its dtype.

    Example:
        >>> import functorch_port as torch
        >>> t = torch.zeros(3)
        >>> t.numpy()[1] = 5
        >>> t
        tensor([0., 5., 0.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html
    """
    if _grad.enabled and not force and self.requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if not self.is_cpu and not force and not isinstance(self._look(), jax.core.Tracer):
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )
    for bit, on, how in zip(
        ("conjugate", "negative"), self._turned(), ("resolve_conj", "resolve_neg"), strict=True
    ):
        if on and not force:
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.{how}().numpy() instead."
            )
    if self.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
    whole = None if tracing.overlay else executor.current.shared_memory(self._storage)
    if whole is not None and self._view is None:
        return whole.view()
    array = self._host("Tensor.numpy()")
    shown = None if whole is None else self._part(whole, array)
    return _only_read(array) if shown is None else shown


def _part(self: Tensor, whole: np.ndarray, array: np.ndarray) -> np.ndarray | None:
    """``array``, the value of a view, in the memory of its Storage; None where it does not lie there."""
    if whole.dtype != array.dtype or not whole.flags.c_contiguous:
        return None
    each, (strides, offset) = array.itemsize, self._layout()
    shown = np.ndarray(array.shape, array.dtype, whole, offset * each, [n * each for n in strides])
    return shown if shown.tobytes() == array.tobytes() else None


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = self.numpy()
    return array if dtype is None and copy is None else np.array(array, dtype, copy=copy)


def __array_wrap__(
    self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """What a numpy function of a Tensor gives: a Tensor again."""
    return from_numpy(np.asarray(array, np.uint8 if array.dtype == np.bool_ else None))


def __dlpack__(self: Tensor, *, copy: bool | None = None, **kwargs: Any) -> Any:
    """The value for another library, which may write to it: in shared memory where `numpy` gives that, or a copy.

    ``copy=False`` is for who does not write to it.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self._turned()[0]:
        raise BufferError("Can't export tensors with the conjugate bit set")
    whole = (
        None if tracing.overlay or self._view is not None else executor.current.shared_memory(self._storage)
    )
    value: Any = whole
    if whole is None:
        value = self._value if copy is False else jnp.copy(self._value)
    return value.__dlpack__(**kwargs) if copy is None else value.__dlpack__(copy=copy, **kwargs)


def __dlpack_device__(self: Tensor) -> Any:
    return self._value.__dlpack_device__()


def __bool__(self: Tensor) -> bool:
    n = self.numel()
    if n != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'more than one value' if n else 'no values'} is ambiguous"
        )
    if self.is_meta:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    return bool(self._host("bool(tensor)").reshape(()))


def __int__(self: Tensor) -> int:
    return int(self._one("int64_t"))


def __float__(self: Tensor) -> float:
    return float(self._one("double"))


def __complex__(self: Tensor) -> complex:
    return complex(self._one())


def _one(self: Tensor, real: str = "") -> Any:
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    value = self.item()
    if real and isinstance(value, complex):
        raise RuntimeError(f"value cannot be converted to type {real} without overflow")
    return value


def __index__(self: Tensor) -> int:
    if self.numel() != 1 or self.dtype.is_floating_point or self.dtype.is_complex:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


def __iter__(self: Tensor) -> Iterator[Tensor]:
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))  # type: ignore[attr-defined]


def __contains__(self: Tensor, element: Any) -> bool:
    if isinstance(element, Tensor | int | float | complex):
        return bool((element == self).any())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


def __reversed__(self: Tensor) -> Tensor:
    return self.flip(0) if self.ndim else self  # type: ignore[attr-defined]


def __format__(self: Tensor, spec: str) -> str:
    if self.ndim == 0 and not self.is_meta and type(self) is Tensor:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def __repr__(self: Tensor, *, tensor_contents: Any = None) -> str:
    from . import printing

    return printing.tensor_repr(self)


def _only_read(array: np.ndarray) -> np.ndarray:
    """A copy for whoever may not write to the array. PyTorch would: it takes memory of numpy that is read-only."""
    array = array.copy()
    array.flags.writeable = False
    return array


attach(
    _host, item, _as_size, tolist, numpy, _part, __array__, __array_wrap__, __dlpack__, __dlpack_device__,
    __bool__, __int__, __float__, __complex__, _one, __index__, __iter__, __contains__, __reversed__,
    __format__, __repr__,
)  # fmt: skip
Tensor.__long__ = __int__
Tensor.__nonzero__ = __bool__
