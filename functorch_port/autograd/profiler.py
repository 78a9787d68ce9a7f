"""The part of `torch.autograd.profiler` that scripts use to name regions; profile with `jax.profiler`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

__all__ = ["emit_nvtx", "profile", "record_function"]


class record_function:
    """Name a region of code; it appears in traces made with `jax.profiler`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.profiler.record_function.html
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        self._region = jax.profiler.TraceAnnotation(self.name)
        self._region.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._region.__exit__(*exc)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return fn(*args, **kwargs)

        return wrapper


class profile:
    """Not available: use `jax.profiler.trace`, which sees the compiled programs too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("autograd.profiler.profile: use jax.profiler.trace(folder)")


emit_nvtx = profile
