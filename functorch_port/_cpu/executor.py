"""The executor of the CPU: small values stay in numpy, operations wait for the program that comes with `backward`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from .._array.executor import Executor, Ran
from .._array.storage import Storage
from .._array.value import HOST, LAZY, computed
from .._base.quiet import quiet
from .._base.strides import REINTERPRET
from .._base.tuning import tuning
from .._tensor import anomaly
from .._tensor.avals import avals_of
from .._tensor.node import _sequence as _sequence
from .._tensor.tensor import Tensor
from . import deferred, numpy_programs, shared, small_calls, tiers
from .deferred import NEW, Call, may_wait, scope, waiting
from .numpy_programs import kind_of

__all__ = ["CpuExecutor"]


class CpuExecutor(Executor):
    """What is in numpy is computed there, what need not run yet is lazy, and the rest goes to JAX."""

    caller = staticmethod(small_calls.caller)

    def run(
        self, plan: Any, values: Sequence[Any], tensors: Sequence[Any], mask: Sequence[bool] | None
    ) -> Ran:
        kind, on_host = kind_of(values)
        state, is_new = tiers.known(plan, values, kind, on_host)
        if state and on_host and (state.is_small or (plan.view and tiers.are_used())):
            found = tiers.by_numpy(plan, values, kind, on_host, state)
            if found is not None:
                return values, found, NEW if mask is not None and plan.view and _are_new(tensors) else None
        if plan.view and plan.name not in REINTERPRET:
            if may_wait(values):
                out = deferred.view(plan, values)
                return values, out, None if mask is None else out.call
        elif not anomaly.enabled if mask is not None else scope.calls is not None:
            if plan.fresh and may_wait(values):
                is_new = is_new or (scope.is_new if mask is None else _are_new(tensors))
                if is_new and state and tiers.are_used():
                    scope.is_new = scope.is_new or mask is None
                    found = tiers.by_numpy(plan, values, kind, on_host, state)
                    if found is not None:
                        return values, found, None if mask is None else NEW
                elif not waiting.are_too_many():
                    call = Call(plan, values)
                    outs = call.outputs(plan.shapes(values, kind))
                    if mask is not None:
                        return values, outs, call
                    call.number = next(_sequence)
                    scope.calls.append(call)  # type: ignore[union-attr]
                    return values, outs, None
        compiled = partial(self._compiled, plan, values, tensors, mask)
        found = tiers.at_once(plan, values, compiled)
        return compiled() if found is None else (values, found, None)

    def _compiled(
        self, plan: Any, values: Sequence[Any], tensors: Sequence[Any], mask: Sequence[bool] | None
    ) -> Ran:
        """As `run`, by a compiled program, now."""
        values = [getattr(t, "_value", t) if v.__class__ in HOST else v for v, t in zip(values, tensors)]
        if not LAZY.isdisjoint(map(type, values)):
            if mask is None or plan.keeps is None:
                found = _programs().through_views(plan, values)
                if found is not None:
                    return values, found, None
            values = computed(values)
        return super().run_at_once(plan, values, mask)

    def run_at_once(self, plan: Any, values: Sequence[Any], mask: Sequence[bool] | None) -> Ran:
        compiled = lambda: super(CpuExecutor, self).run_at_once(plan, computed(values), mask)
        found = tiers.at_once(plan, values, compiled)
        if found is not None:
            return values, found, None
        deferred.ran[plan, avals_of(values)] = True
        return compiled()

    def compute(self, plan: Any, values: Sequence[Any]) -> Any:
        found = tiers.at_once(plan, values, partial(self._computed, plan, values))
        return self._computed(plan, values) if found is None else found

    def _computed(self, plan: Any, values: Sequence[Any]) -> Any:
        """As `compute`, by a compiled program."""
        found = None
        if not LAZY.isdisjoint(map(type, values)):
            found = _programs().through_views(plan, values)
        return super().compute(plan, values) if found is None else found

    def view(self, plan: Any, values: Sequence[Any]) -> Any:
        if plan.name not in REINTERPRET and may_wait(values):
            return deferred.view(plan, values)
        return super().view(plan, values)

    def place(self, array: np.ndarray) -> Any:
        return array if self.leaves(array) else super().place(array)

    def leaves(self, array: Any) -> bool:
        return numpy_programs.may_keep(array) if tiers.are_used() else numpy_programs.keeps(array)

    def keeps_on_host(self, array: Any) -> bool:
        return numpy_programs.keeps(array)

    def shared_memory(self, cell: Storage) -> np.ndarray | None:
        return shared.memory_of(cell)

    def follow(self, cell: Storage, array: np.ndarray) -> bool:
        return shared.follow(cell, array)

    def scope(self, what: Any, args: Sequence[Any]) -> AbstractContextManager[Any] | None:
        if scope.calls is not None:
            return None
        return _programs().Scope((id(what), *[a._aval().shape for a in args if isinstance(a, Tensor)]))

    def backward(
        self, roots: Any, gradients: Any, retain: bool, wanted: Any, catch: bool
    ) -> list[Any] | None:
        return _replay().backward(roots, gradients, retain, wanted, catch)

    def on_host(self, plan: Any, values: Sequence[Any]) -> Any:
        return tiers.at_once(plan, values)

    def early(self, plan: Any, values: Sequence[Any]) -> Any:
        return tiers.at_once(plan, values) if tiers.are_used() else None

    def host_arrays(self, values: Sequence[Any]) -> list[Any] | None:
        return tiers.as_numpy(values) if tiers.are_used() and may_wait(values) else None

    def early_update(
        self, fn: Callable[..., Any], rows: Sequence[Any], written: int, numbers: Any, joined: Sequence[Any]
    ) -> Any:
        return _direct().update(fn, rows, written, numbers, joined) if tiers.are_used() else None

    def patience(self, operations: int) -> float:
        return tuning.price(operations) if tiers.are_used() else 0.0

    def compiled_later(self, run: Callable[[], Any], done: Callable[[], Any]) -> None:
        tiers.compiled_later(run, done)

    def settle(self) -> None:
        tiers.wait()

    def host_function(
        self, fn: Callable[..., Any], arguments: Sequence[Any], most: int, time: float
    ) -> Callable[..., Any] | None:
        program = numpy_programs.function(fn, arguments, most, time)
        return None if program is None else partial(quiet.run, program)


def _are_new(tensors: Sequence[Any]) -> bool:
    """Whether one of them was made by what has not come before."""
    for t in tensors:  # noqa: SIM110 (faster)
        if t.__class__ is Tensor and t._grad_fn is not None and t._grad_fn.kept is NEW:
            return True
    return False


# They lead to modules that `import functorch_port` does not load.


@cache
def _programs() -> ModuleType:
    from . import programs

    return programs


@cache
def _replay() -> ModuleType:
    from . import replay

    return replay


@cache
def _direct() -> ModuleType:
    from .native import direct

    return direct
