"""Installs what a CPU has of its own. The package's ``__init__`` calls it, and nothing else leads to `_cpu`."""

from __future__ import annotations

from collections.abc import Callable

from .._array import executor, loops
from .._base import lowering, settings
from .._base.tuning import tuning
from .._random import normals
from . import allocator
from . import numpy_programs as host
from .executor import CpuExecutor
from .native import ffi

__all__ = ["install"]


def install() -> None:
    """Do it. It is not called where everything is left to JAX (``FUNCTORCH_PORT_BACKEND=jax``)."""
    executor.install(CpuExecutor())
    allocator.keep()
    lowering.at_first_use(_register)
    normals.faster = _normals
    settings.facts.update(
        {
            "small values in numpy (FUNCTORCH_PORT_HOST_ELEMENTS)": _small_values,
            "freed memory is kept (FUNCTORCH_PORT_KEEP_MEMORY)": allocator.keep,
            "one loop per update (llvmlite)": ffi.available,
            "convolutions and products by oneDNN": _by_onednn,
        }
    )


# Most of what there is takes long to import, so that it waits until it is needed.


def _register() -> None:
    from . import compiler_options
    from .native import direct, lowerings
    from .passes import blocked
    from .updates import CpuLoops

    lowerings.install()
    direct.install()
    loops.current = CpuLoops()
    lowering.register_passes(lowering.Passes(blocked.function_of, compiler_options.options))


def _normals() -> Callable[..., None] | None:
    from .native.normals import compiled

    return compiled()


def _small_values() -> str:
    return f"up to {tuning.numpy_elements} elements" if host.enabled() else "off"


def _by_onednn() -> bool:
    from .native import onednn

    return onednn.available()
