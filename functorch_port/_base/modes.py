"""What is switched for a thread and a while, and put back after an exception in the middle of switching.

A mode is switched by a ``with`` statement, whose end is a function: if an exception comes in that (Ctrl-C does so
anywhere), the mode stays. So what the library does in one piece, a step, a backward pass, a trace, puts all of them
back to what they were before it, whatever comes.
"""

from __future__ import annotations

import threading
from typing import Any

import jax

from . import inside

__all__ = ["OfThread", "now", "put_back", "put_back_jax"]

_known: list[OfThread] = []


class OfThread(threading.local):
    """Modes of the calling thread: plain attributes of an object of which there is one."""

    def __new__(cls) -> OfThread:
        self = super().__new__(cls)
        _known.append(self)
        return self

    def put_back(self) -> None:
        """What else there is to do when the attributes were put back."""


def now() -> tuple[bool, list[dict[str, Any]]]:
    """The calling thread's modes, JAX's of 64 bits among them."""
    return jax.config.jax_enable_x64, [state.__dict__.copy() for state in _known]


def put_back(modes: tuple[bool, list[dict[str, Any]]]) -> None:
    """Set the modes to what they were then."""
    wide, attributes = modes
    for state, values in zip(_known, attributes, strict=True):
        there = state.__dict__
        there.clear()
        there.update(values)
        state.put_back()
    put_back_jax(wide)


def put_back_jax(wide: bool) -> None:
    """Set those of JAX: whether it computes in 64 bits, and that it traces nothing, unless it does."""
    inside.repair()
    if jax.config.jax_enable_x64 != wide:
        jax.enable_x64(wide).__enter__()
