"""``torch.overrides``: ``__torch_function__`` is not called here, so nothing overrides anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .core.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "resolve_name", "wrap_torch_function",
]  # fmt: skip


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """False: functions do not look for ``__torch_function__``."""
    return False


def has_torch_function_unary(a: Any) -> bool:
    """False."""
    return False


def has_torch_function_variadic(*args: Any) -> bool:
    """False."""
    return False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls the function itself."""
    return public_api(*args, **kwargs)


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that gives back the function."""
    return lambda fn: fn


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a Tensor, or its type has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method or property of `Tensor`."""
    return any(func is getattr(Tensor, name, None) for name in dir(Tensor))


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name of a function."""
    return getattr(f, "__qualname__", None)


class TorchFunctionMode:
    """Refused when it is entered: functions do not go through modes.

    Raises:
        NotImplementedError: on entry.
    """

    def __enter__(self) -> Any:
        raise NotImplementedError(
            "torch.overrides.TorchFunctionMode: functions do not go through modes here; wrap the functions themselves"
        )

    def __exit__(self, *exc: object) -> None:
        """Never reached."""


BaseTorchFunctionMode = TorchFunctionMode
