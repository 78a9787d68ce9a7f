"""Who computes. `Executor` leaves everything to JAX, each operation at once; a backend may install one of its own.

It is all that the layers above know of a backend's eager mode. What a backend does inside of programs it tells
`_base.lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import jax
import numpy as np

from .._base import memory
from . import placing, tracing
from .storage import Storage
from .value import HOST, OTHERS, computed

__all__ = ["Executor", "Pending", "current", "install"]


class Pending(Protocol):
    """A recorded operation that an executor has not run yet.

    Attributes:
        kept: once it has run, what its forward pass kept for the pullback (see `_tensor.plan.Saved`).
    """

    kept: Any

    def recorded(self, node: Any) -> None:
        """Note the node that recorded it."""

    def compute(self) -> None:
        """Run it now."""


#: the arguments that an operation was run on, its results, and what a node keeps: a `Saved`, a `Pending` or None
Ran = tuple[Sequence[Any], Any, Any]


class Executor:
    """Runs every operation at once, as a program of its own, and keeps every value on a device."""

    #: makes the Python function of an operation in place of `_run.call.caller`, if it is not None
    caller: Callable[..., Any] | None = None

    def run(
        self, plan: Any, values: Sequence[Any], tensors: Sequence[Any], mask: Sequence[bool] | None
    ) -> Ran:
        """Run an operation.

        Args:
            plan: the `Plan`.
            values: its arguments where they are: arrays of JAX or numpy, lazy values, numbers.
            tensors: the Tensors that have these values, and the numbers.
            mask: for which arguments a gradient is recorded; None for no recording.
        """
        return self.run_at_once(plan, arrays(values, tensors), mask)

    def run_at_once(self, plan: Any, values: Sequence[Any], mask: Sequence[bool] | None) -> Ran:
        """As `run`, of arrays of JAX and numbers."""
        if SHAPE in map(type, values):
            return values, plan.shapes(values), None
        with tracing.x64():
            if mask is None:
                return values, memory.run(plan.jit, values), None
            return values, *plan.run_recorded(mask, values)

    def compute(self, plan: Any, values: Sequence[Any]) -> Any:
        """The results of a plan for values of which no tensor is known, as in a backward pass."""
        values = computed(values)
        if SHAPE in map(type, values):
            return plan.shapes(values)
        with tracing.x64():
            return memory.run(plan.jit, values)

    def view(self, plan: Any, values: Sequence[Any]) -> Any:
        """The value of a view: an array, or a lazy value."""
        with tracing.x64():
            return memory.run(plan.jit, computed(values))

    def place(self, array: np.ndarray) -> Any:
        """Where a new value that was made on the host goes to."""
        return placing.on_device(array)

    def leaves(self, array: Any) -> bool:
        """Whether `place` leaves an array of this size and dtype on the host."""
        return False

    def keeps_on_host(self, array: Any) -> bool:
        """Whether it stays there for good."""
        return False

    def shared_memory(self, cell: Storage) -> np.ndarray | None:
        """Memory for numpy to write to, which the Storage follows; None if there is none."""
        return None

    def follow(self, cell: Storage, array: np.ndarray) -> bool:
        """Have a new Storage share the memory of the array that it was copied from; returns whether it does."""
        return False

    def scope(self, what: Any, args: Sequence[Any]) -> AbstractContextManager[Any] | None:
        """A context in which results may wait until its end: the call of a module with these arguments. None if there
        is nothing to gain.
        """
        return None

    def backward(
        self, roots: Any, gradients: Any, retain: bool, wanted: Any, catch: bool
    ) -> list[Any] | None:
        """Do the work of `autograd._engine.run`, whose arguments these are; None to have it walked."""
        return None

    def on_host(self, plan: Any, values: Sequence[Any]) -> Any:
        """The results of a plan for numpy arrays and numbers, as numpy arrays; None if it is not computed there."""
        return None

    def early(self, plan: Any, values: Sequence[Any]) -> Any:
        """The results of a plan by what needs no compilation, as numpy arrays; None if there is no such way."""
        return None

    def host_arrays(self, values: Sequence[Any]) -> list[Any] | None:
        """The values as numpy arrays, for `early_update`; None if what is computed of them must not be."""
        return None

    def early_update(
        self, fn: Callable[..., Any], rows: Sequence[Any], written: int, numbers: Any, joined: Sequence[Any]
    ) -> Any:
        """As `loops.update` of numpy arrays, by what needs no compilation for their sizes; None if there is no way."""
        return None

    def patience(self, operations: int) -> float:
        """Microseconds that may be lost by `early` before so many operations are compiled as one program."""
        return 0.0

    def compiled_later(self, run: Callable[[], Any], done: Callable[[], Any]) -> None:
        """Have what compiles as it runs first run in the background, and then ``done``."""
        run()
        done()

    def settle(self) -> None:
        """Wait for what compiles in the background."""

    def host_function(
        self, fn: Callable[..., Any], arguments: Sequence[Any], most: int, time: float
    ) -> Callable[..., Any] | None:
        """``fn`` as a function of numpy arrays like ``arguments``, if it is computed on the host.

        Args:
            fn: a pure function of arrays.
            most: elements of its largest array.
            time: microseconds that it may take, by an estimate.
        """
        return None


SHAPE = jax.ShapeDtypeStruct


def arrays(values: Sequence[Any], tensors: Sequence[Any]) -> Sequence[Any]:
    """The values as arrays of JAX. One that is made of a value on the host stays with its tensor."""
    if OTHERS.isdisjoint(map(type, values)):
        return values
    return [
        getattr(t, "_value", t) if v.__class__ in HOST else v
        for v, t in zip(computed(values), tensors, strict=True)
    ]


current = Executor()


def install(executor: Executor) -> None:
    """Have a backend's executor compute from now on. To be called before any operation is registered."""
    global current
    current = executor
