"""``torch.overrides``: tools for classes and modes with ``__torch_function__`` (see `_tensor.overriding`).

Reference: https://docs.pytorch.org/docs/stable/torch.overrides.html
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import functorch_port as torch

# these publish their functions on import
from . import _native, fft, linalg, special  # noqa: F401
from ._run import sparse  # noqa: F401
from ._tensor import overriding
from ._tensor.overriding import handle_torch_function as handle_torch_function
from ._tensor.overriding import has_torch_function as has_torch_function
from ._tensor.overriding import has_torch_function_unary as has_torch_function_unary
from ._tensor.overriding import has_torch_function_variadic as has_torch_function_variadic
from ._tensor.overriding import state
from ._tensor.tensor import Tensor
from .nn import functional, init  # noqa: F401

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_ignored_functions",
    "get_overridable_functions", "get_testing_overrides", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that lets modes and arguments override a function of your own.

    Args:
        dispatcher: a function of the same arguments that returns those whose ``__torch_function__`` counts.

    Example:
        >>> import functorch_port as torch
        >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
        ... def double(x):
        ...     return x * 2
        >>> double(torch.ones(1))
        tensor([2.])
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return fn(*args, **kwargs)

        return wrapped

    return decorate


def redispatch_function(func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Not supported: the calls inside of a function cannot be overridden.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.overrides.redispatch_function: the calls inside of a library function cannot be overridden; call "
        "super().__torch_function__(func, types, args, kwargs), or func under torch._C.DisableTorchFunctionSubclass()"
    )


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a Tensor or has ``__torch_function__``."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether ``func`` is a method of `Tensor` or the getter of one of its properties.

    Example:
        >>> import functorch_port as torch
        >>> is_method = torch.overrides.is_tensor_method_or_property
        >>> is_method(torch.Tensor.add), is_method(torch.Tensor.shape.__get__), is_method(torch.add)
        (True, True, False)
    """
    name = getattr(func, "__name__", "")
    return name == "__get__" or func is vars(Tensor).get(name)


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of a function of the library; None for other functions.

    Example:
        >>> import functorch_port as torch
        >>> torch.overrides.resolve_name(torch.Tensor.shape.__get__)
        'torch.Tensor.shape.__get__'
    """
    public = overriding.published.get(f)
    if public is None:
        name = getattr(f, "__name__", "")
        return f"torch.Tensor.{name}" if name and vars(Tensor).get(name) is f else None
    return public.path


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """A function of the same signature that returns -1, for every function that arguments can override.

    Example:
        >>> import functorch_port as torch
        >>> torch.overrides.get_testing_overrides()[torch.add](1, 2)
        -1
    """
    return {
        given: _returning(given)
        for given, public in overriding.published.items()
        if public.asks and given.__name__ not in ("__set__", "__delete__")
    }


def _returning(given: Any) -> Callable[..., Any]:
    def override(*args: Any, **kwargs: Any) -> int:
        return -1

    getter = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    override.__signature__ = getter if given.__name__ == "__get__" else inspect.signature(given)  # type: ignore[attr-defined]
    return override


def get_ignored_functions() -> set[Callable[..., Any]]:
    """The public functions that arguments cannot override; modes may."""
    asking = get_testing_overrides()
    spaces = (torch, torch.nn.functional, torch.nn.init)
    found = {
        f
        for space in spaces
        for n, f in vars(space).items()
        if not n.startswith("_") and inspect.isfunction(f)
    }
    found |= {public.given for public in overriding.published.values() if not public.asks}
    methods = {f for f in vars(Tensor).values() if inspect.isfunction(f)}
    return {f for f in found | methods if f not in asking}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """The functions whose results ``Tensor.__torch_function__`` does not turn into the subclass."""
    return {*overriding.unwrapped()}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that can be overridden, by namespace.

    Example:
        >>> import functorch_port as torch
        >>> torch.fft.fft in torch.overrides.get_overridable_functions()[torch.fft]
        True
    """
    spaces = {
        "torch": torch, "torch.functional": torch, "torch.Tensor": Tensor, "torch.nn.functional": torch.nn.functional,
        "torch.linalg": torch.linalg, "torch.fft": torch.fft, "torch.special": torch.special,
        "torch.nn.init": torch.nn.init,
    }  # fmt: skip
    found: dict[Any, list[Callable[..., Any]]] = defaultdict(list)
    for given in get_testing_overrides():
        home = overriding.published[given].path.rpartition(".")[0]
        if home in spaces:
            found[spaces[home]].append(given)
        elif home.startswith("torch.Tensor."):  # the getter of a property
            found[getattr(Tensor, home.rpartition(".")[2])].append(given)
    return found


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Any:
    """Does nothing: there is no dispatcher."""
    yield


class TorchFunctionMode:
    """A context manager that passes every call of a function of Tensors to its ``__torch_function__``.

    Inside ``__torch_function__`` the mode is off, so that it can call functions.

    Example:
        >>> import functorch_port as torch
        >>> class Named(torch.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(torch.overrides.resolve_name(func))
        ...         return func(*args, **(kwargs or {}))
        >>> x = torch.ones(2)
        >>> with Named():
        ...     y = torch.sin(x) + 1
        torch.sin
        torch.Tensor.add

    Reference: https://docs.pytorch.org/docs/stable/notes/extending.html
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        _push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _pop()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a mode from the arguments."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls the function unchanged."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _push(mode: TorchFunctionMode) -> None:
    overriding.activate()
    state.modes = (*state.modes, mode)


def _pop() -> Any:
    *rest, last = state.modes
    state.modes = tuple(rest)
    return last


@contextlib.contextmanager
def _pop_mode_temporarily() -> Any:
    modes = state.modes
    state.modes = modes[:-1]
    try:
        yield modes[-1]
    finally:
        state.modes = modes
