"""What is going on in a thread: a trace, which sees what Storages are read and written (`Overlay`), or inference mode.

It also has what tells compiled functions that something changed (`epoch`), and the lock for who changes something.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import jax

from .._base import inside, settings
from .._base.modes import OfThread

if TYPE_CHECKING:
    from .storage import Storage

__all__ = [
    "Overlay", "bump_epoch", "current", "in_jax", "is_local", "outside", "overlaid", "set_inferring", "x64",
]  # fmt: skip

#: Whether int64 and float64 are real (the default). The lean mode for TPU stores them as int32 and float32.
X64: bool = settings.get("X64")


def x64() -> Any:
    """The context in which the library runs its own operations; the user's own JAX code keeps its setting."""
    return jax.enable_x64(X64)


@contextmanager
def outside() -> Iterator[None]:
    """Compute real values, of real tensors, while a trace is going on."""
    with overlaid(None), jax.ensure_compile_time_eval(), x64():
        yield


class Overlay(Protocol):
    """What a trace provides: values of Storages during the trace, kept apart from their real values."""

    rng: str
    #: whether this is a transform of `func`, which has no tape and runs operations itself
    transforms: bool
    #: whether a tensor may get another Storage in it (``.data =``); else such a write changes the value alone
    rebinds: bool
    #: whether the program stays in this process, so that it may use lowerings of our own (see `_base.lowering`)
    local: bool
    #: whether what is traced may have kernels that are differentiated in reverse mode alone, and that XLA cannot split
    kernels: bool
    #: what is known of other processes, if each computes with tensors of its own; None if not
    across: Any
    #: whether a backward pass has run, and no forward pass since; a transform of `func` runs none
    has_run_backward: bool

    def device(self) -> Any: ...
    def read(self, storage: Storage) -> Any: ...
    def write(self, storage: Storage, value: Any) -> None: ...
    def created(self, storage: Storage) -> None: ...
    def apart(self) -> Any: ...


class _OfThread(OfThread):
    """What `overlay` is while some thread has one: true in such a thread, where its attributes are those of
    that thread's `Overlay`, and false in all others.
    """

    own: Any = None

    def __bool__(self) -> bool:
        return self.own is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def put_back(self) -> None:
        _set_overlay(self.own)


#: None unless some thread is in a trace or a transform, which makes ``if tracing.overlay:`` cheap for everybody else;
#: then see `_OfThread`. Ask for its truth, never whether it is None.
overlay: Any = None

_of_thread = _OfThread()
_threads: set[int] = set()
_setting = threading.RLock()


def current() -> Any:
    """The `Overlay` of this thread, or None."""
    return _of_thread.own


@contextmanager
def overlaid(new: Any) -> Iterator[Any]:
    """Make ``new`` the overlay of this thread (None: have none). Used only by `compile` and `func`."""
    previous = _of_thread.own
    _set_overlay(new)
    try:
        yield new
    finally:
        _set_overlay(previous)


def _of_some_thread(mine: Any, on: bool, threads: set[int]) -> Any:
    """Note in ``threads`` whether this one is among them; ``mine``, or None if there are none."""
    (threads.add if on else threads.discard)(threading.get_ident())
    return mine if threads else None


def _set_overlay(new: Any) -> None:
    global overlay
    with _setting:
        _of_thread.own = new
        overlay = _of_some_thread(_of_thread, new is not None, _threads)


def in_jax() -> bool:
    """Whether a transform of JAX is running that the user wrote (see `_base.inside`), and none of ours in it."""
    return not overlay and inside.top_trace(None) is not inside.NO_TRACE


#: Held by whoever changes what several threads may be changing: a trace, a compiled call, an optimizer's step, a
#: gradient that is added to another. It may be taken again by the thread that has it.
turn = threading.RLock()


#: How many of Python's threads there are beside the main one. If there are none nobody need wait for the `turn`.
#: (`threading.active_count` takes ten times as long, and does not know all.)
others = _thread._count


def is_local() -> bool:
    """Whether what is traced now becomes a program of ours alone, which JAX does not differentiate or export."""
    return not overlay or overlay.local


#: Counts changes of program structure: modules, optimizer groups, modes. Compiled functions recheck their
#: guards when it moves.
epoch = 0


#: Counts how often a plain attribute of a module was set, of those whose names are in `watched`: compiled functions
#: have read an attribute of that name.
attributes = 0
watched: set[str] = set()


def bump_epoch() -> None:
    """Note that a module, an optimizer or a mode changed in a way that a compiled function may depend on."""
    global epoch
    epoch += 1


class Untracked(int):
    """How often was written to what was made in inference mode, which such a number says."""

    def __add__(self, other: int) -> Untracked:
        return Untracked(int(self) + other)

    def __sub__(self, other: int) -> Untracked:
        return Untracked(int(self) - other)


UNTRACKED = Untracked()


class _Inferring(OfThread):
    """What `inferring` is while some thread is in inference mode: true in such a thread."""

    on = False

    def __bool__(self) -> bool:
        return self.on


#: None unless some thread is in inference mode. Ask for its truth, never whether it is None.
inferring: Any = None
_inferring = _Inferring()
_inferring_threads: set[int] = set()


def set_inferring(on: bool) -> None:
    """Note whether this thread is in inference mode: what is made then is marked."""
    global inferring
    with _setting:
        _inferring.on = on
        inferring = _of_some_thread(_inferring, on, _inferring_threads)
