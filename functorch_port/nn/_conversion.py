"""Helpers that the module files share: `Module.to` and its arguments, modes, type names in messages, n-tuples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._array import tracing
from .._base.device import as_device
from .._base.device import device as Device
from .._base.dtypes import dtype as DType
from .._tensor.grad_mode import no_grad
from .._tensor.swapping import swap_tensors
from .._tensor.tensor import Tensor
from .parameter import Parameter

if TYPE_CHECKING:
    from ._module import Module

_SIGNATURES = (
    " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, "
    "torch.memory_format memory_format = None)\n"
    " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, "
    "torch.memory_format memory_format = None)\n"
    " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
)


@contextmanager
def modes_kept(module: Module) -> Iterator[None]:
    """At the end the module and those within have the modes, training or evaluation, from before."""
    before = [(m, m.training) for m in module.modules()]
    try:
        yield
    finally:
        for m, mode in before:
            if m.training != mode:
                m.training = mode


def typename(value: Any) -> str:
    """The name of a value's type for error messages: ``torch.FloatTensor``, ``int``."""
    if isinstance(value, Tensor):
        return value.type()
    kind = type(value)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}"


def parse_to(*args: Any, **kwargs: Any) -> tuple[Device | None, DType | None, bool, Any]:
    """(device, dtype, non_blocking, memory_format) from the arguments of `Module.to`."""
    names: tuple[str, ...] = ("device", "dtype", "non_blocking", "copy")
    first = args[0] if args else kwargs.get("tensor")
    if isinstance(first, Tensor):
        names = ("tensor", "non_blocking", "copy")
    elif isinstance(first, DType):
        names = ("dtype", "non_blocking", "copy")
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or set(given) - {*names, "memory_format"} or not _types_fit(given):
        raise TypeError(_bad_arguments(args, kwargs))
    if given.get("copy"):
        raise RuntimeError(".to() does not accept copy argument")
    like = given.get("tensor")
    device = like.device if like is not None else given.get("device")
    dtype = like.dtype if like is not None else given.get("dtype")
    device = None if device is None else as_device(device, "to")
    return device, dtype, bool(given.get("non_blocking", False)), given.get("memory_format")


def converter(*args: Any, **kwargs: Any) -> Callable[[Tensor], Tensor]:
    """The function that `Module.to` applies to each parameter and buffer."""
    device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
    if dtype is not None:
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, "
                "and some modules might not work as expected when using complex tensors as parameters or buffers. "
                "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
                "if a complex module does not work as expected.",
                stacklevel=3,
            )

    def convert(t: Tensor) -> Tensor:
        castable = t.is_floating_point() or t.is_complex()
        try:
            return t.to(
                device,
                dtype if castable else None,
                non_blocking,
                memory_format=memory_format if t.dim() in (4, 5) else None,
            )
        except NotImplementedError as error:
            if not t.is_meta:
                raise
            raise NotImplementedError(
                f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                "from meta to a different device."
            ) from None

    return convert


def _types_fit(given: dict[str, Any]) -> bool:
    device, dtype = given.get("device"), given.get("dtype")
    return (
        (device is None or (isinstance(device, (str, int, Device)) and not isinstance(device, bool)))
        and (dtype is None or isinstance(dtype, DType))
        and isinstance(given.get("non_blocking", False), bool)
        and isinstance(given.get("copy", False), bool)
    )


def _bad_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    got = "".join(f"{type(a).__name__}, " for a in args) + "".join(
        f"{k}={type(v).__name__}, " for k, v in kwargs.items()
    )
    return f"to() received an invalid combination of arguments - got ({got}), but expected one of:\n{_SIGNATURES}"


def ntuple(value: Any, n: int) -> tuple[Any, ...]:
    """`value` as a tuple if it is a sequence, else `value` repeated n times."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,) * n


class Ways:
    """How a conversion replaces parameters (`torch.__future__`): by default their ``.data``."""

    overwrite = swap = False


ways = Ways()


def _swap(name: str, param: Any, found: Tensor, new_grad: Tensor | None) -> None:
    """Have a parameter and its gradient become the converted ones, and stay the objects that they are."""
    grad, param.grad = param.grad, None
    what = name
    try:
        swap_tensors(param, Parameter(found, param.requires_grad))
        if new_grad is not None:
            what = f"{name}.grad"
            swap_tensors(grad, new_grad.requires_grad_(grad.requires_grad))
    except Exception as error:
        raise RuntimeError(f"_apply(): Couldn't swap {what}") from error
    finally:
        param.grad = grad


def apply_to_tensors(module: Module, fn: Callable[[Tensor], Tensor], recurse: bool) -> None:
    """`Module._apply`."""
    if recurse:
        for child in module.children():
            child._apply(fn)
    for name, param in module._parameters.items():
        if param is None:
            continue
        with no_grad():
            grad = param.grad
            found, new_grad = fn(param), None if grad is None else fn(grad)
            if ways.swap:
                _swap(f"{type(module).__name__}.{name}", param, found, new_grad)
            elif ways.overwrite or found.layout is not param.layout:
                module._parameters[name] = new = Parameter(found, param.requires_grad)
                new.grad = None if new_grad is None else new_grad.requires_grad_(grad.requires_grad)
            else:
                param.data = found
                if grad is not None:
                    grad.data = new_grad
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)
    tracing.bump_epoch()
