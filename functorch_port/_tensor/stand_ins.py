"""Tensors that stand in for parameters and buffers during a call: those of `functional_call`, a process's own copies,
gathered weights.

What a module's tables hold is state of a compiled function, which it finds in its trace. Stand-ins are other tensors at
every call, so a compiled function that is called meanwhile takes them as arguments (`_trace.compiled`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from .._array import tracing

__all__ = ["MISSING", "Standing", "Swap", "lifted", "put", "state"]

MISSING: Any = object()


class Swap:
    """Places in tables of modules, which hold other tensors for a while.

    Attributes:
        modules: the modules.
        slots: the tables and keys.
    """

    __slots__ = ("modules", "slots")

    def __init__(self, modules: Sequence[Any], slots: Sequence[tuple[dict[str, Any], str]]) -> None:
        self.modules, self.slots = modules, slots

    def now(self) -> list[Any]:
        return [table.get(key, MISSING) for table, key in self.slots]

    def set(self, values: Sequence[Any]) -> None:
        for (table, key), value in zip(self.slots, values, strict=True):
            if value is MISSING:
                table.pop(key, None)
            else:
                table[key] = value


class _Thread(threading.local):
    """
    Attributes:
        swaps: those in force, the innermost last, with what the tables held before.
    """

    def __init__(self) -> None:
        self.swaps: list[tuple[Swap, list[Any]]] = []


state = _Thread()


@contextmanager
def put(swap: Swap, tensors: Sequence[Any]) -> Iterator[list[Any]]:
    """Have the tables hold these tensors; gives a list, in which is after the block what they held at its end."""
    if tracing.overlay:  # which notes what the modules hold outside of this
        for module in swap.modules:
            tracing.overlay.note_stateful(module)
    before = swap.now()
    after = list(tensors)
    state.swaps.append((swap, before))
    try:
        swap.set(tensors)
        yield after
    finally:
        state.swaps.pop()
        after[:] = swap.now()
        swap.set(before)


@contextmanager
def lifted() -> Iterator[list[list[Any]]]:
    """Have the tables hold what they hold without stand-ins; gives these, which come back after (as they are then)."""
    swaps, state.swaps = state.swaps, []
    tensors: list[list[Any]] = []
    for swap, before in reversed(swaps):
        tensors.insert(0, swap.now())
        swap.set(before)
    try:
        yield tensors
    finally:
        state.swaps = swaps
        for (swap, _), values in zip(swaps, tensors, strict=True):
            swap.set(values)


class Standing:
    """A function whose first argument is what stands in; it gives what stands there after it, too.

    Args:
        fn: the function.
        swaps: where they stand.
    """

    def __init__(self, fn: Any, swaps: Sequence[Swap]) -> None:
        self.fn = fn
        self.swaps = swaps

    def __call__(self, tensors: list[list[Any]], args: Any, kwargs: Any) -> Any:
        with ExitStack() as stack:
            for swap, values in zip(self.swaps, tensors, strict=True):
                stack.enter_context(put(swap, values))
            out = self.fn(*args, **kwargs)
            after = [swap.now() for swap in self.swaps]
        return out, [
            [None if a is b else a for a, b in zip(new, old, strict=True)]
            for new, old in zip(after, tensors, strict=True)
        ]
