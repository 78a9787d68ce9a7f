"""What has a part in every operation of a thread: autocast, a dual level of forward mode, a profiler.

Operations ask for the truth of `on`, which costs nothing more while nobody has ever used one of these.
"""

from __future__ import annotations

from typing import Any

from .modes import OfThread

__all__ = ["begin", "on", "state"]


class _State(OfThread):
    """
    Attributes:
        autocast: whether autocast is on for a device type.
        level: the dual level that is open (see `_run.duals`), or None.
        profile: what notes operations (see `autograd.profiler`), or None.
    """

    autocast = False
    level: Any = None
    profile: Any = None

    def __bool__(self) -> bool:
        return self.autocast or self.level is not None or self.profile is not None


#: the calling thread's
state = _State()

#: False until one of them is first used in any thread; from then on `state`, which is true in a thread where one is.
#: Ask for its truth alone.
on: Any = False


def begin() -> None:
    """One of them is used now."""
    global on
    on = state
