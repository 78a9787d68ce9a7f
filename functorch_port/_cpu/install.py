"""Installs what a CPU has of its own. The package's ``__init__`` calls it, and nothing else leads to `_cpu`."""

from __future__ import annotations

from .._base import lowering, settings
from . import allocator

__all__ = ["install"]


def install() -> None:
    """Do it, unless everything is to be left to JAX (``FUNCTORCH_PORT_BACKEND=jax``)."""
    if settings.PLAIN:
        return
    allocator.keep()
    lowering.at_first_use(_register)


def _register() -> None:
    from .native import lowerings  # most of what there is takes long to import

    lowerings.install()
