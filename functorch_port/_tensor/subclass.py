"""Subclasses of `Tensor`: what a function gives for them, and handles of a subclass on what another tensor shows."""

from __future__ import annotations

from typing import Any

from .._array import tracing
from . import overriding
from .tensor import Tensor, attach, bare

__all__ = ["NO_SUBCLASS"]

NO_SUBCLASS = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
    "class inherits from Tensor."
)


def __torch_function__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a function does with tensors of this class: itself, and its results are of the class.

    A subclass may have its own, and call this one: ``super().__torch_function__(func, types, args, kwargs)``.

    Args:
        func: the function, method, getter or setter that was called.
        types: the classes of the arguments that have a ``__torch_function__``.
        args, kwargs: the arguments.

    Example:
        >>> import functorch_port as torch
        >>> class Named(torch.Tensor):
        ...     pass
        >>> Named([1., 2.]) + 1
        Named([2., 3.])

    Reference: https://docs.pytorch.org/docs/stable/notes/extending.html
    """
    return overriding.default(cls, func, types, args, kwargs)


def _as(self: Tensor, cls: type[Tensor]) -> Any:
    """Another handle, of a subclass, on what this one is a handle on."""
    if getattr(cls, "__torch_dispatch__", overriding.no_dispatch) is not overriding.no_dispatch:
        raise NotImplementedError(
            f"{cls.__name__}: __torch_dispatch__ is not called here, as there are no dispatch keys: "
            "override functions by __torch_function__"
        )
    made = bare(cls)
    for slot in ("_storage", "_view", "_base", "_grad_fn", "_requires_grad", "_output_nr"):
        setattr(made, slot, getattr(self, slot))
    made._version_seen = self._version_seen
    if tracing.overlay and not tracing.overlay.transforms:
        tracing.overlay.note_made(made)
    return made


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
    """An instance of a subclass that shares the Storage of ``data`` and is cut off from its history."""
    if not isinstance(data, Tensor):
        raise TypeError(
            f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}"
        )
    if not issubclass(cls, Tensor):
        raise TypeError(NO_SUBCLASS)
    with overriding.WithoutAll():
        made = data.detach()._as(cls)
        made.requires_grad = require_grad
    return made


def _make_wrapper_subclass(cls: type[Tensor], *args: Any, **kwargs: Any) -> Any:
    """Refused: a tensor without elements needs ``__torch_dispatch__``."""
    raise NotImplementedError(
        "Tensor._make_wrapper_subclass: a tensor without elements of its own needs __torch_dispatch__, which is "
        "not called here: hold the tensors in a class with __torch_function__"
    )


attach(_as)
for _function, _kind in (
    (__torch_function__, classmethod), (_make_subclass, staticmethod), (_make_wrapper_subclass, staticmethod)
):  # fmt: skip
    _function.__qualname__ = f"Tensor.{_function.__name__}"
    setattr(Tensor, _function.__name__, _kind(_function))
