"""``torch.__config__``: what the library was built with, as text."""

from __future__ import annotations

import jaxlib

from . import _stubs
from .version import __version__, torch_release

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of this package and of what computes.

    Example:
        >>> import functorch_port as torch
        >>> torch.__config__.show().startswith("functorch_port")
        True
    """
    return (
        f"functorch_port {__version__}, behaves as PyTorch {torch_release}, built with:\n"
        f"  - XLA of jaxlib {jaxlib.__version__}\n"
    )


def _cxx_flags() -> str:
    return ""


def parallel_info() -> str:
    """The numbers of threads, as `get_num_threads` and `get_num_interop_threads` tell them."""
    return (
        "ATen/Parallel:\n"
        f"\tat::get_num_threads() : {_stubs.get_num_threads()}\n"
        f"\tat::get_num_interop_threads() : {_stubs.get_num_interop_threads()}\n"
        "ATen parallel backend: XLA\n"
    )
