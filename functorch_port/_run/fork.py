"""A forked child of a process that has used JAX: what would hang there raises.

JAX computes in threads, which a fork does not take along. A child that goes on to another program, or does without
tensors, is as it was; in one that computes, the functions that lead to JAX are replaced by one that raises. The parent
has nothing to check.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
from typing import Any

import jax
from jax.interpreters import mlir

from .._array import tracing
from .._array.donation import Donating
from .._base import device
from .._tensor.plan import Plan
from . import opnode

__all__ = ["leads_to_jax", "only_fork"]

_ways: list[tuple[Any, str]] = [
    (tracing, "x64"),
    (opnode, "_x64"),
    (Plan, "jit"),
    (Donating, "into"),
]


def leads_to_jax(owner: Any, name: str) -> None:
    """Note a function of a module or class that has JAX compute, or an attribute that is one."""
    _ways.append((owner, name))


class _Parent:
    """Whether JAX's threads were there when the process was forked, and whether there can be none."""

    computes = False
    forks = False


def only_fork() -> None:
    """Keep this process from starting JAX, so that it may fork others that do."""
    device.platform()  # what was asked before is known
    jax.config.update("jax_platforms", "none in a process that forks others")
    _Parent.forks = True


def _before() -> None:
    if _Parent.forks:
        return
    names = []
    for path in glob.glob("/proc/self/task/*/comm"):
        with contextlib.suppress(OSError), open(path) as file:  # a thread may have ended
            names.append(file.read())
    # those of XLA's pools; where the system does not tell, whatever has asked for them
    asked = device.platform.cache_info().currsize > 0
    _Parent.computes = any(name.startswith("tf_XLA") for name in names) if names else asked


def _in_child() -> None:
    if _Parent.forks:
        jax.config.update("jax_platforms", "cpu")
        _Parent.forks = False
    if _Parent.computes:
        for owner, name in _ways:
            setattr(owner, name, _refused if isinstance(owner, type) else _refuse)
        # or the end of the child would wait for their threads: of each client, and of the compiler
        around = mlir.make_ir_context.__globals__.values()
        pools = [value for value in around if isinstance(value, mlir.ir.ThreadPool)]
        for kept in (*(device.client for device in jax.devices()), *pools):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "this process was forked from one that had used JAX, whose threads a fork does not take along: computing here "
        'would hang. Start it by "spawn" or "forkserver" instead, as with '
        'multiprocessing.set_start_method("spawn"), or fork before the first tensor is made'
    )


#: in place of a method, or of a slot of instances
_refused = property(lambda self: _refuse, lambda self, value: None)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
