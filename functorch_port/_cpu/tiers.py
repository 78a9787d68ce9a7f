"""The policy of tiers: what is new runs by numpy, and is compiled when it has come often enough.

A program of XLA takes 30 ms and more to compile, for each shape. A program of numpy (`numpy_programs`) serves all
sizes. So an operation with arguments of new sizes, or a sequence of operations that has not come before, runs by
numpy's programs. What that costs more than a compiled program is added up, by estimates. When it comes to a share of
what the compilation takes, a thread compiles, and the compiled program takes over when it is there. What numpy has no
program for is compiled at once.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._array.value import HOST, LAZY
from .._base import determinism
from .._base.tuning import tuning
from .._tensor.avals import NUMBERS
from . import numpy_programs
from .deferred import may_wait
from .numpy_programs import Bound, kind_of

__all__ = [
    "are_compiling",
    "are_used",
    "as_numpy",
    "at_once",
    "by_numpy",
    "compiled_later",
    "known",
    "loss",
    "tiered",
    "wait",
]


def are_used() -> bool:
    """Whether what is new runs by numpy. Not where results must not depend on how often something came before, or where
    JAX is to look for NaN.
    """
    return (
        tuning.tier != "compiled"
        and not determinism.state["on"]
        and numpy_programs.enabled()
        and not (jax.config.jax_debug_nans or jax.config.jax_debug_infs)
    )


# ------------------------------------------------------------------ single operations


def loss(calls: Sequence[Any], operations: int) -> float:
    """Microseconds that a sequence of operations takes longer than a compiled program, by an estimate."""
    times = [
        state.time
        for call in calls
        if (values := call.values) is not None and (state := tiered(call.plan, values))
    ]
    return tuning.operation_time * operations + 2 * sum(times)  # backward takes twice as long


def tiered(plan: Any, values: Sequence[Any]) -> Bound | None:
    """An operation for values like these; None if it is compiled, or has no program of numpy's."""
    return known(plan, values, *kind_of(values))[0]


def known(
    plan: Any, values: Sequence[Any], kind: tuple[Any, ...], on_host: bool
) -> tuple[Bound | None, bool]:
    """As `tiered`, of values of which `kind_of` is known; and whether the first of this kind have come."""
    state = plan.backend.get(kind)
    if state is not None:
        return state or None, False
    if not (numpy_programs.enabled() if on_host else may_wait(values) and are_used()):
        return None, False
    state = None if plan.eager else numpy_programs.bound(plan, values)
    plan.backend[kind] = state or False
    return state, True


def as_numpy(values: Sequence[Any]) -> list[Any]:
    """The values as numpy's; those of `jax.Array` share its memory."""
    return [
        v
        if v.__class__ in HOST or v.__class__ in NUMBERS
        else np.asarray(v.found() if v.__class__ in LAZY else v)
        for v in values
    ]


def by_numpy(plan: Any, values: Sequence[Any], kind: tuple[Any, ...], on_host: bool, state: Bound) -> Any:
    """What `known` has found, run: the results, or None if there are none."""
    out = numpy_programs.run(state.function, values if on_host else as_numpy(values), state.sizes)
    if not state.is_small:
        state.left -= state.loss
    if out is not None and (state.traced.is_tried or state.agrees(out)):
        return out
    if out is not None or not state.is_small:  # no memory: the compiled one says it in PyTorch's words
        plan.backend[kind] = False
    return None


def at_once(plan: Any, values: Sequence[Any], compiled: Callable[[], Any] | None = None) -> Any:
    """The results of an operation by numpy; None if it is to run compiled.

    Args:
        plan: the `Plan`.
        values: its arguments: arrays, lazy values, numbers.
        compiled: runs the compiled operation; without it that is not made, however often this comes.
    """
    kind, on_host = kind_of(values)
    state, _ = known(plan, values, kind, on_host)
    if state is None or not ((on_host and state.is_small) or (may_wait(values) and are_used())):
        return None
    out = by_numpy(plan, values, kind, on_host, state)
    # while something is compiled, a program that has this operation may be on its way
    if state.left < 0 and compiled is not None and not (plan.view or are_compiling()):
        state.left = float("inf")
        compiled_later(compiled, lambda: plan.backend.__setitem__(kind, False))
    return out


# ------------------------------------------------------------------ compilation in the background


class _Compiler:
    """The thread that compiles.

    Attributes:
        thread: None while there is nothing to do: as long as it is there, others wait for a `turn`.
        work: what it has to do, in order; what it does now is the first.
        more: tells that something was done.
        ends: whether the process does.
    """

    thread: threading.Thread | None = None
    work: deque[Callable[[], Any]] = deque()
    more = threading.Condition()
    ends = False


def compiled_later(run: Callable[[], Any], done: Callable[[], Any]) -> None:
    """Have a thread run what compiles as it runs first, and then ``done``.

    With ``tuning.background`` off it is done now.
    """

    def work() -> None:
        with contextlib.suppress(Exception):  # it is raised where the program runs next
            jax.block_until_ready(run())
        done()

    if not tuning.background:
        work()
        return
    with _Compiler.more:
        if _Compiler.ends:
            return
        _Compiler.work.append(work)
        if _Compiler.thread is None:
            _Compiler.thread = threading.Thread(target=_compile, name="functorch_port compiles", daemon=True)
            _Compiler.thread.start()


def _compile() -> None:
    me = threading.current_thread()
    while _Compiler.thread is me:
        try:
            _Compiler.work[0]()
        finally:
            with _Compiler.more:
                _Compiler.work.popleft()
                if not _Compiler.work or _Compiler.ends:
                    _Compiler.thread = None
                _Compiler.more.notify_all()


def are_compiling() -> bool:
    """Whether something is compiled, or waits for it."""
    return bool(_Compiler.work)


def wait() -> None:
    """Wait until everything is compiled that was to be."""
    with _Compiler.more:
        while _Compiler.work:
            _Compiler.more.wait()


@atexit.register
def _end() -> None:
    """Wait for what is compiled now, and for the thread: Python may not cut it off in the middle of XLA."""
    thread, _Compiler.ends = _Compiler.thread, True
    if thread is not None:
        thread.join()


def _after_fork() -> None:
    _Compiler.thread, _Compiler.more = None, threading.Condition()
    _Compiler.work.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
