"""``torch.jit``: the names that libraries use. There is no TorchScript: scripting and tracing give back what they got.

`functorch_port.compile` is what makes a function fast. A scripted function here is the Python function, so it can do
more than TorchScript could, and it runs inside `compile` like any other code.
"""

from __future__ import annotations

import builtins
import contextlib
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from ..nn.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "annotate",
    "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace",
    "trace_module", "unused", "wait",
]  # fmt: skip

F = TypeVar("F")
_NO_FILES = (
    "torch.jit.{}: there is no TorchScript here, so no TorchScript files. Save and load the state dict "
    "(torch.save(module.state_dict(), path)) or the whole module (torch.save(module, path))"
)


class Error(RuntimeError):
    """What PyTorch raises from scripted code; nothing raises it here."""


class ScriptModule(Module):
    """A base class for modules; an ordinary `Module`. `script` does not return one."""


class ScriptFunction:
    """The type of PyTorch's scripted functions; nothing is one here."""


class CompilationUnit:
    """Refused: there is no TorchScript.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        raise NotImplementedError(
            "torch.jit.CompilationUnit: there is no TorchScript here; write the function in Python"
        )


def script(
    obj: F,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> F:
    """The function, module or class itself.

    Args:
        obj: what to script.
        optimize, example_inputs: accepted.

    Example:
        >>> import functorch_port as torch
        >>> @torch.jit.script
        ... def double(x):
        ...     return x + x
        >>> double(torch.ones(2))
        tensor([2., 2.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.jit.script.html
    """
    return obj


def trace(func: F, example_inputs: Any = None, *args: Any, **kwargs: Any) -> F:
    """The function or module itself: it keeps its Python control flow. To compile it, use `functorch_port.compile`.

    Args:
        func: what to trace.
        example_inputs, args, kwargs: accepted.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html
    """
    return func


def trace_module(mod: F, inputs: Any, *args: Any, **kwargs: Any) -> F:
    """The module itself, as `trace`."""
    return mod


def script_if_tracing(fn: F) -> F:
    """The function itself."""
    return fn


_script_if_tracing = script_if_tracing


def script_method(fn: F, _rcb: Any = None) -> F:
    """The method itself."""
    return fn


def export(fn: F) -> F:
    """The function itself; the mark says that PyTorch should script it."""
    return fn


def unused(fn: F) -> F:
    """The function itself; the mark says that PyTorch should not script it."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself, or as ``@ignore(drop=True)`` a decorator that gives it back."""
    return drop if callable(drop) else (lambda fn: fn)


def interface(obj: F) -> F:
    """The class itself."""
    return obj


def _overload(func: F) -> F:
    return func


_overload_method = _overload


def is_scripting() -> bool:
    """False: nothing is ever scripted."""
    return False


def is_tracing() -> bool:
    """False: nothing is ever traced by PyTorch's tracer (see `functorch_port.compiler.is_compiling`)."""
    return False


def annotate(the_type: Any, the_value: F) -> F:
    """The value itself."""
    return the_value


def Attribute(value: F, type: Any) -> F:
    """The value itself."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, which may be a container type such as ``List[int]``: elements are looked at too.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.jit.isinstance.html
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, t) for t in target_type)
    origin, args = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if origin is typing.Union or origin is types.UnionType:
        return any(isinstance(obj, t) for t in args)
    if not builtins.isinstance(obj, origin):
        return False
    parts: Any = obj
    if origin is dict:
        return all(isinstance(k, args[0]) and isinstance(v, args[1]) for k, v in parts.items())
    if origin is tuple:
        return len(parts) == len(args) and all(map(isinstance, parts, args))
    return all(isinstance(part, args[0]) for part in parts)


class Future:
    """The result of `fork`, which is there already."""

    def __init__(self, value: Any = None) -> None:
        self._value = value

    def wait(self) -> Any:
        """The result."""
        return self._value

    value = wait

    def done(self) -> bool:
        """True."""
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Calls the function at once; `wait` gives the result. (XLA runs independent operations side by side anyway.)"""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of a `fork`."""
    return future.wait()


_fork, _wait = fork, wait


def freeze(mod: F, preserved_attrs: Any = None, optimize_numerics: bool = True) -> F:
    """The module itself."""
    return mod


def optimize_for_inference(mod: F, other_methods: Any = None) -> F:
    """The module itself."""
    return mod


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Refused: there are no TorchScript files.

    Raises:
        NotImplementedError: always; use `functorch_port.save`.
    """
    raise NotImplementedError(_NO_FILES.format("save"))


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Refused: there are no TorchScript files.

    Raises:
        NotImplementedError: always; use `functorch_port.load`.
    """
    raise NotImplementedError(_NO_FILES.format("load"))


def export_opnames(m: Any) -> list[str]:
    """Refused: there is no TorchScript.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("torch.jit.export_opnames: there is no TorchScript here")


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Accepted and without effect."""
    yield


@contextlib.contextmanager
def strict_fusion() -> Iterator[None]:
    """Accepted and without effect."""
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accepted and without effect: XLA fuses as it sees fit."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted and without effect."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False
