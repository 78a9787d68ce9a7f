"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from .._array import tracing
from .._base.modes import OfThread

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


Fn = TypeVar("Fn", bound=Callable[..., Any])


class _State(OfThread):
    """
    Attributes:
        enabled: whether operations are recorded.
        flag: what `is_grad_enabled` says; under `inference_mode` that may be True and yet nothing is recorded.
        inference: whether `inference_mode` is on.
        multithreading: what `set_multithreading_enabled` says; a backward pass has one thread in any case.
        original_views: whether a view that looks anew at its base, after a write, is named by its own operation.
    """

    enabled = True
    flag = True
    inference = False
    multithreading = True
    original_views = False

    def put_back(self) -> None:
        tracing.set_inferring(self.inference)


#: The calling thread's mode.
state = _State()


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in the calling thread.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.is_grad_enabled.html
    """
    return state.flag


def is_inference_mode_enabled() -> bool:
    """Whether `inference_mode` is on in the calling thread."""
    return state.inference


def switch(flag: bool, inference: bool | None = None) -> None:
    """Set the modes of the calling thread: recording, and inference mode (None: as it is)."""
    if inference is None:
        inference = state.inference
    if inference is not state.inference:
        tracing.set_inferring(inference)
    state.flag, state.inference = flag, inference
    state.enabled = flag and not inference


class _Mode:
    """A grad mode that works as a context manager and as a decorator of functions, generators and classes' methods."""

    _enabled: bool

    def __enter__(self) -> None:
        self._previous = getattr(self, "_previous", [])
        self._previous.append((state.flag, state.inference))
        switch(self._enabled, state.inference)

    def __exit__(self, *exc: object) -> None:
        switch(*self._previous.pop())

    def clone(self) -> _Mode:
        return type(self)()

    def __call__(self, fn: Fn) -> Fn:
        if inspect.isgeneratorfunction(fn):

            @functools.wraps(fn)
            def generator(*args: Any, **kwargs: Any) -> Any:
                inner = fn(*args, **kwargs)
                go_on: Callable[[], Any] = functools.partial(next, inner)
                while True:
                    try:
                        with self.clone():
                            item = go_on()
                    except StopIteration as stop:
                        return stop.value
                    try:
                        go_on = functools.partial(inner.send, (yield item))
                    except GeneratorExit:
                        with self.clone():
                            inner.close()
                        raise
                    except BaseException as error:
                        go_on = functools.partial(inner.throw, error)

            return generator  # type: ignore[return-value]

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return fn(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


class no_grad(_Mode):
    """Context manager and decorator under which nothing is recorded.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html
    """

    _enabled = False

    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...
    @overload
    def __new__(cls, orig_func: Callable[..., Any]) -> Any: ...
    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        return self if orig_func is None else self(orig_func)


class enable_grad(_Mode):
    """Context manager and decorator that turns recording on again inside `no_grad`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.enable_grad.html
    """

    _enabled = True

    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...
    @overload
    def __new__(cls, orig_func: Callable[..., Any]) -> Any: ...
    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        return self if orig_func is None else self(orig_func)


class set_grad_enabled(_Mode):
    """Turn recording on or off, at once or as a context manager.

    Args:
        mode: True to record.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.set_grad_enabled.html
    """

    def __init__(self, mode: bool) -> None:
        self._enabled = self.mode = bool(mode)
        self._previous = [(state.flag, state.inference)]
        self._fresh = True
        switch(self._enabled, state.inference)

    def __enter__(self) -> None:
        if self._fresh:  # the mode was already set by the constructor
            self._fresh = False
        else:
            super().__enter__()

    def __call__(self, fn: Fn) -> Fn:
        switch(*self._previous.pop())  # as a decorator it must not act at once
        return super().__call__(fn)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}(mode={self.mode})"


class SetAtOnce(_Mode):
    """An attribute of the thread's modes that is set at once, and put back at the end of a context.

    Attributes:
        of, attribute: the modes, and the name of the attribute.
    """

    of: OfThread
    attribute: str

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before = getattr(self.of, self.attribute)
        setattr(self.of, self.attribute, mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        setattr(self.of, self.attribute, self._before)

    def clone(self) -> SetAtOnce:
        return type(self)(self.mode)


class set_multithreading_enabled(SetAtOnce):
    """Accepted: a backward pass runs in the thread that calls it.

    Args:
        mode: what is noted.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.set_multithreading_enabled.html
    """

    of, attribute = state, "multithreading"


class _force_original_view_tracking(SetAtOnce):
    """Name the history of views that were written to by their own operations, which are applied again in any case.

    Args:
        mode: whether to.
    """

    of, attribute = state, "original_views"


class inference_mode(_Mode):
    """Like `no_grad`; tensors made inside carry no history.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: Callable[..., Any]) -> Any: ...
    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if callable(mode):
            self.__init__(True)  # type: ignore[misc]
            return self(mode)
        return self

    def __init__(self, mode: Any = True) -> None:
        self.mode = bool(mode)
        self._enabled = False

    def __enter__(self) -> None:
        super().__enter__()
        switch(not self.mode, self.mode)

    def clone(self) -> inference_mode:
        return type(self)(self.mode)
