"""Names of what is being traced: the modules that are called, and regions that users name.

Each is a `jax.named_scope`, so it is in the metadata of the program's operations. A backward pass repeats the names of
the forward pass, below ``backward``. Nothing here runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax

from .modes import OfThread

__all__ = ["RECOMPUTED", "again", "backward", "is_backward", "named", "naming", "state"]

#: the first part of a scope of a backward pass
_BACKWARD = "backward"
#: in a scope of what a backward pass computes again, as `jax.checkpoint` has it
RECOMPUTED = "rematted_computation"


class _State(OfThread):
    """
    Attributes:
        path: the names of what is being traced, joined by ``/``.
        module: the innermost module that is being traced, or None.
    """

    path = ""
    module: Any = None


state = _State()


@contextmanager
def named(name: str, module: Any = None) -> Iterator[None]:
    """A scope within the present one.

    Args:
        name: of the scope; it may have several parts, joined by ``/``.
        module: whose call it is, unless it is a region.
    """
    path = f"{state.path}/{name}" if state.path else name
    with _at(path, state.module if module is None else module), jax.named_scope(name):
        yield


@contextmanager
def _at(path: str, module: Any) -> Iterator[None]:
    before = state.path, state.module
    state.path, state.module = path, module
    try:
        yield
    finally:
        state.path, state.module = before


def naming(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called in a scope."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with named(name):
            return fn(*args, **kwargs)

    return call


def backward(path: str) -> AbstractContextManager[None]:
    """The scope of the backward pass of what was traced under a path."""
    return jax.named_scope(f"{_BACKWARD}/{path}" if path else _BACKWARD)


@contextmanager
def again(path: str, module: Any) -> Iterator[None]:
    """The scope in which a backward pass computes again what was traced under a path, within a module."""
    with backward("/".join(filter(None, (RECOMPUTED, path)))), _at(path, module):
        yield


def is_backward(scope: str) -> bool:
    """Whether a scope is that of a backward pass."""
    return scope.split("/")[0] == _BACKWARD
