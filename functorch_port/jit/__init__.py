"""``torch.jit``, for libraries that use it. There is no TorchScript: `script` and `trace` return their argument.

Use `functorch_port.compile` to compile a function, and `functorch_port.export` for a program in a file that runs
without the model's code. A scripted function here is the Python function itself, so it is not
limited to TorchScript, and it runs inside `compile` like any other code.
"""

from __future__ import annotations

import builtins
import contextlib
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from ..nn._module import Module

# loads the module of this name, where the first line has put a feature of Python
from .annotations import BroadcastingList as _BroadcastingList

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "annotate",
    "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace",
    "TracerWarning", "trace_module", "unused", "wait",
]  # fmt: skip

F = TypeVar("F")
_NO_FILES = (
    "torch.jit.{}: there is no TorchScript here, so no TorchScript files. torch.export.export and torch.export.save "
    "write a program that runs without the model's code; torch.save(module.state_dict(), path) writes the weights"
)


class Error(RuntimeError):
    """PyTorch's exception for scripted code; never raised here."""


class ScriptModule(Module):
    """A `Module` under another name; `script` does not return one."""


class TracerWarning(Warning):
    """PyTorch's warning about what a trace would not repeat; never given here."""


class ScriptFunction:
    """The type of PyTorch's scripted functions; it has no instances here."""


class CompilationUnit:
    """Not supported: there is no TorchScript.

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
    """Return the function, module or class unchanged.

    Args:
        obj: the function, module or class.
        optimize, example_inputs: accepted, without effect.

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
    """Return the function or module unchanged, with its Python control flow; see `functorch_port.compile`.

    Args:
        func: the function or module.
        example_inputs, args, kwargs: accepted, without effect.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html
    """
    return func


def trace_module(mod: F, inputs: Any, *args: Any, **kwargs: Any) -> F:
    """Return the module unchanged, as `trace` does."""
    return mod


def script_if_tracing(fn: F) -> F:
    """Return the function unchanged."""
    return fn


_script_if_tracing = script_if_tracing


def script_method(fn: F, _rcb: Any = None) -> F:
    """Return the method unchanged."""
    return fn


def export(fn: F) -> F:
    """Return the function unchanged; in PyTorch, a mark to script it."""
    return fn


def unused(fn: F) -> F:
    """Return the function unchanged; in PyTorch, a mark not to script it."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function unchanged; ``@ignore(drop=True)`` is a decorator that does."""
    return drop if callable(drop) else (lambda fn: fn)


def interface(obj: F) -> F:
    """Return the class unchanged."""
    return obj


def _overload(func: F) -> F:
    return func


_overload_method = _overload


def is_scripting() -> bool:
    """Return False: there is no scripting."""
    return False


def is_tracing() -> bool:
    """Return False: there is no tracer of TorchScript (see `functorch_port.compiler.is_compiling`)."""
    return False


def annotate(the_type: Any, the_value: F) -> F:
    """Return the value unchanged."""
    return the_value


def Attribute(value: F, type: Any) -> F:
    """Return the value unchanged."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type; for container types such as ``List[int]`` elements are checked, too.

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
    """The result of `fork`, which is available at once."""

    def __init__(self, value: Any = None) -> None:
        self._value = value

    def wait(self) -> Any:
        """Return the result."""
        return self._value

    value = wait

    def done(self) -> bool:
        """Return True."""
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call the function at once; `wait` returns the result. XLA runs independent operations in parallel anyway."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """Return the result of a `fork`."""
    return future.wait()


_fork, _wait = fork, wait


def freeze(mod: F, preserved_attrs: Any = None, optimize_numerics: bool = True) -> F:
    """Return the module unchanged."""
    return mod


def optimize_for_inference(mod: F, other_methods: Any = None) -> F:
    """Return the module unchanged."""
    return mod


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Not supported: there are no TorchScript files.

    Raises:
        NotImplementedError: always; use `functorch_port.save`.
    """
    raise NotImplementedError(_NO_FILES.format("save"))


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Not supported: there are no TorchScript files.

    Raises:
        NotImplementedError: always; use `functorch_port.load`.
    """
    raise NotImplementedError(_NO_FILES.format("load"))


def export_opnames(m: Any) -> list[str]:
    """Not supported: there is no TorchScript.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("torch.jit.export_opnames: there is no TorchScript here")


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Accepted, without effect."""
    yield


@contextlib.contextmanager
def strict_fusion() -> Iterator[None]:
    """Accepted, without effect."""
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accepted, without effect: XLA decides on fusion."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted, without effect."""


def onednn_fusion_enabled() -> bool:
    """Return False."""
    return False
