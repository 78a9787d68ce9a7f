"""``torch.compiler``, and whole-program compilation: capture the state a function uses and run one XLA program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator
from typing import Any

from .._array import tracing as _tracing
from .._base import cache as _cache
from .._base import contexts as _contexts
from .._base.alive import alive
from .._base.cache import CacheStats as CacheStats
from .._base.device import device as _device
from .._trace.compiled import Compiled as Compiled
from .._trace.compiled import compile as compile
from .._trace.functionalize import Functionalized as Functionalized
from .._trace.functionalize import functionalize as functionalize

__all__ = [
    "CacheStats", "Compiled", "Functionalized", "allow_in_graph", "assume_constant_result", "cache_stats", "compile",
    "cudagraph_mark_step_begin", "disable", "for_platform", "functionalize", "is_compiling", "is_dynamo_compiling",
    "is_exporting", "reset", "set_stance", "substitute_in_graph",
]  # fmt: skip


def is_compiling() -> bool:
    """Whether `compile` is tracing a function now.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.compiler.is_compiling.html
    """
    return bool(_tracing.overlay)


is_dynamo_compiling = is_compiling


def cache_stats() -> CacheStats:
    """How many programs this process has read from the persistent cache, and how many it has compiled.

    Example:
        >>> import functorch_port as torch
        >>> before = torch.compiler.cache_stats()
        >>> _ = torch.ones(100, 100) @ torch.ones(100, 100)
        >>> after = torch.compiler.cache_stats()
        >>> after.hits + after.misses >= before.hits + before.misses
        True
    """
    return _cache.stats()


def reset() -> None:
    """Clear the caches of all compiled functions; the next calls trace again.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.compiler.reset.html
    """
    for compiled in alive(Compiled):
        compiled.clear()


class set_stance(ContextDecorator):
    """Set whether compiled functions run compiled: from now on, in a ``with`` block, or in a decorated function.

    Args:
        stance: ``"default"``, or ``"force_eager"`` to run the Python functions without compiling.
        skip_guard_eval_unsafe, force_backend: accepted and ignored.

    Raises:
        NotImplementedError: for PyTorch's other stances.
        RuntimeError: for ``force_backend`` with another stance than the default.

    Example:
        >>> import functorch_port as torch
        >>> double = torch.compile(lambda x: x * 2)
        >>> with torch.compiler.set_stance("force_eager"):
        ...     double(torch.ones(1)), double.traces
        (tensor([2.]), 0)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.compiler.set_stance.html
    """

    _calls = {
        "default": Compiled.__call__,
        "force_eager": lambda self, *args, **kwargs: self._fn(*args, **kwargs),
    }

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if stance not in self._calls:
            raise NotImplementedError(
                f"compiler.set_stance({stance!r}) is not supported; use 'default' or 'force_eager'"
            )
        self.stance, self.before = stance, Compiled.__call__
        self.__enter__()

    def __call__(self, func: Any) -> Any:
        self.__exit__()
        return super().__call__(func)

    def __enter__(self) -> None:
        Compiled.__call__ = self._calls[self.stance]  # type: ignore[method-assign]

    def __exit__(self, *exc: object) -> None:
        Compiled.__call__ = self.before  # type: ignore[method-assign]


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as not compilable: calling it inside a compiled function raises.

    Args:
        fn: the function; if omitted, a decorator is returned.
        recursive, reason: accepted and ignored.

    Raises:
        NotImplementedError: if the function is called in a trace. A compiled function is one program, so no part of
            it can stay eager.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)

    @functools.wraps(fn)
    def outside(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            raise NotImplementedError(
                f"{getattr(fn, '__qualname__', fn)} is marked with compiler.disable, and a compiled function is one "
                "XLA program, so no part of it can stay eager. Call that part outside, or compile the parts around it "
                "separately"
            )
        return fn(*args, **kwargs)

    return outside


def is_exporting() -> bool:
    """Always False: there is no exporter."""
    return False


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` unchanged: every function is part of the graph."""
    return fn


def for_platform(device_type: str) -> AbstractContextManager[None]:
    """Have what is traced in the block be for another type of device than this machine's, to be compiled ahead of time.

    `torch.autocast` of that type then casts in the trace. Without it a trace is for the device of the tensors that it
    takes. Each type has a program of its own. (A program that calls something special to a platform, as attention
    does, needs no such block: that is decided when it is lowered.)

    Args:
        device_type: ``"cpu"``, ``"cuda"`` or ``"tpu"``.

    Raises:
        ValueError: for a type that JAX does not compile for.

    Example:
        >>> import functorch_port as torch
        >>> def product(x):
        ...     with torch.autocast("tpu"):
        ...         return x @ x
        >>> with torch.compiler.for_platform("tpu"):
        ...     torch.compiler.functionalize(product).jaxpr(torch.ones(2, 2)).out_avals
        [ShapedArray(bfloat16[2,2])]
    """
    kind = _device(device_type).type
    if kind not in ("cpu", "cuda", "tpu"):
        raise ValueError(
            f"compiler.for_platform: programs are for 'cpu', 'cuda' or 'tpu', got {device_type!r}"
        )
    return _contexts.state.having(platform=kind)


def cudagraph_mark_step_begin() -> None:
    """Do nothing: each call is one program."""


assume_constant_result = substitute_in_graph = allow_in_graph
