"""Tells a watchdog that the program goes on: an optimizer's step, a compiled call, a collective.

The launcher starts processes with a watcher (see `distributed._worker`); in all others this costs a comparison.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["made", "watch"]


def _nobody(what: str) -> None:
    """There is no watchdog."""


#: is called with what the process has done, or begins to wait for
made: Callable[[str], None] = _nobody


def watch(watcher: Callable[[str], None]) -> None:
    """Have ``watcher`` told of all progress from now on."""
    global made
    made = watcher
